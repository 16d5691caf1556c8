"""Parts of classical models: kernels of support vectors, transforms of scores, look-ups by key."""

from __future__ import annotations

import math
from typing import Final, no_type_check

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.errors import ShapeError
from tensorsmith.ir import INTRINSICS, Buffer, DType, Expr, Kind, Stmt, TensorProgram, as_expr, seq
from tensorsmith.ops.indexing import check_extents
from tensorsmith.ops.operands import check_rank, computed_in, converted, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.ops.softmax import softmax
from tensorsmith.ops.statements import inlined
from tensorsmith.te import Tensor

TRANSFORMS: Final = ("none", "logistic", "softmax", "softmax_zero", "probit")
KERNELS: Final = ("linear", "poly", "rbf", "sigmoid")
NORMS: Final = ("max", "l1", "l2")

_pow: Final = INTRINSICS["pow"]


def score_transform(x: Tensor, *, kind: str) -> Tensor:
    """Scores (rows, classes) as probabilities. kind: of `TRANSFORMS`.

    softmax_zero: as softmax, but scores of 0 remain 0. probit: the inverse of the normal
    distribution, approximately. Sources: ONNX-ML; Winitzki, A handy approximation for the error
    function and its inverse, 2008.
    """
    type_ = one_dtype("score_transform", Kind.FLOAT, x)
    check_rank("score_transform", x, 2, 2)
    if kind not in TRANSFORMS:
        raise ShapeError(f"scores have no transform {kind!r}", try_=f"one of {TRANSFORMS}")
    wide = computed_in(type_)
    if kind == "softmax":
        return softmax(x, axis=1)
    if kind == "softmax_zero":
        return _softmax_zero(x, wide)
    functions = {"none": lambda v: v, "logistic": T.sigmoid, "probit": _probit}
    function = functions[kind]
    return te.compute(
        x.shape, lambda *i: converted(function(converted(x[i], wide)), type_), "transformed"
    )


def _probit(p: Expr) -> Expr:
    x = p * 2.0 - 1.0
    sign = T.select(x < 0.0, as_expr(-1.0, p.dtype), as_expr(1.0, p.dtype))
    rest = (1.0 - x) * (1.0 + x)
    log = T.log(rest)
    v = 2.0 / (math.pi * 0.147) + 0.5 * log
    inverse = sign * T.sqrt(T.neg(v) + T.sqrt(v * v - log / 0.147))
    return T.select(T.equal(rest, 0.0), 0.0, inverse * 1.41421356)


def _softmax_zero(x: Tensor, wide: DType) -> Tensor:
    k = te.reduce_axis(x.shape[1], "k")
    rows = x.shape[:1]
    largest = te.compute(rows, lambda r: te.max(converted(x[r, k], wide), axis=k), "largest")

    def power(r: Expr, c: Expr) -> Expr:
        value = converted(x[r, c], wide)
        is_zero = T.abs(value) <= 1e-7
        shifted = T.exp(value - largest[r])
        return T.select(is_zero, value * T.exp(T.neg(largest[r])), shifted)

    powers = te.compute(x.shape, power, "powers")
    total = te.compute(rows, lambda r: te.sum(powers[r, k], axis=k), "total")

    def share(r: Expr, c: Expr) -> Expr:
        return T.select(T.equal(total[r], 0.0), 0.5, powers[r, c] / total[r])

    return te.compute(x.shape, lambda r, c: converted(share(r, c), x.dtype), "softmax_zero")


def normalizer(x: Tensor, *, norm: str) -> Tensor:
    """Each row of `x` over its norm, as it is where that is 0. norm: of `NORMS`."""
    type_ = one_dtype("normalizer", Kind.FLOAT, x)
    check_rank("normalizer", x, 1, 2)
    if norm not in NORMS:
        raise ShapeError(f"there is no norm {norm!r}", try_=f"one of {NORMS}")
    wide = computed_in(type_)
    k = te.reduce_axis(x.shape[-1], "k")

    def size(*i: Expr) -> te.Reduce:
        value = converted(x[(*i, k)], wide)
        if norm == "max":
            return te.max(T.abs(value), axis=k)
        return te.sum(T.abs(value) if norm == "l1" else value * value, axis=k)

    sizes = te.compute(x.shape[:-1], size, "norm")

    def element(*i: Expr) -> Expr:
        total = sizes[i[:-1]]
        total = T.sqrt(total) if norm == "l2" else total
        value = converted(x[i], wide)
        return converted(T.select(T.equal(total, 0.0), value, value / total), type_)

    return te.compute(x.shape, element, "normalizer")


def lookup(x: Tensor, keys: Tensor, values: Tensor, default: Tensor) -> Tensor:
    """For each element of `x` the value of the first key that equals it, else `default`.

    NaN equals NaN. keys, values: one after the other; default: one element.
    """
    one_dtype("lookup", Kind.NUMBER | Kind.BOOL, x, keys)
    one_dtype("lookup", Kind.ANY, values, default)
    for table in (keys, values):
        check_rank("lookup", table, 1, 1)
    check_extents(keys.shape[0], values.shape[0], "lookup takes one value a key")
    count = keys.shape[0]
    k = te.reduce_axis(count, "k")

    def place(*i: Expr) -> te.Reduce:
        same = T.equal(x[i], keys[k])
        if x.dtype.is_float:
            same = same | (T.isnan(x[i]) & T.isnan(keys[k]))
        return te.min(T.cast(T.select(same, k.var, count), "int64"), axis=k)

    places = te.compute(x.shape, place, "place")
    otherwise = default[(0,) * default.rank]

    def element(*i: Expr) -> Expr:
        return T.select(places[i] < T.cast(count, "int64"), values[places[i]], otherwise)

    return te.compute(x.shape, element, "lookup")


