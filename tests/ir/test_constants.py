"""Constants hold what their type can hold, rounded once."""

import numpy as np
import pytest

from tensorsmith.errors import DTypeError
from tensorsmith.ir import Const, const, dtype


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_floats_are_rounded_once(name: str) -> None:
    """Just above a tie between two neighbours, rounding by way of float32 would lose the excess."""
    kind = dtype(name)
    step = 2.0**-8 if name == "bfloat16" else 2.0**-11
    step = {"float8_e4m3fn": 2.0**-4, "float8_e5m2": 2.0**-3}.get(name, step)
    above = 1 + step * (1 + 2.0**-40)
    assert const(1 + step, kind).value == 1.0  # a tie goes to even
    assert const(above, kind).value == 1 + 2 * step
    assert const(-above, kind).value == -1 - 2 * step


@pytest.mark.parametrize("name", ["bfloat16", "float32", "float64", "float16"])
def test_rounding_agrees_with_exact_neighbours(name: str) -> None:
    kind = dtype(name)
    rng = np.random.default_rng(3)
    for value in rng.standard_normal(500) * 10.0 ** rng.integers(-30, 30, 500):
        got = kind.round(float(value))
        if np.isfinite(got) and got != 0:
            above = float(np.nextafter(kind.numpy.type(got), kind.numpy.type(np.inf)))
            below = float(np.nextafter(kind.numpy.type(got), kind.numpy.type(-np.inf)))
            assert abs(got - value) <= min(abs(above - value), abs(below - value))


def test_a_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(DTypeError, match="300 does not fit uint8"):
        const(300, "uint8")
    with pytest.raises(DTypeError, match=r"1\.5 is not an integer"):
        const(1.5, "int32")
    with pytest.raises(DTypeError, match="is not a bool constant"):
        const(2, "bool")


def test_zeros_and_nans_are_told_apart() -> None:
    assert const(0.0, "float32") is not const(-0.0, "float32")
    assert const(float("nan"), "float32") is const(float("nan"), "float32")
    assert const(1, "int32") is not const(1, "index")
    assert isinstance(const(1), Const)
