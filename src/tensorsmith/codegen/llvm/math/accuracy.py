"""How wrong each function may be.

In units in the last place of the true result (also where that is denormal), with and without FMA.
Functions that are not listed are exact or rounded correctly: 0.5. The f32 functions that compute in
f64 are rounded correctly but for rare near-ties. NaN, infinities and zeros are always right.
"""

from __future__ import annotations

from typing import Final

from tensorsmith.ir.dtype import DType

ERROR_BOUNDS: Final[dict[str, tuple[float, float]]] = {
    "exp": (1.3, 1.3),
    "exp2": (1.3, 1.3),
    "expm1": (1.8, 2.0),
    "log": (1.0, 1.0),
    "log2": (1.0, 1.0),
    "log10": (1.0, 1.0),
    "log1p": (1.0, 1.0),
    "rsqrt": (1.5, 1.5),
    "sin": (0.51, 1.0),
    "cos": (0.51, 1.0),
    "tan": (0.51, 1.2),
    "asin": (0.51, 1.6),
    "acos": (0.51, 1.5),
    "atan": (0.51, 1.5),
    "atan2": (0.51, 2.0),
    "sinh": (0.51, 2.0),
    "cosh": (0.51, 1.5),
    "tanh": (1.7, 1.5),
    "asinh": (0.51, 1.5),
    "acosh": (0.51, 1.5),
    "atanh": (0.51, 1.2),
    "erf": (1.7, 1.3),
    "sigmoid": (2.2, 2.0),
    "pow": (0.51, 1.5),
}
"""The bounds in f32 and f64."""


def error_bound(name: str, dtype: DType) -> float:
    """The bound of the intrinsic `name` in float32 or float64."""
    in_f32, in_f64 = ERROR_BOUNDS.get(name, (0.5, 0.5))
    return in_f64 if dtype.bits == 64 else in_f32
