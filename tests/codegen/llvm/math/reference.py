"""True values of the functions, arguments to try them on, and errors in units in the last place."""

import functools
import math

import mpmath
import numpy as np
from mpmath import mp

mp.prec = 200

TRUE = {
    "exp": mp.exp,
    "exp2": lambda x: mp.mpf(2) ** x,
    "expm1": mp.expm1,
    "log": mp.log,
    "log2": lambda x: mp.log(x) / mp.log(2),
    "log10": mp.log10,
    "log1p": mp.log1p,
    "sqrt": mp.sqrt,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "asin": mp.asin,
    "acos": mp.acos,
    "atan": mp.atan,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "asinh": mp.asinh,
    "acosh": mp.acosh,
    "atanh": mp.atanh,
    "erf": mp.erf,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "pow": mp.power,
    "atan2": mp.atan2,
}
"""The functions that are rounded to more than one possible result."""

DOMAIN = {
    "log": (0, math.inf),
    "log2": (0, math.inf),
    "log10": (0, math.inf),
    "log1p": (-1, math.inf),
    "sqrt": (0, math.inf),
    "rsqrt": (0, math.inf),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "acosh": (1, math.inf),
    "atanh": (-1, 1),
}
"""Open intervals; the ends are special values."""

INTERESTING = {
    "exp": [(-746, 710), (-105, 89), (-1, 1)],
    "exp2": [(-1076, 1025), (-151, 129), (-1, 1)],
    "expm1": [(-40, 710), (-20, 90), (-2, 2)],
    "log": [(0, 2), (0.6, 1.5), (0, 100)],
    "log2": [(0, 2), (0.6, 1.5), (0, 100)],
    "log10": [(0, 2), (0.6, 1.5), (0, 100)],
    "log1p": [(-1, 1), (-0.5, 0.5), (0, 100)],
    "sin": [(-4, 4), (-1000, 1000), (-2e6, 2e6), (-2e7, 2e7)],
    "cos": [(-4, 4), (-1000, 1000), (-2e6, 2e6), (-2e7, 2e7)],
    "tan": [(-4, 4), (-1000, 1000), (-2e6, 2e6)],
    "asin": [(-1, 1), (0.49, 0.51), (0.99, 1)],
    "acos": [(-1, 1), (0.49, 0.51), (0.99, 1), (-1, -0.99)],
    "atan": [(-3, 3), (-20, 20)],
    "sinh": [(-711, 711), (-90, 90), (-2, 2)],
    "cosh": [(-711, 711), (-90, 90), (-2, 2)],
    "tanh": [(-20, 20), (-9.2, 9.2), (-1, 1)],
    "asinh": [(-3, 3), (-100, 100)],
    "acosh": [(1, 3), (1, 1.01), (1, 100)],
    "atanh": [(-1, 1), (-0.6, 0.6), (0.99, 1)],
    "erf": [(-6, 6), (-4, 4), (-1.5, 1.5)],
    "sigmoid": [(-750, 40), (-105, 20), (-5, 5)],
}


def floats(rng, count, type_name):
    """Finite floats with random bits: all exponents are alike."""
    bits = 64 if type_name == "float64" else 32
    raw = rng.integers(0, 2**bits, count, dtype=f"uint{bits}").view(type_name)
    return raw[np.isfinite(raw)]


def arguments(name, type_name, count, seed=0):
    """About `count` arguments of a one-argument function, where it is defined."""
    rng = np.random.default_rng(seed)
    ranges = INTERESTING.get(name, [(-10, 10)])
    each = count // (len(ranges) + 1)
    parts = [rng.uniform(low, high, each).astype(type_name) for low, high in ranges]
    x = np.concatenate([*parts, floats(rng, each, type_name)])
    low, high = DOMAIN.get(name, (-math.inf, math.inf))
    if name in ("exp", "exp2", "expm1", "sinh", "cosh", "sigmoid"):
        low, high = -1100, 1100  # beyond, there is nothing but 0 and infinity
    return x[(x > low) & (x < high)]


def pairs(name, type_name, count, seed=0):
    """Arguments of a two-argument function."""
    rng = np.random.default_rng(seed)
    x = rng.lognormal(0, 2, count).astype(type_name)
    y = (rng.normal(0, 1, count) * 10.0 ** rng.integers(-3, 3, count)).astype(type_name)
    with np.errstate(over="ignore", divide="ignore"):
        target = (
            rng.uniform(-140, 128, count)
            if type_name == "float32"
            else rng.uniform(-1060, 1024, count)
        )
        near = (target / np.log2(x.astype(np.float64))).astype(type_name)  # x**y is about 2**target
    if name == "pow":
        bits = floats(rng, count, type_name)
        y = np.where(rng.random(count) < 0.5, near, y)
        wild = np.abs(np.resize(bits, count))
        chosen = rng.random(count) < 0.2
        wild_y = (target / np.log2(np.maximum(wild.astype(np.float64), 5e-324))).astype(type_name)
        x, y = np.where(chosen, wild, x), np.where(chosen, wild_y, y)
        keep = (x > 0) & np.isfinite(y)
        return x[keep], y[keep]
    a, b = floats(rng, count, type_name), floats(rng, count, type_name)
    size = min(a.size, b.size)
    x = x * rng.choice([-1, 1], count).astype(type_name)
    return np.concatenate([x, a[:size]]), np.concatenate([y, b[:size]])


def true_values(function, type_name, *arrays):
    """The values as float64, and what those lack, in units in the last place of `type_name`."""
    high, rest = [], []
    for args in zip(*arrays, strict=True):
        value = function(*(mp.mpf(float(a)) for a in args))
        h = float(value) if mpmath.isfinite(value) else math.nan
        high.append(h)
        finite = math.isfinite(h)
        rest.append(float((value - mp.mpf(h)) / float(ulp(h, type_name))) if finite else 0.0)
    return np.array(high), np.array(rest)


@functools.cache
def case(name, type_name, count, seed=0):
    """Arguments of the function `name`, and its true values."""
    if name in ("pow", "atan2"):
        args = pairs(name, type_name, count, seed)
    else:
        args = (arguments(name, type_name, count, seed),)
    return args, *true_values(TRUE[name], type_name, *args)


def ulp(value, type_name):
    """The unit in the last place of `value`, a float64 that may be outside the type's range."""
    info = np.finfo(type_name)
    _, exponent = np.frexp(np.asarray(value, np.float64))
    return np.ldexp(1.0, np.maximum(exponent - 1, info.minexp) - info.nmant)


def errors(got, high, rest, type_name):
    """How far `got` is from high + rest ulp, in units in the last place."""
    info = np.finfo(type_name)
    limit = float(info.max)
    overflows = np.abs(high) > limit if type_name == "float64" else np.abs(high) >= limit + 2.0**103
    got = got.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs((got - high) / ulp(high, type_name) - rest)
    same_infinity = overflows & (got == np.copysign(np.inf, high))
    return np.where(same_infinity, 0.0, np.where(np.isnan(distance), np.inf, distance))
