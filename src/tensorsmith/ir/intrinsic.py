"""Intrinsics: the pure functions of scalars that are not operators.

An intrinsic states its operands and result type; what it computes is known to each domain of the
evaluator and to each code generator. To add one, add a line to the table below and its meaning
there (a test lists those that are missing).
"""

from __future__ import annotations

from typing import Final

from tensorsmith.errors import DTypeError
from tensorsmith.ir.dtype import DType, Kind, bool_
from tensorsmith.ir.expr import Call, Expr, ExprLike, as_expr, describe_kinds

_FLOATS: Final = Kind.FLOAT
_SIGNED: Final = Kind.INDEX | Kind.INT | Kind.FLOAT


class Intrinsic:
    """A pure scalar function: `arity` operands of one dtype among the kinds `takes`.

    result_is_bool: whether the result is a bool; else it has the operands' dtype.
    """

    __slots__ = ("arity", "doc", "name", "result_is_bool", "takes")

    def __init__(
        self, name: str, arity: int, takes: Kind, doc: str, *, result_is_bool: bool = False
    ) -> None:
        self.name = name
        self.arity = arity
        self.takes = takes
        self.doc = doc
        self.result_is_bool = result_is_bool

    def __repr__(self) -> str:
        return self.name

    def __deepcopy__(self, memo: object) -> Intrinsic:
        return self

    def result(self, args: tuple[Expr, ...]) -> DType:
        """The result type for these operands. Raises DTypeError if they are not what it takes."""
        if len(args) != self.arity:
            raise DTypeError(f"{self.name} takes {self.arity} operands, not {len(args)}")
        dtype = args[0].dtype
        if not dtype.flag & self.takes or any(a.dtype is not dtype for a in args):
            raise DTypeError(
                f"{self.name} does not take {', '.join(a.dtype.name for a in args)}",
                given=", ".join(f"{a!r}: {a.dtype}" for a in args),
                because=f"it takes {describe_kinds(self.takes)}, all of one type",
            )
        return bool_.with_lanes(dtype.lanes) if self.result_is_bool else dtype

    def __call__(self, *args: ExprLike) -> Expr:
        """The call as an expression; Python numbers take the other operands' dtype."""
        like = next((a.dtype for a in args if isinstance(a, Expr)), None)
        if like is None and self.takes & Kind.INTEGER == 0:
            args = tuple(float(a) if isinstance(a, int) else a for a in args)
        return Call(self, tuple(as_expr(a, like) for a in args))


def _floats(arity: int, **docs: str) -> tuple[Intrinsic, ...]:
    return tuple(Intrinsic(name.rstrip("_"), arity, _FLOATS, doc) for name, doc in docs.items())


_ALL: Final[tuple[Intrinsic, ...]] = (
    *_floats(
        1,
        exp="e to the power a.",
        exp2="2 to the power a.",
        expm1="exp(a) - 1, exact near 0.",
        log="Natural logarithm; NaN below 0.",
        log2="Logarithm to base 2.",
        log10="Logarithm to base 10.",
        log1p="log(1 + a), exact near 0.",
        sqrt="Square root; NaN below 0.",
        rsqrt="1 / sqrt(a).",
        sin="Sine of radians.",
        cos="Cosine of radians.",
        tan="Tangent of radians.",
        asin="Inverse sine.",
        acos="Inverse cosine.",
        atan="Inverse tangent.",
        sinh="Hyperbolic sine.",
        cosh="Hyperbolic cosine.",
        tanh="Hyperbolic tangent.",
        asinh="Inverse hyperbolic sine.",
        acosh="Inverse hyperbolic cosine.",
        atanh="Inverse hyperbolic tangent.",
        erf="The error function.",
        sigmoid="1 / (1 + exp(-a)).",
        floor="The greatest whole number not above a.",
        ceil="The least whole number not below a.",
        trunc="a without its fraction.",
        round="The nearest whole number, halves to even.",
    ),
    *_floats(
        2,
        pow="a to the power b.",
        atan2="The angle of the point (b, a).",
        fmod="The remainder of a / b with the sign of a, exact.",
        copysign="The magnitude of a with the sign of b.",
    ),
    *_floats(3, fma="a * b + c, rounded once."),
    Intrinsic("abs", 1, _SIGNED, "Magnitude; of the least fixed-width integer, itself."),
    Intrinsic("isnan", 1, _FLOATS, "Whether a is NaN.", result_is_bool=True),
    Intrinsic("isinf", 1, _FLOATS, "Whether a is infinite.", result_is_bool=True),
    Intrinsic("isfinite", 1, _FLOATS, "Whether a is a finite number.", result_is_bool=True),
    Intrinsic("popcount", 1, Kind.BITS, "The number of bits that are set."),
    Intrinsic("clz", 1, Kind.BITS, "The number of leading zero bits; all bits for 0."),
    Intrinsic("ctz", 1, Kind.BITS, "The number of trailing zero bits; all bits for 0."),
)

INTRINSICS: Final[dict[str, Intrinsic]] = {i.name: i for i in _ALL}
"""Every intrinsic by name."""