def svm_kernel(
    x: Tensor,
    vectors: Tensor,
    *,
    kind: str = "linear",
    gamma: float = 0.0,
    constant: float = 0.0,
    degree: float = 0.0,
) -> Tensor:
    """(rows, vectors): the kernel of each row of `x` with each support vector.

    kind: of `KERNELS`; poly is ``(gamma x.v + constant)**degree``, sigmoid the tanh of that base,
    rbf ``exp(-gamma |x - v|**2)``. Source: Cortes and Vapnik, Support-vector networks, 1995.
    """
    type_ = one_dtype("svm_kernel", Kind.FLOAT, x, vectors)
    for operand in (x, vectors):
        check_rank("svm_kernel", operand, 2, 2)
    check_extents(x.shape[1], vectors.shape[1], "features of svm_kernel")
    if kind not in KERNELS:
        raise ShapeError(f"there is no kernel {kind!r}", try_=f"one of {KERNELS}")
    wide = computed_in(type_)
    k = te.reduce_axis(x.shape[1], "k")
    shape = (x.shape[0], vectors.shape[0])

    def term(r: Expr, v: Expr) -> te.Reduce:
        a, b = converted(x[r, k], wide), converted(vectors[v, k], wide)
        return te.sum((a - b) * (a - b) if kind == "rbf" else a * b, axis=k)

    total = te.compute(shape, term, "products")

    def element(*i: Expr) -> Expr:
        value = total[i]
        if kind == "rbf":
            value = T.exp(value * -gamma)
        elif kind != "linear":
            base = value * gamma + constant
            value = T.tanh(base) if kind == "sigmoid" else _pow(base, as_expr(degree, wide))
        return converted(value, type_)

    return te.compute(shape, element, "svm_kernel")


def pairwise_probabilities(pairs: Tensor) -> Tensor:
    """(rows, classes): the probabilities that fit those of each pair best.

    pairs: (rows, classes, classes); [r, i, j] is that of class i, of the two i and j.
    Source: Wu, Lin and Weng, Probability estimates for multi-class classification, 2004.
    """
    type_ = one_dtype("pairwise_probabilities", Kind.FLOAT, pairs)
    check_rank("pairwise_probabilities", pairs, 3, 3)
    check_extents(pairs.shape[1], pairs.shape[2], "pairs of as many classes")

    def body(source: Buffer, result: Buffer) -> Stmt:
        if any(e is as_expr(0) for e in source.shape):
            return seq()
        return inlined(_coupling(type_), source, result)

    return te.extern(body, [pairs], (pairs.shape[:2], type_), "probabilities")


def _coupling(type_: DType) -> TensorProgram:
    """Rounds of corrections of one class after the other, until no error is large."""
    rows, n = T.dims("rows n", min=0)

    @T.program
    @no_type_check  # a script, which is parsed
    def couple(R: T.Buffer((rows, n, n), type_), P: T.Buffer((rows, n), type_)) -> None:
        Q = T.alloc((n, n), type_)
        product = T.alloc((n,), type_)
        total = T.alloc((1,), type_)
        error = T.alloc((1,), type_)
        turn = T.alloc((1,), "index")
        move = T.alloc((1,), type_)
        for r in range(rows):
            for t in range(n):
                P[r, t] = T.cast(1.0, type_) / T.cast(n, type_)
                Q[t, t] = 0.0
                for j in range(n):
                    if j != t:
                        Q[t, t] = Q[t, t] + R[r, j, t] * R[r, j, t]
                        Q[t, j] = -(R[r, j, t] * R[r, t, j])
            turn[0] = 0
            error[0] = 1.0
            while turn[0] < T.max(100, n) and error[0] >= T.cast(0.005, type_) / T.cast(n, type_):
                total[0] = 0.0
                for t in range(n):
                    product[t] = 0.0
                    for j in range(n):
                        product[t] = product[t] + Q[t, j] * P[r, j]
                    total[0] = total[0] + P[r, t] * product[t]
                error[0] = 0.0
                for t in range(n):
                    error[0] = T.max(error[0], T.abs(product[t] - total[0]))
                if error[0] >= T.cast(0.005, type_) / T.cast(n, type_):
                    for t in range(n):
                        move[0] = (total[0] - product[t]) / Q[t, t]
                        P[r, t] = P[r, t] + move[0]
                        total[0] = (total[0] + move[0] * (move[0] * Q[t, t] + 2.0 * product[t])) / (
                            (1.0 + move[0]) * (1.0 + move[0])
                        )
                        for j in range(n):
                            P[r, j] = P[r, j] / (1.0 + move[0])
                            product[j] = (product[j] + move[0] * Q[t, j]) / (1.0 + move[0])
                turn[0] = turn[0] + 1

    made: TensorProgram = couple
    return made


OPERATORS: Final[tuple[Operator, ...]] = operators(
    score_transform, normalizer, lookup, svm_kernel, pairwise_probabilities
)
