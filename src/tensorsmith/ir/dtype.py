"""Element types.

``index`` is the type of dimensions, loop variables and subscripts: a signed machine word whose
arithmetic never overflows *by contract* (a program that overflows it is wrong, and the interpreter
says so), so that it follows the laws of the integers. It is 64 bits wide on 64-bit targets.
The fixed-width integers wrap modulo ``2**bits``. Floats of 8 bits and less are storage: they can be
loaded, stored, cast and compared bit by bit (`Reinterpret`), not computed with.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Final

import ml_dtypes
import numpy as np

from tensorsmith.errors import DTypeError

if TYPE_CHECKING:
    from tensorsmith.ir.expr import Expr, ExprLike


class Kind(enum.IntFlag):
    """What kind of values a dtype holds. Flags, so that an operation can state what it takes."""

    INDEX = 1
    INT = 2
    UINT = 4
    BOOL = 8
    FLOAT = 16
    STORAGE = 32
    """Floats without arithmetic (8 bits and less)."""
    HANDLE = 64
    """An opaque pointer."""

    INTEGER = INDEX | INT | UINT
    BITS = INT | UINT
    NUMBER = INTEGER | FLOAT
    ANY = NUMBER | BOOL | STORAGE | HANDLE


class DType:
    """An element type, or a short vector of `lanes` of them. One object for each type.

    Make one with `dtype`, or take a named one (`float32`, ...); compare with ``is``.
    """

    __slots__ = (
        *("bits", "flag", "kind", "lanes", "max_value", "min_value", "name", "numpy"),
        *("is_bits", "is_bool", "is_float", "is_index", "is_integer"),
    )

    name: str
    kind: Kind
    flag: int
    """`kind` as a plain int: what the hot paths test."""
    bits: int
    """Bits of one lane. A bool has 8 in memory and 1 here."""
    lanes: int
    numpy: np.dtype[np.generic] | None
    """The NumPy dtype of one lane; None for a handle."""
    min_value: int
    """The least value of an integer type (of ``index``: of its 64-bit form)."""
    max_value: int
    """The greatest value of an integer type (of ``index``: of its 64-bit form)."""
    is_index: bool
    is_bits: bool
    """Whether it is a fixed-width integer, which wraps."""
    is_integer: bool
    """Whether it is ``index`` or a fixed-width integer."""
    is_bool: bool
    is_float: bool
    """Whether it is a float with arithmetic (not a storage float)."""

    def __init__(
        self, name: str, kind: Kind, bits: int, lanes: int, numpy: np.dtype[np.generic] | None
    ) -> None:
        self.name = name
        self.kind = kind
        self.flag = int(kind)
        self.bits = bits
        self.lanes = lanes
        self.numpy = numpy
        signed = kind in (Kind.INDEX, Kind.INT)
        self.min_value = -(1 << (bits - 1)) if signed else 0
        self.max_value = (1 << (bits - 1 if signed else bits)) - 1
        # Plain attributes, since the hot paths of the compiler ask for them at every node.
        self.is_index = kind is Kind.INDEX
        self.is_bits = kind in (Kind.INT, Kind.UINT)
        self.is_integer = self.is_index or self.is_bits
        self.is_bool = kind is Kind.BOOL
        self.is_float = kind is Kind.FLOAT

    def __repr__(self) -> str:
        return self.name

    def __call__(self, value: ExprLike | str) -> Expr:
        """`value` as this type: of a number a constant, of an expression a cast.

        A string names a float that has no literal: ``float32("nan")``, ``float32("-inf")``.
        Raises DTypeError if the type does not hold the number.
        """
        from tensorsmith.ir.expr import Cast, Const, as_expr

        if isinstance(value, str):
            floats = self.is_float or self.kind is Kind.STORAGE
            if not floats or value not in ("nan", "inf", "-inf"):
                raise DTypeError(f"{value!r} is not a {self.name} constant")
            return Const(float(value), self)
        if isinstance(value, (int, float, np.number, np.bool_)):
            return Const(value, self)
        return Cast(as_expr(value), self)

    def __reduce__(self) -> tuple[object, ...]:
        return dtype, (self.name,)

    def __deepcopy__(self, memo: object) -> DType:
        return self

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory. Types under 8 bits count as a whole byte, unpacked."""
        return (self.bits + 7) // 8 * self.lanes

    def round(self, value: float) -> float:
        """`value` rounded to nearest even to what a float type can hold."""
        assert self.numpy is not None
        with np.errstate(over="ignore", invalid="ignore"):
            if self.bits < 32 and self.name != "float16":
                return float(self.numpy.type(_rounded_to_odd(value)))
            return float(self.numpy.type(value))

    def with_lanes(self, lanes: int) -> DType:
        """The vector type of `lanes` such elements; one lane is the scalar."""
        if lanes < 1:
            raise DTypeError(f"a vector has at least 1 lane, not {lanes}")
        base = self.name if self.lanes == 1 else self.name.rpartition("x")[0]
        return dtype(base if lanes == 1 else f"{base}x{lanes}")

    @property
    def element(self) -> DType:
        """The type of one lane."""
        return self if self.lanes == 1 else self.with_lanes(1)


