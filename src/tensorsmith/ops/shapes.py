"""Operators that bring dimensions into the world of tensors."""

from __future__ import annotations

from typing import Final

from tensorsmith import te
from tensorsmith.ir import Cast, Expr, ExprLike, Select, as_expr
from tensorsmith.ir.dtype import dtype as as_dtype
from tensorsmith.ir.expr import equal
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor


def from_elements(
    *, values: tuple[ExprLike, ...], dtype: str = "int64", is_scalar: bool = False
) -> Tensor:
    """The tensor that holds these expressions: shape (number of values,), or () for a scalar.

    values: of any type that casts to `dtype`, in terms of dimensions.
    """
    type_ = as_dtype(dtype)
    elements = [_cast(as_expr(v), type_.name) for v in values]
    if is_scalar:
        return te.compute((), lambda: elements[0], "element")

    def element(i: Expr) -> Expr:
        chosen = elements[-1] if elements else type_(0)
        for at in range(len(elements) - 2, -1, -1):
            chosen = Select(equal(i, at), elements[at], chosen)
        return chosen

    return te.compute((len(elements),), element, "elements")


def _cast(value: Expr, dtype: str) -> Expr:
    type_ = as_dtype(dtype)
    return value if value.dtype is type_ else Cast(value, type_)


OPERATORS: Final[tuple[Operator, ...]] = operators(from_elements)
