"""Results against true values of 60 digits: the stated bounds hold."""

import numpy as np
import pytest

from codegen.llvm.math.compiled import compiled
from codegen.llvm.math.exhaustive import worst_error
from codegen.llvm.math.reference import TRUE, arguments, case, errors
from tensorsmith.codegen.llvm.math import ERROR_BOUNDS, error_bound
from tensorsmith.ir.dtype import dtype
from tensorsmith.ir.intrinsic import INTRINSICS

TYPES = ["float32", "float64"]
ONE_ARGUMENT = sorted(name for name in ERROR_BOUNDS if INTRINSICS[name].arity == 1)


def assert_within_bound(name, type_name, count, lanes, *, fma, seed=0):
    args, high, rest = case(name, type_name, count, seed)
    error = errors(compiled(name, type_name, lanes, fma=fma)(*args), high, rest, type_name)
    worst = int(np.argmax(error))
    assert error[worst] <= error_bound(name, dtype(type_name)), [a[worst] for a in args]


def test_every_function_that_may_round_differently_has_true_values():
    assert set(ERROR_BOUNDS) | {"sqrt"} == set(TRUE)


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("name", sorted(TRUE))
def test_error_is_within_the_stated_bound(name, type_name):
    assert_within_bound(name, type_name, 1500, 8, fma=True)


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "pow", "sin", "asinh"])
def test_error_is_within_the_bound_on_scalars_without_fma(name, type_name):
    assert_within_bound(name, type_name, 1500, 1, fma=False)


@pytest.mark.slow
@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("name", sorted(TRUE))
def test_error_is_within_the_bound_for_all_widths(name, type_name, lanes, fma):
    assert_within_bound(name, type_name, 20_000, lanes, fma=fma, seed=1)


@pytest.mark.parametrize("name", ["exp", "tan", "erf"])
def test_lanes_do_not_change_the_result(name):
    x = arguments(name, "float32", 4000)
    want = compiled(name, "float32", 8)(x)
    for lanes in (1, 4, 16):
        np.testing.assert_array_equal(compiled(name, "float32", lanes)(x), want)


@pytest.mark.parametrize("name", ["exp", "tanh"])
def test_measured_error_of_a_range_agrees_with_the_single_errors(name):
    first = np.float32(0.75).view(np.uint32).item()
    x = np.arange(first, first + 4096, dtype=np.uint32).view(np.float32)
    true = compiled(name, "float64", 8)(x.astype(np.float64))
    error = errors(compiled(name, "float32", 8)(x), true, np.zeros(x.size), "float32")
    measured = worst_error(name, first, x.size)
    assert measured.error == error.max()
    assert error[measured.bits - first] == error.max()


@pytest.mark.slow
@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_error_of_every_f32_is_within_the_bound(name, fma):
    worst = worst_error(name, fma=fma)
    assert worst.error <= error_bound(name, dtype("float32")), hex(worst.bits)
