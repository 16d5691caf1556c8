"""Host programs: a graph function of calls as one tensor program."""

from __future__ import annotations

import numpy as np
import pytest

from graph.running import lowered, run_host, run_lowered
from tensorsmith import compile, te
from tensorsmith import script as T
from tensorsmith.errors import EvaluationError
from tensorsmith.graph.inplace import overwritable
from tensorsmith.ir import GraphFunction, Invoke, IRModule, Region, Var, View
from tensorsmith.ir.graph import Alias
from tensorsmith.ir.rewrite import statements
from tensorsmith.ops import OPERATORS, GraphBuilder
from tensorsmith.ops.interpret import interpret_graph

RANDOM = np.random.default_rng(3)


def floats(*shape: int) -> np.ndarray:
    """Random numbers."""
    return RANDOM.random(shape, np.float32)


def dims() -> tuple[Var, Var]:
    """Two dimensions that may be 0."""
    return Var("n", low=0), Var("m", low=0)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_chain_with_constants(n: int) -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (dims()[0], 8), "float32")
    w, c = floats(8, 4), floats(4)
    product = b("matmul", x, b.constant(w))
    shifted = b("add", product, b.constant(c))
    scaled = b("mul", shifted, b.scalar(2.0, "float32"))
    a = floats(n, 8)
    (found,) = run_lowered(b.function("main", [scaled]), a)
    np.testing.assert_allclose(found, (a @ w + c) * 2, rtol=1e-6)


def test_parameters_constants_and_repeated_results_are_copied() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (dims()[0],), "float32")
    known = floats(3)
    c = b.constant(known)
    y = b("neg", x)
    a = floats(4)
    found = run_lowered(b.function("main", [x, y, y, c, x]), a)
    for one, wanted in zip(found, (a, -a, -a, known, a), strict=True):
        np.testing.assert_array_equal(one, wanted)


def test_an_alias_shares_memory_wherever_it_stands() -> None:
    b = GraphBuilder(OPERATORS)
    n = dims()[0]
    x = b.param("x", (n, 6), "float32")
    types = te.placeholder((n * 2, 3), "float32")
    pairs, others, last = (types.replace(name=name) for name in ("pairs", "others", "last"))
    b.emit(Alias(pairs, x))
    y = b("neg", pairs)
    b.emit(Alias(flat := types.replace(name="flat", shape=(n * 6,)), y))
    z = b("exp", flat)
    b.emit(Alias(last, z))
    a = floats(2, 6)
    graph = b.function("main", [last, others_of(b, pairs, others)])
    found = run_lowered(graph, a)
    np.testing.assert_allclose(found[0], np.exp(-a).reshape(4, 3), rtol=1e-6)
    np.testing.assert_array_equal(found[1], a.reshape(4, 3))
    assert len(lowered(graph)[0].programs) == 4


def others_of(b: GraphBuilder, pairs, others):
    """An alias of an alias."""
    b.emit(Alias(others, pairs))
    return others


def test_memory_is_used_again() -> None:
    b = GraphBuilder(OPERATORS)
    value = b.param("x", (dims()[0], 64), "float32")
    w = b.constant(floats(64, 64))
    for _ in range(6):
        value = b("matmul", value, w)
    _module, host = lowered(b.function("main", [value]))
    views = [s for s in statements(host.program.body) if isinstance(s, View)]
    places = {repr(v.offset) for v in views if v.source.name == "arena0"}
    assert len(places) == 2
    assert host.plan.peak.args[0].name == "n"


def test_a_dimension_is_read_from_a_tensor() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (8,), "float32")
    size = b.param("size", (), "int64")
    (n,) = b.integers(size, "n", low=2)
    y = b("expand", b("neg", b("reduce_sum", x, axes=(0,), keep_dims=True)), shape=(n,))
    z = b("exp", y)
    graph = b.function("main", [z])
    a = floats(8)
    for count in (2, 7):
        (found,) = run_lowered(graph, a, np.array(count))
        np.testing.assert_allclose(found, np.full(count, np.exp(-a.sum())), rtol=1e-5)
    with pytest.raises(EvaluationError, match="n must be at least 2"):
        run_lowered(graph, a, np.array(1))


