"""If, Loop and Scan: known and unknown conditions, changing shapes, outer values, sequences."""

import numpy as np
import onnxruntime as ort
import pytest

import tensorsmith
from frontend.onnx.running import check, parse, run
from tensorsmith.errors import EvaluationError
from tensorsmith.frontend.onnx import from_onnx
from tensorsmith.ir import Branch, Loop

F = np.float32


def kinds(module):
    return {type(b) for b in module["main"].body}


BRANCH = """g (float[n] x, bool c) => (float[m] y) {
    y = If<
        then_branch = t () => (float[m] o) { o = Concat<axis = 0>(x, x) },
        else_branch = e () => (float[m] p) { p = Neg(x) }
    >(c)
}"""


@pytest.mark.parametrize("condition", [True, False])
def test_branches_of_different_extents(condition):
    check(parse(BRANCH), np.arange(3, dtype=F), np.array(condition))


def test_a_branch_that_gives_an_outer_value():
    model = parse(
        """g (float[n] x, bool c) => (float[n] y) {
            y = If<
                then_branch = t () => (float[n] o) { o = Neg(x) },
                else_branch = e () => (float[n] x) { }
            >(c)
        }"""
    )
    x = np.arange(3, dtype=F)
    np.testing.assert_array_equal(run(model, x, np.array(False))[0], x)
    np.testing.assert_array_equal(run(model, x, np.array(True))[0], -x)


def test_a_known_condition_takes_its_side():
    model = parse(
        """g (float[n, 2] x) => (float[a, b] y) {
            s = Shape(x)
            one = Constant<value_int = 1>()
            w = Gather(s, one)
            two = Constant<value_int = 2>()
            c = Equal(w, two)
            y = If<
                then_branch = t () => (float[a, b] o) { o = Transpose(x) },
                else_branch = e () => (float[n] p) { q = Constant<value_ints = [1]>()
                    p = Squeeze(x, q) }
            >(c)
        }"""
    )
    assert Branch not in kinds(from_onnx(model))
    check(model, np.arange(6, dtype=F).reshape(3, 2))


def test_branches_of_different_ranks_are_chosen_by_the_first_call():
    model = parse(
        """g (float[n, 1] x, bool c) => (float[] y) {
            y = If<
                then_branch = t () => (float[n, 1] o) { o = Neg(x) },
                else_branch = e () => (float[n] p) { q = Constant<value_ints = [1]>()
                    p = Squeeze(x, q) }
            >(c)
        }"""
    )
    x = np.arange(3, dtype=F).reshape(3, 1)
    for condition in (True, False):
        check(model, x, np.array(condition))


LOOP = """g (float[n] x, int64 m, bool c) => (float[n] y, float[k, n] s) {
    y, s = Loop<body = b (int64 i, bool go, float[n] v) => (bool g, float[n] w, float[n] u) {
        g = Identity(go)
        k = CastLike(i, v)
        w = Add(v, k)
        u = Mul(v, v)
    }>(m, c, x)
}"""


@pytest.mark.parametrize("trip", [0, 1, 4])
def test_loop_with_a_count(trip):
    x = np.arange(3, dtype=F)
    model = parse(LOOP)
    y, s = run(model, x, np.array(trip), np.array(True))
    states, value = [], x
    for i in range(trip):
        states.append(value * value)
        value = value + F(i)
    np.testing.assert_array_equal(y, value)
    np.testing.assert_array_equal(s, np.array(states, F).reshape(trip, 3))


def test_loop_that_does_not_begin():
    y, s = run(parse(LOOP), np.arange(3, dtype=F), np.array(4), np.array(False))
    np.testing.assert_array_equal(y, np.arange(3))
    assert s.shape == (0, 3)


def test_loop_until_a_condition_fails():
    model = parse(
        """g (float x) => (float y, float[k] s) {
            m = Constant<value_int = 9223372036854775807>()
            c = Constant<value_int = 1>()
            on = Cast<to = 9>(c)
            y, s = Loop<body = b (int64 i, bool go, float v) => (bool g, float w, float u) {
                w = Add(v, v)
                limit = Constant<value_float = 100.0>()
                g = Less(w, limit)
                u = Identity(w)
            }>(m, on, x)
        }"""
    )
    assert Loop in kinds(from_onnx(model))
    y, s = run(model, np.array(3, F))
    assert y == 192
    np.testing.assert_array_equal(s, np.array([6, 12, 24, 48, 96, 192], F))


