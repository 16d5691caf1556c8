"""NaN, infinities, zeros, the ends of domains and ranges: as IEEE 754, C and NumPy have them."""

import math

import numpy as np
import pytest

from codegen.llvm.math.compiled import compiled
from tensorsmith.codegen.llvm.math import error_bound
from tensorsmith.ir.dtype import dtype
from tensorsmith.target import Target

TYPES = ["float32", "float64"]
WIDTHS = [
    *(("float32", lanes) for lanes in (1, 4, 8, 16, 32)),
    *(("float64", lanes) for lanes in (2, 4, 8, 16)),
]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


FUNCTIONS = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": erf,
    "sigmoid": sigmoid,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "abs": np.abs,
    "pow": np.power,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "copysign": np.copysign,
}
TWO = ("pow", "atan2", "fmod", "copysign")


def special_values(type_name):
    info = np.finfo(type_name)
    least, normal, most = info.smallest_subnormal, info.smallest_normal, info.max
    positive = [0.0, least, 3 * least, normal, 0.3, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 5.0, 100.0, most]
    around_one = [1 - info.epsneg, 1 + info.eps]
    large = [float(2**23 + 1), float(2**24), 1e30, math.inf]
    values = np.array([*positive, *around_one, *large], type_name)
    return np.concatenate([values, -values, np.array([np.nan], type_name)])


def assert_same(got, want, type_name, bound):
    """Equal NaN, infinities, zeros with their signs; other numbers as near as the bounds say."""
    assert (np.isnan(got) == np.isnan(want)).all()
    exact = ~np.isnan(want) & (np.isinf(want) | (want == 0))
    np.testing.assert_array_equal(got[exact], want[exact])
    assert (np.signbit(got[exact]) == np.signbit(want[exact])).all()
    rest = np.isfinite(want) & (want != 0)
    with np.errstate(all="ignore"):
        away = np.abs(got[rest].astype(np.float64) - want[rest]) / np.spacing(np.abs(want[rest]))
    assert away.max(initial=0) <= np.ceil(bound) + 1  # NumPy's own functions may be 1 off


def check(name, type_name, args, *, fma):
    with np.errstate(all="ignore"):
        if name in ("fmod", "copysign") or type_name == "float64":
            want = FUNCTIONS[name](*args)
        else:
            want = FUNCTIONS[name](*(a.astype(np.float64) for a in args)).astype(type_name)
    got = compiled(name, type_name, 8, fma=fma)(*args)
    assert_same(got, want, type_name, error_bound(name, dtype(type_name)))


@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_special_values(name, type_name, fma):
    values = special_values(type_name)
    args = (values,)
    if name in TWO:
        args = tuple(a.ravel() for a in np.meshgrid(values, values))
    check(name, type_name, args, fma=fma)


@pytest.mark.skipif(
    not Target.host().has_scalef,
    reason="this machine has no products with powers of two",
)
@pytest.mark.parametrize(("type_name", "lanes"), WIDTHS)
@pytest.mark.parametrize(
    "name", ["erf", "exp", "exp2", "expm1", "sigmoid", "sinh", "tanh", "cosh", "pow"]
)
def test_products_with_powers_of_two_are_the_same_in_one_instruction(name, type_name, lanes):
    values = special_values(type_name)
    rng = np.random.default_rng(5)
    bits = np.frombuffer(rng.bytes(40_000 * values.itemsize), type_name)
    near = rng.uniform(-120, 120, 40_000) * (1 if type_name == "float32" else 8)
    args = (np.concatenate([values, bits, near.astype(type_name)]),)
    if name in TWO:
        args = (*args, rng.permutation(args[0]))
    usual = compiled(name, type_name, lanes)(*args)
    got = compiled(name, type_name, lanes, scalef=True)(*args)
    np.testing.assert_array_equal(got, usual)
    assert (np.signbit(got) == np.signbit(usual))[~np.isnan(usual)].all()


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_classes(name, type_name):
    x = special_values(type_name)
    np.testing.assert_array_equal(compiled(name, type_name)(x), getattr(np, name)(x))


@pytest.mark.parametrize(
    ("name", "low", "high"), [("tanh", -1, 1), ("erf", -1, 1), ("sigmoid", 0, 1), ("sin", -1, 1)]
)
@pytest.mark.parametrize("type_name", TYPES)
def test_bounded_functions_stay_within_their_range(name, low, high, type_name):
    x = np.linspace(-30, 30, 100_003).astype(type_name)
    y = compiled(name, type_name)(x)
    assert low <= y.min()
    assert y.max() <= high


@pytest.mark.parametrize("name", ["tanh", "erf", "sinh", "asinh", "atan", "expm1", "log1p", "sin"])
def test_odd_functions_keep_tiny_numbers(name):
    tiny = np.finfo(np.float32).smallest_subnormal
    x = np.array([tiny, 5 * tiny, 1e-30], np.float32)
    got = compiled(name, "float32")(x)
    factor = 2 / math.sqrt(math.pi) if name == "erf" else 1
    np.testing.assert_array_equal(got, (x.astype(np.float64) * factor).astype(np.float32))
