"""Moving producers and consumers under each other's loops.

The block that moves gets new loops inside of the target loop, for exactly those points that one
iteration of it needs (a producer) or makes possible (a consumer). Checked first: that the block may
move at all (`dependence`), that nothing in between writes what it reads or touches what it writes,
and that every element is there when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from tensorsmith.arith import Analyzer
from tensorsmith.arith.accesses import collect_accesses
from tensorsmith.arith.regions import block_regions, relaxed_region, union_region
from tensorsmith.arith.relax import symbolic_range
from tensorsmith.ir import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    IterKind,
    LoopKind,
    Max,
    Min,
    Region,
    Seq,
    Stmt,
    TensorProgram,
    Var,
    While,
    free_vars,
    seq,
)
from tensorsmith.ir.rewrite import buffer_exprs, children, statements
from tensorsmith.schedule.dependence import (
    allocation,
    check_movable,
    defined_in,
    effects,
    inside_symbols,
    repetitions,
    scope_of,
    units,
    why_opaque,
    writers,
)
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.independence import check_marked_loops
from tensorsmith.schedule.placement import (
    Place,
    Range,
    inside_of,
    place_of,
    points_touching,
    regenerate,
)
from tensorsmith.schedule.tree import Site, blocks_in, find_block, find_loop, replace_stmt, replaced


@dataclass(frozen=True, slots=True)
class Move:
    """A block to be put under a loop of its scope.

    shared: the statements around both. between: the parts of the innermost of them from the one
    that stands first to the one that stands last, with what is left of the block's own part.
    """

    primitive: str
    program: TensorProgram
    block: Block
    block_site: Site
    loop: For
    loop_site: Site
    shared: tuple[Stmt, ...]
    between: tuple[Stmt, ...]

    @property
    def own_path(self) -> tuple[Stmt, ...]:
        """The statements around the block and not around the loop, outermost first."""
        return self.block_site.around[len(self.shared) :]

    @property
    def shared_loops(self) -> tuple[For, ...]:
        """The loops around both, in their scope."""
        inner = takewhile(lambda s: not isinstance(s, Block), reversed(self.shared))
        return tuple(s for s in inner if isinstance(s, For))[::-1]

    @property
    def place(self) -> Place:
        """Inside of the loop."""
        return place_of(inside_of(self.loop_site))

    def refuse(self, what: str, because: str, try_: str | None = None) -> ScheduleError:
        """The error that the move is not legal."""
        return ScheduleError(
            f"{self.primitive}: block {self.block.name!r} cannot move under loop"
            f" {self.loop.var.name!r}: {what}",
            because=because,
            try_=try_,
            where=self.block.span,
        )


def _move(
    primitive: str, program: TensorProgram, name: str, var: Var, *, block_first: bool
) -> Move:
    """What moves where. Raises ScheduleError if the two do not stand in one scope, in this order."""
    site, target = find_block(program, name), find_loop(program, var)
    assert isinstance(site.node, Block)
    assert isinstance(target.node, For)
    check_movable(site.node, primitive)
    path, other = (*site.around, site.node), (*target.around, target.node)
    count = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(path, other, strict=False)))
    move = Move(primitive, program, site.node, site, target.node, target, path[:count], ())
    if target.node in site.around:
        raise move.refuse("it stands there already", "there is nothing to move")
    if target.parent_block is not site.parent_block:
        raise move.refuse("they stand in different blocks", "a block moves within the block around it")
    inner = path[count - 1]
    order = list(children(inner))
    first, last = order.index(path[count]), order.index(other[count])
    if (first < last) is not block_first or isinstance(inner, (If, Block)):
        where = "before" if block_first else "after"
        raise move.refuse(f"it does not stand {where} the loop", "what is read must be written first")
    _check_path(move, path[count:-1], other[count:])
    parts = order[min(first, last) : max(first, last) + 1]
    kept = replaced(path[count], site.node, None) or Seq(())
    return replace(move, between=tuple(kept if p is path[count] else p for p in parts))


def _check_path(move: Move, own: Sequence[Stmt], target: Sequence[Stmt]) -> None:
    for s in (*own, *target):
        if isinstance(s, (If, While)):
            raise move.refuse(
                "a condition stands between them",
                "the block would run where it did not, or not run where it did",
            )
    if move.loop.kind is LoopKind.VECTORIZED or any(
        isinstance(s, For) and s.kind is LoopKind.VECTORIZED for s in target
    ):
        raise move.refuse(
            "the loop is vectorised", "the lanes of a vector have no loops of their own"
        )
    hidden = defined_in(own) | {
        s.buffer for x in own for s in children(x) if isinstance(s, Alloc)
    }
    if used := hidden & inside_symbols(move.block):
        name = sorted(x.name for x in used)[0]
        raise move.refuse(f"it uses {name!r}", "that is not defined at the loop")


# --- Producers -------------------------------------------------------------------------------


def compute_at(
    program: TensorProgram, name: str, var: Var, *, preserve_unit_loops: bool = False
) -> TensorProgram:
    """See `Schedule.compute_at`."""
    move = _move("compute_at", program, name, var, block_first=True)
    reads, writes = block_regions(move.block)
    _check_only_writer(move, [w.buffer for w in writes])
    _check_consumers(move, {w.buffer for w in writes})
    _check_inputs_stay(move, {r.buffer for r in reads} - {w.buffer for w in writes})
    place = move.place
    needed = _needed_points(move, writes, place)
    _check_covered(move, needed, place)
    made, repeating = regenerate(
        move.block,
        needed,
        place,
        preserve_unit_loops=preserve_unit_loops,
        may_repeat=True,
    )
    parts = _parts(move.loop.body)
    buffers = {w.buffer for w in writes}
    at = next(k for k, p in enumerate(parts) if effects(p).reads & buffers)
    body = seq(*parts[:at], made, *parts[at:])
    program = replace_stmt(program, move.loop, replace(move.loop, body=body))
    program = replace_stmt(program, move.block, None)
    program = _private_to(program, buffers, move, repeating)
    check_marked_loops(program, (*move.loop_site.around, move.loop))
    return program


def _parts(s: Stmt) -> tuple[Stmt, ...]:
    return s.stmts if isinstance(s, Seq) else (s,)


def _check_only_writer(move: Move, buffers: Sequence[Buffer]) -> None:
    for buffer in buffers:
        if buffer in move.program.buffers:
            raise move.refuse(
                f"it writes the parameter {buffer.name!r}",
                "the caller sees all of it, whatever the loop needs",
                "reverse_compute_at, to move it under the loops of what it reads",
            )
        if len(writers(move.program.body, buffer)) > 1:
            raise move.refuse(
                f"it is not the only one to write {buffer.name!r}",
                "the others would write before or after it, as they did not",
                "move it before decompose_reduction",
            )


def _check_consumers(move: Move, buffers: set[Buffer]) -> None:
    inside = move.loop.body
    if not effects(inside).reads & buffers:
        raise move.refuse("nothing there reads what it writes", "it would compute for no one")
    without = replace_stmt(move.program, move.block, None)
    without = replace_stmt(without, find_loop(without, move.loop.var).node, Seq(()))
    for reader in blocks_in(without.body):
        if effects(reader).reads & buffers:
            raise move.refuse(
                f"block {reader.name!r} outside of the loop reads what it writes",
                "all consumers must stand inside of the loop",
            )
    if effects(*(s for s in units(without.body) if not isinstance(s, Block))).reads & buffers:
        raise move.refuse(
            "a statement outside of the loop reads what it writes",
            "all consumers must stand inside of the loop",
        )


def _check_inputs_stay(move: Move, inputs: set[Buffer]) -> None:
    """No statement that the block passes writes what it reads, unless it did so before it."""
    for s in move.between:
        for buffer in sorted(effects(s).writes & inputs, key=lambda b: b.name):
            if s is move.between[0] and _is_written_once(move, buffer):
                continue  # the rest of the nest that the block leaves: complete when it ends
            raise move.refuse(
                f"{buffer.name!r}, which it reads, is written in between",
                "it would read other values than it did",
            )


def _is_written_once(move: Move, buffer: Buffer) -> bool:
    found = writers(scope_of(move.program, move.block_site), buffer)
    if len(found) != 1 or not isinstance(found[0], Block):
        return False
    return why_opaque(found[0]) is None and not repetitions(found[0])


def _needed_points(move: Move, writes: Sequence[Region], place: Place) -> dict[Var, Range]:
    """The points of the block's iterators that one iteration of the loop reads from."""
    facts = place.inside
    accesses = [a for a in collect_accesses(move.loop.body) if not a.is_write]
    found: dict[Var, list[Range]] = {}
    boxes = 0
    spatial = [it for it in move.block.iters if it.kind is not IterKind.REDUCE]
    for written in writes:
        regions = [
            relaxed_region(a, facts) for a in accesses if a.region.buffer is written.buffer
        ]
        if not regions:
            continue
        boxes += 1
        box = union_region(regions, facts)
        for v, r in points_touching(written.ranges, box.ranges, spatial, facts).items():
            found.setdefault(v, []).append(r)
    return {v: _union(r, facts) for v, r in found.items() if len(r) == boxes}


