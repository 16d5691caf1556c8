"""Each rewrite rule: an example that it applies to, whose results stay."""

import numpy as np
import pytest

from graph.passes import check_pass, floats, ops_of
from strategies.cases import fast_and_slow
from strategies.graphs import same_results
from tensorsmith import te
from tensorsmith.graph.attention import SMOOTH
from tensorsmith.graph.dead_code import eliminate_dead_code
from tensorsmith.graph.rewrite import rewrite
from tensorsmith.graph.rules import EXACT, ROUNDING, RULES
from tensorsmith.graph.simplify import simplify
from tensorsmith.graph.transposes import ELEMENTWISE, PAIRS
from tensorsmith.ir import IRModule, Var
from tensorsmith.ops import OPERATORS, GraphBuilder
from tensorsmith.ops.interpret import interpret_graph
from tensorsmith.te.graph import definitions_under
from tensorsmith.te.kind import Kind, kind_of
from tensorsmith.verify import problems

n = Var("n", low=0)
TURN = (2, 0, 1)


def c(b, *values, shape=None, dtype="float32"):
    """A constant."""
    return b.constant(np.array(values, dtype).reshape(() if shape is None else shape))


def turned(b, x, axes=TURN):
    return b("transpose", x, axes=axes)


def image(b):
    return b.param("image", (n, 3, 5, 5), "float32")


def conv(b, *, bias=False, op="conv"):
    extra = [b.constant(floats(4, seed=2))] if bias else []
    shape = (4, 3, 3, 3) if op == "conv" else (3, 4, 3, 3)
    return b(op, image(b), b.constant(floats(*shape, seed=1)), *extra, pads=(1, 1, 1, 1))


def after_convolution(op):
    """What may follow a convolution."""
    return {
        f"{op}-normalised": lambda b, x: b(
            "batch_norm", conv(b, op=op, bias=True), *statistics(b, 4)
        ),
        f"{op}-scaled": lambda b, x: b("mul", conv(b, op=op, bias=True), channels(b)),
        f"{op}-divided": lambda b, x: b("div", conv(b, op=op), channels(b)),
        f"{op}-shifted": lambda b, x: b("add", conv(b, op=op, bias=True), channels(b)),
        f"{op}-lowered": lambda b, x: b("sub", conv(b, op=op), c(b, 0.7)),
    }


def statistics(b, channels):
    parts = [b.constant(floats(channels, seed=k)) for k in (3, 4, 5)]
    return [*parts, b.constant(np.abs(floats(channels, seed=6)) + 0.5)]


def channels(b, count=4):
    return b.constant(np.abs(floats(count, 1, 1, seed=7)) + 0.5)


def product(b, x):
    return b("matmul", x, b.constant(floats(4, 6, seed=1)))


def piece(b, x, start, extent):
    return b("slice", x, starts=(start,), extents=(extent,), axes=(2,))


def matrices(b):
    return b.param("p", (n, 4), "float32"), b.param("q", (5, 4), "float32")


