"""The lesser and the greater of floats: NaN if either is, and -0 less than +0."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.codegen import build
from tensorsmith.codegen.compilation import object_code
from tensorsmith.codegen.llvm.module import print_llvm
from tensorsmith.ir import IRModule, TensorProgram
from tensorsmith.script import parse_program
from tensorsmith.target import Target

VALUES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 3.5, -3.5]


def program(dtype: str, lanes: int, what: str, count: int) -> TensorProgram:
    """C = max(A, B) or min(A, B), `lanes` at a time."""
    return parse_program(f"""
from tensorsmith import script as T


@T.program
def f(A: T.Buffer(({count},), "{dtype}"), B: T.Buffer(({count},), "{dtype}"),
      C: T.Buffer(({count},), "{dtype}")):
    for i in range({count // lanes}):
        for j in T.vectorized({lanes}):
            C[i * {lanes} + j] = T.{what}(A[i * {lanes} + j], B[i * {lanes} + j])
""")


@pytest.mark.parametrize("what", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8, 12, 16, 24, 32, 48, 64])
def test_zeros_are_ordered_and_nan_stays(what: str, dtype: str, lanes: int) -> None:
    count = -(-(len(VALUES) ** 2) // 64) * 64 * 3 // lanes * lanes
    a, b = (
        np.resize(x, count) for x in np.array(np.meshgrid(VALUES, VALUES), dtype).reshape(2, -1)
    )
    c = np.zeros(count, dtype)
    build(program(dtype, lanes, what, count), threads=1)(a, b, c)
    chosen = np.maximum(a, b) if what == "max" else np.minimum(a, b)
    equal = (a == 0) & (b == 0)
    sign = np.signbit(a) & np.signbit(b) if what == "max" else np.signbit(a) | np.signbit(b)
    expected = np.where(equal, np.where(sign, -0.0, 0.0), chosen)
    np.testing.assert_array_equal(np.isnan(c), np.isnan(a) | np.isnan(b))
    numbers = ~np.isnan(c)
    np.testing.assert_array_equal(c[numbers], expected[numbers].astype(dtype))
    np.testing.assert_array_equal(np.signbit(c[numbers]), np.signbit(expected[numbers]))


def test_one_instruction_orders_them_where_there_is_one() -> None:
    text = print_llvm(IRModule.holding(program("float32", 64, "max", 64)), V4).render()
    assert text.count("call <16 x float> @llvm.x86.avx512.mask.range.ps.512") == 4
    assert "llvm.maximum" not in text


def test_a_single_pair_goes_the_same_way() -> None:
    text = print_llvm(IRModule.holding(program("float32", 1, "min", 64)), V4).render()
    assert "call <4 x float> @llvm.x86.avx512.mask.range.ps.128" in text
    assert "llvm.minimum" not in text


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize("lanes", [4, 8, 16, 64])
def test_every_machine_has_code_for_it(target: str, lanes: int) -> None:
    assert object_code(program("float32", lanes, "min", 64), target)


V4 = Target.named("x86-64-v4")
