"""Large input: deep expressions, shared subexpressions, many statements."""

from __future__ import annotations

import pytest

from tensorsmith import ir
from tensorsmith.verify import verify
from verify.programs import ZERO, loop, program, store

LEVELS = 10_000
A = ir.Buffer("A", (8,))
i = ir.Var("i")


def _chain_of_additions() -> ir.Stmt:
    e: ir.Expr = i
    for _ in range(LEVELS):
        e = e + 1 - 1
    return store(A, e)


def _chain_of_selects() -> ir.Stmt:
    e: ir.Expr = ZERO
    for k in range(LEVELS):
        e = ir.Select(ir.Lt(i, ir.const(k)), A[i], e)
    return store(A, i, value=e)


def _shared_selects() -> ir.Stmt:
    e = A[i]
    for k in range(200):
        e = ir.Select(ir.Lt(i, ir.const(k)), e + 1.0, e)
    return store(A, i, value=e)


def _long_condition() -> ir.Stmt:
    condition: ir.Expr = ir.Lt(i, ir.const(3))
    for k in range(LEVELS):
        condition = condition & ir.Lt(i, ir.const(k + 100))
    return ir.If(condition, store(A, i, value=ir.Select(condition, A[i], ZERO)))


def _chain_of_bindings() -> ir.Stmt:
    stmts: list[ir.Stmt] = []
    value: ir.Expr = i
    for k in range(500):
        var = ir.Var("x")
        stmts.append(ir.Bind(var, value + (1 if k % 2 == 0 else -1)))
        value = var
    return ir.seq(*stmts, store(A, value))


@pytest.mark.parametrize(
    "make",
    [
        _chain_of_additions,
        _chain_of_selects,
        _shared_selects,
        _long_condition,
        _chain_of_bindings,
    ],
)
def test_large_programs_are_verified(make: object) -> None:
    assert callable(make)
    verify(program(A, loop(i, 8, make())))