CASES = {
    "copy": lambda b, x: b("copy", x),
    "add-nothing": lambda b, x: b("add", c(b, -0.0), x),
    "sub-nothing": lambda b, x: b("sub", x, c(b, 0.0)),
    "mul-by-one": lambda b, x: b("mul", x, c(b, 1, 1, 1, 1, shape=4)),
    "div-by-one": lambda b, x: b("div", x, c(b, 1.0)),
    "pow-of-one": lambda b, x: b("pow", x, c(b, 1, dtype="int64")),
    "cast-to-same": lambda b, x: b("cast", x, dtype="float32"),
    "expand-to-same": lambda b, x: b("expand", x, shape=(3, 1)),
    "tile-once": lambda b, x: b("tile", x, repeats=(1, 1, 1)),
    "slice-of-all": lambda b, x: b("slice", x, starts=(0, 0), extents=(n, 4), axes=(0, 2)),
    "pad-nothing": lambda b, x: b("pad", x, before=(0, 0, 0), after=(0, 0, 0)),
    "concat-of-one": lambda b, x: b("concat", x, axis=1),
    "sum-of-one": lambda b, x: b("sum", x),
    "min-of-one": lambda b, x: b("min", x),
    "max-of-one": lambda b, x: b("max", x),
    "mean-of-one": lambda b, x: b("mean", x),
    "reduce_sum-over-nothing": lambda b, x: b("reduce_sum", x, axes=()),
    "reduce_mean-over-nothing": lambda b, x: b("reduce_mean", x, axes=()),
    "reduce_max-over-nothing": lambda b, x: b("reduce_max", x, axes=()),
    "reduce_min-over-nothing": lambda b, x: b("reduce_min", x, axes=()),
    "reduce_prod-over-nothing": lambda b, x: b("reduce_prod", x, axes=()),
    "neg-twice": lambda b, x: b("neg", b("neg", x)),
    "logical_not-twice": lambda b, x: b("logical_not", b("logical_not", b("less", x, x))),
    "bitwise_not-twice": lambda b, x: b(
        "bitwise_not", b("bitwise_not", b("cast", x, dtype="int32"))
    ),
    "abs-twice": lambda b, x: b("abs", b("abs", x)),
    "relu-twice": lambda b, x: b("relu", b("relu", x)),
    "abs-of-neg": lambda b, x: b("abs", b("neg", x)),
    "cast-of-cast": lambda b, x: b("cast", b("cast", x, dtype="float64"), dtype="float16"),
    "transpose-in-order": lambda b, x: turned(b, x, (0, 1, -1)),
    "transpose-of-transpose": lambda b, x: turned(b, turned(b, x), (-1, 1, 0)),
    "transpose-of-ones": lambda b, x: turned(
        b, b("slice", x, starts=(0,), extents=(1,), axes=(1,)), (1, 0, 2)
    ),
    "reshape-to-same": lambda b, x: b("reshape", x, shape=(n, 3, 4)),
    "reshape-of-reshape": lambda b, x: b(
        "reshape", b("reshape", x, shape=(n * 12,)), shape=(n, 12)
    ),
    "flatten-is-reshape": lambda b, x: b("flatten", x, axis=1),
    "expand-dims-is-reshape": lambda b, x: b("expand_dims", x, axes=(0, -1)),
    "squeeze-is-reshape": lambda b, x: b("squeeze", b("expand_dims", x, axes=(1,)), axes=(1,)),
    "concat-of-slices": lambda b, x: b(
        "concat", piece(b, x, 1, 1), piece(b, x, 2, 2), b("neg", x), piece(b, x, 0, 3), axis=-1
    ),
    "where-true": lambda b, x: b("where", c(b, True, dtype="bool"), x, b("neg", x)),
    "where-false": lambda b, x: b("where", c(b, False, dtype="bool"), x, b("neg", x)),
    "div-by-power-of-two": lambda b, x: b("div", x, c(b, 0.5, 2, -4, 1, shape=4)),
    "matmul-of-transposed-left": lambda b, x: b(
        "matmul", turned(b, matrices(b)[0], (1, 0)), _rows(b)
    ),
    "matmul-of-transposed-right": lambda b, x: b("matmul", *_with_turned_right(b)),
    "gemm-of-transposed-left": lambda b, x: b(
        "gemm", turned(b, matrices(b)[0], (1, 0)), _rows(b), alpha=2.0
    ),
    "gemm-of-transposed-right": lambda b, x: b(
        "gemm", *_with_turned_right(b), b.constant(floats(5)), beta=0.5
    ),
    "conv-of-pad": lambda b, x: b(
        "conv",
        b("pad", image(b), before=(0, 0, 1, 2), after=(0, 0, 0, 1)),
        b.constant(floats(4, 3, 3, 3)),
        pads=(1, 0, 1, 0),
    ),
    "concat-of-transposes": lambda b, x: b("concat", turned(b, x), turned(b, b("abs", x)), axis=-1),
    "softmax-of-transpose": lambda b, x: b("softmax", turned(b, x), axis=1),
    "log_softmax-of-transpose": lambda b, x: b("log_softmax", turned(b, x), axis=0),
    **{
        f"{op}-of-transpose": (
            lambda b, x, op=op: b(op, turned(b, x), axes=(0, -1), keep_dims=op.endswith("m"))
        )
        for op in ("reduce_max", "reduce_min", "reduce_sum", "reduce_mean", "reduce_prod")
    },
    **{
        f"{op}-of-transpose": (
            lambda b, x, op=op: b(
                op, turned(b, b("less", x, b("neg", x))), axes=(0,), keep_dims=False
            )
        )
        for op in ("reduce_any", "reduce_all")
    },
    "div-by-constant": lambda b, x: b("div", x, c(b, 6, -0.3, 7e5, 1e-9, shape=4)),
    "product-without-zero-points": lambda b, x: integers(b, x, "int8", zeros=(3, 0)),
    "product-with-signed-weights": lambda b, x: integers(b, x, "uint8", zeros=(3, 140)),
    "product-of-bytes": lambda b, x: b(
        "matmul", dequantized(b, x), b("dequantize_linear", weights(b, "int8", (4, 6)), columns(b))
    ),
    "gemm-of-bytes": lambda b, x: b(
        "gemm",
        dequantized(b, _rows(b)),
        b(
            "dequantize_linear",
            *(weights(b, "uint8", (6, 2)), columns(b), weights(b, "uint8", 6)),
            axis=0,
        ),
        b.constant(floats(6, seed=3)),
        trans_b=True,
    ),
    "square": lambda b, x: b("pow", x, c(b, 2.0)),
    "cube": lambda b, x: b("pow", x, c(b, 3.0)),
    **after_convolution("conv"),
    **after_convolution("conv_transpose"),
    **{f"{op}-of-quotient": (lambda b, x, op=op: b(op, b("div", x, c(b, 5.657)))) for op in SMOOTH},
    "softmax-of-quotient-and-mask": lambda b, x: b(
        "softmax", b("add", b("div", x, c(b, 5.657)), b.param("mask", (n, 1, 4), "float32"))
    ),
    "matmul-of-softmax": lambda b, x: b(
        "matmul", b("softmax", x), b.param("values", (n, 4, 5), "float32")
    ),
    "matmul-normalised": lambda b, x: b(
        "batch_norm", product(b, matrices(b)[0]), *statistics(b, 6)
    ),
    "matmul-scaled": lambda b, x: b("mul", product(b, x), b.constant(floats(6, seed=9))),
    "normalised": lambda b, x: b("batch_norm", image(b), *statistics(b, 3)),
    **{f"{op}-of-transpose": (lambda b, x, op=op: b(op, turned(b, x))) for op in ELEMENTWISE},
    "cast-of-transpose": lambda b, x: b("cast", turned(b, x), dtype="int32"),
    **{
        f"{op}-of-transposes": (lambda b, x, op=op: b(op, turned(b, x), turned(b, b("abs", x))))
        for op in PAIRS
    },
    **{
        f"{op}-of-transpose-and-constant": (
            lambda b, x, op=op: b(op, turned(b, x), c(b, 1, 2, 3, shape=(1, 3)))
        )
        for op in PAIRS
    },
    **{
        f"{op}-of-constant-and-transpose": (
            lambda b, x, op=op: b(op, c(b, 1, 2, 3, shape=3), turned(b, x))
        )
        for op in PAIRS
    },
}