def _union(ranges: Sequence[Range], facts: Analyzer) -> Range:
    box = Buffer("box", (1,))
    return union_region([Region(box, (r,)) for r in ranges], facts).ranges[0]


def _check_covered(move: Move, needed: dict[Var, Range], place: Place) -> None:
    """What an iteration of the shared loops computed before covers what is to be computed now."""
    shared = [s.var for s in move.shared_loops]
    facts = place.inside
    own_loops = [s for s in move.own_path if isinstance(s, For)]
    for it in move.block.iters:
        if not shared or it.var not in inside_symbols(move.block):
            continue
        first, stop = it.start, it.start + it.extent
        with facts.scope():
            for loop in own_loops:
                facts.bind(loop.var, loop.start, loop.extent)
            old = symbolic_range(facts.simplify(it.binding), own_loops, facts)
            start, extent = needed.get(it.var, (it.start, it.extent))
            low, high = Max(start, first), Min(start + extent, stop)
            if old is None or facts.prove((old[0] <= low) & (high <= old[1] + 1)) is not True:
                raise move.refuse(
                    f"an iteration of the loops around both computes less than is read, of"
                    f" {it.var.name!r}",
                    "it reads what an earlier iteration computed",
                )


def _private_to(
    program: TensorProgram, buffers: set[Buffer], move: Move, repeating: set[Var]
) -> TensorProgram:
    """The program with the buffers allocated inside of the innermost loop that runs in parallel and
    whose iterations would write the same elements."""
    loops = [x for x in (*move.loop_site.loops, move.loop) if x.kind is not LoopKind.SERIAL]
    racing = [x.var for x in loops if x.var in repeating and x.kind is not LoopKind.UNROLLED]
    own = [v for v in racing if v not in {s.var for s in move.shared_loops}]
    for buffer in buffers if own else ():
        program = allocate_inside(program, buffer, own[-1])
    return program


