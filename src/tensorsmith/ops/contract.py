"""Contractions: products of tensors, summed over the axes that they share.

A contraction of two tensors is one sum of a product of two elements; what else an operator does to
the result is a computation of its own. Narrow floats are multiplied and summed in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tensorsmith import te
from tensorsmith.errors import ShapeError
from tensorsmith.ir import Cast, DType, Expr, Kind, Mul, as_expr
from tensorsmith.ir.dtype import float64, int32
from tensorsmith.ir.expr import equal
from tensorsmith.ops.broadcast import broadcast_element, broadcast_shapes, check_broadcasts
from tensorsmith.ops.indexing import is_one
from tensorsmith.ops.operands import check_rank, computed_in, converted, one_dtype, rounded
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.requirements import require
from tensorsmith.te import Tensor

_NUMBER: Final = Kind.BITS | Kind.FLOAT


@dataclass(frozen=True, slots=True)
class Term:
    """A tensor with a label for each of its axes; the same label twice means the diagonal.

    Axes whose label starts with a dot broadcast; others of one label have one extent, or 1.
    """

    tensor: Tensor
    labels: tuple[str, ...]

    def at(self, extents: Mapping[str, Expr], positions: Mapping[str, Expr]) -> Expr:
        """The element where the labels have these positions; an extent of 1 is repeated."""
        own = zip(self.labels, self.tensor.shape, strict=True)
        whole = [extents[n] if n.startswith(".") or is_one(e) else e for n, e in own]
        places = [positions[label] for label in self.labels]
        return broadcast_element(self.tensor, whole, places)


def label_extents(name: str, terms: Sequence[Term]) -> dict[str, Expr]:
    """The extent of each label. Raises ShapeError if the terms disagree."""
    found: dict[str, Expr] = {}
    given = ", ".join(repr(t.tensor) for t in terms)
    for term in terms:
        for label, extent in zip(term.labels, term.tensor.shape, strict=True):
            old = found.setdefault(label, extent)
            message = f"the operands of {name} do not fit: {old!r} and {extent!r} must be equal"
            if label.startswith(".") or is_one(old) or is_one(extent):
                try:
                    (found[label],) = broadcast_shapes((old,), (extent,))
                except ShapeError as error:
                    raise ShapeError(message, given=given) from error
            elif old is not extent:
                require(equal(old, extent), message, given=given)
    return found


def contracted(
    name: str,
    terms: Sequence[Term],
    to: Sequence[str],
    extents: Mapping[str, Expr],
    inner: DType | None = None,
) -> Tensor:
    """The product of one or two terms, summed over every label that is not among `to`.

    inner: the type of products, sums and the result; by default that to compute in.
    """
    type_ = computed_in(terms[0].tensor.dtype) if inner is None else inner
    used = dict.fromkeys(label for term in terms for label in term.labels)
    summed = [label for label in used if label not in to]
    over = {
        label: te.reduce_axis(extents[label], f"k{at}" if len(summed) > 1 else "k")
        for at, label in enumerate(summed)
    }

    def element(*i: Expr) -> Expr | te.Reduce:
        places: dict[str, Expr] = dict(zip(to, i, strict=True))
        places.update((label, axis.var) for label, axis in over.items())
        factors = [converted(term.at(extents, places), type_) for term in terms]
        product = factors[0] if len(factors) == 1 else Mul(*factors)
        return te.sum(product, axis=tuple(over.values())) if over else product

    return te.compute([extents[label] for label in to], element, name)


# --- Products of matrices --------------------------------------------------------------------


def _matrix_labels(
    name: str, a: Tensor, b: Tensor
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Labels of two operands and of their product, as NumPy's matmul has it."""
    check_rank(name, a, 1)
    check_rank(name, b, 1)
    rank = max(a.rank, b.rank)
    batch = tuple(f".{k}" for k in range(rank - 2))
    left = ("k",) if a.rank == 1 else (*batch[rank - a.rank :], "m", "k")
    right = ("k",) if b.rank == 1 else (*batch[rank - b.rank :], "k", "n")
    ends = (*(("m",) if a.rank > 1 else ()), *(("n",) if b.rank > 1 else ()))
    return left, right, (*batch, *ends)


def _check_inner(name: str, a: Tensor, b: Tensor, left: Expr, right: Expr) -> None:
    """Have the extents that are summed over be equal: 1 is not repeated. Raises ShapeError if they
    cannot be."""
    message = f"the operands of {name} do not fit: {left!r} and {right!r} must be equal"
    require(equal(left, right), message, given=f"{a!r} and {b!r}")


def _product(name: str, a: Tensor, b: Tensor) -> Tensor:
    left, right, to = _matrix_labels(name, a, b)
    _check_inner(name, a, b, a.shape[left.index("k")], b.shape[right.index("k")])
    terms = (Term(a, left), Term(b, right))
    return contracted(name, terms, to, label_extents(name, terms))


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """The product of matrices, or of stacks of them that broadcast.

    One of rank 1 is a row on the left, a column on the right. Raises ShapeError if they do not fit.
    """
    type_ = one_dtype("matmul", _NUMBER, a, b)
    return rounded(_product("matmul", a, b), type_, "matmul_rounded")


