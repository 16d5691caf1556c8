"""Moving producers and consumers under each other's loops.

The block that moves gets new loops inside of the target loop, for exactly those points that one
iteration of it needs (a producer) or makes possible (a consumer). Checked first: that the block may
move at all (`dependence`), that nothing in between writes what it reads or touches what it writes,
and that every element is there when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorsmith.arith import Analyzer
from tensorsmith.arith.accesses import collect_accesses
from tensorsmith.arith.regions import block_regions, relaxed_region, union_region
from tensorsmith.arith.relax import symbolic_range
from tensorsmith.ir import (
    Block,
    Buffer,
    For,
    IterKind,
    LoopKind,
    Max,
    Min,
    Region,
    Seq,
    Stmt,
    TensorProgram,
    Var,
    free_vars,
    seq,
    substitute,
)
from tensorsmith.ir.rewrite import statements
from tensorsmith.schedule.copies import allocated_first
from tensorsmith.schedule.dependence import (
    defined_in,
    effects,
    inside_symbols,
    is_written_elsewhere,
    reads_itself,
    repetitions,
    scope_of,
    why_opaque,
    writers,
)
from tensorsmith.schedule.independence import check_marked_loops
from tensorsmith.schedule.loops import require_bindings
from tensorsmith.schedule.moves import (
    Move,
    allocate_inside,
    find_move,
    own_loops,
    parts_of,
    writer_name,
)
from tensorsmith.schedule.placement import (
    Place,
    Range,
    points_touching,
    regenerate,
)
from tensorsmith.schedule.tree import find_block, find_loop, replace_stmt, sites

# --- Producers -------------------------------------------------------------------------------


def compute_at(
    program: TensorProgram, name: str, var: Var, *, preserve_unit_loops: bool = False
) -> TensorProgram:
    """See `Schedule.compute_at`."""
    move = find_move("compute_at", program, name, var, block_first=True)
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
    parts = parts_of(move.loop.body)
    buffers = {w.buffer for w in writes}
    at = next(k for k, p in enumerate(parts) if effects(p).reads & buffers)
    body = seq(*parts[:at], made, *parts[at:])
    program = replace_stmt(program, move.loop, replace(move.loop, body=body))
    program = replace_stmt(program, move.block, None)
    program = _private_to(program, buffers, move, repeating)
    _check_moved(program, move)
    return program


def _check_only_writer(move: Move, buffers: Sequence[Buffer]) -> None:
    for buffer in buffers:
        if buffer in move.program.buffers:
            raise move.refuse(
                f"it writes the parameter {buffer.name!r}",
                "the caller sees all of it, whatever the loop needs",
                "reverse_compute_at, to move it under the loops of what it reads",
            )
        if is_written_elsewhere(move.program, move.block, buffer):
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
    for site in sites(without):
        if any(reads_itself(site.node, b) for b in buffers):
            block = site.node if isinstance(site.node, Block) else site.parent_block
            reader = "a statement" if block is None else f"block {block.name!r}"
            raise move.refuse(
                f"{reader} outside of the loop reads what it writes",
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
        regions = [relaxed_region(a, facts) for a in accesses if a.region.buffer is written.buffer]
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


def _check_moved(program: TensorProgram, move: Move) -> None:
    """Loops that run in parallel around the new place may, and blocks inside of the block that was
    moved still take each of their points once: it runs for a part of its points at a time."""
    check_marked_loops(program, (*move.loop_site.around, move.loop))
    if any(isinstance(s, Block) for s in statements(move.block) if s is not move.block):
        require_bindings(program, f"{move.primitive}({move.block.name})")


# --- Consumers -------------------------------------------------------------------------------


def reverse_compute_at(
    program: TensorProgram, name: str, var: Var, *, preserve_unit_loops: bool = False
) -> TensorProgram:
    """See `Schedule.reverse_compute_at`."""
    program = allocated_first(program, effects(find_block(program, name).node).writes)
    move = find_move("reverse_compute_at", program, name, var, block_first=False)
    if hidden := defined_in(move.between) & inside_symbols(move.block):
        name = min(x.name for x in hidden)
        raise move.refuse(f"it uses {name!r}", "that is not defined at the loop")
    reads, writes = block_regions(move.block)
    produced = {r.buffer for r in reads} & effects(move.loop.body).writes
    produced -= {w.buffer for w in writes}
    if not produced:
        raise move.refuse("nothing there writes what it reads", "it would wait for no one")
    _check_nothing_passed(move, {r.buffer for r in reads}, {w.buffer for w in writes}, produced)
    place = move.place
    boxes = _final_boxes(move, produced, place)
    needed = _possible_points(move, reads, boxes, place)
    _check_ascending(move, needed, place)
    made, _ = regenerate(
        move.block, needed, place, preserve_unit_loops=preserve_unit_loops, may_repeat=False
    )
    _check_ready(move, needed, boxes, place)
    body = seq(*parts_of(move.loop.body), made)
    program = replace_stmt(program, move.loop, replace(move.loop, body=body))
    program = replace_stmt(program, move.block, None)
    _check_moved(program, move)
    return program


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
            name = min(b.name for b in late)
            raise move.refuse(
                f"{name!r}, which it reads, is written in between",
                "it would read it before it is complete",
            )


def _only_inside(move: Move, s: Stmt, buffer: Buffer) -> bool:
    """Whether all writers of `buffer` in `s` stand in the body of the loop."""
    return len(writers(s, buffer)) == len(writers(move.loop.body, buffer))


def _final_boxes(move: Move, produced: set[Buffer], place: Place) -> dict[Buffer, list[Region]]:
    """What each writer in the loop writes in one iteration, of what the block reads."""
    around = {x.var for x in own_loops(move)}
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


def _check_ascending(move: Move, needed: dict[Var, Range], place: Place) -> None:
    """Reduce iterators take their first values first: that is when an init runs."""
    for it in move.block.iters:
        start = needed.get(it.var, (it.start, it.extent))[0]
        if it.kind is not IterKind.REDUCE:
            continue
        for loop in place.loops:
            step = substitute(start, {loop.var: loop.var + 1}) - start
            if place.inside.prove(step >= 0) is not True:
                raise move.refuse(
                    f"its reduce iterator {it.var.name!r} would not take its values in order",
                    "the first of them initialises the result",
                )


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