def allocate_inside(program: TensorProgram, buffer: Buffer, var: Var) -> TensorProgram:
    """The program with `buffer` allocated at the start of the body of the loop over `var`."""
    site = allocation(program, buffer)
    assert site is not None
    program = replace_stmt(program, site.node, None)
    loop = find_loop(program, var).node
    assert isinstance(loop, For)
    return replace_stmt(program, loop, replace(loop, body=seq(site.node, *_parts(loop.body))))


# --- Consumers -------------------------------------------------------------------------------


def reverse_compute_at(
    program: TensorProgram, name: str, var: Var, *, preserve_unit_loops: bool = False
) -> TensorProgram:
    """See `Schedule.reverse_compute_at`."""
    move = _move("reverse_compute_at", program, name, var, block_first=False)
    move = _with_allocations_first(move)
    program = move.program
    reads, writes = block_regions(move.block)
    produced = {r.buffer for r in reads} & effects(move.loop.body).writes
    produced -= {w.buffer for w in writes}
    if not produced:
        raise move.refuse("nothing there writes what it reads", "it would wait for no one")
    _check_nothing_passed(move, {r.buffer for r in reads}, {w.buffer for w in writes}, produced)
    place = move.place
    boxes = _final_boxes(move, produced, place)
    needed = _possible_points(move, reads, boxes, place)
    made, _ = regenerate(
        move.block, needed, place, preserve_unit_loops=preserve_unit_loops, may_repeat=False
    )
    _check_ready(move, needed, boxes, place)
    body = seq(*_parts(move.loop.body), made)
    program = replace_stmt(program, move.loop, replace(move.loop, body=body))
    program = replace_stmt(program, move.block, None)
    check_marked_loops(program, (*move.loop_site.around, move.loop))
    return program


def _with_allocations_first(move: Move) -> Move:
    """The move after allocations between the loop and the block were put before the loop."""
    late = defined_in(move.between[1:]) & inside_symbols(move.block)
    allocations = [s for s in move.between if isinstance(s, Alloc) and s.buffer in late]
    shapes = free_vars(*(e for s in allocations for e in buffer_exprs(s.buffer)))
    hidden = (late - {s.buffer for s in allocations}) | (defined_in(move.between) & set(shapes))
    if hidden:
        name = sorted(x.name for x in hidden)[0]
        raise move.refuse(f"it uses {name!r}", "that is not defined at the loop")
    if not allocations:
        return move
    around = move.shared[-1]
    assert isinstance(around, Seq)
    rest = [s for s in around.stmts if s not in allocations]
    at = next(k for k, s in enumerate(around.stmts) if s is move.between[0])
    ordered = Seq((*rest[:at], *allocations, *rest[at:]), span=around.span)
    program = replace_stmt(move.program, around, ordered)
    return _move(move.primitive, program, move.block.name, move.loop.var, block_first=False)


