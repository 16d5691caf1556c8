"""The reference interpreter of graph functions, against NumPy."""

import numpy as np
import pytest

from tensorsmith import ir
from tensorsmith.errors import DTypeError, EvaluationError, ShapeError
from tensorsmith.ir import Buffer, Cast, IRModule, Load, Lt, Var, const
from tensorsmith.ir.dtype import index
from tensorsmith.ops import OPERATORS, GraphBuilder
from tensorsmith.ops.interpret import interpret_graph

n, m = Var("n", low=0), Var("m", low=1)


def run(graph, *args, **options):
    return interpret_graph(IRModule.of(graph), "main", args, **options)


def test_operators_constants_and_shapes() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (n, m), "float32")
    rows = b("add", x, b.constant(np.array([1, 2, 3], np.float32)))
    total = b("reduce_sum", rows, axes=(1,), keep_dims=False)
    doubled = b("mul", b.elements([n, m]), b.constant(np.array(2)))
    tall = b("reshape", x, shape=b.integers(b.elements([n * m])))
    graph = b.function("main", [total, doubled, tall, x])
    for size in (0, 1, 5):
        a = np.random.default_rng(size).standard_normal((size, 3)).astype(np.float32)
        found = run(graph, a)
        np.testing.assert_allclose(found[0], (a + np.float32([1, 2, 3])).sum(1), rtol=1e-6)
        np.testing.assert_array_equal(found[1], [2 * size, 6])
        np.testing.assert_array_equal(found[2], a.reshape(-1))
        assert found[3] is a


def test_numbers_that_tensors_hold() -> None:
    b = GraphBuilder(OPERATORS)
    count, x = b.param("count", (2,), "int64"), b.param("x", (1,), "float32")
    k, j = b.integers(count, low=0)
    graph = b.function("main", [b("expand", x, shape=(k, j))])
    (found,) = run(graph, np.array([2, 3]), np.ones(1, np.float32))
    assert found.shape == (2, 3)
    with pytest.raises(ShapeError, match="the number 'n0' is -1, and must be at least 0"):
        run(graph, np.array([-1, 3]), np.ones(1, np.float32))


def test_checks_and_matches() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (n, m), "float32")
    b.sources = ("node",)
    b.check(Lt(n, const(4)), "n is too large")
    k = Var("k", low=1)
    y = b.match(x, (n, k))
    z = b.match(x, (const(2), k))
    graph = b.function("main", [y, z, b.elements([k])])
    a = np.zeros((2, 5), np.float32)
    assert run(graph, a)[2].tolist() == [5]
    with pytest.raises(EvaluationError, match="node: n is too large"):
        run(graph, np.zeros((4, 1), np.float32))
    with pytest.raises(ShapeError, match=r"'x' is to have shape \(2, 5\), and has \(3, 5\)"):
        run(graph, np.zeros((3, 5), np.float32))


def test_a_branch_gives_what_the_taken_side_gives() -> None:
    b = GraphBuilder(OPERATORS)
    c, x = b.param("c", (), "bool"), b.param("x", (n,), "float32")
    then = b.body(lambda: [b("concat", x, x, axis=0)])
    orelse = b.body(lambda: [b("neg", x)])
    size = Var("size", low=0)
    y = Buffer("y", (size,))
    b.emit(ir.Branch((y,), c, then, orelse))
    graph = b.function("main", [y, b.elements([size])])
    a = np.arange(3, dtype=np.float32)
    for taken, wanted in ((True, np.concatenate([a, a])), (False, -a)):
        found, extent = run(graph, np.array(taken), a)
        np.testing.assert_array_equal(found, wanted)
        assert extent.tolist() == [len(wanted)]


def growing(trip, *, has_condition):
    """A loop that appends its iteration number to a state, and collects the state's length."""
    b = GraphBuilder(OPERATORS)
    limit = b.param("limit", (), "int64")
    start = b.constant(np.zeros(0, np.int64))
    rows, i, last, times = (Var(name, low=0) for name in ("rows", "i", "last", "times"))
    state = Buffer("state", (rows,), "int64")

    def inside():
        more = b("concat", state, b.elements([i]), axis=0)
        length = b("from_elements", values=(rows + 1,), is_scalar=True)
        go = [b("less", length, limit)] if has_condition else []
        return [*go, more, length]

    body = b.body(inside, [state], [i])
    results = Buffer("final", (last,), "int64"), Buffer("lengths", (times,), "int64")
    b.emit(ir.Loop(results, trip, None, (start,), body, has_condition=has_condition))
    return b.function("main", results)


