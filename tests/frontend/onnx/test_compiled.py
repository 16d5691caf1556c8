"""Models as native code: shapes from data, control flow, strings, weights that must stay alive."""

import gc

import numpy as np
import pytest
from onnx import numpy_helper

from frontend.onnx.running import parse, reference, same
from tensorsmith.compiler import compile as compile_model
from tensorsmith.onnx_backend import TensorsmithBackend, run_node, supports_device

F = np.float32
rng = np.random.default_rng(0)

MODELS = {
    "top_k": (
        """g (float[a, 7] x) => (float[a, k] v, int64[a, k] i) {
            s = Shape(x)
            zero = Constant<value_ints = [0]>()
            one = Constant<value_ints = [1]>()
            k = Slice(s, zero, one)
            v, i = TopK(x, k)
        }""",
        lambda n: [rng.integers(0, 5, (n, 7)).astype(F)],
    ),
    "split": (
        "g (float[10] x, int64[2] s) => (float[a] p, float[b] q) { p, q = Split(x, s) }",
        lambda n: [np.arange(10, dtype=F), np.array([n, 10 - n])],
    ),
    "reshape": (
        "g (float[n, 6] x, int64[2] t) => (float[a, b] y) { y = Reshape(x, t) }",
        lambda n: [rng.standard_normal((n, 6)).astype(F), np.array([-1, 3])],
    ),
    "nonzero": (
        """g (float[n] x) => (int64[1, k] p) { p = NonZero(x) }""",
        lambda n: [rng.integers(0, 2, n).astype(F)],
    ),
    "branch": (
        """g (float[n] x, bool c) => (float[m] y) {
            y = If<
                then_branch = t () => (float[m] o) { o = Concat<axis = 0>(x, x) },
                else_branch = e () => (float[m] p) { p = Neg(x) }
            >(c)
        }""",
        lambda n: [rng.standard_normal(n).astype(F), np.array(n % 2 == 0)],
    ),
    "scan": (
        """g (float[2] h, float[a, 2] x) => (float[2] y, float[a, 2] z) {
            y, z = Scan<num_scan_inputs = 1,
                body = b (float[2] s, float[2] v) => (float[2] t, float[2] o) {
                    t = Add(s, v)
                    o = Identity(t)
                }
            >(h, x)
        }""",
        lambda n: [np.zeros(2, F), rng.integers(0, 9, (n, 2)).astype(F)],
    ),
    "softmax": (
        "g (float[n, m] x) => (float[n, m] y) { y = Softmax(x) }",
        lambda n: [rng.standard_normal((n, 2 * n + 1)).astype(F)],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_native_code(name):
    text, inputs = MODELS[name]
    model = parse(text)
    ready = TensorsmithBackend.prepare(model)
    for n in (1, 3, 4):
        given = inputs(n)
        for ours, theirs in zip(ready.run(given), reference(model, *given), strict=True):
            same(ours, np.asarray(theirs), 1e-5)


def test_weights_outlive_the_model():
    model = parse(
        """g (float[n, 6] x) => (float[n, 6] y) {
            t = Constant<value_ints = [1, 1, 6]>()
            r = Reshape(w, t)
            a = Constant<value_ints = [0]>()
            s = Squeeze(r, a)
            f = Flatten(s)
            y = Add(x, f)
        }"""
    )
    weight = rng.standard_normal((2, 3)).astype(F)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    executable = compile_model(model)
    del model
    gc.collect()
    clutter = [np.full(2**20, 7, np.uint8) for _ in range(50)]
    x = rng.standard_normal((5, 6)).astype(F)
    for _ in range(3):
        np.testing.assert_array_equal(executable(x), x + weight.reshape(1, 6))
    assert len(clutter) == 50


def test_a_single_node():
    from onnx import helper

    x = rng.standard_normal((2, 3)).astype(F)
    (y,) = run_node(helper.make_node("Neg", ["x"], ["y"]), [x])
    np.testing.assert_array_equal(y, -x)
    assert supports_device("CPU")
    assert not supports_device("CUDA")