def test_a_state_that_grows():
    model = parse(
        """g (float[n] x, int64 m) => (float[k] y) {
            on = Constant<value_int = 1>()
            c = Cast<to = 9>(on)
            y = Loop<body = b (int64 i, bool go, float[j] v) => (bool g, float[l] w) {
                g = Identity(go)
                w = Concat<axis = 0>(v, x)
            }>(m, c, x)
        }"""
    )
    for trip in (0, 1, 3):
        (y,) = run(model, np.arange(2, dtype=F), np.array(trip))
        np.testing.assert_array_equal(y, np.tile(np.arange(2, dtype=F), trip + 1))


def test_names_inside_hide_those_outside():
    model = parse(
        """g (float x, int64 m) => (float y) {
            w = Neg(x)
            on = Constant<value_int = 1>()
            c = Cast<to = 9>(on)
            z = Loop<body = b (int64 i, bool go, float x) => (bool g, float w) {
                g = Identity(go)
                w = Add(x, x)
            }>(m, c, x)
            y = Add(z, w)
        }"""
    )
    (y,) = run(model, np.array(3, F), np.array(2))
    assert y == 12 - 3


def test_a_sequence_as_state_is_read_iteration_by_iteration():
    model = parse(
        """g (float[n] x, int64 m) => (seq(float[n]) y) {
            on = Constant<value_int = 1>()
            c = Cast<to = 9>(on)
            s = SequenceEmpty<dtype = 1>()
            y = Loop<body = b (int64 i, bool go, seq(float[n]) v) => (bool g, seq(float[n]) w) {
                g = Identity(go)
                k = CastLike(i, x)
                e = Mul(x, k)
                w = SequenceInsert(v, e)
            }>(m, c, s)
        }"""
    )
    x = np.arange(3, dtype=F)
    (y,) = run(model, x, np.array(3))
    assert len(y) == 3
    for i, part in enumerate(y):
        np.testing.assert_array_equal(part, x * F(i))


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan(direction, axis):
    model = parse(
        f"""g (float[2] h, float[a, b] x) => (float[2] y, float[c, d] z) {{
            y, z = Scan<
                num_scan_inputs = 1, scan_input_axes = [{axis}],
                scan_input_directions = [{direction}], scan_output_axes = [{axis}],
                body = b (float[2] s, float[2] v) => (float[2] t, float[2] o) {{
                    t = Add(s, v)
                    o = Identity(t)
                }}
            >(h, x)
        }}"""
    )
    x = np.arange(10, dtype=F).reshape((5, 2) if axis == 0 else (2, 5))
    rows = np.moveaxis(x, axis, 0)
    sums = np.cumsum(rows[::-1] if direction else rows, axis=0)
    y, z = run(model, np.zeros(2, F), x)
    np.testing.assert_array_equal(y, sums[-1])
    np.testing.assert_array_equal(z, np.moveaxis(sums, 0, axis))


@pytest.mark.parametrize("direction", [0, 1])
def test_scan_of_sequences_with_lengths(direction):
    """As it was in opset 8: what lies behind the end of a sequence is 0."""
    model = parse(
        f"""g (int64[b] n, float[b, 2] s, float[b, t, 2] x) => (float[b, 2] y, float[b, t, 2] z) {{
            y, z = Scan<
                num_scan_inputs = 1, directions = [{direction}],
                body = step (float[2] state, float[2] part) => (float[2] next, float[2] out) {{
                    next = Add(state, part)
                    out = Mul(next, part)
                }}
            >(n, s, x)
        }}""",
        8,
    )
    model.ir_version = 6
    rng = np.random.default_rng(0)
    inputs = {
        "n": np.array([4, 2, 1]),
        "s": rng.standard_normal((3, 2)).astype(np.float32),
        "x": rng.standard_normal((3, 4, 2)).astype(np.float32),
    }
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    exe = tensorsmith.compile(model)
    rows = zip(run(model, *inputs.values()), exe(**inputs), session.run(None, inputs), strict=True)
    for interpreted, compiled, theirs in rows:
        np.testing.assert_allclose(interpreted, theirs, rtol=1e-6)
        np.testing.assert_allclose(compiled, theirs, rtol=1e-6)
    with pytest.raises(EvaluationError, match="a sequence is no longer than what is scanned"):
        exe(**{**inputs, "n": np.array([4, 5, 1])})