def test_shapes_are_matched_and_checked() -> None:
    b = GraphBuilder(OPERATORS)
    n, m = dims()
    k = Var("k", low=0)
    x, y = b.param("x", (n, k), "float32"), b.param("y", (m,), "float32")
    same = b.match(y, (k,))
    b.check(n >= 2, "at least two rows")
    graph = b.function("main", [b("add", x, same)])
    a, c = floats(3, 5), floats(5)
    np.testing.assert_array_equal(run_lowered(graph, a, c)[0], a + c)
    with pytest.raises(EvaluationError, match="axis 0 of y must have extent k"):
        run_lowered(graph, a, floats(4))
    with pytest.raises(EvaluationError, match="at least two rows"):
        run_lowered(graph, floats(1, 5), c)


def test_what_is_joined_is_written_where_it_belongs() -> None:
    b = GraphBuilder(OPERATORS)
    n = dims()[0]
    x, w = b.param("x", (n, 4), "float32"), b.constant(floats(4, 4))
    value = b("matmul", x, w)
    for _ in range(3):  # each joins all before it, as in DenseNet
        value = b("concat", value, b("matmul", b("exp", x), w), axis=0)
    graph = b.function("main", [value])
    module, _ = lowered(graph)
    called = [s.callee for s in statements(module.program("main").body) if isinstance(s, Invoke)]
    assert not any(c.startswith("concat") for c in called)
    a = floats(3, 4)
    (wanted,) = interpret_graph(IRModule.of(graph), graph, [a])
    np.testing.assert_allclose(run_lowered(graph, a)[0], wanted, rtol=1e-5)


@pytest.mark.parametrize("which", range(5))
def test_what_cannot_lie_in_what_it_is_joined_to(which: int) -> None:
    b = GraphBuilder(OPERATORS)
    x, y = b.param("x", (1, 4), "float32"), b.param("y", (1, 4), "float32")
    w = b.constant(floats(4, 4))
    one, two = b("matmul", x, w), b("matmul", y, w)
    both = b("concat", one, two, axis=1)
    results = [
        [b("concat", one, one, axis=1)],
        [both, one],
        [b("concat", x, one, axis=1)],
        [both, b("concat", two, one, axis=1)],
        [both, b("exp", one), b("reshape", two, shape=(4,))],
    ][which]
    graph = b.function("main", results)
    args = [floats(1, 4), floats(1, 4) + 1]
    wanted = interpret_graph(IRModule.of(graph), graph, args)
    for one_, two_ in zip(run_lowered(graph, *args), wanted, strict=True):
        np.testing.assert_allclose(one_, two_, rtol=1e-5)


def calls_of(graph: GraphFunction) -> list[str]:
    """The names of the kernels that a host calls."""
    module, _ = lowered(graph)
    inside = statements(module.program(graph.name).body)
    return [s.callee for s in inside if isinstance(s, Invoke)]


@pytest.mark.parametrize("which", ["value", "parameter", "joined", "cut again"])
def test_a_run_of_elements_lies_in_what_it_is_cut_from(which: str) -> None:
    b = GraphBuilder(OPERATORS)
    n = dims()[0]
    x, w = b.param("x", (6, n, 4), "float32"), b.constant(floats(4, 4))
    whole = x if which == "parameter" else b("matmul", x, w)
    if which == "joined":
        whole = b("concat", whole, b("matmul", b("exp", x), w), axis=0)
    part = b("slice", whole, starts=(1,), extents=(4,), axes=(0,))
    if which == "cut again":
        part = b("slice", b("flip", part, axes=(1,)), starts=(2,), extents=(2,), axes=(0,))
    one, other = b("cumsum", part, axis=1), b("cumsum", whole, axis=1)
    graph = b.function("main", [one, other, b("flip", part, axes=(2,))])
    assert not any(c.startswith("slice") for c in calls_of(graph))
    for extent in (0, 1, 3):
        a = floats(6, extent, 4)
        wanted = interpret_graph(IRModule.of(graph), graph, [a])
        for one_, two_ in zip(run_lowered(graph, a), wanted, strict=True):
            np.testing.assert_allclose(one_, two_, rtol=1e-5)


