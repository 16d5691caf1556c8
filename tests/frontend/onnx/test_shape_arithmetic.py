"""Shapes that a model computes: by symbolic dimensions, known numbers, or data."""

import numpy as np
import pytest

from frontend.onnx.running import check, parse, run
from tensorsmith.errors import ShapeError
from tensorsmith.frontend.onnx import TensorType, from_onnx
from tensorsmith.ir import Dims


def shapes(module):
    return [tuple(map(repr, r.shape)) for r in module["main"].results]


def has_dims(module):
    return any(isinstance(b, Dims) for b in module["main"].body)


RESHAPE = """g (float[b, c, 4, 5] x) => (float[n, m, k] y) {
    s = Shape(x)
    zero = Constant<value_ints: ints = [0]>()
    two = Constant<value_ints: ints = [2]>()
    rest = Constant<value_ints: ints = [-1]>()
    front = Slice(s, zero, two)
    target = Concat<axis = 0>(front, rest)
    y = Reshape(x, target)
}"""


def test_shape_of_slice_of_concat_is_an_expression():
    module = from_onnx(parse(RESHAPE))
    assert shapes(module) == [("b", "c", "20")]
    assert not has_dims(module)


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (7, 5)])
def test_reshape_by_shape_arithmetic(shape):
    rng = np.random.default_rng(0)
    check(parse(RESHAPE), rng.standard_normal((*shape, 4, 5)).astype(np.float32))


TOP_K = """g (float[a, 7] x) => (float[a, k] v, int64[a, k] i) {
    s = Shape(x)
    zero = Constant<value_ints: ints = [0]>()
    one = Constant<value_ints: ints = [1]>()
    k = Slice(s, zero, one)
    v, i = TopK(x, k)
}"""


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_top_k_of_a_dimension(rows):
    x = np.random.default_rng(1).integers(0, 5, (rows, 7)).astype(np.float32)
    check(parse(TOP_K), x)


def test_sizes_of_split_may_be_data():
    model = parse("g (float[10] x, int64[2] s) => (float[a] p, float[b] q) { p, q = Split(x, s) }")
    check(model, np.arange(10, dtype=np.float32), np.array([3, 7]))
    check(model, np.arange(10, dtype=np.float32), np.array([0, 10]))


@pytest.mark.parametrize(
    "wanted", [[0, -1], [0, 0, 0], [-1, 2], [24], [0, 3, -1], [4, 6], [2, -1, 4]]
)
def test_reshape_with_kept_and_open_extents(wanted):
    for how in ("known", "data"):
        target = np.array(wanted)
        body = "y = Reshape(x, t)"
        if how == "known":
            text = f"t = Constant<value_ints: ints = {wanted}>() {body}"
            model = parse(f"g (float[2, 3, 4] x) => (float[] y) {{ {text} }}")
            check(model, np.arange(24, dtype=np.float32).reshape(2, 3, 4))
        else:
            model = parse(
                f"g (float[2, 3, 4] x, int64[{len(wanted)}] t) => (float[] y) {{ {body} }}"
            )
            check(model, np.arange(24, dtype=np.float32).reshape(2, 3, 4), target)


def test_reshape_to_nothing_with_allowzero():
    model = parse("g (float[0, 3] x, int64[2] t) => (float[] y) { y = Reshape<allowzero=1>(x, t) }")
    check(model, np.zeros((0, 3), np.float32), np.array([7, 0]))


