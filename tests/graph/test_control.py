"""Branches and loops in host programs, over sizes known before and not."""

from __future__ import annotations

import numpy as np
import pytest

from graph.running import lowered, run_host
from tensorsmith.codegen import HostInterface, build_model
from tensorsmith.graph.host import make_host
from tensorsmith.graph.legalize import legalize
from tensorsmith.ir import IRModule, Var, as_expr
from tensorsmith.ops import OPERATORS, GraphBuilder
from tensorsmith.ops.control import branch, loop
from tensorsmith.ops.interpret import interpret_graph


def check(b: GraphBuilder, results, *runs) -> None:
    """Compare with the interpreter of graphs: the host program interpreted, and as native code."""
    graph = b.function("main", results)
    module, host = lowered(graph)
    interface = HostInterface(host.results, host.returned, has_weights=host.has_weights)
    model = build_model(module, "main", interface, host.weights.to_array(), threads=1)
    for args in runs:
        wanted = interpret_graph(IRModule.of(graph), graph, args)
        found = run_host(module, host, graph, args)
        native = model(*args)
        native = native if isinstance(native, tuple) else (native,)
        for one, two, three in zip(found, native, wanted, strict=True):
            np.testing.assert_allclose(one, three, rtol=1e-6)
            np.testing.assert_allclose(two, three, rtol=1e-6)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).random(shape, np.float32)


def flag(value: bool) -> np.ndarray:
    return np.array(value)


def test_branches_of_one_shape() -> None:
    b = GraphBuilder(OPERATORS)
    n = Var("n", low=0)
    x, on = b.param("x", (n, 3), "float32"), b.param("on", (), "bool")
    one = b.scalar(1.0, "float32")
    results = branch(
        b, on, lambda: [b("exp", b("add", x, one)), x], lambda: [b("neg", x), b("neg", x)]
    )
    check(
        b,
        [b("add", results[0], x), *results],
        *((floats(k, 3), flag(v)) for k in (0, 4) for v in (True, False)),
    )


def test_branches_of_two_shapes() -> None:
    b = GraphBuilder(OPERATORS)
    n = Var("n", low=1)
    x, on = b.param("x", (n, 3), "float32"), b.param("on", (), "bool")

    def doubled():
        return [b("concat", x, x, axis=0)]

    (made,) = branch(b, on, doubled, lambda: [b("exp", x)])
    total = b("reduce_sum", b("neg", made), axes=(1,), keep_dims=False)
    check(b, [made, total], *((floats(k, 3), flag(v)) for k in (1, 5) for v in (True, False)))


def test_branches_inside_of_branches() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (Var("n", low=1),), "float32")
    on, off = b.param("on", (), "bool"), b.param("off", (), "bool")

    def inner():
        return branch(b, off, lambda: [b("concat", x, x, axis=0)], lambda: [b("neg", x)])

    (made,) = branch(b, on, inner, lambda: [b("exp", x)])
    values = [(True, True), (True, False), (False, True)]
    check(b, [made], *((floats(4), flag(p), flag(q)) for p, q in values))


@pytest.mark.parametrize("trip", [0, 1, 2, 5])
def test_states_and_scans_of_fixed_sizes(trip: int) -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (Var("n", low=0), 5), "float32")
    one = b.scalar(1.0, "float32")

    def body(_, states):
        first, second = states
        product = b("mul", second, b.scalar(0.5, "float32"))
        return None, [b("add", first, product), b("add", first, one)], [product, first]

    results = loop(b, as_expr(trip), None, [x, b("neg", x)], body)
    check(b, list(results), *((floats(k, 5),) for k in (0, 3)))


def test_the_number_of_iterations_is_read() -> None:
    b = GraphBuilder(OPERATORS)
    x, count = b.param("x", (4,), "float32"), b.param("count", (), "int64")
    (trip,) = b.integers(count, low=0)

    def body(at, states):
        number = b("cast", b.elements([at], "int64"), dtype="float32")
        return None, [b("add", states[0], number)], [states[0]]

    results = loop(b, trip, None, [x], body)
    check(b, list(results), *((floats(4), np.array(k)) for k in (0, 1, 4)))


def test_a_loop_that_ends_when_it_likes() -> None:
    b = GraphBuilder(OPERATORS)
    x, most = b.param("x", (3,), "float32"), b.param("most", (), "float32")
    start = b.param("start", (), "bool")

    def body(_, states):
        (value,) = states
        grown = b("add", value, b.scalar(1.0, "float32"))
        total = b("reduce_sum", grown, axes=(0,), keep_dims=False)
        return b("less", total, most), [grown], [total, value]

    results = loop(b, as_expr(10), start, [x], body)
    runs = [(floats(3), np.float32(k), flag(s)) for k in (-1, 8, 1e9) for s in (True, False)]
    check(b, list(results), *((a, np.array(k), s) for a, k, s in runs))


def test_states_that_grow() -> None:
    b = GraphBuilder(OPERATORS)
    x, on = b.param("x", (Var("n", low=0),), "float32"), b.param("on", (), "bool")
    one = b.constant(np.ones(1, np.float32))

    def body(_, states):
        (value,) = states
        last = b("reduce_sum", value, axes=(0,), keep_dims=True)
        return None, [b("concat", value, b("add", last, one), axis=0)], [last]

    results = loop(b, as_expr(3), on, [x], body)
    check(b, list(results), *((floats(k), flag(v)) for k in (0, 2) for v in (True, False)))


def test_loops_inside_of_loops() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (3,), "float32")
    half = b.scalar(0.5, "float32")

    def inner(_, states):
        return None, [b("mul", states[0], half)], [states[0]]

    def outer(_, states):
        value, rows = loop(b, as_expr(2), None, [states[0]], inner)
        return None, [b("add", value, x)], [rows]

    results = loop(b, as_expr(3), None, [x], outer)
    check(b, list(results), (floats(3),))


def test_what_is_read_in_a_loop_stays_until_its_end() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (64,), "float32")
    w = b.constant(floats(64, 64))
    rows = b("expand_dims", x, axes=(0,))
    kept = b("matmul", rows, w)

    def body(_, states):
        return None, [b("matmul", b("matmul", states[0], w), w)], [b("matmul", kept, w)]

    results = loop(b, as_expr(4), None, [b("matmul", kept, w)], body)
    check(b, list(results), (floats(64) / 64,))


def test_a_loop_in_a_lowered_module_has_no_operators() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (3,), "float32")
    results = loop(b, as_expr(2), None, [x], lambda _, s: (None, [b("exp", s[0])], []))
    module = legalize(IRModule.of(b.function("main", list(results))))
    host = make_host(module.graph("main"))
    assert host.plan.peak is as_expr(128)
