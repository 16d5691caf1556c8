"""The reference interpreter: laziness, calls, local buffers, arguments."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from evaluate.runs import i, j, m, matmul, n, program, same_either_way
from tensorsmith.errors import EvaluationError, OutOfBoundsError, ShapeError, UninitializedError
from tensorsmith.evaluate import NumPyDomain, Walker, interpret
from tensorsmith.ir import (
    Add,
    Alloc,
    And,
    Assert,
    Block,
    Buffer,
    Cast,
    Const,
    Eq,
    Expr,
    For,
    If,
    IndexMap,
    Invoke,
    IRModule,
    Iter,
    IterKind,
    Not,
    Or,
    Region,
    Select,
    Store,
    TensorProgram,
    Var,
    While,
    const,
    dtype,
    seq,
)
from tensorsmith.ir.dtype import SCALAR_TYPES

ZERO = const(0)


# --- Depth and laziness ----------------------------------------------------------------------

LEVELS = 10_000


def test_deep_sums_do_not_overflow_the_stack():
    a, out = Buffer("a", (8,)), Buffer("out", (8,))
    e: Expr = a[i]
    for _ in range(LEVELS):
        e = e + 1.0
    x, y = np.zeros(8, np.float32), np.zeros(8, np.float32)
    interpret(program(For(i, const(8), Store(out, (i,), e)), a, out), x, y)
    assert (y == LEVELS).all()


@pytest.mark.parametrize("vectorize", [False, True])
def test_deep_selects_do_not_overflow_the_stack(vectorize):
    out = Buffer("out", (4,), "index")
    e: Expr = const(-1)
    for level in range(LEVELS):
        e = Select(Eq(i * 3000, const(level)), const(level), e)
    y = np.zeros(4, np.int64)
    body = For(i, const(4), Store(out, (i,), e))
    interpret(program(body, out), y, vectorize=vectorize)
    assert y.tolist() == [0, 3000, 6000, 9000]


def test_selects_that_share_operands_take_linear_time():
    """Each level is used by both branches of the next."""
    a, out = Buffer("a", (8,)), Buffer("out", (8,))
    e: Expr = a[i]
    for level in range(60):
        e = Select(Eq((i + level) % 2, ZERO), e + 1.0, e * 1.0)
    x, y = np.zeros(8, np.float32), np.zeros(8, np.float32)
    interpret(program(For(i, const(8), Store(out, (i,), e)), a, out), x, y)
    assert (y == 30).all()


@pytest.mark.parametrize("vectorize", [False, True])
def test_branches_that_are_not_taken_are_not_evaluated(vectorize):
    a, out = Buffer("a", (8,), "int32"), Buffer("out", (10,), "int32")
    inside = And(const(1) <= i, i - 1 < 8)
    ten = const(10)
    divided = Select(Eq(i, ZERO), ZERO, const(100) // i)
    value = Select(inside, a[i - 1], const(-1, "int32")) + Cast(divided, dtype("int32"))
    x, y = np.arange(8, dtype=np.int32), np.zeros(10, np.int32)
    f = program(For(i, ten, Store(out, (i,), value)), a, out)
    interpret(f, x, y, vectorize=vectorize)
    quotients = [0, *(100 // v for v in range(1, 10))]
    expected = np.array([-1, *range(8), -1]) + quotients
    assert (y == expected).all()


@pytest.mark.parametrize("vectorize", [False, True])
@pytest.mark.parametrize("op", [And, Or])
def test_and_or_stop_at_the_first_that_decides(op, vectorize):
    """The second operand divides by zero where the first has decided."""
    out = Buffer("out", (8,), "bool")
    zero = Eq(i, ZERO)
    first = Not(zero) if op is And else zero
    second = const(3) < const(12) // i
    y = np.zeros(8, np.bool_)
    interpret(
        program(For(i, const(8), Store(out, (i,), op(first, second))), out), y, vectorize=vectorize
    )
    expected = [op is Or, *(12 // v > 3 for v in range(1, 8))]
    assert y.tolist() == expected


# --- Statements ------------------------------------------------------------------------------


def test_while_and_if():
    """The steps of Collatz's sequence from 27."""
    at, steps = Buffer("at", (), "int64"), Buffer("steps", (), "int64")
    odd = Eq(at[()] % 2, const(1, "int64"))
    step = If(odd, Store(at, (), at[()] * 3 + 1), Store(at, (), at[()] // 2))
    body = While(const(1, "int64") < at[()], seq(step, Store(steps, (), steps[()] + 1)))
    x, y = np.array(27), np.array(0)
    interpret(program(body, at, steps), x, y)
    assert (x, y) == (1, 111)


def test_predicates_leave_points_out():
    a = Buffer("a", (10,), "int32")
    outer, inner, vi = Var("outer"), Var("inner"), Var("vi")
    point = outer * 4 + inner
    block = Block(
        "a",
        (Iter(vi, const(10), IterKind.SPATIAL, point),),
        Store(a, (vi,), a[vi] + 1),
        predicate=point < 10,
    )
    f = program(For(outer, const(3), For(inner, const(4), block)), a)
    (x,) = same_either_way(f, np.zeros(10, np.int32))
    assert (x == 1).all()


def test_assertions_hold_or_fail_with_their_message():
    a = Buffer("a", (n,), "int32")
    f = program(For(i, n, Assert(a[i] < 5, "too large")), a)
    interpret(f, np.arange(5, dtype=np.int32))
    with pytest.raises(EvaluationError, match="too large"):
        interpret(f, np.arange(6, dtype=np.int32))


def test_calls_see_regions_as_buffers_of_their_own():
    mat, other = Buffer("mat", (n, 6)), Var("other", low=1)
    flat = Buffer("flat", (1, other))
    double = TensorProgram(
        "double", (flat,), For(j, other, Store(flat, (ZERO, j), flat[0, j] * 2.0))
    )
    call = Invoke("double", (Region(mat, ((i, 1), (2, 3))),))
    module = IRModule.of(program(For(i, n, call), mat, name="main"), double)
    x = np.ones((4, 6), np.float32)
    interpret(module, x, entry="main")
    assert (x == [1, 1, 2, 2, 2, 1]).all()


def test_external_functions_get_views_and_numbers():
    a, t = Buffer("a", (4,)), Buffer("t", (4,))
    body = seq(
        Alloc(t),
        Invoke("fill", (t.region(), const(2.5, "float32"))),
        For(i, const(4), Store(a, (i,), t[i])),
    )
    x = np.zeros(4, np.float32)

    def fill(view: np.ndarray, value: float) -> None:
        view[...] = value

    interpret(program(body, a), x, externs={"fill": fill})
    assert (x == 2.5).all()


def test_programs_do_not_recurse():
    a = Buffer("a", (n,))
    f = program(Invoke("f", (a.region(),)), a)
    with pytest.raises(EvaluationError, match="f calls itself"):
        interpret(IRModule.of(f), np.zeros(3, np.float32))


@pytest.mark.parametrize("vectorize", [False, True])
def test_reads_of_undefined_elements_are_found(vectorize):
    t, out = Buffer("t", (n,)), Buffer("out", (n,))
    fill = For(i, n, If(Not(Eq(i, const(5))), Store(t, (i,), const(1.0, "float32"))))
    body = seq(Alloc(t), fill, For(j, n, Store(out, (j,), t[j])))
    f = program(body, out)
    interpret(f, np.zeros(5, np.float32), vectorize=vectorize)
    with pytest.raises(UninitializedError, match=r"t\[5\]"):
        interpret(f, np.zeros(8, np.float32), vectorize=vectorize)


@pytest.mark.parametrize("vectorize", [False, True])
def test_accesses_outside_are_found(vectorize):
    a, out = Buffer("a", (n,)), Buffer("out", (n,))
    f = program(For(i, n, Store(out, (i,), a[i + 1])), a, out)
    with pytest.raises(OutOfBoundsError, match=r"f reads a\[8\]"):
        interpret(f, np.zeros(8, np.float32), np.zeros(8, np.float32), vectorize=vectorize)


# --- Arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", [t for t in SCALAR_TYPES if t.name != "handle"], ids=str)
def test_every_type_is_loaded_and_stored_bit_by_bit(type_):
    a, b = Buffer("a", (n,), type_), Buffer("b", (n,), type_)
    f = program(For(i, n, Store(b, (i,), a[i])), a, b)
    width = type_.numpy.itemsize
    raw = np.random.default_rng(5).integers(0, 256, 16 * width, np.uint8)
    if type_.flag & dtype("bool").flag:
        raw %= 2
    x = raw.view(type_.numpy)
    _, y = same_either_way(f, x, np.zeros_like(x))
    if type_.name.startswith(("int2", "int4", "uint2", "uint4")):
        assert (y == x).all()
    else:
        assert y.tobytes() == x.tobytes()


def test_strides_and_layouts_do_not_change_the_meaning():
    lead = Var("lead", low=1)
    a = Buffer("a", (n, m), strides=(lead, 1))
    b = Buffer("b", (n, m), layout=IndexMap.of(lambda r, c: (c, r), 2))
    scaled = a[i, j] * Cast(lead, dtype("float32"))
    f = program(For(i, n, For(j, m, Store(b, (i, j), scaled))), a, b)
    whole = np.arange(50, dtype=np.float32).reshape(5, 10)
    y = np.zeros((5, 4), np.float32)
    interpret(f, whole[:, :4], y)
    assert (y == whole[:, :4] * 10).all()


def test_arrays_may_have_any_strides():
    a = Buffer("a", (n, m))
    f = program(For(i, n, For(j, m, Store(a, (i, j), a[i, j] + 1.0))), a)
    whole = np.zeros((10, 12), np.float32)
    interpret(f, whole[::2, ::-3].T)
    assert whole.sum() == 5 * 4
    assert whole[::2, ::-3].sum() == 5 * 4


def test_dimensions_follow_from_sums_and_products():
    a, b = Buffer("a", (n * 4 + 2,)), Buffer("b", (n + m,))
    out = Buffer("out", (2,), "index")
    f = program(seq(Store(out, (ZERO,), n), Store(out, (const(1),), m)), a, b, out)
    y = np.zeros(2, np.int64)
    interpret(f, np.zeros(14, np.float32), np.zeros(8, np.float32), y)
    assert y.tolist() == [3, 5]
    with pytest.raises(ShapeError):
        interpret(f, np.zeros(15, np.float32), np.zeros(8, np.float32), y)


def test_scalars_and_names():
    x, flag, count = Var("x", dtype("bfloat16")), Var("flag", dtype("bool")), Var("count")
    out = Buffer("out", (), "bfloat16")
    value = Select(flag, x * Cast(count, dtype("bfloat16")), x)
    f = program(Store(out, (), value), x, flag, count, out)
    y = np.zeros((), ml_dtypes.bfloat16)
    interpret(f, 1.5, out=y, count=4, flag=True)
    assert y == 6.0
    interpret(f, np.float32(2.5), False, np.int64(4), y)
    assert y == 2.5


def test_empty_arrays_are_left_alone():
    empty = Var("empty")
    a = Buffer("a", (empty,))
    interpret(program(For(i, empty, Store(a, (i,), a[i])), a), np.zeros(0, np.float32))


def test_the_same_input_may_be_given_twice():
    a = np.eye(3, dtype=np.float32)
    c = np.zeros((3, 3), np.float32)
    interpret(matmul(), a, a, c)
    assert (c == a).all()


def test_index_arithmetic_is_exact_and_checked():
    out = Buffer("out", (1,), "index")
    x = Var("x")
    f = program(Store(out, (ZERO,), x * 4), x, out)
    y = np.zeros(1, np.int64)
    interpret(f, (1 << 61) - 1, y)
    assert y[0] == (1 << 63) - 4
    with pytest.raises(EvaluationError, match="overflows"):
        interpret(f, 1 << 61, y)


@pytest.mark.parametrize("big", [1 << 62, (1 << 63) - 1])
def test_index_arithmetic_is_checked_side_by_side(big):
    out = Buffer("out", (8,), "index")
    grown = Select(i < 4, i, i * big)
    y = np.zeros(8, np.int64)
    f = program(For(i, const(4), Store(out, (i,), Select(i < 4, i, i * big))), out)
    interpret(f, y)
    assert y.tolist() == [0, 1, 2, 3, 0, 0, 0, 0]
    with pytest.raises(EvaluationError, match="overflows"):
        interpret(program(For(i, const(8), Store(out, (i,), grown)), out), y)


def test_constants_of_vectors_are_refused():
    walker = Walker(NumPyDomain(), {})
    with pytest.raises(EvaluationError, match="scalars"):
        walker.evaluate(Const(1.0, dtype("float32x4")))


def test_expressions_can_be_evaluated_alone():
    walker = Walker(NumPyDomain(), {})
    assert walker.evaluate(Add(const(2), const(3))) == 5