def test_data_dependent_extent_is_checked():
    model = parse("g (float[6] x, int64[2] t) => (float[] y) { y = Reshape(x, t) }")
    with pytest.raises(Exception, match="a reshape keeps the number of elements"):
        run(model, np.zeros(6, np.float32), np.array([4, 2]))


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([1, 0], [3, 100], [0, 1], [1, 2]),
        ([-1, 3], [-100, 0], [0, 1], [-1, -2]),
        ([2], [-1], [1], [1]),
        ([5], [2], [0], [1]),
        ([-(2**62), 0], [2**62, 2**31 - 1], [1, 0], [1, 3]),
    ],
)
def test_slice_of_symbolic_extents(starts, ends, axes, steps):
    model = parse(
        "g (float[n, m] x) => (float[a, b] y) {"
        f" s = Constant<value_ints: ints = {starts}>() e = Constant<value_ints: ints = {ends}>()"
        f" a = Constant<value_ints: ints = {axes}>() t = Constant<value_ints: ints = {steps}>()"
        " y = Slice(x, s, e, a, t) }"
    )
    for shape in [(1, 1), (4, 5), (3, 7), (6, 2)]:
        check(model, np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


def test_expand_of_an_extent_that_may_be_one():
    model = parse("g (float[n, 1] x, int64[2] s) => (float[] y) { y = Expand(x, s) }")
    for n, target in [(1, [3, 4]), (3, [3, 4]), (3, [1, 4]), (1, [1, 1])]:
        check(model, np.arange(n, dtype=np.float32).reshape(n, 1), np.array(target))


def test_range_of_data():
    model = parse(
        "g (int64 a, int64 b, int64 s) => (int64[n] y) { y = Range(a, b, s) }",
    )
    for a, b, s in [(0, 5, 1), (5, 0, -2), (3, 3, 1), (10, 0, 3)]:
        check(model, *(np.array(v, np.int64) for v in (a, b, s)))


def test_nonzero_then_gather():
    model = parse(
        "g (float[n] x) => (float[k] y) { p = NonZero(x) q = Squeeze(p, z) y = Gather(x, q) }"
    )
    model.graph.node.insert(
        0,
        parse(
            "g (float[1] x) => (int64[1] z) { z = Constant<value_ints: ints = [0]>() }"
        ).graph.node[0],
    )
    check(model, np.array([0, 3, 0, -2, 1], np.float32))
    check(model, np.zeros(3, np.float32))


def test_named_dimensions_are_one_variable():
    module = from_onnx(
        parse("g (float[n, 3] x, float[n, 3] y) => (float[n, 3] z) { z = Add(x, y) }")
    )
    main = module["main"]
    assert main.params[0].shape[0] is main.params[1].shape[0] is main.results[0].shape[0]
    assert repr(main.dims) == "(n,)"


def test_input_types_may_fix_extents():
    model = parse("g (float[n, 3] x) => (float[n, 3] z) { z = Neg(x) }")
    module = from_onnx(model, input_types={"x": TensorType((4, 3))})
    assert shapes(module) == [("4", "3")]


def test_squeeze_without_axes_of_a_symbolic_extent():
    with pytest.raises(Exception, match="which axes go is not known") as caught:
        from_onnx(parse("g (float[n, 1] x) => (float[n] y) { y = Squeeze(x) }"))
    assert str(caught.value) == (
        "onnx: Squeeze (node 0): which axes go is not known\n"
        "  given: computed from the extents of 'x'\n"
        "  because: an extent of [n, 1] may be 1, and may be another\n"
        "  try: input_types={'x': TensorType((...))}"
    )


def test_extents_that_never_fit():
    model = parse(
        "g (float[3, 4] x) => (float[] y) { t = Constant<value_ints: ints = [5, -1]>()"
        " y = Reshape(x, t) }"
    )
    with pytest.raises(ShapeError) as caught:
        from_onnx(model)
    assert str(caught.value).startswith(
        "onnx: Reshape (node 1): a reshape keeps the number of elements"
    )


def test_a_tensor_of_no_elements_with_a_huge_extent():
    text = """g () => (float[a, b, c] y) {
        s = Constant<value_ints = [1099511627776, 0, 1]>()
        y = ConstantOfShape(s)
    }"""
    (result,) = from_onnx(parse(text))["main"].results
    assert [int(e.value) for e in result.shape] == [2**40, 0, 1]
