"""What a compute becomes: loops, one block, iterators."""

import numpy as np
import pytest

from tensorsmith import te
from tensorsmith.evaluate import interpret
from tensorsmith.ir import Block, Buffer, For, IterKind, Load, Var


def only_block(program):
    """The block of a program that has one, and the loops around it."""
    loops, stmt = [], program.body
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    assert isinstance(stmt, Block)
    return stmt, loops


def test_a_reduction_is_one_block_with_an_init():
    A, k = te.placeholder((4, 6), name="A"), te.reduce_axis(5, "k", start=1)
    total = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), "total", attrs={"hot": True})
    block, loops = only_block(te.program([A], total, "sums"))
    assert [i.kind for i in block.iters] == [IterKind.SPATIAL, IterKind.REDUCE]
    assert [i.var.name for i in block.iters] == ["vi", "vk"]
    assert [i.binding for i in block.iters] == [loop.var for loop in loops]
    assert (loops[1].start, loops[1].extent) == (block.iters[1].start, block.iters[1].extent)
    assert block.name == "total"
    assert block.attrs == {"hot": True}
    assert block.init is not None


def test_a_tensor_without_dimensions_has_no_loops():
    A = te.placeholder((), name="A")
    block, loops = only_block(te.program([A], te.compute((), lambda: A + 1.0)))
    assert (loops, block.iters) == ([], ())


def test_axes_are_called_as_the_function_calls_them():
    def element(row, col):
        return row + col

    block, loops = only_block(te.program([], te.compute((2, 3), element)))
    assert [loop.var.name for loop in loops] == ["row", "col"]
    assert block.name == "element"
    block, loops = only_block(te.program([], te.compute((2, 3), lambda i, *rest: i + rest[0])))
    assert [loop.var.name for loop in loops] == ["i", "i1"]


def test_numbers_take_the_dtype_that_is_asked_for():
    assert te.compute((2,), lambda i: 0.5).dtype.name == "float32"
    assert te.compute((2,), lambda i: 3, dtype="uint8").dtype.name == "uint8"
    assert te.compute((2,), lambda i: i).dtype.name == "index"
    assert te.compute((2,), lambda i: True).dtype.name == "bool"


def test_a_tuple_gives_several_tensors_in_one_block():
    A = te.placeholder((3,), "int32", "A")
    double, half = te.compute((3,), lambda i: (A[i] * 2, A[i] < 2), "pair")
    assert (double.name, half.name) == ("pair_0", "pair_1")
    program = te.program([A], [double, half])
    only_block(program)
    outputs = np.zeros(3, np.int32), np.zeros(3, bool)
    interpret(program, np.arange(3, dtype=np.int32), *outputs)
    np.testing.assert_array_equal(outputs[0], [0, 2, 4])
    np.testing.assert_array_equal(outputs[1], [True, True, False])


def test_fixed_width_integers_are_taken_as_indices():
    A, at = te.placeholder((4,), name="A"), te.placeholder((2,), "uint8", "at")
    load = A[at[0]]
    assert isinstance(load, Load)
    assert load.indices[0].dtype.name == "index"


def test_a_tensor_without_dimensions_is_its_only_element():
    A, s = te.placeholder((3,), "int64", "A"), te.placeholder((), "int64", "s")
    exprs = (A[0] * s, s * A[0], s + 1, 1 + s, s - 1, 1 - s, -s, s // 2, 7 // s, s % 3, 7 % s)
    outputs = te.compute((), lambda: exprs)
    got = [np.zeros((), np.int64) for _ in exprs]
    interpret(te.program([A, s], outputs), np.full(3, 5), np.array(4), *got)
    assert [int(g) for g in got] == [20, 20, 5, 5, 3, -3, -4, 2, 1, 1, 3]


def test_a_reduction_axis_is_an_index():
    x = np.arange(8, dtype=np.int64)
    X, k = te.placeholder((8,), "int64", "X"), te.reduce_axis(3, "k")
    Y = te.compute((), lambda: te.sum(X[2 * k + 1] + X[5 - k], axis=k, where=k > 0))
    y = np.zeros((), np.int64)
    interpret(te.program([X], Y), x, y)
    assert y == 3 + 5 + 4 + 3


def test_an_axis_may_serve_several_computes():
    X, k = te.placeholder((4,), "int32", "X"), te.reduce_axis(4, "k")
    total = te.compute((), lambda: te.sum(X[k], axis=k), "total")
    above = te.compute((), lambda: te.sum(X[k] - total, axis=k), "above")
    y = np.ones((), np.int32)
    interpret(te.program([X], above), np.array([1, 2, 3, 5], np.int32), y)
    assert y == 11 - 4 * 11


def test_a_definition_may_serve_several_programs():
    X = te.placeholder((4,), name="X")
    Y = te.compute((4,), lambda i: X[i] * 2.0, "Y")
    Z = te.compute((4,), lambda i: Y[i] + X[i], "Z")
    first, second = te.program([X], Z), te.program([X], [Y, Z])
    assert first.script() == te.program([X], Z).script()
    variables = [{loop.var for loop in loops_of(p)} for p in (first, second)]
    assert not variables[0] & variables[1]


def loops_of(program):
    stack, found = [program.body], []
    while stack:
        stmt = stack.pop()
        stack.extend(getattr(stmt, "stmts", ()))
        if isinstance(stmt, For):
            found.append(stmt)
            stack.append(stmt.body)
    assert found
    return found


@pytest.mark.parametrize("symbolic", [False, True])
def test_scalars_are_parameters(symbolic):
    n = te.var("n", min=1) if symbolic else 3
    X, scale = te.placeholder((n,), name="X"), te.var("scale", "float32")
    Y = te.compute((n,), lambda i: X[i] * scale, "Y")
    y = np.zeros(3, np.float32)
    interpret(te.program([X, scale], Y), np.arange(3, dtype=np.float32), 0.5, y)
    np.testing.assert_array_equal(y, [0, 0.5, 1])


def test_var_keeps_its_facts():
    n = te.var("n", min=8, max=64, multiple_of=8)
    assert isinstance(n, Var)
    assert (n.low, n.high, n.multiple_of) == (8, 64, 8)


def test_definitions_know_where_they_were_written():
    A = te.placeholder((3,), name="A")
    B = te.compute((3,), lambda i: A[i], "B")
    assert B.span.source.name == __file__
    assert 'B = te.compute((3,), lambda i: A[i], "B")' in B.span.source.line(B.span.line)
    block, _ = only_block(te.program([A], B))
    assert block.span is B.span


def test_a_tensor_is_not_a_sequence():
    with pytest.raises(TypeError, match="not iterable"):
        list(te.placeholder((3,), name="A"))


def test_a_replaced_tensor_is_a_buffer():
    A = te.placeholder((3,), name="A")
    buffer = A.replace(name="B", scope="local")
    assert type(buffer) is Buffer
    assert (buffer.name, buffer.shape, buffer.scope) == ("B", A.shape, "local")


def test_what_has_no_elements_needs_no_statement() -> None:
    empty = te.placeholder((0, 3), name="empty")
    k = te.reduce_axis(0)
    more = te.compute((0, 3), lambda i, j: empty[i, j] + 1, "more")
    total = te.compute((3,), lambda j: te.sum(more[k, j], axis=k), "total")
    result = np.full(3, 7, np.float32)
    interpret(te.program([empty], total), np.empty((0, 3), np.float32), result)
    assert result.tolist() == [0, 0, 0]
    assert "pass" in te.program([empty], more).script()
