"""Every condition under which a primitive's docstring says that it is refused is met by a case."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from errors.refusal_cases import OF_BLOCKS, OwnCase
from errors.refusal_cases_of_loops import OF_LOOPS
from schedule.scripts import schedule_of
from tensorsmith.schedule import LoopRef, Schedule, ScheduleError
from tensorsmith.schedule.primitive import PRIMITIVES

TOOL = Path(__file__).resolve().parents[2] / "tools" / "schedule_reference.py"
spec = importlib.util.spec_from_file_location("schedule_reference", TOOL)
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

TEXT = """
n = T.dim("n")
@T.program
def f(A: T.Buffer((8, 6), "int32"), D: T.Buffer((8,), "int32"), G: T.Buffer((n,), "int32")):
    B = T.alloc((8, 6), "int32")
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.remap("SS", i, j)
            B[vi, vj] = A[vi, vj]
    for k, l in T.grid(8, 6):
        with T.block("C"):
            vk, vl = T.remap("SS", k, l)
            A[vk, vl] = B[vk, 5 - vl] + 1
    for s, r in T.grid(8, 6):
        with T.block("D"):
            vs, vr = T.remap("SR", s, r)
            with T.init():
                D[vs] = 0
            D[vs] = D[vs] + A[vs, vr]
    for a in range(8):
        for b in range(a + 1):
            with T.block("E"):
                va = T.remap("O", a)
                vb = T.opaque(8, b)
                D[va] = D[va] + T.int32(vb)
    for e in range(4):
        for g in range(2):
            with T.block("F"):
                v = T.spatial(8, e * 2 + g)
                D[v] = D[v] * 2
        for h in range(2):
            with T.block("G"):
                v = T.spatial(8, e * 2 + h)
                D[v] = D[v] + 3
    for p in range(n):
        with T.block("H"):
            vp = T.remap("S", p)
            G[vp] = 1
    for q in range(8):
        with T.block("I"):
            vq = T.remap("S", q)
            D[vq // 2] = 5
    for t, u in T.grid(2, 2):
        with T.block("J"):
            vt, vu = T.remap("OO", t, u)
            D[0] = D[0] * 2 + T.int32(vt + vu)
    for x in range(2):
        T.call("print_it", x)
        with T.block("K"):
            vx = T.remap("S", x)
            D[vx] = 0
    M = T.alloc((8,), "int32")
    for y in range(8):
        with T.block("L"):
            vy = T.remap("S", y)
            M[vy] = 0
    T.call("use_it", M[0:8])
"""

Case = Callable[[Schedule, Callable[[str], LoopRef]], object]


def loops_of(s: Schedule) -> Callable[[str], LoopRef]:
    """A loop around a block by the name of its variable."""
    found = {x.var.name: x for block in s.find_blocks() for x in s.get_loops(block)}
    return found.__getitem__


def made_parallel(s: Schedule, loop: LoopRef) -> LoopRef:
    s.parallel(loop)
    return loop


def made_vector(s: Schedule, loop: LoopRef) -> LoopRef:
    s.vectorize(loop)
    return loop


def gone(s: Schedule, loop: LoopRef) -> LoopRef:
    s.split(loop, [None, 2])
    return loop


def fused_with_a_tail_inside(s: Schedule, loop: LoopRef) -> LoopRef:
    outer, inner = s.split(loop, [None, 3])
    s.reorder(inner, outer)
    return s.fuse(inner, outer)


IS_SPECIAL = "loop is parallel, vectorised, unrolled, bound or annotated"
REFUSED: dict[str, dict[str, Case]] = {
    "split": {
        f"the {IS_SPECIAL}": lambda s, at: s.split(made_parallel(s, at("i")), [None, 2]),
        "there are no factors, or more than one is None": lambda s, at: s.split(
            at("i"), [None, None]
        ),
        "a factor is not known to be positive": lambda s, at: s.split(at("i"), [None, 0]),
        "the factors cover less than the extent": lambda s, at: s.split(at("i"), [2, 3]),
        "a predicate is needed and disabled": lambda s, at: s.split(
            at("i"), [None, 3], disable_predication=True
        ),
        "it is not seen of the new nest that it takes each point once": lambda s, at: s.split(
            fused_with_a_tail_inside(s, at("i")), [None, 4]
        ),
    },
    "fuse": {
        "there are none": lambda s, at: s.fuse(),
        "something else stands between them": lambda s, at: s.fuse(at("e"), at("g")),
        "the range of one depends on another": lambda s, at: s.fuse(at("a"), at("b")),
        "one is parallel, vectorised, unrolled, bound or annotated": lambda s, at: s.fuse(
            made_parallel(s, at("i")), at("j")
        ),
    },
    "reorder": {
        "a loop is named twice": lambda s, at: s.reorder(at("i"), at("i")),
        "the loops are not of one nest": lambda s, at: s.reorder(at("i"), at("l")),
        "it holds more than one block": lambda s, at: s.reorder(at("e"), s.add_unit_loop(at("e"))),
        "a range depends on a loop that would come to stand inside": lambda s, at: s.reorder(
            at("b"), at("a")
        ),
        "loops that opaque iterators use would change their order, among each other or with a"
        " loop whose iterations meet in what they write": lambda s, at: s.reorder(at("u"), at("t")),
    },
    "loop_partition": {
        "there are no points": lambda s, at: s.loop_partition(at("i"), []),
        "they are not known to ascend within the range": lambda s, at: s.loop_partition(
            at("i"), [4, 2]
        ),
        "a piece takes no box of the points of a block (as half of a fused loop does)": (
            lambda s, at: s.loop_partition(s.fuse(at("i"), at("j")), [9])
        ),
        "it is not seen that the pieces together take each point once, as where a predicate never"
        " holds in one": lambda s, at: s.loop_partition(
            s.split(s.add_unit_loop(at("i")), [2, None])[0], [1]
        ),
        "it is not known where the reduction of a block starts": (
            lambda s, at: s.loop_partition(s.split(at("r"), [None, 2])[1], [1])
        ),
    },
    "merge": {
        "for fewer than two loops": lambda s, at: s.merge(at("i")),
        "one stands in another": lambda s, at: s.merge(at("i"), at("j")),
        "the second is before the first": lambda s, at: s.merge(at("k"), at("i")),
        "the nests are not equally deep, or hold something else around the loops": (
            lambda s, at: s.merge(at("i"), at("l"))
        ),
        "ranges differ": lambda s, at: s.merge(at("s"), at("e")),
        "something stands between them": lambda s, at: s.merge(at("i"), at("s")),
        f"a {IS_SPECIAL}": lambda s, at: s.merge(made_parallel(s, at("i")), at("k")),
        "an iteration of one nest uses what another iteration of the other one writes": (
            lambda s, at: s.merge(at("j"), at("l"))
        ),
    },
    "unroll": {
        "the loop is parallel, vectorised or bound": lambda s, at: s.unroll(
            made_parallel(s, at("i"))
        ),
    },
    "vectorize": {
        "the extent is not constant, or where `parallel` is not": lambda s, at: s.vectorize(
            at("p")
        ),
    },
    "bind": {
        "the axis has no dotted name, or where `parallel` is not": lambda s, at: s.bind(
            at("i"), "no axis"
        ),
    },
    "sample_perfect_tile": {
        "a decision is given that is no list of `n` such factors": (
            lambda s, at: s.sample_perfect_tile(at("i"), 2, decision=[3, 3])
        ),
    },
    "sample_partitioned_tile": {
        "`partition_pos` leaves a side without factors": (
            lambda s, at: s.sample_partitioned_tile(at("i"), 2, 0, 2)
        ),
        "`innerpart_factor` does not divide the extent": (
            lambda s, at: s.sample_partitioned_tile(at("i"), 2, 1, 3)
        ),
        "a decision is given that is no list of such factors": (
            lambda s, at: s.sample_partitioned_tile(at("i"), 2, 1, 2, decision=[8, 1])
        ),
    },
    "sample_categorical": {
        "there are no candidates": lambda s, at: s.sample_categorical([]),
        "the weights are not one number of at least 0 for each, with one above 0": (
            lambda s, at: s.sample_categorical([1, 2], [1.0])
        ),
        "a decision is given that is no index": (
            lambda s, at: s.sample_categorical([1, 2], decision=2)
        ),
    },
    "sample_compute_location": {
        "a decision is given that is no such number": (
            lambda s, at: s.sample_compute_location(s.get_block("B"), decision=99)
        ),
    },
    "annotate": {
        "the key is 'accumulate', which says what a block computes": (
            lambda s, at: s.annotate(s.get_block("B"), "accumulate", "float32")
        ),
        "the value is no bool, number, string, expression, or tuple of these": (
            lambda s, at: s.annotate(at("i"), "note", object())
        ),
    },
    "unannotate": {
        "there is none of this name, or if it says what a block computes": (
            lambda s, at: s.unannotate(at("i"), "note")
        ),
    },
    "get_child_blocks": {
        "the block or loop is no longer there": lambda s, at: s.get_child_blocks(gone(s, at("i"))),
    },
    "get_parent_block": {
        "the block stands in no other": lambda s, at: s.get_parent_block(s.get_block("B")),
    },
    "get_output_blocks": {
        "the module has no such function": lambda s, at: s.get_output_blocks("nothing"),
    },
    "work_on": {
        "the module has no such function": lambda s, at: s.work_on("nothing"),
    },
    "set_scope": {
        "for parameters, or if the scope is not a dotted name": (
            lambda s, at: s.set_scope(s.get_block("D"), 0, "local")
        ),
    },
    "storage_align": {
        "for parameters, for buffers with a layout, or if there is no such dimension or stride": (
            lambda s, at: s.storage_align(s.get_block("B"), 0, 7, 4)
        ),
    },
    "unsafe_set_dtype": {
        "for parameters, if there is no such type, or if the buffer is passed to a call": (
            lambda s, at: s.unsafe_set_dtype(s.get_block("B"), 0, "int7")
        ),
    },
    "reorder_block_iter_var": {
        "unless `new_order` has each position once": (
            lambda s, at: s.reorder_block_iter_var(s.get_block("B"), [0, 0])
        ),
    },
    "set_axis_separator": {
        "for a buffer with strides or a layout, or for separators that do not rise or do not lie"
        " between axes": lambda s, at: s.set_axis_separator(s.get_block("B"), "B", [2, 1]),
    },
    "transform_layout": {
        "the map is not proven to be injective": (
            lambda s, at: s.transform_layout(s.get_block("B"), "B", lambda i, j: [i // 2, j])
        ),
        "for a buffer that has strides or a layout already, or is passed to a call": (
            lambda s, at: s.transform_layout(s.get_block("L"), "M", lambda i: [i // 4, i % 4])
        ),
        "for a parameter, unless asked for and with no `pad_value`": (
            lambda s, at: s.transform_layout(s.get_block("D"), "D", lambda i: [i // 4, i % 4])
        ),
    },
    "transform_block_layout": {
        "unless every iterator has a loop of its own that holds the block alone, from 0": (
            lambda s, at: s.transform_block_layout(s.get_block("F"), lambda i: [i])
        ),
        "the map is not a bijection onto a box": (
            lambda s, at: s.transform_block_layout(s.get_block("B"), lambda i, j: [i // 2, j])
        ),
        "an output mixes spatial and reduce iterators": (
            lambda s, at: s.transform_block_layout(s.get_block("D"), lambda i, k: [i * 6 + k])
        ),
        "an iterator is opaque": (
            lambda s, at: s.transform_block_layout(s.get_block("J"), lambda i, j: [j, i])
        ),
    },
    "parallel": {
        "the loop reaches a reduce iterator, or an opaque one of a block with calls, assertions or"
        " while loops": lambda s, at: s.parallel(at("r")),
        "an iteration may write what another one reads or writes": (
            lambda s, at: s.parallel(at("q"))
        ),
        "a call stands in the loop outside of blocks": lambda s, at: s.parallel(at("x")),
        "the loop is vectorised, unrolled or bound": lambda s, at: s.parallel(
            made_vector(s, at("j"))
        ),
    },
}
OF_OWN_PROGRAMS = {**OF_BLOCKS, **OF_LOOPS}
OWN_CASES = [
    pytest.param(name, case, id=f"{name}-{condition}")
    for name, cases in OF_OWN_PROGRAMS.items()
    for condition, case in cases.items()
]
CASES = [
    pytest.param(name, case, id=f"{name}-{condition}")
    for name, cases in REFUSED.items()
    for condition, case in cases.items()
]


def conditions(name: str) -> list[str]:
    """The conditions of the docstring, one by one."""
    _, text = tool.described(PRIMITIVES[name])
    text = re.sub(r"^Not (legal|possible) ", "", text.rstrip("."))
    parts = [re.sub(r"^(or )?(if )?", "", part.strip()) for part in text.split(";")]
    return [part.strip() for part in parts]


def test_every_primitive_is_here() -> None:
    refusable = {n for n in PRIMITIVES if "Always legal" not in tool.described(PRIMITIVES[n])[1]}
    assert refusable == REFUSED.keys() | OF_OWN_PROGRAMS.keys()
    assert not REFUSED.keys() & OF_OWN_PROGRAMS.keys()


@pytest.mark.parametrize("name", [*REFUSED, *OF_OWN_PROGRAMS])
def test_every_condition_has_a_case(name: str) -> None:
    assert list({**REFUSED, **OF_OWN_PROGRAMS}[name]) == conditions(name)


@pytest.mark.parametrize(("name", "case"), CASES)
def test_it_is_refused_and_nothing_changes(name: str, case: Case) -> None:
    check(name, schedule_of(TEXT), case)


@pytest.mark.parametrize(("name", "case"), OWN_CASES)
def test_it_is_refused_of_a_program_of_its_own(name: str, case: OwnCase) -> None:
    make, action = case
    check(name, make(), lambda s, _: action(s))


def check(name: str, s: Schedule, case: Case) -> None:
    calls: list[object] = []

    def recorded(*args: object, **kwargs: object) -> object:
        calls.append(s.module)
        return PRIMITIVES[name](s, *args, **kwargs)

    watched = _Watched(s, name, recorded)
    with pytest.raises(ScheduleError):
        case(watched, loops_of(s))
    assert calls
    assert s.module is calls[-1]


class _Watched:
    """A schedule of which one primitive is watched."""

    def __init__(self, s: Schedule, name: str, recorded: Callable[..., object]) -> None:
        self._schedule = s
        setattr(self, name, recorded)

    def __getattr__(self, name: str) -> object:
        return getattr(self._schedule, name)