def _rounded_to_odd(value: float) -> np.float32:
    """A float32 from which rounding to fewer bits gives what rounding `value` itself would.

    The types of ml_dtypes are rounded by way of float32, and rounding twice to nearest may err.
    Source: Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008.
    """
    near = np.float32(value)
    if not np.isfinite(near) or float(near) == value:
        return near
    bits = int(near.view(np.uint32))
    if abs(float(near)) > abs(value):
        bits -= 1  # towards zero
    return np.uint32(bits | 1).view(np.float32)


def _numpy(name: str) -> np.dtype[np.generic]:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


_TYPES: Final[dict[str, DType]] = {}


def _define(name: str, kind: Kind, bits: int, numpy: np.dtype[np.generic] | None) -> DType:
    return _TYPES.setdefault(name, DType(name, kind, bits, 1, numpy))


index = _define("index", Kind.INDEX, 64, np.dtype(np.int64))
bool_ = _define("bool", Kind.BOOL, 1, np.dtype(np.bool_))
handle = _define("handle", Kind.HANDLE, 64, None)
int2 = _define("int2", Kind.INT, 2, _numpy("int2"))
int4 = _define("int4", Kind.INT, 4, _numpy("int4"))
int8 = _define("int8", Kind.INT, 8, _numpy("int8"))
int16 = _define("int16", Kind.INT, 16, _numpy("int16"))
int32 = _define("int32", Kind.INT, 32, _numpy("int32"))
int64 = _define("int64", Kind.INT, 64, _numpy("int64"))
uint2 = _define("uint2", Kind.UINT, 2, _numpy("uint2"))
uint4 = _define("uint4", Kind.UINT, 4, _numpy("uint4"))
uint8 = _define("uint8", Kind.UINT, 8, _numpy("uint8"))
uint16 = _define("uint16", Kind.UINT, 16, _numpy("uint16"))
uint32 = _define("uint32", Kind.UINT, 32, _numpy("uint32"))
uint64 = _define("uint64", Kind.UINT, 64, _numpy("uint64"))
float16 = _define("float16", Kind.FLOAT, 16, _numpy("float16"))
bfloat16 = _define("bfloat16", Kind.FLOAT, 16, _numpy("bfloat16"))
float32 = _define("float32", Kind.FLOAT, 32, _numpy("float32"))
float64 = _define("float64", Kind.FLOAT, 64, _numpy("float64"))
float8_e4m3fn = _define("float8_e4m3fn", Kind.STORAGE, 8, _numpy("float8_e4m3fn"))
float8_e4m3fnuz = _define("float8_e4m3fnuz", Kind.STORAGE, 8, _numpy("float8_e4m3fnuz"))
float8_e5m2 = _define("float8_e5m2", Kind.STORAGE, 8, _numpy("float8_e5m2"))
float8_e5m2fnuz = _define("float8_e5m2fnuz", Kind.STORAGE, 8, _numpy("float8_e5m2fnuz"))
float8_e8m0fnu = _define("float8_e8m0fnu", Kind.STORAGE, 8, _numpy("float8_e8m0fnu"))
float6_e2m3fn = _define("float6_e2m3fn", Kind.STORAGE, 6, _numpy("float6_e2m3fn"))
float6_e3m2fn = _define("float6_e3m2fn", Kind.STORAGE, 6, _numpy("float6_e3m2fn"))
float4_e2m1fn = _define("float4_e2m1fn", Kind.STORAGE, 4, _numpy("float4_e2m1fn"))

SCALAR_TYPES: Final[tuple[DType, ...]] = tuple(_TYPES.values())
"""Every scalar type, in the order of their definition."""

_VECTOR: Final = re.compile(r"(.+)x([1-9][0-9]*)")


def _numpy_name(what: object) -> str:
    """The name of a NumPy type; of something else its text, which names no type."""
    if what is None:  # for NumPy it means float64
        return repr(what)
    try:
        return np.dtype(what).name  # type: ignore[call-overload, no-any-return]
    except TypeError:
        return repr(what)


def dtype(what: DType | str | np.dtype[np.generic] | type) -> DType:
    """The dtype that `what` names.

    what: a DType, a name ('float32', 'int8x16', 'bool'), a NumPy dtype or scalar type.
    Raises DTypeError, with the known names, when there is none.
    """
    if isinstance(what, DType):
        return what
    name = what if isinstance(what, str) else _numpy_name(what)
    found = _TYPES.get(name)
    if found is not None:
        return found
    vector = _VECTOR.fullmatch(name)
    base = _TYPES.get(vector[1]) if vector else None
    if vector is None or base is None:
        known = ", ".join(t.name for t in SCALAR_TYPES)
        raise DTypeError(
            f"{name!r} is not an element type", try_=f"one of {known}, or a vector as 'float32x8'"
        )
    lanes = int(vector[2])
    if lanes == 1:
        return base
    return _TYPES.setdefault(name, DType(name, base.kind, base.bits, lanes, base.numpy))