def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    alpha: float = 1.0,
    beta: float = 1.0,
) -> Tensor:
    """alpha * a @ b + beta * c of matrices, with `a` and `b` transposed on request.

    c: broadcasts to the product; not read if `beta` is 0. Integers are scaled in float64.
    Raises ShapeError if they do not fit.
    """
    type_ = one_dtype("gemm", _NUMBER, *(o for o in (a, b, c) if o is not None))
    check_rank("gemm", a, 2, 2)
    check_rank("gemm", b, 2, 2)
    left, right = ("km", "mk")[not trans_a], ("nk", "kn")[not trans_b]
    _check_inner("gemm", a, b, a.shape[left.index("k")], b.shape[right.index("k")])
    terms = (Term(a, tuple(left)), Term(b, tuple(right)))
    product = contracted("gemm", terms, "mn", label_extents("gemm", terms))
    bias = c if beta != 0 else None
    if bias is not None:
        check_broadcasts(bias, product, "the addend of gemm does not broadcast to the product")
    if alpha == 1 and bias is None:
        return rounded(product, type_, "gemm_rounded")
    is_scaled = alpha != 1 or (bias is not None and beta != 1)
    inner = float64 if is_scaled and not type_.is_float else computed_in(type_)

    def element(*i: Expr) -> Expr:
        value = _scaled(converted(product[i], inner), alpha)
        if bias is not None:
            addend = broadcast_element(bias, product.shape, i)
            value = value + _scaled(converted(addend, inner), beta)
        return converted(value, type_)

    return te.compute(product.shape, element, "gemm_result")


def _scaled(value: Expr, factor: float) -> Expr:
    return value if factor == 1 else value * as_expr(float(factor), value.dtype)


# --- Of integers with zero points ------------------------------------------------------------


def matmul_integer(
    a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    """(a - a_zero) @ (b - b_zero) of bytes, in int32.

    a_zero: one for all, one a row, or of shape (..., m, 1).  b_zero: one for all, one a column, or
    of shape (..., 1, n). Raises ShapeError if they do not fit.
    """
    for operand, zero in ((a, a_zero), (b, b_zero)):
        one_dtype("matmul_integer", Kind.BITS, *((operand,) if zero is None else (operand, zero)))
    left, right, to = _matrix_labels("matmul_integer", a, b)
    _check_inner("matmul_integer", a, b, a.shape[left.index("k")], b.shape[right.index("k")])
    terms = (Term(a, left), Term(b, right))
    extents = label_extents("matmul_integer", terms)
    product = contracted("matmul_integer", terms, to, extents, int32)
    zeros = [_zero_term(a, a_zero, left, "m"), _zero_term(b, b_zero, right, "n")]
    if zeros == [None, None]:
        return product
    label_extents("matmul_integer", [*terms, *(z for z in zeros if z is not None)])
    # The sum of (a - p) (b - q) is that of a b, less q times that of a, less p times that of b,
    # and p q for each product. So the product reads the bytes as they are.
    sums = [_sums(t) for t in terms]

    def element(*i: Expr) -> Expr:
        places = {"k": as_expr(0), **dict(zip(to, i, strict=True))}
        p, q = (None if z is None else Cast(z.at(extents, places), int32) for z in zeros)
        parts: list[Expr] = []
        if q is not None:
            parts.append(-q * sums[0].at(extents, places))
        if p is not None:
            parts.append(-p * sums[1].at(extents, places))
        if p is not None and q is not None:
            parts.append(p * q * Cast(extents["k"], int32))
        value, *others = parts
        for part in others:
            value = value + part
        return value + product[i]  # last: what else it needs is then computed before

    return te.compute(product.shape, element, "matmul_integer_result")


def _sums(term: Term) -> Term:
    """The sums of a term over k."""
    own = dict(zip(term.labels, term.tensor.shape, strict=True))
    left = tuple(label for label in term.labels if label != "k")
    return Term(contracted("sums", (term,), left, own, int32), left)


def _zero_term(
    operand: Tensor, zero: Tensor | None, labels: tuple[str, ...], line: str
) -> Term | None:
    """The zero points of an operand with the labels that they vary along."""
    if zero is None:
        return None
    if zero.rank == 0:
        return Term(zero, ())
    if zero.rank == 1 and (line in labels or is_one(zero.shape[0])):
        return Term(zero, (line if line in labels else "k",))
    if zero.rank == operand.rank and is_one(zero.shape[labels.index("k")]):
        return Term(zero, labels)
    raise ShapeError(
        "the zero points of matmul_integer do not fit",
        given=f"{operand!r} and {zero!r}",
        because="there is one for all, or one for each row on the left, or column on the right",
    )


OPERATORS: Final[tuple[Operator, ...]] = operators(matmul, gemm, matmul_integer)