def quantized(b, x):
    """As bytes, with the scale and zero point."""
    scale, zero = c(b, 0.03), c(b, 100, dtype="uint8")
    return b("quantize_linear", x, scale, zero), scale, zero


def dequantized(b, x):
    return b("dequantize_linear", *quantized(b, x))


def weights(b, dtype, shape):
    low = np.iinfo(dtype).min
    return b.constant(np.random.default_rng(4).integers(low, low + 256, shape).astype(dtype))


def columns(b):
    """Scales, one a column."""
    return b.constant(np.abs(floats(6, seed=5)) / 100)


def integers(b, x, dtype, zeros):
    left, right = c(b, zeros[0], dtype="uint8"), c(b, zeros[1], dtype=dtype)
    return b("matmul_integer", quantized(b, x)[0], weights(b, dtype, (4, 6)), left, right)


def _with_turned_right(b):
    left, right = matrices(b)
    return left, turned(b, right, (1, 0))


def _rows(b):
    return b.param("rows", (n, 2), "float32")


def graph_of(name):
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (n, 3, 4), "float32")
    return b.function("main", [CASES[name](b, x)])


def arguments(graph, size, *, special):
    found = []
    for k, p in enumerate(graph.params):
        shape = [size if e is n else int(e.value) for e in p.shape]
        data = floats(*shape, seed=k + 11)
        if special and data.size > 4:
            data.reshape(-1)[:4] = (-0.0, np.nan, np.inf, -1.5)
        found.append(data)
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule(rule) -> None:
    module = IRModule.of(graph_of(rule.name))
    alone = [r for r in RULES if r.name == rule.name]
    applied = []
    after = rewrite(module, alone, observe=lambda r, found: applied.append((r.name, found.root.op)))
    assert applied[0] == (rule.name, rule.pattern.op)
    assert after is not module
    assert problems(after) == []
    assert rewrite(after, alone) is after
    for size in (0, 1, 3):
        args = arguments(module.graph("main"), size, special=not rule.rounds)
        left, right = (interpret_graph(m, "main", args) for m in (module, after))
        if rule.rounds:
            assert left[0].dtype == right[0].dtype
            np.testing.assert_allclose(right[0], left[0], rtol=2e-5, atol=2e-5)
        else:
            assert same_results(left, right)


def test_every_rule_has_a_case_and_every_case_a_rule() -> None:
    assert {r.name for r in RULES} <= CASES.keys()
    assert {r.name for r in ROUNDING} == {r.name for r in RULES if r.rounds}


def simplification_keeps_results(data):
    check_pass(lambda module: simplify(module, rules=EXACT), data)


