"""Recurrent layers against ONNX's reference and the ONNX runtime."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute, onnx_reference, onnx_runtime, random
from tensorsmith.errors import ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
STEPS, BATCH, SIZE, UNITS = 4, 3, 2, 5


def operands(op, rng, directions):
    """The input, the weights and the rest, as ONNX orders them."""
    rows = GATES[op] * UNITS
    states = 2 if op == "lstm" else 1
    given = [
        random(rng, (STEPS, BATCH, SIZE)),
        random(rng, (directions, rows, SIZE)),
        random(rng, (directions, rows, UNITS)) / 2,
        random(rng, (directions, 2 * rows)),
        np.array([STEPS, 1, 3], np.int32),
        *(random(rng, (directions, BATCH, UNITS)) for _ in range(states)),
    ]
    if op == "lstm":
        given.append(random(rng, (directions, 3 * UNITS)))
    return given


def outputs_of(op):
    return 3 if op == "lstm" else 2


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("native", WAYS)
def test_layers_with_all_operands(op, direction, native):
    directions = 1 + (direction == "bidirectional")
    given = operands(op, np.random.default_rng(0), directions)
    got = compute(op, *given, direction=direction, native=native)
    expected = onnx_runtime(
        op.upper(), *given, outputs=outputs_of(op), opset=14, hidden_size=UNITS, direction=direction
    )
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, **TOLERANCE)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("batch_first", [False, True])
def test_layers_with_the_weights_alone(op, batch_first):
    x, w, r, *_ = operands(op, np.random.default_rng(1), 1)
    got = compute(op, x, w, r, batch_first=batch_first)
    layout = {"layout": int(batch_first), "hidden_size": UNITS}
    expected = onnx_reference(op.upper(), x, w, r, outputs=outputs_of(op), opset=14, **layout)
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, **TOLERANCE)


def test_symbolic_steps_and_batch():
    x, w, r, *_ = operands("lstm", np.random.default_rng(2), 1)
    got = compute("lstm", x, w, r, symbolic={(0, 0), (0, 1)})
    for a, b in zip(got, compute("lstm", x, w, r), strict=True):
        np.testing.assert_array_equal(a, b)


def test_no_steps_keep_the_state():
    _, w, r, b, _, h, c, _ = operands("lstm", np.random.default_rng(3), 1)
    states, last, cell = compute(
        "lstm", np.zeros((0, BATCH, SIZE), np.float32), w, r, b, None, h, c
    )
    assert states.shape == (0, 1, BATCH, UNITS)
    np.testing.assert_array_equal(last, h)
    np.testing.assert_array_equal(cell, c)


@pytest.mark.parametrize("linear", [False, True])
def test_gru_linear_before_reset(linear):
    given = operands("gru", np.random.default_rng(4), 1)
    got = compute("gru", *given, linear_before_reset=linear)
    expected = onnx_runtime(
        "GRU", *given, outputs=2, opset=14, hidden_size=UNITS, linear_before_reset=int(linear)
    )
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, **TOLERANCE)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"input_forget": True}, {"input_forget": 1}),
        ({"clip": 0.5}, {"clip": 0.5}),
        (
            {"activations": (("hardsigmoid", 0.3, 0.4), ("relu", None, None), ("elu", 0.7, None))},
            {
                "activations": ["HardSigmoid", "Relu", "Elu"],
                "activation_alpha": [0.3, 0.7],
                "activation_beta": [0.4],
            },
        ),
        (
            {
                "activations": (
                    ("sigmoid", None, None),
                    ("softsign", None, None),
                    ("scaledtanh", 0.9, 1.1),
                )
            },
            {
                "activations": ["Sigmoid", "Softsign", "ScaledTanh"],
                "activation_alpha": [0.9],
                "activation_beta": [1.1],
            },
        ),
    ],
)
def test_lstm_attributes(ours, theirs):
    given = operands("lstm", np.random.default_rng(5), 1)
    got = compute("lstm", *given, **ours)
    expected = onnx_runtime("LSTM", *given, outputs=3, opset=14, hidden_size=UNITS, **theirs)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, **TOLERANCE)


def test_narrow_floats():
    x, w, r, *_ = operands("gru", np.random.default_rng(6), 1)
    got = compute("gru", *(a.astype(np.float16) for a in (x, w, r)))
    assert got[0].dtype == np.float16
    np.testing.assert_allclose(got[0], compute("gru", x, w, r)[0], rtol=0.02, atol=0.02)


def test_operands_that_do_not_fit():
    x, w, r = placeholder((4, 3, 2)), placeholder((1, 20, 2)), placeholder((1, 20, 5))
    for operands_, attrs in [
        ([x, w, placeholder((1, 20, 4))], {}),
        ([x, placeholder((1, 20, 3)), r], {}),
        ([x, w, r, placeholder((1, 20))], {}),
        ([x, w, r], {"direction": "bidirectional"}),
        ([x, w, r], {"direction": "sideways"}),
        ([x, w, r], {"activations": (("sine", None, None),) * 3}),
    ]:
        with pytest.raises(ShapeError):
            OPERATORS["lstm"](operands_, attrs)
