"""Buffers that a sliding window fills as it goes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorsmith.arith import Analyzer, simplify
from tensorsmith.arith.accesses import collect_accesses
from tensorsmith.arith.regions import relaxed_region
from tensorsmith.ir import (
    Alloc,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Invoke,
    Iter,
    IterKind,
    Load,
    LoopKind,
    Or,
    Region,
    Seq,
    Stmt,
    Store,
    TensorProgram,
    equal,
    free_vars,
    postorder,
    substitute,
    transform,
)
from tensorsmith.ir.rewrite import (
    expressions,
    map_exprs,
    statements,
    substitute_stmt,
    transform_stmt,
)
from tensorsmith.ir.stmt import TRUE, ZERO
from tensorsmith.ir.structural import structural_equal
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.layout import BufferSpec, pick_buffer
from tensorsmith.schedule.nest import describe
from tensorsmith.schedule.tree import Site, find_block, replace_stmt


@dataclass(frozen=True, slots=True)
class _Window:
    """A block that computes, for each iteration of `loop`, a window of `buffer`.

    Along dimension `axis` iteration `slide` computes the elements ``slide * step + lowest`` and
    the `width` - 1 behind, by the iterator `within`; each iteration, `step` of them are new.
    """

    what: str
    site: Site
    block: Block
    buffer: Buffer
    loop: For
    slide: Iter
    within: Iter
    axis: int
    step: int
    lowest: Expr

    @property
    def width(self) -> Expr:
        """How many elements the window has."""
        return self.within.extent

    def refusal(self, problem: str, because: str | None = None) -> ScheduleError:
        """An error about the block."""
        return ScheduleError(f"{self.what}: {problem}", because=because, where=self.block.span)


def rolling_buffer(program: TensorProgram, name: str, spec: BufferSpec) -> TensorProgram:
    """See `Schedule.rolling_buffer`."""
    what = f"rolling_buffer({name!r})"
    buffer = pick_buffer(program, name, spec)
    _check_buffer(program, buffer, what)
    window = _window(program, name, buffer, what)
    _check_loop(window)
    _check_same_values(window)
    _check_accesses(program, window)
    guarded = _guarded(window)
    program = replace_stmt(program, window.block, guarded)
    return _rolled(program, window)


def _check_buffer(program: TensorProgram, buffer: Buffer, what: str) -> None:
    if buffer in program.buffers:
        raise ScheduleError(
            f"{what}: {buffer.name!r} is a parameter", because="callers see all of it"
        )
    if buffer.strides is not None or buffer.layout is not None:
        raise ScheduleError(f"{what}: {buffer.name!r} has strides or a layout")
    for s in statements(program.body):
        stated = (*(s.reads or ()), *(s.writes or ())) if isinstance(s, Block) else ()
        passed = s.args if isinstance(s, Invoke) else ()
        if any(isinstance(r, Region) and r.buffer is buffer for r in (*stated, *passed)):
            raise ScheduleError(
                f"{what}: {buffer.name!r} is passed to a call",
                because="a callee sees a region as a box with strides",
                where=s.span,
            )


def _window(program: TensorProgram, name: str, buffer: Buffer, what: str) -> _Window:
    """The innermost loop around that slides a window over `buffer`."""
    site = find_block(program, name)
    block = site.node
    assert isinstance(block, Block)
    stores = {s.indices for s in statements(block) if isinstance(s, Store) and s.buffer is buffer}
    if len(stores) == 1:
        (indices,) = stores
        for loop in reversed(site.loops):
            for slide in block.iters:
                is_opaque = slide.kind is IterKind.OPAQUE
                found = _slides(slide, indices, block) if is_opaque else None
                if slide.binding is loop.var and found is not None:
                    return _Window(what, site, block, buffer, loop, slide, *found)
    raise ScheduleError(
        f"{what}: no loop around block {name!r} slides a window over {buffer.name!r}",
        because="a subscript must be the sum of an opaque iterator, which is a loop around, and of"
        " a spatial one, and each of the two must stand in no other subscript",
        try_="compute_at, which makes such blocks where windows overlap",
        where=block.span,
    )


def _slides(
    slide: Iter, indices: tuple[Expr, ...], block: Block
) -> tuple[Iter, int, int, Expr] | None:
    """The iterator in the window, its dimension, the step and the least position."""
    holding = [d for d, i in enumerate(indices) if slide.var in free_vars(i)]
    if len(holding) != 1:
        return None
    (axis,) = holding
    index = indices[axis]
    for within in block.iters:
        if within.kind is not IterKind.SPATIAL or within.var not in free_vars(index):
            continue
        if sum(within.var in free_vars(i) for i in indices) != 1:
            continue
        rest = simplify(substitute(index, {slide.var: ZERO}) - within.var)
        slid = simplify(index - within.var - rest)
        step = simplify(substitute(slid, {slide.var: ZERO + 1}))
        if any(it.var in free_vars(rest) for it in block.iters):
            continue
        linear = simplify(slid - slide.var * step) is ZERO
        if linear and isinstance(step, Const) and step.value > 0:
            return within, axis, int(step.value), simplify(rest + within.start)
    return None


def _check_loop(w: _Window) -> None:
    if w.loop.kind is not LoopKind.SERIAL:
        raise w.refusal(
            f"loop {w.loop.var.name!r} is {w.loop.kind.value}",
            "each iteration uses what the one before has computed",
        )
    at = next(k for k, s in enumerate(w.site.around) if s is w.loop)
    for s in w.site.around[at + 1 :]:
        if not isinstance(s, (For, Seq)):
            raise w.refusal(f"{describe(s)} stands between the loop and the block")
    if Analyzer().prove(w.width > w.step) is not True:
        raise w.refusal(
            "windows of neighbouring iterations do not overlap",
            f"they are {w.width!r} wide, and {w.step} apart",
        )


def _check_same_values(w: _Window) -> None:
    """An element has the same value in whichever iteration it is computed."""
    earlier: dict[Expr, Expr] = {
        w.slide.var: w.slide.var - 1,
        w.within.var: w.within.var + w.step,
    }
    parts = [w.block.body] if w.block.init is None else [w.block.init, w.block.body]
    for part in parts:
        moved = map_exprs(substitute_stmt(part, earlier), simplify)
        if not structural_equal(moved, map_exprs(part, simplify)):
            raise w.refusal(
                "an element may have other values in other iterations",
                "the block uses its iterators in another way than by their sum",
            )
    if w.block.predicate is not TRUE:
        raise w.refusal("the block has a predicate", "what it leaves out is not known to be old")


def _check_accesses(program: TensorProgram, w: _Window) -> None:
    """Only the block writes the buffer; what reads it comes after it, in the loop, and reads the
    window; and nothing in the loop changes what the block reads."""
    if any(isinstance(s, Alloc) and s.buffer is w.buffer for s in statements(w.loop)):
        raise w.refusal(
            f"{w.buffer.name!r} is allocated inside of the loop",
            "an iteration would not find what the one before has computed",
        )
    inside = {id(s) for s in statements(w.loop)}
    for s in statements(program.body):
        if id(s) not in inside and _touches(s, w.buffer):
            raise w.refusal(f"{w.buffer.name!r} is used outside of the loop")
    inputs = {a.region.buffer for a in collect_accesses(w.block) if not a.is_write}
    own = {id(s) for s in statements(w.block)}
    facts = w.site.analyzer()
    seen = False
    for a in collect_accesses(w.loop.body):
        if id(a.stmt) in own:
            seen = True
            continue
        if a.is_write and a.region.buffer in inputs - {w.buffer}:
            raise w.refusal(
                f"the loop writes {a.region.buffer.name!r}, from which the block computes"
            )
        if a.region.buffer is not w.buffer:
            continue
        if a.is_write or not seen:
            raise w.refusal(
                f"something else in the loop {'writes' if a.is_write else 'reads'}"
                f" {w.buffer.name!r}" + ("" if a.is_write else " before the block"),
            )
        start, extent = relaxed_region(a, facts).ranges[w.axis]
        first = simplify(w.loop.var * w.step + w.lowest)
        within = (start >= first) & (start + extent <= first + w.width)
        if facts.prove(within) is not True:
            raise w.refusal(
                f"{w.buffer.name!r} is read outside of the window",
                f"from {start!r}, {extent!r} elements; the window begins at {first!r}",
            )
    _check_nest(w)


def _check_nest(w: _Window) -> None:
    """No loop between the two holds a reader: the window must be complete before it is read."""
    at = next(k for k, s in enumerate(w.site.around) if s is w.loop)
    for s in w.site.around[at + 1 :]:
        if not isinstance(s, For):
            continue
        own = {id(x) for x in statements(w.block)}
        for a in collect_accesses(s):
            if a.region.buffer is w.buffer and id(a.stmt) not in own:
                raise w.refusal(f"loop {s.var.name!r}, inside of the sliding one, holds a reader")


def _touches(s: Stmt, buffer: Buffer) -> bool:
    if isinstance(s, Store) and s.buffer is buffer:
        return True
    return any(isinstance(e, Load) and e.buffer is buffer for e in postorder(*expressions(s)))


def _guarded(w: _Window) -> Block:
    """The block, which computes all of the first window, and of others what is new."""
    fresh = w.within.var - w.within.start >= w.width - w.step
    guard = Or(equal(w.slide.var, w.slide.start), simplify(fresh))
    init = None if w.block.init is None else If(guard, w.block.init)
    return replace(w.block, init=init, body=If(guard, w.block.body))


def _rolled(program: TensorProgram, w: _Window) -> TensorProgram:
    """All accesses made to a buffer that is as long as the window."""
    shape = tuple(w.width if d == w.axis else e for d, e in enumerate(w.buffer.shape))
    new = w.buffer.replace(shape=shape)

    def moved(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(simplify(i % w.width) if d == w.axis else i for d, i in enumerate(indices))

    def loads(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer is w.buffer:
            return Load(new, moved(e.indices))
        return None

    def own(s: Stmt) -> Stmt | None:
        if isinstance(s, Store) and s.buffer is w.buffer:
            return replace(s, buffer=new, indices=moved(s.indices))
        if isinstance(s, Alloc) and s.buffer is w.buffer:
            return replace(s, buffer=new)
        return None

    cache: dict[Expr, Expr] = {}
    body = map_exprs(program.body, lambda e: transform(e, loads, cache))
    return replace(program, body=transform_stmt(body, own))
