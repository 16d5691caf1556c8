"""Traces: text, JSON, replay, simplification, other decisions; and what is no trace."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule.scripts import schedule_of
from tensorsmith import te
from tensorsmith.errors import TensorsmithError
from tensorsmith.ir import structural
from tensorsmith.schedule import Schedule, ScheduleError, Trace

SCALE = """
n = T.dim("n")
@T.program
def f(A: T.Buffer((n, 64), "float32"), B: T.Buffer((n, 64), "float32")):
    for i, j in T.grid(n, 64):
        with T.block("B"):
            vi, vj = T.remap("SS", i, j)
            B[vi, vj] = A[vi, vj] * 2.0
"""


def scheduled():
    """A schedule that uses every kind of argument."""
    s = schedule_of(SCALE)
    block = s.get_block("B")
    i, j = s.get_loops(block)
    s.get_child_blocks(i)
    s.sample_categorical([7, 8])
    outer, inner = s.split(j, s.sample_perfect_tile(j, 2, decision=[8, 8]))
    s.split(i, [None, s.dim("n")], preserve_unit_loops=False)
    s.annotate(outer, "rows", (s.dim("n"), 1.5, "x"))
    s.annotate_buffer_access(block, "A", "read", lambda i, j: (i, 1, 0, 64))
    s.vectorize(inner)
    s.enter_postproc()
    return s


def assert_same(a, b):
    difference = structural.diff(a.program, b.program)
    assert difference is None, str(difference)


def test_a_trace_prints_as_calls():
    assert (
        str(scheduled().trace)
        == """\
