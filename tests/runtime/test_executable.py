"""Calling compiled programs: what they accept, and what they say of what they do not."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith import script as T
from tensorsmith.codegen import build
from tensorsmith.errors import DTypeError, EvaluationError, IRError, ShapeError, TensorsmithError
from tensorsmith.schedule import Schedule

n = T.dim("n", min=2, max=64, multiple_of=2)


@T.program
def scale(A: T.Buffer((n, 4), "float32"), x: T.float32, B: T.Buffer((n, 4), "float32")):
    for i, j in T.grid(n, 4):
        with T.block("B"):
            vi, vj = T.remap("SS", i, j)
            B[vi, vj] = A[vi, vj] * x


@pytest.fixture(scope="module")
def exe():
    return build(scale, threads=1)


def arrays(rows: int = 6) -> tuple[np.ndarray, np.ndarray]:
    a = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
    return a, np.empty_like(a)


def test_results_stand_in_the_arguments(exe) -> None:
    a, b = arrays()
    exe(a, 2, b)
    np.testing.assert_array_equal(b, a * 2)


def test_arguments_by_name(exe) -> None:
    a, b = arrays()
    exe(a, B=b, x=0.5)
    np.testing.assert_array_equal(b, a / 2)


def test_anything_with_dlpack_is_used_where_it_lies(exe) -> None:
    class Wrapped:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: object) -> object:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    a, b = arrays()
    exe(Wrapped(a), 3.0, b)
    np.testing.assert_array_equal(b, a * 3)


def test_it_says_what_it_is(exe) -> None:
    assert repr(exe) == "<executable of scale, 1 threads>"
    assert repr(exe["scale"]) == "<compiled scale(A: float32, x: float32, B: float32)>"


A, B = arrays()
ODD = np.zeros((5, 4), np.float32)
READ_ONLY = np.zeros((6, 4), np.float32)
READ_ONLY.flags.writeable = False
WRONG = {
    "rank": (
        (A[0], 1.0, B),
        ShapeError,
        "scale: 'A' must have rank 2\n  given: A: float32[4]; x: 1.0; B: float32[6, 4]",
    ),
    "extent": (
        (np.zeros((6, 5), np.float32), 1.0, B),
        ShapeError,
        (
            "scale: axis 1 of 'A' must have extent 4\n"
            "  given: A: float32[6, 5]; x: 1.0; B: float32[6, 4]"
        ),
    ),
    "two sizes of one dimension": (
        (A, 1.0, B[:4]),
        ShapeError,
        (
            "scale: axis 0 of 'B' must have extent n\n"
            "  given: A: float32[6, 4]; x: 1.0; B: float32[4, 4]"
        ),
    ),
    "fact: multiple": (
        (ODD, 1.0, ODD),
        ShapeError,
        "scale: 'n' must be a multiple of 2\n  given: A: float32[5, 4]; x: 1.0; B: float32[5, 4]",
    ),
    "fact: range": (
        (A[:0], 1.0, B[:0]),
        ShapeError,
        "scale: 'n' must be at least 2\n  given: A: float32[0, 4]; x: 1.0; B: float32[0, 4]",
    ),
    "element type": (
        (A.astype(np.float64), 1.0, B),
        DTypeError,
        "scale: 'A' must be float32\n  given: A: float64[6, 4]; x: 1.0; B: float32[6, 4]",
    ),
    "strides": (
        (np.zeros((4, 6), np.float32).T, 1.0, B),
        ShapeError,
        (
            "scale: 'A' must be contiguous, in row-major order\n"
            "  given: A: float32[6, 4]; x: 1.0; B: float32[6, 4]"
        ),
    ),
    "read-only": (
        (A, 1.0, READ_ONLY),
        DTypeError,
        (
            "argument 'B' is read-only, and"
            " <compiled scale(A: float32, x: float32, B: float32)> writes to it"
        ),
    ),
    "no tensor": (
        (3, 1.0, B),
        DTypeError,
        "'int' is not a tensor\n  try: a NumPy array, or an object with __dlpack__",
    ),
    "no number": ((A, "x", B), DTypeError, "argument 'x' must be a number, not 'x'"),
    "count": ((A, B), ShapeError, "scale takes 3 arguments, not 2\n  given: A, x, B"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments(exe, case) -> None:
    args, kind, text = WRONG[case]
    with pytest.raises(TensorsmithError) as caught:
        exe(*args)
    assert type(caught.value) is kind
    assert str(caught.value) == text


def test_wrong_names(exe) -> None:
    with pytest.raises(ShapeError, match="has no free parameter 'C'"):
        exe(A, 1.0, C=B)
    with pytest.raises(ShapeError, match="lacks 'x'"):
        exe(A, B=B)
    with pytest.raises(IRError, match="no program 'other' was compiled"):
        exe["other"]


def test_threads_must_be_positive() -> None:
    with pytest.raises(ShapeError, match="threads must be at least 1, not -1"):
        build(scale, threads=-1)


@T.program
def divide(A: T.Buffer((4,), "int32"), b: T.int32, C: T.Buffer((4,), "int32")):
    for i in range(4):
        C[i] = A[i] // b


@T.program
def checked(x: T.int32, C: T.Buffer((1,), "int32")):
    assert x > 0, "x must be positive"
    C[0] = x


def test_division_by_zero_is_an_error_not_a_crash() -> None:
    exe = build(divide, threads=1)
    a, c = np.array([7, -7, 1, -(2**31)], np.int32), np.empty(4, np.int32)
    exe(a, -1, c)
    np.testing.assert_array_equal(c, [-7, 7, -1, -(2**31)])
    with pytest.raises(EvaluationError, match="division by zero"):
        exe(a, 0, c)


def test_an_assertion_gives_its_message() -> None:
    exe = build(checked, threads=1)
    c = np.empty(1, np.int32)
    exe(1, c)
    with pytest.raises(EvaluationError, match="x must be positive"):
        exe(0, c)


@pytest.mark.parametrize("use", [build, Schedule], ids=["build", "Schedule"])
def test_what_is_no_program_is_refused(use) -> None:
    with pytest.raises(IRError) as caught:
        use("matmul")
    assert str(caught.value) == (
        "'str' is neither a module nor a function of one\n"
        "  try: an IRModule, or a program from T.program or te.program"
    )
