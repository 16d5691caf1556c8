"""Objects that stand for an expression, with Python's operators."""

from __future__ import annotations

from abc import abstractmethod

from tensorsmith.ir import Expr, ExprLike


class Operand:
    """An object that may be used as the expression it stands for: ``k * 2``, ``A[i, k]``."""

    __slots__ = ()

    @abstractmethod
    def __as_expr__(self) -> Expr:
        """The expression. Raises a TensorsmithError that tells why if there is none."""

    def __add__(self, other: ExprLike) -> Expr:
        return self.__as_expr__() + other

    def __radd__(self, other: ExprLike) -> Expr:
        return other + self.__as_expr__()

    def __sub__(self, other: ExprLike) -> Expr:
        return self.__as_expr__() - other

    def __rsub__(self, other: ExprLike) -> Expr:
        return other - self.__as_expr__()

    def __mul__(self, other: ExprLike) -> Expr:
        return self.__as_expr__() * other

    def __rmul__(self, other: ExprLike) -> Expr:
        return other * self.__as_expr__()

    def __truediv__(self, other: ExprLike) -> Expr:
        return self.__as_expr__() / other

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return other / self.__as_expr__()

    def __floordiv__(self, other: ExprLike) -> Expr:
        return self.__as_expr__() // other

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return other // self.__as_expr__()

    def __mod__(self, other: ExprLike) -> Expr:
        return self.__as_expr__() % other

    def __rmod__(self, other: ExprLike) -> Expr:
        return other % self.__as_expr__()

    def __neg__(self) -> Expr:
        return -self.__as_expr__()

    def __lt__(self, other: ExprLike) -> Expr:
        return self.__as_expr__() < other

    def __le__(self, other: ExprLike) -> Expr:
        return self.__as_expr__() <= other

    def __gt__(self, other: ExprLike) -> Expr:
        return self.__as_expr__() > other

    def __ge__(self, other: ExprLike) -> Expr:
        return self.__as_expr__() >= other