test_simplification_keeps_results, test_simplification_keeps_results_slow = fast_and_slow(
    simplification_keeps_results, fast=150
)


def exact_rules_keep_results(data):
    check_pass(lambda module: rewrite(module, EXACT), data, is_idempotent=False)


test_exact_rules_keep_results, test_exact_rules_keep_results_slow = fast_and_slow(
    exact_rules_keep_results, fast=150
)


@pytest.mark.parametrize("op", [*ELEMENTWISE, *PAIRS])
def test_operators_that_transposes_pass_are_elementwise(op) -> None:
    count = 2 if op in PAIRS else 1
    inputs = [te.placeholder((2, 3), "float32", f"x{k}") for k in range(count)]
    results = OPERATORS[op](inputs, {"dtype": "int32"} if op == "cast" else {})
    definitions = definitions_under(results, frozenset(inputs))
    assert {kind_of(d) for d in definitions} == {Kind.ELEMENTWISE}


def simplified(graph, rules=RULES):
    module = eliminate_dead_code(rewrite(IRModule.of(graph), rules))
    return [op for op in ops_of(module.graph("main").body) if op != "Constant"]


def test_transposes_around_elementwise_operators_cancel() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (n, 3, 4), "float32")
    y = b("relu", b("add", turned(b, x), c(b, 1.0)))
    graph = b.function("main", [turned(b, y, (1, 2, 0))])
    assert simplified(graph) == ["add", "relu"]


def test_a_tensor_that_is_cut_and_joined_again_is_itself() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (n, 3, 4), "float32")
    y = b("concat", piece(b, x, 0, 1), piece(b, x, 1, 3), b("neg", x), axis=2)
    assert simplified(b.function("main", [y])) == ["neg", "concat"]


def test_a_transpose_that_is_used_twice_stays() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (n, 3, 4), "float32")
    y = turned(b, x)
    module = IRModule.of(b.function("main", [b("relu", y), y]))
    assert rewrite(module, RULES) is module


def test_chains_of_convolution_normalisation_and_scale_are_one_convolution() -> None:
    b = GraphBuilder(OPERATORS)
    y = b("batch_norm", conv(b), *statistics(b, 4))
    y = b("add", b("mul", y, channels(b)), channels(b))
    graph = b.function("main", [b("relu", y)])
    assert simplified(graph) == ["conv", "relu"]


def test_a_convolution_that_is_used_twice_keeps_its_weights() -> None:
    b = GraphBuilder(OPERATORS)
    y = conv(b)
    graph = b.function("main", [b("mul", y, channels(b)), y])
    assert simplified(graph) == ["conv", "mul"]


def test_a_float_plus_zero_stays_and_an_integer_does_not() -> None:
    b = GraphBuilder(OPERATORS)
    x, i = b.param("x", (n,), "float32"), b.param("i", (n,), "int32")
    graph = b.function("main", [b("add", x, c(b, 0.0)), b("add", i, c(b, 0, dtype="int32"))])
    assert simplified(graph) == ["add"]


def test_what_broadcasts_is_no_identity() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (n,), "float32")
    module = IRModule.of(b.function("main", [b("mul", x, c(b, 1, 1, shape=(2, 1)))]))
    assert rewrite(module, RULES) is module


@pytest.mark.parametrize(
    ("types", "skips"),
    [
        (("int8", "int32", "int64"), True),
        (("int64", "int32", "int64"), False),
        (("float32", "float16", "float32"), False),
        (("float16", "float32", "float16"), True),
        (("int32", "float32", "int32"), False),
        (("int16", "float32", "int16"), True),
        (("uint8", "int16", "uint8"), True),
        (("int8", "uint16", "int8"), False),
        (("int32", "float64", "uint8"), False),
        (("bool", "float32", "bool"), True),
    ],
)
def test_casts_that_lose_nothing_are_skipped(types, skips) -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (n,), types[0])
    y = b("cast", b("cast", x, dtype=types[1]), dtype=types[2])
    assert (len(simplified(b.function("main", [y]))) < 2) is skips


@pytest.mark.parametrize("divisor", [0.0, np.inf, np.nan, 1e-40, 3e38])
def test_what_has_no_reciprocal_stays_a_divisor(divisor) -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (n, 4), "float32")
    graph = b.function("main", [b("erf", b("div", x, c(b, divisor)))])
    assert "div" in simplified(graph)


def test_a_softmax_that_is_used_twice_is_computed() -> None:
    b = GraphBuilder(OPERATORS)
    x, y = b.param("x", (n, 3, 4), "float32"), b.param("y", (n, 4, 5), "float32")
    weights = b("softmax", x)
    graph = b.function("main", [b("matmul", weights, y), weights])
    assert "softmax_means" not in simplified(graph)
