"""Random schedules of random programs: how each primitive is drawn, and what must hold afterwards.

`RULES` says for a primitive how to draw its arguments. A primitive may be refused (ScheduleError);
whatever it does must leave a well-formed program with the same results, and a trace that does the
same again. A new primitive takes part as soon as it has a rule here.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from schedule.applications import assert_equal, some_block, some_loop
from schedule.tensor_rules import TENSOR_RULES
from strategies import arguments, copied
from tensorsmith.arith.regions import block_regions
from tensorsmith.codegen import build
from tensorsmith.evaluate import interpret
from tensorsmith.ir import Block, For, IndexMap, LoopKind, TensorProgram, structural
from tensorsmith.ir.rewrite import statements, substitute_stmt, transform_stmt
from tensorsmith.schedule import LoopRef, Schedule, ScheduleError, Trace
from tensorsmith.schedule.tree import find_block
from tensorsmith.verify import verify

Draw = Callable[[st.SearchStrategy], object]
Rule = Callable[[Draw, Schedule], None]
ANY_ORDER = (LoopKind.PARALLEL, LoopKind.VECTORIZED, LoopKind.THREAD)


# --- Rules -----------------------------------------------------------------------------------


def _loops_of_one_nest(draw: Draw, s: Schedule) -> list[LoopRef]:
    loops = s.get_loops(some_block(draw, s))
    if not loops:
        raise ScheduleError("no loops")
    return loops


def _split(draw: Draw, s: Schedule) -> None:
    factor = st.sampled_from((1, 2, 3, 4))
    factors = draw(st.sampled_from(([None, 2], [2, None], [None, 2, 3], [None], [4, 2], [None, 1])))
    if draw(st.booleans()):
        factors = [None, draw(factor)]
    s.split(
        some_loop(draw, s),
        factors,
        preserve_unit_loops=draw(st.booleans()),
        disable_predication=draw(st.integers(0, 3)) == 0,
    )


def _split_by_dim(draw: Draw, s: Schedule) -> None:
    if not s.program.dims:
        raise ScheduleError("no dimensions")
    s.split(some_loop(draw, s), [None, draw(st.sampled_from(s.program.dims))])


def _fuse(draw: Draw, s: Schedule) -> None:
    loops = _loops_of_one_nest(draw, s)
    first = draw(st.integers(0, len(loops) - 1))
    s.fuse(*loops[first : draw(st.integers(first + 1, len(loops)))])


def _reorder(draw: Draw, s: Schedule) -> None:
    loops = _loops_of_one_nest(draw, s)
    some = draw(st.lists(st.sampled_from(loops), unique=True, min_size=1))
    s.reorder(*some)


def _loop_partition(draw: Draw, s: Schedule) -> None:
    points = draw(st.sampled_from(([1], [2], [1, 3], [2, 3])))
    s.loop_partition(some_loop(draw, s), points)


def _merge(draw: Draw, s: Schedule) -> None:
    block = some_block(draw, s)
    others = s.get_consumers(block)
    if not others:
        raise ScheduleError("no consumers")
    loops = s.get_loops(block), s.get_loops(draw(st.sampled_from(others)))
    depth = draw(st.integers(0, max(0, min(map(len, loops)) - 1)))
    s.merge(*(nest[min(depth, len(nest) - 1)] for nest in loops if nest))


def _add_unit_loop(draw: Draw, s: Schedule) -> None:
    s.add_unit_loop(some_block(draw, s) if draw(st.booleans()) else some_loop(draw, s))


def _annotate(draw: Draw, s: Schedule) -> None:
    s.annotate(some_loop(draw, s), "note", draw(st.sampled_from((1, "x", (1, (2, True))))))


def _unannotate(draw: Draw, s: Schedule) -> None:
    s.unannotate(some_loop(draw, s), "note")


def _annotate_buffer_access(draw: Draw, s: Schedule) -> None:
    block = some_block(draw, s)
    node = find_block(s.program, block.name).node
    reads = [b for b in s.program.buffers if b.rank]
    if not isinstance(node, Block) or not reads:
        raise ScheduleError("nothing to read")
    buffer = draw(st.sampled_from(reads))
    whole = [e for extent in buffer.shape for e in (0, extent)]
    index_map = IndexMap.of(lambda *iters: whole, len(node.iters))
    s.annotate_buffer_access(block, buffer.name, "read", index_map)


def _perfect_tile(draw: Draw, s: Schedule) -> None:
    loop = some_loop(draw, s)
    s.split(loop, s.sample_perfect_tile(loop, draw(st.integers(1, 3)), 4))


def _partitioned_tile(draw: Draw, s: Schedule) -> None:
    loop = some_loop(draw, s)
    s.split(loop, s.sample_partitioned_tile(loop, 3, draw(st.integers(1, 2)), 2))


def _categorical(draw: Draw, s: Schedule) -> None:
    s.split(some_loop(draw, s), [None, s.sample_categorical([1, 2, 4], [1.0, 2.0, 3.0])])


def _compute_location(draw: Draw, s: Schedule) -> None:
    block = some_block(draw, s)
    s.compute_at(block, s.sample_compute_location(block))


def _reverse_compute_at(draw: Draw, s: Schedule) -> None:
    block = some_block(draw, s)
    makers = s.get_producers(block)
    loops = s.get_loops(draw(st.sampled_from(makers))) if makers else []
    s.reverse_compute_at(block, draw(st.sampled_from(loops)) if loops else some_loop(draw, s))


def _cache(draw: Draw, s: Schedule) -> None:
    kind = s.cache_read if draw(st.booleans()) else s.cache_write
    kind(some_block(draw, s), 0, draw(st.sampled_from(("local", "shared"))))


def _decompose_reduction(draw: Draw, s: Schedule) -> None:
    block = some_block(draw, s)
    loops = s.get_loops(block)
    if not loops:
        raise ScheduleError("no loops")
    s.decompose_reduction(block, draw(st.sampled_from(loops)))


def _blockize(draw: Draw, s: Schedule) -> None:
    s.blockize(some_loop(draw, s))


WIDER = {
    "int8": "int16",
    "int16": "int64",
    "int32": "int64",
    "float16": "float64",
    "float32": "float64",
}


def _wider_type(draw: Draw, s: Schedule) -> None:
    """Elements of a type that holds all values of the old one: then the results stay the same."""
    block = some_block(draw, s)
    node = find_block(s.program, block.name).node
    assert isinstance(node, Block)
    _, writes = block_regions(node)
    for region in writes:
        if region.buffer.dtype.name in WIDER:
            s.unsafe_set_dtype(block, region.buffer.name, WIDER[region.buffer.dtype.name])


RULES: dict[str, Rule] = {
    "split": _split,
    "split by a dimension": _split_by_dim,
    "fuse": _fuse,
    "reorder": _reorder,
    "loop_partition": _loop_partition,
    "merge": _merge,
    "add_unit_loop": _add_unit_loop,
    "parallel": lambda draw, s: s.parallel(some_loop(draw, s)),
    "vectorize": lambda draw, s: s.vectorize(some_loop(draw, s)),
    "unroll": lambda draw, s: s.unroll(some_loop(draw, s)),
    "bind": lambda draw, s: s.bind(some_loop(draw, s), "threadIdx.x"),
    "annotate": _annotate,
    "unannotate": _unannotate,
    "annotate_buffer_access": _annotate_buffer_access,
    "sample_perfect_tile": _perfect_tile,
    "sample_partitioned_tile": _partitioned_tile,
    "sample_categorical": _categorical,
    "sample_compute_location": _compute_location,
    "reverse_compute_at": _reverse_compute_at,
    "cache_read": _cache,
    "decompose_reduction": _decompose_reduction,
    "rfactor": lambda draw, s: s.rfactor(some_loop(draw, s)),
    "blockize": _blockize,
    "unsafe_set_dtype": _wider_type,
    "enter_postproc": lambda draw, s: s.enter_postproc(),
    **TENSOR_RULES,
}


def draw_schedule(
    draw: Draw, program: TensorProgram, *, most: int = 8, names: tuple[str, ...] = ()
) -> Schedule:
    """A schedule of `program` after up to `most` applications, of the rules `names` or of all."""
    s = Schedule(program, seed=draw(st.integers(0, 3)))
    for _ in range(draw(st.integers(1, most))):
        rule = RULES[draw(st.sampled_from(names or tuple(RULES)))]
        try:
            rule(draw, s)
        except ScheduleError:
            continue
        except Exception as error:
            error.add_note(f"{s.program.script()}\n{s.trace}")
            raise
    return s


# --- What must hold --------------------------------------------------------------------------


def check_schedule(draw: Draw, before: TensorProgram, s: Schedule) -> None:
    """It is well formed, does the same, and its trace does the same again.

    Natively too, and there with or without the checks of a debug build.
    """
    after = s.program
    try:
        verify(after)
        check_trace(before, s)
        given = draw(arguments(before))
        expected = copied(given)
        interpret(before, *expected)
        found = copied(given)
        interpret(after, *found)
        assert_equal(expected, found)
        found = copied(given)
        interpret(backwards(after), *found)
        assert_equal(expected, found)
        if not any(isinstance(x, For) and x.thread for x in statements(after.body)):
            found = copied(given)
            build(after, threads=2, check_bounds=draw(st.booleans()))(*found)
            assert_equal(expected, found)
    except Exception as error:
        error.add_note(f"{before.script()}\n{s.trace}\n{after.script()}")
        raise


def check_trace(before: TensorProgram, s: Schedule) -> None:
    """The trace, simplified, and by way of JSON, gives the same program again."""
    read = Trace.from_json(s.trace.to_json())
    assert str(read) == str(s.trace)
    assert read.to_json() == s.trace.to_json()
    for trace in {str(t): t for t in (s.trace.simplified(), read)}.values():
        again = Schedule(before)
        trace.apply(again)
        difference = structural.diff(again.program, s.program)
        assert difference is None, str(difference)


def backwards(program: TensorProgram) -> TensorProgram:
    """The program with loops that may run in any order run from their end."""

    def reverse(x):
        if isinstance(x, For) and x.kind in ANY_ORDER:
            last = x.start + x.extent - 1
            return For(
                x.var,
                x.extent,
                substitute_stmt(x.body, {x.var: last - (x.var - x.start)}),
                start=x.start,
                attrs=x.attrs,
            )
        return None

    return TensorProgram(
        program.name, program.params, transform_stmt(program.body, reverse), program.attrs
    )


__all__ = ["RULES", "assert_equal", "backwards", "check_schedule", "check_trace", "draw_schedule"]