b0 = s.get_block(name='B')
[l0, l1] = s.get_loops(block=b0)
[b1] = s.get_child_blocks(of=l0)
v0 = s.sample_categorical(candidates=[7, 8], decision=1)
[v1, v2] = s.sample_perfect_tile(loop=l1, n=2, decision=[8, 8])
[l2, l3] = s.split(loop=l1, factors=[v1, v2])
[l4] = s.split(loop=l0, factors=[None, n], preserve_unit_loops=False)
s.annotate(of=l2, key='rows', value=[n, 1.5, 'x'])
s.annotate_buffer_access(block=b0, buffer='A', access='read', index_map=lambda i, j: (i, 1, 0, 64))
s.vectorize(loop=l3)
s.enter_postproc()"""
    )


@pytest.mark.parametrize("form", ["same", "json", "simplified", "python"])
def test_a_trace_does_the_same_to_another_program_of_the_same_text(form):
    s, again = scheduled(), schedule_of(SCALE)
    if form == "python":
        names = {}
        exec(compile(s.trace.script(), "trace", "exec"), names)  # noqa: S102
        names["schedule"](again)
        assert str(again.trace) == str(s.trace)
    else:
        trace = {
            "same": s.trace,
            "json": Trace.from_json(s.trace.to_json()),
            "simplified": s.trace.simplified(),
        }[form]
        trace.apply(again)
    assert_same(again, s)


def test_a_trace_read_from_json_prints_the_same_as_python():
    s = scheduled()
    read = Trace.from_json(s.trace.to_json())
    assert read.script() == s.trace.script()
    assert read.to_json() == s.trace.to_json()


def test_a_simplified_trace_has_no_unused_results():
    text = str(scheduled().trace.simplified())
    assert "sample_categorical" not in text
    assert "get_child_blocks" not in text
    assert "sample_perfect_tile" in text


def test_another_decision_is_taken():
    s = scheduled()
    at = next(k for k, i in enumerate(s.trace.instructions) if i.primitive == "sample_perfect_tile")
    again = schedule_of(SCALE)
    values = s.trace.with_decision(at, [16, 4]).apply(again)
    assert [values["v1"], values["v2"]] == [16, 4]
    assert s.trace.instructions[at].decision == [8, 8]


@pytest.mark.parametrize("decision", [[3, 3], [64], "x", 5, [0, 64], [-8, -8], [None, 8], [8.0, 8]])
def test_an_impossible_decision_is_refused(decision):
    s = scheduled()
    at = next(k for k, i in enumerate(s.trace.instructions) if i.primitive == "sample_perfect_tile")
    with pytest.raises(ScheduleError, match="sample_perfect_tile"):
        s.trace.with_decision(at, decision).apply(schedule_of(SCALE))


@pytest.mark.parametrize(("index", "said"), [(0, "decides nothing"), (99, "has no instruction 99")])
def test_what_decides_nothing_takes_no_decision(index, said):
    with pytest.raises(ScheduleError, match=said):
        scheduled().trace.with_decision(index, 1)


def test_choices_are_made_anew_on_request():
    s = scheduled()
    seen = set()
    for seed in range(8):
        again = schedule_of(SCALE).copy(seed=seed)
        values = s.trace.apply(again, decisions=False)
        seen.add((values["v1"], values["v2"]))
    assert len(seen) > 1


def test_a_failed_primitive_leaves_nothing():
    s = schedule_of(SCALE)
    i, _ = s.get_loops(s.get_block("B"))
    module, text = s.module, str(s.trace)
    with pytest.raises(ScheduleError):
        s.split(i, [None, -1])
    assert s.module is module
    assert str(s.trace) == text


def test_a_copy_goes_its_own_way():
    s = schedule_of(SCALE)
    i, j = s.get_loops(s.get_block("B"))
    other = s.copy()
    other.parallel(i)
    s.split(j, [None, 8])
    assert "parallel" not in str(s.trace)
    assert "split" not in str(other.trace)
    assert s.copy().fork_seed() == s.fork_seed()


# --- What is no trace ------------------------------------------------------------------------

ROWS = json.loads(scheduled().trace.to_json())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["ref", "dict", "map", "expr", "dtype", "b0", "l0", "loop", "split", "*"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["ref", "dict", "map", "expr", "dtype", "loop", "*"]), inner, max_size=2
    ),
    max_leaves=8,
)  # fmt: skip


@st.composite
def damaged(draw):
    """The rows of a trace with some part replaced."""
    rows = json.loads(json.dumps(ROWS))
    parent, key = rows, draw(st.integers(0, len(rows) - 1))
    for _ in range(draw(st.integers(0, 5))):
        value = parent[key]
        if isinstance(value, (list, dict)) and value:
            parent = value
            keys = range(len(value)) if isinstance(value, list) else sorted(value)
            key = draw(st.sampled_from(list(keys)))
    parent[key] = draw(JSON)
    return rows


@settings(max_examples=150)
@given(damaged() | JSON)
def test_a_damaged_trace_is_refused_or_applied(rows):
    with contextlib.suppress(TensorsmithError):
        Trace.from_json(json.dumps(rows)).apply(schedule_of(SCALE))


@settings(max_examples=100)
@given(st.text() | st.sampled_from(["[" * 100_000, '{"a":' * 50_000, "[[]]", "1", "nul", "\ud800"]))
def test_any_text_is_a_trace_or_refused(text):
    with contextlib.suppress(ScheduleError):
        Trace.from_json(text)


@pytest.mark.parametrize(
    "row",
    [
        ["_update", {"dict": {}}, None, None],
        ["__init__", {"dict": {}}, None, None],
        ["no_primitive", {"dict": {}}, None, None],
        ["split", {"dict": {"loop": {"ref": "l 0"}}}, None, None],
        ["split", {"dict": {"lo op": 1}}, None, None],
        ["split", [], None, None],
        ["split", {"dict": {}}, 5, None],
        ["split", {"dict": {}}, None],
        [["split"], {"dict": {}}, None, None],
    ],
)
def test_a_row_that_is_no_call_of_a_primitive_is_refused(row):
    with pytest.raises(ScheduleError, match="this is not a trace"):
        Trace.from_json(json.dumps([row]))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (["split", {"dict": {"loop": {"ref": "l7"}}}, None, None], "uses 'l7' before"),
        (["parallel", {"dict": {"loop": "i"}}, None, None], "does not take 'i' for 'loop'"),
        (["parallel", {"dict": {}}, None, None], "calls 'parallel' in a wrong way"),
        (["fuse", {"dict": {"*": [{"expr": "m + 1"}]}}, None, None], "cannot be read"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(row, said):
    with pytest.raises(ScheduleError, match=said):
        Trace.from_json(json.dumps([row])).apply(schedule_of(SCALE))


def test_a_dimension_that_is_not_there_is_refused():
    A = te.placeholder((4, 64), name="A")
    program = te.program([A], te.compute((4, 64), lambda i, j: A[i, j] * 2.0, "B"), "f")
    with pytest.raises(ScheduleError, match="uses the dimension 'n', which is not there"):
        scheduled().trace.apply(Schedule(program))
