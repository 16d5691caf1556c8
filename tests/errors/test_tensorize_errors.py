"""Why a tensor intrinsic does not match: the reason that `tensorize` gives, for each rule."""

from __future__ import annotations

import pytest

from tensorsmith.schedule import Schedule, ScheduleError
from tensorsmith.schedule.intrinsic import TensorIntrinsic, register_intrinsic
from tensorsmith.script import parse_program

HEADER = """
from tensorsmith import script as T

n = T.dim("n", min=1, max=8, multiple_of=4)
s = T.dim("s", min=None)

@T.program
"""
WANTED = "def f(X: T.Buffer((4, n), 'float32', strides=(s, 1)), Y: T.Buffer((n,), 'float32')):\n"
FOUND = """def f(
    A: T.Buffer((4, 8), "float32"), B: T.Buffer((8,), "float32"), I: T.Buffer((4, 8), "int32"),
    L: T.Buffer((4, 8), "float32", layout=lambda i, j: (j, i)),
    M: T.Buffer((4, 8), "float32", scope="shared")
):
    with T.block("all"):
"""
COPY = "for i, j in T.grid(4, n): X[i, j] = Y[j] + 1.0"


def reason(wanted: str, found: str, header: str = WANTED) -> str:
    """The `because` of the error, where `found` is not `wanted`."""
    program = parse_program(HEADER + header + f"    {wanted}\n")
    register_intrinsic(TensorIntrinsic("test_reason", program, program), override=True)
    indented = "".join(f"        {line}\n" for line in found.splitlines())
    schedule = Schedule(parse_program(HEADER + FOUND + indented))
    with pytest.raises(ScheduleError) as caught:
        schedule.tensorize(schedule.get_block("all"), "test_reason")
    assert (
        caught.value.what == "tensorize('all'): the block does not compute what 'test_reason' does"
    )
    return str(caught.value.because)


def test_what_matches_is_taken():
    program = parse_program(HEADER + WANTED + f"    {COPY}\n")
    register_intrinsic(TensorIntrinsic("test_reason", program, program), override=True)
    body = "        for j, i in T.grid(8, 4): A[i, j] = 1.0 + B[j]\n"
    schedule = Schedule(parse_program(HEADER + FOUND + body))
    schedule.tensorize(schedule.get_block("all"), "test_reason")


@pytest.mark.parametrize(
    ("found", "because"),
    [
        ("A[0, 0] = 1.0", "a loop is wanted where a store stands"),
        ("for i in range(4): A[i, 0] = B[i] + 1.0", "2 loops are wanted where 1 stand"),
        (
            "for i, j in T.grid(4, 8):\n    A[i, j] = B[j] + 1.0\n    A[i, j] = B[j] + 1.0",
            "a store is wanted where a sequence stands",
        ),
        (
            "for i in range(4):\n    for j in T.serial(7, start=1): A[i, j] = B[j] + 1.0",
            "'n' cannot be 7: not known is T.index(7) % 4 == 0",
        ),
        (
            "for i in range(4):\n    for j in T.serial(4, start=1): A[i, j] = B[j] + 1.0",
            "a loop does not start at 0",
        ),
        (
            "for i, j in T.grid(4, 6): A[i, j] = B[j] + 1.0",
            "'n' cannot be 6: not known is T.index(6) % 4 == 0",
        ),
        ("for i, j in T.grid(3, 8): A[i, j] = B[j] + 1.0", "4 is wanted where 3 stands"),
        (
            "for i, j in T.grid(4, 8): A[i, j] = B[j] + 2.0",
            "T.float32(1.0) is wanted where T.float32(2.0) stands",
        ),
        (
            "for i, j in T.grid(4, 8): A[i, j] = B[j] * 1.0",
            "Y[j] + 1.0 is wanted where B[j] * 1.0 stands",
        ),
        ("for i, j in T.grid(4, 8): I[i, j] = 1", "'X' holds float32, and 'I' int32"),
        (
            "for i, j in T.grid(4, 8): A[i, j] = B[j // 2] + 1.0",
            "the subscript j // 2 of 'B' is none of 'Y'",
        ),
        ("for i, j in T.grid(4, 8): A[i, j] = B[0] + 1.0", "the subscript j of 'Y' is none of 'B'"),
        ("for i, j in T.grid(4, 8): L[i, j] = B[j] + 1.0", "'L' has a layout, not strides"),
    ],
)
def test_reason(found, because):
    assert reason(COPY, found) == because


SAME_TYPE = "def f(X: T.Buffer((4, 8), 'float32'), Y: T.Buffer((8,), 'float32')):\n"


@pytest.mark.parametrize(
    ("wanted", "found", "because"),
    [
        (
            "for j in range(4): X[0, j] = Y[j] * Y[j]",
            "for j in range(4): A[0, j] = B[j] * B[j + 1]",
            "'Y' is B[0] elsewhere, and B[1] here",
        ),
        (
            "X[0, 0] = Y[0]",
            "A[0, 0] = T.float32(I[0, 0])",
            "Y[0] is wanted where T.float32(I[0, 0]) stands",
        ),
        (
            "X[0, 0] = T.float32(T.int32(Y[0]))",
            "A[0, 0] = T.float32(T.int8(B[0]))",
            "T.int32(Y[0]) is int32, and T.int8(B[0]) is int8",
        ),
        ("X[0, 0] = 1.0", "A[0, 0] = 1.0", "'Y' is not accessed"),
        (
            "if Y[0] < 1.0: X[0, 0] = 1.0\n    else: X[0, 0] = 2.0",
            "if B[0] < 1.0: A[0, 0] = 1.0",
            "one has an else",
        ),
        (
            "X[0, 0] = Y[0]\n    X[0, 1] = 1.0",
            "A[0, 0] = B[0]\nA[0, 1] = 1.0\nA[0, 2] = 1.0",
            "2 statements are wanted where 3 stand",
        ),
        (
            "assert Y[0] < 1.0, 'x'\n    X[0, 0] = 1.0",
            "assert B[0] < 1.0, 'x'\nA[0, 0] = 1.0",
            "an assertion is never matched",
        ),
    ],
)
def test_reason_in_other_statements(wanted, found, because):
    assert reason(wanted, found, SAME_TYPE) == because


@pytest.mark.parametrize(
    ("fields", "found", "because"),
    [
        ("strides=(16, 1)", "A", "'X' has the stride 16 in dimension 0, and finds 8"),
        ("scope='local'", "M", "'X' lives in 'local', and 'M' in 'shared'"),
        ("align=64", "A", "'X' is aligned to 64 bytes, and 'A' is not known to be"),
        ("strides=(s, s)", "A", "'s' is 8 elsewhere, and 1 here"),
        ("offset=n", "A", "'n' cannot be 0: not known is T.index(1) <= 0"),
    ],
)
def test_reason_in_where_operands_lie(fields, found, because):
    header = f"def f(X: T.Buffer((4, 8), 'float32', {fields})):\n"
    body = f"for i, j in T.grid(4, 8): {found}[i, j] = 1.0"
    wanted = "for i, j in T.grid(4, 8): X[i, j] = 1.0"
    assert reason(wanted, body, header) == because
