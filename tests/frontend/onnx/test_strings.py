"""Tensors of strings: moved, compared, cast, looked up; known and as inputs."""

import numpy as np
import pytest
from onnx import helper

import tensorsmith
from frontend.onnx.running import check, parse, run
from tensorsmith.errors import DTypeError, ShapeError, UnsupportedOpError
from tensorsmith.frontend.onnx import from_onnx

WORDS = np.array([["a", "bc", "d"], ["ef", "g", "äh"]], object)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t = Constant<value_ints = [3, -1]>() y = Reshape(x, t)", WORDS.reshape(3, 2)),
        ("y = Transpose(x)", WORDS.T),
        ("y = Concat<axis = 0>(x, x)", np.concatenate([WORDS, WORDS])),
        ("i = Constant<value_ints = [2, 0]>() y = Gather<axis = 1>(x, i)", WORDS[:, [2, 0]]),
        ("a = Constant<value_ints = [0]>() y = Unsqueeze(x, a)", WORDS[None]),
        ("y = Flatten<axis = 0>(x)", WORDS.reshape(1, 6)),
        ("s = Constant<value_ints = [2, 1]>() y = Tile(x, s)", np.tile(WORDS, (2, 1))),
        ("y = Identity(x)", WORDS),
        ("c = Equal(x, x) y = Where(c, x, x)", WORDS),
    ],
)
def test_strings_are_moved(text, expected):
    model = parse(f"g (string[n, 3] x) => (string[] y) {{ {text} }}")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    (y,) = run(model, WORDS)
    np.testing.assert_array_equal(y, expected)


def test_parts_of_a_split():
    model = parse("g (string[2, 3] x) => (string[2, 1] a, string[2, 2] b) { a, b = Split(x, s) }")
    model.graph.initializer.append(helper.make_tensor("s", 7, [2], [1, 2]))
    model.graph.node[0].attribute.append(helper.make_attribute("axis", 1))
    a, b = run(model, WORDS)
    np.testing.assert_array_equal(a, WORDS[:, :1])
    np.testing.assert_array_equal(b, WORDS[:, 1:])


def test_comparison_with_broadcasting():
    check(
        parse("g (string[2, 3] x, string[1, 3] y) => (bool[2, 3] z) { z = Equal(x, y) }"),
        WORDS,
        WORDS[:1],
    )


def test_numbers_as_strings_and_back():
    model = parse(
        "g (float[n] x) => (string[n] s, float[n] y) { s = Cast<to = 8>(x) y = Cast<to = 1>(s) }"
    )
    x = np.array([1.5, -0.25, np.nan, np.inf, -np.inf], np.float32)
    s, y = run(model, x)
    assert s.tolist() == ["1.5", "-0.25", "NaN", "INF", "-INF"]
    np.testing.assert_array_equal(y, x)


def test_constant_strings():
    model = parse('g () => (string[2] y) { y = Constant<value_strings = ["p", "q"]>() }')
    (y,) = run(model)
    assert y.tolist() == ["p", "q"]


def test_strings_where_numbers_are_wanted():
    with pytest.raises(DTypeError) as caught:
        from_onnx(parse("g (string[n] x) => (string[n] y) { y = Neg(x) }"))
    assert str(caught.value) == (
        "onnx: Neg (node 0): input 0 must be a tensor of numbers\n  given: strings of rank 1"
    )


def test_a_pattern_that_is_none():
    text = 'g (string[n] x) => (bool[n] y) { y = RegexFullMatch<pattern = "(">(x) }'
    with pytest.raises(ShapeError, match="the pattern is no regular expression"):
        from_onnx(parse(text, 20))


LOOP = """g (string[n] x{more}) => (string[n] y, string[{count}, n] all) {{
    {trip}
    y, all = Loop(trip, , x) <
        body = step (int64 i, bool on, string[n] s) => (bool go, string[n] next, string[n] out) {{
            go = Identity(on)
            mark = Constant<value_strings = ["-"]>()
            next = StringConcat(s, mark)
            out = StringConcat(next, x)
        }}
    >
}}"""


def test_a_loop_over_strings_whose_count_is_known():
    model = parse(LOOP.format(more="", count=2, trip="trip = Constant<value_int = 2>()"), 20)
    words = np.array(["a", "bc"], object)
    exe = tensorsmith.compile(model)
    for y, collected in (run(model, words), exe(words)):
        assert y.tolist() == ["a--", "bc--"]
        assert collected.tolist() == [["a-a", "bc-bc"], ["a--a", "bc--bc"]]


def test_a_loop_over_strings_whose_count_is_not_known():
    model = parse(LOOP.format(more=", int64 trip", count="m", trip=""), 20)
    with pytest.raises(UnsupportedOpError, match="strings in a branch or loop are not supported"):
        tensorsmith.compile(model)
