"""Divisions that are computed before the place they are written at."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith import script as T
from tensorsmith.codegen import build
from tensorsmith.ir import IRModule

n, m = T.dim("n", min=1), T.dim("m", min=1)


@pytest.mark.parametrize(("rows", "columns"), [(1, 20), (3, 10), (8, 1), (2, 2)])
def test_what_a_condition_tells_holds_only_under_it(rows: int, columns: int) -> None:
    """``2n - m`` is positive in the branch; the quotient is computed once, before it."""

    @T.program
    def main(X: T.Buffer((n, m), "int64"), out: T.Buffer((2,), "int64")):
        if n > 5 and m < 3:
            out[0] = T.cast((n * 2 - m) // 3, "int64")
        out[1] = T.cast((n * 2 - m) // 3, "int64")

    out = np.full(2, -77, np.int64)
    build(IRModule.of(main), threads=1)["main"](np.zeros((rows, columns), np.int64), out)
    quotient = (rows * 2 - columns) // 3
    np.testing.assert_array_equal(out, [quotient if rows > 5 and columns < 3 else -77, quotient])


def test_a_division_that_cannot_fail_needs_no_lane_that_runs() -> None:
    """``1 % n`` moves out of the loop, where there are no lanes yet."""

    @T.program
    def main(A: T.Buffer((n,), "int32"), out: T.Buffer((n, n), "int32")):
        for i in range(n):
            for j in T.vectorized(n):
                out[i, j] = T.select(i == 0, A[1 % n], 0)

    for size in (1, 2, 7, 16, 17, 40):
        given = np.arange(1, size + 1, dtype=np.int32)
        out = np.full((size, size), -1, np.int32)
        build(IRModule.of(main), threads=1)["main"](given, out)
        expected = np.zeros((size, size), np.int32)
        expected[0] = given[1 % size]
        np.testing.assert_array_equal(out, expected)