@pytest.mark.parametrize(
    ("trip", "limit", "times"), [(3, 9, 3), (None, 4, 4), (9, 2, 2), (0, 5, 0)]
)
def test_loops(trip, limit, times) -> None:
    graph = growing(None if trip is None else const(trip), has_condition=True)
    final, lengths = run(graph, np.array(limit))
    np.testing.assert_array_equal(final, np.arange(times))
    np.testing.assert_array_equal(lengths, np.arange(1, times + 1))


def test_a_loop_without_a_condition_and_one_that_does_not_begin() -> None:
    final, _ = run(growing(const(5), has_condition=False), np.array(0))
    np.testing.assert_array_equal(final, np.arange(5))
    no = Buffer("no", (), "bool")
    x = Buffer("x", (), "int64")
    y = Buffer("y", (), "int64")
    loop = ir.Loop((y,), None, no, (x,), ir.Body((Buffer("s", (), "int64"),), (), (no, x)), True)
    graph = ir.GraphFunction("main", (no, x), (loop,), (y,))
    assert run(graph, np.array(False), np.array(7)) == [np.array(7)]


def test_programs_of_the_module() -> None:
    a, b, i, k = Buffer("a", (n,)), Buffer("b", (n,)), Var("i"), Var("k", index)
    scale = ir.TensorProgram(
        "scale", (a, k, b), ir.For(i, n, ir.Store(b, (i,), a[i] * Cast(k, a.dtype)))
    )
    x, y = Buffer("x", (m,)), Buffer("y", (m,))
    call = ir.CallProgram((y,), "scale", (x, m + 1))
    graph = ir.GraphFunction("main", (x,), (call,), (y,))
    module = IRModule.of(graph, scale)
    (found,) = interpret_graph(module, "main", [np.float32([1, 2])])
    np.testing.assert_array_equal(found, [3, 6])


def test_external_functions() -> None:
    text = ir.Opaque("text", "strings", (n,))
    lengths = Buffer("lengths", (n,), "int64")
    call = ir.CallExtern((lengths,), "measure", (text, n, None), {"plus": 1}, is_python=True)
    graph = ir.GraphFunction("main", (text,), (call,), (lengths,))

    def measure(texts, count, nothing, *, plus):
        assert nothing is None
        return np.array([len(t) + plus for t in texts[:count]])

    words = np.array(["a", "bcd"], object)
    (found,) = run(graph, words, externs={"measure": measure})
    np.testing.assert_array_equal(found, [2, 4])
    with pytest.raises(EvaluationError, match="'measure' is not given"):
        run(graph, words)


def test_another_shape_of_the_same_memory() -> None:
    x, y = Buffer("x", (n, m)), Buffer("y", (n * m,))
    graph = ir.GraphFunction("main", (x,), (ir.Alias(y, x),), (y,))
    a = np.arange(6, dtype=np.float32).reshape(3, 2).T
    np.testing.assert_array_equal(run(graph, a)[0], a.reshape(-1))


def test_what_does_not_fit() -> None:
    x, y = Buffer("x", (n, n)), Buffer("y", (n, m))
    graph = ir.GraphFunction("main", (x,), (), (x,))
    with pytest.raises(ShapeError, match=r"'x' is to have shape \(2, 2\), and has \(2, 3\)"):
        run(graph, np.zeros((2, 3), np.float32))
    with pytest.raises(ShapeError, match="'x' has rank 2, and is given rank 1"):
        run(graph, np.zeros(2, np.float32))
    with pytest.raises(DTypeError, match="'x' is float32, and is given float64"):
        run(graph, np.zeros((2, 2)))
    with pytest.raises(EvaluationError, match="main takes 1 arguments, and got 0"):
        run(graph)
    wrong = ir.GraphFunction("main", (x,), (ir.Apply((y,), "reduce_sum", (x,)),), (y,))
    with pytest.raises(ShapeError, match="'y' is to have shape"):
        run(wrong, np.zeros((2, 2), np.float32))
    outside = ir.Dims((Var("k"),), (Cast(Load(x, (n, n)), index),))
    with pytest.raises(EvaluationError, match="is outside of it"):
        run(ir.GraphFunction("main", (x,), (outside,), ()), np.zeros((2, 2), np.float32))
    unknown = ir.GraphFunction("main", (x,), (ir.Apply((y,), "nothing", (x,)),), ())
    with pytest.raises(EvaluationError, match="there is no operator 'nothing'"):
        run(unknown, np.zeros((2, 2), np.float32))