def _check_nothing_passed(
    move: Move, reads: set[Buffer], writes: set[Buffer], produced: set[Buffer]
) -> None:
    """Between the iterations and the block nothing touches what it writes, or writes what it reads
    (but for the producers in the loop, whose iterations are apart)."""
    for s in move.between:
        found = effects(s)
        if met := sorted(b.name for b in (found.reads | found.writes) & writes):
            raise move.refuse(
                f"{met[0]!r}, which it writes, is used in between",
                "it would be written earlier than it was",
            )
        late = set(found.writes & reads)
        if s is move.between[0]:
            late = {b for b in late if b not in produced or not _only_inside(move, s, b)}
        if late:
            name = sorted(b.name for b in late)[0]
            raise move.refuse(
                f"{name!r}, which it reads, is written in between",
                "it would read it before it is complete",
            )


def _only_inside(move: Move, s: Stmt, buffer: Buffer) -> bool:
    """Whether all writers of `buffer` in `s` stand in the body of the loop."""
    return len(writers(s, buffer)) == len(writers(move.loop.body, buffer))


def _own_loops(move: Move) -> list[For]:
    """The loops from the shared ones down to the target."""
    path = (*move.loop_site.around, move.loop)[len(move.shared) :]
    return [s for s in path if isinstance(s, For)]


def _final_boxes(move: Move, produced: set[Buffer], place: Place) -> dict[Buffer, list[Region]]:
    """What each writer in the loop writes in one iteration, of what the block reads; final there."""
    around = {x.var for x in _own_loops(move)}
    accesses = collect_accesses(move.loop.body)
    boxes: dict[Buffer, list[Region]] = {b: [] for b in produced}
    for buffer in produced:
        for writer in writers(move.loop.body, buffer):
            iters = writer.iters if isinstance(writer, Block) else ()
            for it in iters:
                if it.kind is not IterKind.SPATIAL and around & set(free_vars(it.binding)):
                    raise move.refuse(
                        f"the {it.kind.value} iterator {it.var.name!r} of {writer_name(writer)}"
                        " depends on loops around",
                        f"an iteration leaves {buffer.name!r} unfinished",
                        "a loop outside of those that reduce",
                    )
            parts = set(map(id, statements(writer)))
            regions = [
                relaxed_region(a, place.inside)
                for a in accesses
                if a.is_write and a.region.buffer is buffer and id(a.stmt) in parts
            ]
            boxes[buffer].append(union_region(regions, place.inside))
    return boxes


def writer_name(s: Stmt) -> str:
    """How an error names a statement."""
    return f"block {s.name!r}" if isinstance(s, Block) else "a statement"


def _possible_points(
    move: Move, reads: Sequence[Region], boxes: dict[Buffer, list[Region]], place: Place
) -> dict[Var, Range]:
    """The points of the block's iterators that read from what one iteration of the loop writes."""
    found: dict[Var, Range] = {}
    for read in reads:
        if read.buffer in boxes:
            box = union_region(boxes[read.buffer], place.inside)
            points = points_touching(read.ranges, box.ranges, move.block.iters, place.inside)
            found = {**points, **found}
    return found


def _check_ready(
    move: Move, needed: dict[Var, Range], boxes: dict[Buffer, list[Region]], place: Place
) -> None:
    """Every element that the block reads in an iteration was written in it, by every writer."""
    facts = place.inside
    loops = []
    for it in move.block.iters:
        start, extent = needed.get(it.var, (it.start, it.extent))
        loops.append(For(it.var, extent, Seq(()), start=start))
    with facts.scope():
        for it in move.block.iters:
            facts.bind(it.var, it.start, it.extent)
        for loop in loops:
            facts.learn((loop.start <= loop.var) & (loop.var < loop.start + loop.extent))
        for read in block_regions(move.block)[0]:
            for box in boxes.get(read.buffer, ()):
                for (first, width), (start, extent) in zip(read.ranges, box.ranges, strict=True):
                    inside = (start <= first) & (first + width <= start + extent)
                    if facts.prove(inside) is not True:
                        raise move.refuse(
                            f"it reads more of {read.buffer.name!r} than one iteration writes",
                            "the rest is written later",
                        )
