"""The whole text of the errors of the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.errors import (
    DTypeError,
    EvaluationError,
    OutOfBoundsError,
    ShapeError,
    TensorsmithError,
    UninitializedError,
)
from tensorsmith.evaluate import (
    Memory,
    PrimeFieldDomain,
    cost,
    equivalent,
    evaluate,
    interpret,
    value_bounds,
)
from tensorsmith.ir import Buffer, Cast, Store, TensorProgram, Var, const, dtype
from tensorsmith.script import parse_module, parse_program

HEADER = """from tensorsmith import script as T


n = T.dim("n", min=2, max=64, multiple_of=2)
m = T.dim("m")


@T.program
def f("""


def parsed(params: str, *lines: str) -> TensorProgram:
    """The program f with these parameters and lines of its body."""
    return parse_program(f"{HEADER}{params}):\n" + "".join(f"    {line}\n" for line in lines))


def floats(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


VECTOR = 'a: T.Buffer((n,), "float32")'
COPY = parsed(
    'a: T.Buffer((n, m), "float32"), b: T.Buffer((m,), "float32"), x: T.int8',
    "for i, j in T.grid(n, m):",
    "    a[i, j] = b[j]",
)


def check(kind: type[TensorsmithError], text: str, run, *args: object, **named: object) -> None:
    with pytest.raises(kind) as caught:
        run(*args, **named)
    assert type(caught.value) is kind
    assert str(caught.value) == text.strip("\n")


def on_vector(*lines: str, params: str = VECTOR) -> TensorProgram:
    return parsed(params, *lines)


READ_ONLY = floats(4)
READ_ONLY.flags.writeable = False
WHOLE = floats(2, 3)
K = Var("k")
POINT = Buffer("b", ())
FOUR = Buffer("a", (4,))
ONE = const(1.0, "float32")
MODULE = """from tensorsmith import script as T


@T.module
class Module:
    @T.program
    def f(a: T.Buffer((4,), "float32")):
        a[0] = 1.0

    @T.program
    def g(a: T.Buffer((4,), "float32")):
        a[0] = 2.0
"""


def test_writing_outside() -> None:
    text = """
<string>:11:9: f writes a[4], which is outside of 'a', whose shape is (4,)
    a[i + 1] = 0.0
    ^^^^^^^^^^^^^^
  given: index 0 is 4, the extent is 4
"""
    check(
        OutOfBoundsError,
        text,
        interpret,
        on_vector("for i in range(n):", "    a[i + 1] = 0.0"),
        floats(4),
    )


def test_reading_outside() -> None:
    text = """
<string>:10:5: f reads a[4], which is outside of 'a', whose shape is (4,)
    a[0] = a[n]
    ^^^^^^^^^^^
  given: index 0 is 4, the extent is 4
"""
    check(OutOfBoundsError, text, interpret, on_vector("a[0] = a[n]"), floats(4))


def test_negative_indices() -> None:
    text = """
<string>:10:5: f reads a[-3], which is outside of 'a', whose shape is (4,)
    a[0] = a[1 - n]
    ^^^^^^^^^^^^^^^
  given: index 0 is -3, the extent is 4
"""
    check(OutOfBoundsError, text, interpret, on_vector("a[0] = a[1 - n]"), floats(4))


def test_uninitialised_reads() -> None:
    text = """
<string>:13:9: f reads t[1], which nothing has written
    a[i] = t[i]
    ^^^^^^^^^^^
  because: 't' is a local buffer, whose content is undefined at first
"""
    check(
        UninitializedError,
        text,
        interpret,
        on_vector(
            't = T.alloc((n,), "float32")', "t[0] = 1.0", "for i in range(n):", "    a[i] = t[i]"
        ),
        floats(4),
    )


def test_assertions() -> None:
    text = """
<string>:10:5: f: n must be small
    assert n < 4, "n must be small"
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  because: not n < 4
"""
    check(EvaluationError, text, interpret, on_vector('assert n < 4, "n must be small"'), floats(4))


def test_division_by_zero() -> None:
    text = """
<string>:11:5: division by zero
    a[0] = T.float32(x // (x - x))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  given: the divisor of x // (x - x) is 0
"""
    check(
        EvaluationError,
        text,
        interpret,
        on_vector("a[0] = 1.0", "a[0] = T.float32(x // (x - x))", params=VECTOR + ", x: T.int32"),
        floats(4),
        3,
    )


def test_index_overflow() -> None:
    text = """
<string>:10:5: index arithmetic overflows
    a[x * 4 // x] = 1.0
    ^^^^^^^^^^^^^^^^^^^
  given: x * 4 is 18446744073709551616
  because: an index has 64 bits
"""
    check(
        EvaluationError,
        text,
        interpret,
        on_vector("a[x * 4 // x] = 1.0", params=VECTOR + ", x: T.index"),
        floats(4),
        1 << 62,
    )


def test_iterators_outside_of_their_range() -> None:
    text = """
<string>:11:9: iterator 'vi' of block 'b' is 4
    with T.block("b"):
    ^^^^^^^^^^^^^^^^^^
  because: it ranges over 0 <= vi < 4
"""
    check(
        EvaluationError,
        text,
        interpret,
        on_vector(
            "for i in range(n):",
            '    with T.block("b"):',
            "        vi = T.spatial(n, i + 1)",
            "        a[vi] = 1.0",
        ),
        floats(4),
    )


def test_negative_extents() -> None:
    text = """
<string>:10:5: f allocates 't' with shape (-1,)
    t = T.alloc((x,), "float32")
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
    check(
        ShapeError,
        text,
        interpret,
        on_vector('t = T.alloc((x,), "float32")', "a[0] = 1.0", params=VECTOR + ", x: T.index"),
        floats(4),
        -1,
    )


def test_unknown_functions() -> None:
    text = """
<string>:10:5: f calls 'fill', which is neither in the module nor given
    T.call("fill", a)
    ^^^^^^^^^^^^^^^^^
  given: externs none
  try: interpret(..., externs={'fill': function})
"""
    check(EvaluationError, text, interpret, on_vector('T.call("fill", a)'), floats(4))


def test_regions_outside() -> None:
    text = """
<string>:10:5: f passes a[1:1 + (n + 1 - 1)], which is outside of 'a', whose shape is (4,)
    T.call("fill", a[1:n + 1])
    ^^^^^^^^^^^^^^^^^^^^^^^^^^
  given: range 0 is 1:5, the extent is 4
"""
    check(
        OutOfBoundsError,
        text,
        interpret,
        on_vector('T.call("fill", a[1:n + 1])'),
        floats(4),
        externs={"fill": print},
    )


def test_read_only_arrays() -> None:
    text = """
<string>:10:5: f writes 'a', and its array is read-only
    a[0] = 1.0
    ^^^^^^^^^^
  try: a copy of the array as the argument
"""
    check(EvaluationError, text, interpret, on_vector("a[0] = 1.0"), READ_ONLY)


def test_wrong_dtypes() -> None:
    text = """
<string>:9:1: argument 'a' must be an array of float32, not float64
    def f(a: T.Buffer((n, m), "float32"), b: T.Buffer((m,), "float32"), x: T.int8):
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
    check(DTypeError, text, interpret, COPY, np.zeros((2, 3)), floats(3), 1)


def test_wrong_ranks() -> None:
    text = """
<string>:9:1: argument 'a' must have rank 2, not 1
    def f(a: T.Buffer((n, m), "float32"), b: T.Buffer((m,), "float32"), x: T.int8):
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  given: an array of shape (2,) for a: Buffer((n, m), 'float32')
"""
    check(ShapeError, text, interpret, COPY, floats(2), floats(3), 1)


def test_contradicting_dimensions() -> None:
    text = """
<string>:9:1: extent 0 of argument 'b' is 4, and must be 3
    def f(a: T.Buffer((n, m), "float32"), b: T.Buffer((m,), "float32"), x: T.int8):
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  given: a (2, 3), b (4,)
  because: it is m, and m = 3
"""
    check(ShapeError, text, interpret, COPY, floats(2, 3), floats(4), 1)


def test_dimensions_that_are_no_multiple() -> None:
    text = """
<string>:9:1: dimension 'n' is 3, and must be a multiple of 2
    def f(a: T.Buffer((n, m), "float32"), b: T.Buffer((m,), "float32"), x: T.int8):
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
    check(ShapeError, text, interpret, COPY, floats(3, 3), floats(3), 1)


def test_dimensions_beyond_their_range() -> None:
    text = """
<string>:9:1: dimension 'n' is 66, and must be at most 64
    def f(a: T.Buffer((n, m), "float32"), b: T.Buffer((m,), "float32"), x: T.int8):
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
    check(ShapeError, text, interpret, COPY, floats(66, 3), floats(3), 1)


def test_what_is_no_array() -> None:
    text = """
<string>:9:1: argument 'a' must be an array, and is list
    def f(a: T.Buffer((n, m), "float32"), b: T.Buffer((m,), "float32"), x: T.int8):
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
    check(DTypeError, text, interpret, COPY, [1.0], floats(3), 1)


def test_scalars_of_another_type() -> None:
    text = """
<string>:9:1: argument 'x' must be int8, and is float
    def f(a: T.Buffer((n, m), "float32"), b: T.Buffer((m,), "float32"), x: T.int8):
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  given: 1.5
"""
    check(DTypeError, text, interpret, COPY, floats(2, 3), floats(3), 1.5)


def test_scalars_that_do_not_fit() -> None:
    text = """
<string>:9:1: argument 'x' is 200, which does not fit int8
    def f(a: T.Buffer((n, m), "float32"), b: T.Buffer((m,), "float32"), x: T.int8):
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
    check(DTypeError, text, interpret, COPY, floats(2, 3), floats(3), 200)


def test_too_many_arguments() -> None:
    text = """
f(a, b, x) takes 3 arguments, and got 4
"""
    check(EvaluationError, text, interpret, COPY, floats(2, 3), floats(3), 1, 2)


def test_missing_arguments() -> None:
    text = """
f(a, b, x) lacks arguments for 'b', 'x'
"""
    check(EvaluationError, text, interpret, COPY, floats(2, 3))


def test_unknown_names() -> None:
    text = """
f(a, b, x) has no parameter 'y'
"""
    check(EvaluationError, text, interpret, COPY, floats(2, 3), floats(3), y=1)


def test_arguments_given_twice() -> None:
    text = """
f(a, b, x) got its parameter 'a' twice
"""
    check(EvaluationError, text, interpret, COPY, floats(2, 3), floats(3), 1, a=floats(2, 3))


def test_overlapping_arrays() -> None:
    text = """
arguments 'a' and 'b' of f overlap in memory
  because: f writes 'a'
  try: a copy of one of them
"""
    check(EvaluationError, text, interpret, COPY, WHOLE, WHOLE[0], 1)


def test_dimensions_that_no_shape_tells() -> None:
    text = """
in 'f': the shapes of the arguments do not tell the dimension 'k'
  given: extent 0 of 'a' is k * k
  try: k as a scalar parameter, or alone as an extent of a buffer
"""
    check(
        ShapeError,
        text,
        interpret,
        TensorProgram("f", (Buffer("a", (K * K,)),), Store(POINT, (), ONE)),
        floats(4),
    )


def test_contradicting_expressions() -> None:
    text = """
in 'f': extent 0 of argument 'b' is 9, and must be 8
  given: a (4,), b (9,)
  because: it is k * 2, and k = 4
"""
    check(
        ShapeError,
        text,
        interpret,
        TensorProgram("f", (Buffer("a", (K,)), Buffer("b", (K * 2,))), Store(POINT, (), ONE)),
        floats(4),
        floats(9),
    )


def test_unknown_buffers() -> None:
    text = """
in 'f': f uses the buffer 'b', which it has not got
  because: it is neither a parameter nor allocated before
"""
    check(EvaluationError, text, interpret, TensorProgram("f", (), Store(POINT, (), ONE)))


def test_unknown_variables() -> None:
    text = """
in 'f': f uses the variable 'k', which has no value here
  because: no parameter's shape, loop, block or binding around gives it one
"""
    check(
        EvaluationError,
        text,
        interpret,
        TensorProgram("f", (POINT,), Store(POINT, (), Cast(K, ONE.dtype))),
        floats(),
    )


def test_several_functions() -> None:
    text = """
the module has 2 programs, and `entry` does not say which to run
  given: programs 'f', 'g'
  try: entry='...'
"""
    check(EvaluationError, text, interpret, parse_module(MODULE), floats(4))


def test_costs_at_unknown_dimensions() -> None:
    text = """
the cost of f has no variable 'z'
  given: it has n, m, x
"""
    check(EvaluationError, text, cost(COPY).at, z=1)


def test_bounds_of_unknown_names() -> None:
    text = """
f has no parameter or dimension 'z'
"""
    check(EvaluationError, text, value_bounds, COPY, {"z": (0, 1)})


def test_programs_with_other_parameters() -> None:
    text = """
f and f have different parameters, and cannot be compared
  given: (float32[:, :], float32[:], int8) and (float32[:])
"""
    check(EvaluationError, text, equivalent, COPY, on_vector("a[0] = 1.0"))


def test_field_elements_as_indices() -> None:
    text = """
in 'f': an element of a prime field cannot be an index
  given: T.index(a[0])
"""
    check(
        EvaluationError,
        text,
        evaluate,
        TensorProgram("f", (FOUR,), Store(FOUR, (Cast(FOUR[0], dtype("index")),), FOUR[1])),
        PrimeFieldDomain(),
        [Memory(np.zeros(4, np.int64))],
    )
