"""Products of one tensor are computed as one where that is faster."""

import numpy as np
import pytest
from hypothesis import strategies as st

from graph.passes import floats, ops_of
from strategies.cases import fast_and_slow
from strategies.graphs import same_results
from strategies.images import images, networks
from tensorsmith.compiler import compile
from tensorsmith.graph import siblings as siblings_module
from tensorsmith.graph.siblings import join_siblings, siblings
from tensorsmith.ir import IRModule, Var
from tensorsmith.ops import OPERATORS, GraphBuilder
from tensorsmith.ops.interpret import interpret_graph
from tensorsmith.verify import problems

FOLLOWERS = ("bias", "scale", "relu", "gate", "double")


def family(draw):
    """A function of products of one tensor that are more or less alike, with whole numbers."""
    b, rng = GraphBuilder(OPERATORS), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["conv", "gemm", "gemm_transposed", "matmul"]))
    n = draw(st.sampled_from([2, Var("n", low=1)]))
    depth, rank = 8, 4 if kind == "conv" else 2
    shape = (
        (n, depth, 3, 4) if kind == "conv" else (3, n, depth) if kind == "matmul" else (n, depth)
    )
    x = b.param("x", shape, "float32")
    axis = 2 if kind == "matmul" else 1

    def known(*extents):
        return b.constant(rng.integers(-2, 3, extents).astype(np.float32))

    def product(made, with_bias):
        more = [known(made)] if with_bias else []
        if kind == "conv":
            return b("conv", x, known(made, depth, 1, 1), *more)
        if kind == "matmul":
            return b("matmul", x, known(depth, made))
        turned = kind == "gemm_transposed"
        weight = known(made, depth) if turned else known(depth, made)
        return b("gemm", x, weight, *more, trans_b=turned)

    def follow(y, op, made, *, is_whole):
        if op == "bias":
            row = (made, 1, 1) if kind == "conv" else (made,)
            return b("add", known(*row) if is_whole else known(), y)
        if op == "scale":
            return b("mul", y, known(*(1,) * (rank - 1)))
        if op == "gate":
            return b("mul", y, b("relu", y))
        return b({"double": "add"}.get(op, op), *(y, y) if op == "double" else (y,))

    ops = draw(st.lists(st.sampled_from(FOLLOWERS), max_size=3))
    results = []
    for made in draw(st.lists(st.sampled_from([4, 8, 16]), min_size=2, max_size=4)):
        y = product(made, draw(st.sampled_from([True, True, False])))
        for op in ops:
            y = follow(y, op, made, is_whole=draw(st.sampled_from([True, True, False])))
            if draw(st.integers(0, 9)) == 0:
                results.append(y)
        last = draw(st.sampled_from(["none", "none", "neg", "flip", "reshape"]))
        if last == "reshape":
            parts = (*y.shape[:axis], made // 4, 4, *y.shape[axis + 1 :])
            y = b("reshape", y, shape=parts)
        elif last != "none":
            y = b(last, y, **({"axes": (axis,)} if last == "flip" else {}))
        results.append(y)
    return b.function("main", list(dict.fromkeys(results)))


def joining_keeps_results(data):
    """Families are one product, and what others read of them is what it was, bit by bit."""
    graph = family(data.draw)
    args = data.draw(images(graph))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(siblings_module, "pays", lambda *_: True)
        after = join_siblings(IRModule.of(graph))
    assert problems(after) == []
    left, right = (interpret_graph(m, "main", args) for m in (IRModule.of(graph), after))
    assert same_results(left, right)


def joining_keeps_networks(data):
    graph = data.draw(networks())
    args = data.draw(images(graph))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(siblings_module, "pays", lambda *_: True)
        after = join_siblings(IRModule.of(graph))
    assert problems(after) == []
    left, right = (interpret_graph(m, "main", args) for m in (IRModule.of(graph), after))
    assert same_results(left, right)


test_joining_keeps_results, test_joining_keeps_results_slow = fast_and_slow(
    joining_keeps_results, fast=40
)
test_joining_keeps_networks, test_joining_keeps_networks_slow = fast_and_slow(
    joining_keeps_networks, fast=15
)


def after(b, *results):
    """The operators after the pass, but for constants."""
    module = join_siblings(IRModule.of(b.function("main", results)))
    assert problems(module) == []
    return [op for op in ops_of(module.graph("main").body) if op != "Constant"]


def attention(heads=4, width=16):
    """Query, key and value of some tokens, each with a bias, and what attention makes of them."""
    b = GraphBuilder(OPERATORS)
    n = Var("n", low=1)
    x = b.param("x", (1, n, heads * width), "float32")

    def projected(seed, order):
        y = b("matmul", x, b.constant(floats(heads * width, heads * width, seed=seed) / 32))
        y = b("add", b.constant(floats(heads * width, seed=10 + seed)), y)
        return b("transpose", b("reshape", y, shape=(1, n, heads, width)), axes=order)

    query, key = projected(1, (0, 2, 1, 3)), projected(2, (0, 2, 3, 1))
    value = projected(3, (0, 2, 1, 3))
    means = b("matmul", b("softmax", b("matmul", query, key), axis=-1), value)
    return b, means


def test_query_key_and_value_are_one_product_that_attention_reads_in_parts():
    b, means = attention()
    one = ["matmul", "add", "reshape", *["slice", "transpose"] * 3]
    rest = ["matmul", "softmax", "matmul"]
    found = after(b, means)
    assert sorted(found) == sorted([*one, "reshape", "reshape", *rest])
    assert found[:2] == ["matmul", "add"]


def test_attention_of_joined_projections_computes_the_same():
    b, means = attention()
    graph = b.function("main", [means])
    x = floats(1, 7, 64)
    (expected,) = interpret_graph(IRModule.of(graph), "main", [x])
    model = compile(IRModule.of(graph), threads=1)
    np.testing.assert_allclose(model(x), expected, rtol=1e-5, atol=1e-5)


class Branches:
    """A module of a network in which one image goes several ways."""

    def __init__(self, channels=64, image=(14, 14)):
        self.b = GraphBuilder(OPERATORS)
        self.x = self.b.param("x", (1, channels, *image), "float32")

    def conv(self, x, made, size=1, op="relu"):
        weight = self.b.constant(floats(made, int(x.shape[1].value), size, size, seed=made))
        return self.b(op, self.b("conv", x, weight, self.b.constant(floats(made))))

    def families(self, *results):
        graph = self.b.function("main", results)
        return [(f.members[0].op, f.extents, len(f.followers)) for f in siblings(graph)]


def test_branches_that_begin_alike_are_one_convolution():
    net = Branches()
    ends = [net.conv(net.conv(net.x, made), 32, 3) for made in (96, 16)]
    assert net.families(*ends) == [("conv", (96, 16), 1)]


def test_a_gate_is_part_of_what_follows():
    net = Branches()
    starts = [net.conv(net.x, made, op="neg") for made in (96, 16)]
    gated = [net.b("mul", y, net.b("sigmoid", y)) for y in starts]
    assert net.families(*(net.conv(y, 32, 3) for y in gated)) == [("conv", (96, 16), 3)]


@pytest.mark.parametrize("what", ["taps", "followers", "blocks", "reader", "join"])
def test_what_stays_apart(what):
    net = Branches()
    first = net.conv(net.x, 32)
    made, size = 8 if what == "blocks" else 16, 3 if what == "taps" else 1
    second = net.conv(net.x, made, size, "sigmoid" if what == "followers" else "relu")
    ends = [net.conv(first, 32, 3), net.conv(second, 32, 3)]
    if what == "reader":
        ends = [net.b("flip", y, axes=(2,)) for y in (first, second)]
    if what == "join":
        ends = [net.b("concat", first, second, axis=1)]
    found = net.families(*ends)
    assert found == []


def test_long_products_gain_nothing():
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (4096, 1024), "float32")
    y, z = (b("matmul", x, b.constant(floats(1024, 1024, seed=k))) for k in (1, 2))
    assert siblings(b.function("main", [b("matmul", y, b("transpose", z, axes=(1, 0)))])) == ()
