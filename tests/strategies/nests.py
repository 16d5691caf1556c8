"""Blocks under loops: iterators bound plainly, split, fused, shifted, reversed, permuted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from strategies.tensors import Axis, World
from tensorsmith.arith.accesses import collect_accesses
from tensorsmith.ir import Block, Const, Expr, For, Iter, IterKind, LoopKind, Stmt, Var, const
from tensorsmith.ir.stmt import TRUE, ZERO


@dataclass
class _Loop:
    """A loop to be; spatial: every iterator that uses it is."""

    var: Var
    extent: Expr
    start: Expr = ZERO
    spatial: bool = True


@dataclass
class _Nest:
    """Loops, what iterators are bound to in terms of them, and which points count."""

    loops: list[_Loop] = field(default_factory=list)
    bindings: list[Expr] = field(default_factory=list)
    predicate: Expr = TRUE

    def require(self, condition: Expr) -> None:
        self.predicate = condition if self.predicate is TRUE else self.predicate & condition


Domain = Sequence[tuple[Expr, IterKind]]
Body = Callable[[list[Axis]], tuple[Stmt, Stmt | None]]
"""Makes a block's body and init from its iterators."""


def block_nest(world: World, name: str, domain: Domain, body: Body) -> Stmt:
    """A block over `domain`, under loops that take every point of it once.

    Opaque iterators keep their order. A few blocks that do the same each time are repeated.
    """
    nest = _bind(world, domain)
    iters = []
    for (extent, kind), binding in zip(domain, nest.bindings, strict=True):
        start = const(world.draw(st.integers(1, 3))) if world.chance(8) else ZERO
        shifted = binding if start is ZERO else binding + start
        iters.append(Iter(Var(world.name("v")), extent, kind, shifted, start))
    axes = [Axis(i.var if i.start is ZERO else i.var - i.start, i.extent) for i in iters]
    inner, init = body(axes)
    loops = nest.loops
    if all(kind is not IterKind.OPAQUE for _, kind in domain) and world.chance(3):
        loops = world.draw(st.permutations(loops))
    if world.chance(6) and _does_the_same_again(inner, init):
        loops = [_repeat(world, iters), *loops]
    stmt: Stmt = Block(world.name(name), tuple(iters), inner, init, nest.predicate)
    return loop_nest(world, loops, stmt)


def _does_the_same_again(body: Stmt, init: Stmt | None) -> bool:
    """Whether a second run of the block leaves what the first one did: it reads nothing that it
    writes, but what its init has set."""
    accesses = collect_accesses(body)
    written = {a.region.buffer for a in accesses if a.is_write}
    read = {a.region.buffer for a in accesses if not a.is_write}
    if init is None:
        return not written & read
    again = collect_accesses(init)
    return written <= {a.region.buffer for a in again if a.is_write} and not any(
        a.region.buffer in written for a in again if not a.is_write
    )


def _repeat(world: World, iters: list[Iter]) -> _Loop:
    """A loop around that says nothing new, and the opaque iterator that tells of it."""
    loop = _Loop(Var(world.name("t")), const(2), spatial=False)
    iters.insert(0, Iter(Var(world.name("v")), loop.extent, IterKind.OPAQUE, loop.var))
    return loop


def _bind(world: World, domain: Domain) -> _Nest:
    nest = _Nest()
    at = 0
    while at < len(domain):
        extent, kind = domain[at]
        spatial = kind is IterKind.SPATIAL
        scheme = world.draw(st.integers(0, 7))
        if scheme == 7 and _may_fuse(domain[at : at + 2]):
            inner, inner_kind = domain[at + 1]
            fused = Var(world.name("f"))
            spatial = spatial and inner_kind is IterKind.SPATIAL
            nest.loops.append(_Loop(fused, extent * inner, spatial=spatial))
            nest.bindings += [fused // inner, fused % inner]
            at += 2
            continue
        nest.bindings.append(_bind_one(world, nest, extent, spatial, scheme))
        at += 1
    return nest


def _may_fuse(axes: Domain) -> bool:
    """Whether there are two, whose points may come in any order."""
    return len(axes) == 2 and all(kind is not IterKind.OPAQUE for _, kind in axes)


def _bind_one(world: World, nest: _Nest, extent: Expr, spatial: bool, scheme: int) -> Expr:
    if extent is const(1) and scheme >= 4:
        return ZERO
    if scheme in (4, 5):
        return _split(world, nest, extent, spatial)
    loop = _Loop(Var(world.name("i")), extent, spatial=spatial)
    nest.loops.append(loop)
    if scheme == 6 and spatial and world.draw(st.booleans()):
        return extent - 1 - loop.var
    if scheme == 6:
        loop.start = const(world.draw(st.integers(1, 4)))
        return loop.var - loop.start
    return loop.var


def _split(world: World, nest: _Nest, extent: Expr, spatial: bool) -> Expr:
    factor = world.pick((2, 4, 3))
    divides = divides_evenly(extent, factor)
    outer = _Loop(Var(world.name("o")), _quotient(extent, factor, divides), spatial=spatial)
    inner = _Loop(Var(world.name("i")), const(factor), spatial=spatial)
    nest.loops += [outer, inner]
    binding = outer.var * factor + inner.var
    if not divides:
        nest.require(binding < extent)
    return binding


def divides_evenly(extent: Expr, factor: int) -> bool:
    """Whether `factor` is known to divide `extent`."""
    if isinstance(extent, Const):
        return int(extent.value) % factor == 0
    return isinstance(extent, Var) and extent.multiple_of % factor == 0


def _quotient(extent: Expr, factor: int, divides: bool) -> Expr:
    if isinstance(extent, Const):
        return const(-(-int(extent.value) // factor))
    return extent // factor if divides else (extent + (factor - 1)) // factor


def loop_nest(world: World, loops: Sequence[_Loop], body: Stmt) -> Stmt:
    """`body` under the loops, outermost first, some of them parallel, vectorised or unrolled."""
    for depth, loop in reversed(list(enumerate(loops))):
        kind = LoopKind.SERIAL
        if world.chance(4):
            kind = _kind(world, loop, outermost=depth == 0, innermost=depth == len(loops) - 1)
        body = For(loop.var, loop.extent, body, kind, loop.start)
    return body


def _kind(world: World, loop: _Loop, *, outermost: bool, innermost: bool) -> LoopKind:
    constant = isinstance(loop.extent, Const)
    kinds = [LoopKind.SERIAL]
    if loop.spatial and outermost:
        kinds.append(LoopKind.PARALLEL)
    if loop.spatial and innermost and constant:
        kinds.append(LoopKind.VECTORIZED)
    if constant:
        kinds.append(LoopKind.UNROLLED)
    return world.pick(kinds)