@pytest.mark.parametrize("which", ["a result", "another axis", "two axes", "steps"])
def test_what_does_not_lie_in_what_it_is_cut_from_is_copied(which: str) -> None:
    b = GraphBuilder(OPERATORS)
    x, w = b.param("x", (6, 5, 4), "float32"), b.constant(floats(4, 4))
    whole = b("matmul", x, w)
    axes = {"another axis": (1,), "two axes": (0, 1)}.get(which, (0,))
    steps = (2,) if which == "steps" else (1,) * len(axes)
    part = b(
        "slice", whole, starts=(1,) * len(axes), extents=(2,) * len(axes), axes=axes, steps=steps
    )
    results = [part] if which == "a result" else [b("cumsum", part, axis=1)]
    graph = b.function("main", [*results, b("cumsum", part, axis=0)])
    assert sum(c.startswith("slice") for c in calls_of(graph)) == 1
    a = floats(6, 5, 4)
    wanted = interpret_graph(IRModule.of(graph), graph, [a])
    for one_, two_ in zip(run_lowered(graph, a), wanted, strict=True):
        np.testing.assert_allclose(one_, two_, rtol=1e-5)


def overwriting(which: str) -> tuple[GraphFunction, list[np.ndarray]]:
    """Elementwise kernels after operators that nothing is computed together with."""
    b = GraphBuilder(OPERATORS)
    n = dims()[0]
    x, w = b.param("x", (n, 4), "float32"), b.constant(floats(4, 4))
    v = x if which == "of a parameter" else b("matmul", x, w)
    if which == "of a value":
        v = b("cumsum", v, axis=1)
    if which == "of a constant":
        v = b.constant(floats(3, 4))
    if which == "of an alias":
        v = b("reshape", b("reshape", v, shape=(n * 2, 2)), shape=(n, 4))
    c = b("cumsum", b("matmul", x, w), axis=0)
    y = b("add", v, b("exp", c))
    last = b("matmul", b("cumsum", y, axis=0), w)
    results = {
        "that is returned": [last, c, v],
        "into a result": [y, c],
        "used later": [last, c, b("sub", last, v)],
    }
    return b.function("main", results.get(which, [last, c])), [floats(3, 4)]


OVERWRITTEN = ("of a value", "of an alias")
KEPT = ("of a parameter", "of a constant", "that is returned", "into a result", "used later")


@pytest.mark.parametrize("which", [*OVERWRITTEN, *KEPT])
def test_what_nothing_needs_any_more_is_overwritten(which: str) -> None:
    graph, args = overwriting(which)
    (wanted, *_) = interpret_graph(IRModule.of(graph), graph, args)
    given = [a.copy() for a in args]
    module, host = lowered(graph)
    (found, *_) = run_host(module, host, graph, given)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_array_equal(given, args)
    model = compile(IRModule.of(graph), threads=2)
    results = model(*given)
    first = results[0] if isinstance(results, tuple) else results
    np.testing.assert_allclose(first, wanted, rtol=1e-5)
    np.testing.assert_array_equal(given, args)
    stmts = list(statements(module.program("main").body))
    places = {s.buffer: (s.source, s.offset) for s in stmts if isinstance(s, View)}
    shared = [
        s
        for s in stmts
        if isinstance(s, Invoke) and s.callee.startswith("fused_exp_add")
        for place in [[places.get(a.buffer, a.buffer) for a in s.args if isinstance(a, Region)]]
        if place[-1] in place[:-1]
    ]
    assert bool(shared) == (which in OVERWRITTEN), module.program("main").script()


@pytest.mark.parametrize("size", [1, 65, 100_003])
def test_large_values_are_overwritten_on_threads(size: int) -> None:
    b = GraphBuilder(OPERATORS)
    sums = b("cumsum", b.param("x", (dims()[0],), "int64"), axis=0)
    y = b("mul", b("add", sums, b("abs", sums)), b("sub", sums, b.scalar(3, "int64")))
    graph = b.function("main", [b("cumsum", y, axis=0)])
    assert len(lowered(graph)[1].plan.places) == 1
    x = RANDOM.integers(-9, 10, size)
    c = np.cumsum(x)
    found = compile(IRModule.of(graph), threads=2)(x)
    np.testing.assert_array_equal(found, np.cumsum((c + np.abs(c)) * (c - 3)))


def test_an_operand_that_is_read_at_other_places_is_not_overwritten() -> None:
    a, b = (te.placeholder((8, 8), name=n) for n in "AB")
    made = te.compute((8, 8), lambda i, j: a[i, j] + a[j, i] + b[i, j], "C")
    assert overwritable(te.program([a, b], made)) == ((1, 2),)
    k = te.reduce_axis(8, "k")
    total = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), "S")
    assert overwritable(te.program([a], total)) == ()
    wide = te.compute((8, 8), lambda i, j: T.float64(a[i, j]), "D")
    assert overwritable(te.program([a], wide)) == ()
