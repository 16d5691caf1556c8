"""Equivalence over a prime field: equal programs agree, mutated ones do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import programs
from strategies.cases import fast_and_slow
from tensorsmith.errors import EvaluationError
from tensorsmith.evaluate import PrimeFieldDomain, Walker, equivalent
from tensorsmith.ir import (
    INTRINSICS,
    Add,
    Block,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Iter,
    IterKind,
    Max,
    Min,
    Mul,
    Select,
    Store,
    Sub,
    TensorProgram,
    Var,
    const,
    dtype,
    substitute,
    transform,
)

exp = INTRINSICS["exp"]


def elementwise(f, dtype_="float32", count=3) -> TensorProgram:
    """out[i] = f(x0[i], x1[i], ...)."""
    n, i = Var("n", low=1), Var("i")
    inputs = [Buffer(f"x{k}", (n,), dtype_) for k in range(count)]
    value = f(*[x[i] for x in inputs])
    out = Buffer("out", (n,), value.dtype)
    return TensorProgram("f", (*inputs, out), For(i, n, Store(out, (i,), value)))


def agree(f, g, dtype_="float32") -> bool:
    return equivalent(elementwise(f, dtype_), elementwise(g, dtype_))


EQUAL = {
    "distributive": (lambda a, b, c: (a + b) * c, lambda a, b, c: a * c + b * c),
    "associative": (lambda a, b, c: (a + b) + c, lambda a, b, c: a + (b + c)),
    "fraction": (lambda a, b, c: a / b + c / b, lambda a, b, c: (a + c) / b),
    "same arguments": (lambda a, b, c: exp(a + b) * c, lambda a, b, c: c * exp(b + a)),
    "sigmoid": (
        lambda a, b, c: INTRINSICS["sigmoid"](a),
        lambda a, b, c: 1.0 / (1.0 + exp(-a)),
    ),
    "fma": (INTRINSICS["fma"], lambda a, b, c: a * b + c),
    "max": (lambda a, b, c: Max(Max(a, b), c), lambda a, b, c: Max(b, Max(c, a))),
    "max of least": (lambda a, b, c: Max(a, Const(-math.inf, a.dtype)), lambda a, b, c: a),
    "max as select": (lambda a, b, c: Max(a, b), lambda a, b, c: Select(a < b, b, a)),
    "absorption": (lambda a, b, c: Min(a, Max(a, b)), lambda a, b, c: a),
    "decimals": (lambda a, b, c: a * 0.25 + a * 0.75, lambda a, b, c: a),
    "casts": (lambda a, b, c: Cast(Cast(a, dtype("float16")), a.dtype), lambda a, b, c: a),
}
DIFFERENT = {
    "sum and difference": (lambda a, b, c: a + b, lambda a, b, c: a - b),
    "exp of another": (lambda a, b, c: exp(a), lambda a, b, c: exp(b)),
    "exp and tanh": (lambda a, b, c: exp(a), lambda a, b, c: INTRINSICS["tanh"](a)),
    "relu and identity": (lambda a, b, c: Max(a, const(0, "float32")), lambda a, b, c: a),
    "relu and zero": (
        lambda a, b, c: Max(a, const(0, "float32")),
        lambda a, b, c: a - a,
    ),
    "max and min": (lambda a, b, c: Max(a, b), lambda a, b, c: Min(a, b)),
    "constants": (lambda a, b, c: a * 0.5, lambda a, b, c: a * 0.50000006),
    "square": (lambda a, b, c: a * a, lambda a, b, c: a),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_functions_agree(name):
    assert agree(*EQUAL[name])


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_functions_disagree(name):
    assert not agree(*DIFFERENT[name])


@pytest.mark.parametrize("type_", ["int8", "int32", "uint64"])
def test_integers_are_exact(type_):
    assert agree(*EQUAL["distributive"], type_)  # also where they wrap
    assert not agree(lambda a, b, c: a * b // const(2, type_), lambda a, b, c: a * b, type_)


def total(order: str) -> TensorProgram:
    """The sum of each row, with the loops in one of two orders or split."""
    n, m = Var("n", low=1), Var("m", low=4, multiple_of=4)
    a, out = Buffer("a", (n, m)), Buffer("out", (n,))
    i, k, k0, k1, vi, vk = (Var(x) for x in ("i", "k", "k0", "k1", "vi", "vk"))
    binding = k0 * 4 + k1 if order == "split" else k
    block = Block(
        "out",
        (Iter(vi, n, IterKind.SPATIAL, i), Iter(vk, m, IterKind.REDUCE, binding)),
        Store(out, (vi,), out[vi] + a[vi, vk]),
        init=Store(out, (vi,), const(0, "float32")),
    )
    nests = {
        "rows": For(i, n, For(k, m, block)),
        "columns": For(k, m, For(i, n, block)),
        "split": For(k0, m // 4, For(i, n, For(k1, const(4), block))),
    }
    return TensorProgram("total", (a, out), nests[order])


def test_the_order_of_a_sum_does_not_matter():
    assert equivalent(total("rows"), total("columns"))
    assert equivalent(total("rows"), total("split"))


def _mutations(e: Expr) -> Expr | None:
    if type(e) is Add and e.dtype.is_float:
        return Sub(e.a, e.b)
    return None


def test_a_mutated_reduction_is_found():
    program = total("rows")
    loop = program.body
    block = loop.body.body
    store = block.body
    mutant = Store(store.buffer, store.indices, transform(store.value, _mutations))
    body = For(
        loop.var, loop.extent, For(loop.body.var, loop.body.extent, _with_body(block, mutant))
    )
    assert not equivalent(program, TensorProgram("mutant", program.params, body))


def _with_body(block: Block, body: Store) -> Block:
    return Block(block.name, block.iters, body, init=block.init)


def programs_equal_themselves(data: st.DataObject) -> None:
    program = data.draw(programs())
    assert equivalent(program, program, trials=1)


test_programs_equal_themselves, test_programs_equal_themselves_slow = fast_and_slow(
    programs_equal_themselves, fast=40
)


def test_gathers_get_subscripts_inside():
    n, i = Var("n", low=1), Var("i")
    a, at, out = Buffer("a", (n,)), Buffer("at", (n,), "int32"), Buffer("out", (n,))
    where = Cast(at[i], dtype("index"))
    gather = TensorProgram("gather", (a, at, out), For(i, n, Store(out, (i,), a[where])))
    copy = TensorProgram("copy", (a, at, out), For(i, n, Store(out, (i,), a[i])))
    assert equivalent(gather, gather)
    assert not equivalent(gather, copy)


def test_dimensions_can_be_stated():
    """x * n and x + x agree for n = 2 only."""
    n, i = Var("n", low=1), Var("i")
    a, out = Buffer("a", (n,)), Buffer("out", (n,))
    times = For(i, n, Store(out, (i,), a[i] * Cast(n, a.dtype)))
    twice = For(i, n, Store(out, (i,), a[i] + a[i]))
    left, right = (TensorProgram("f", (a, out), body) for body in (times, twice))
    assert equivalent(left, right, dims={"n": 2})
    assert not equivalent(left, right, dims={"n": 3})


@given(st.integers(1, 2**31 - 2), st.integers(0, 2**31 - 2))
def test_division_inverts_multiplication(a, b):
    walker = Walker(PrimeFieldDomain(), {})
    x, y = Var("x", dtype("float32")), Var("y", dtype("float32"))
    walker.values = {x: np.int64(a), y: np.int64(b)}
    assert walker.evaluate(Mul(y, x) / x) == b


def test_parameters_must_correspond():
    with pytest.raises(EvaluationError, match="different parameters"):
        equivalent(total("rows"), elementwise(lambda a: a, count=1))


def test_substitution_keeps_equality():
    program = elementwise(lambda a, b, c: (a + b) * c)
    loop = program.body
    i = Var("other")
    store = loop.body
    renamed = For(i, loop.extent, Store(store.buffer, (i,), substitute(store.value, {loop.var: i})))
    assert equivalent(program, TensorProgram("renamed", program.params, renamed))
