"""Expressions as terms of the SMT solver z3, by the semantics stated in `tensorsmith.ir.expr`.

``index`` is z3's unbounded Int, fixed widths are bit vectors, bools are Bool. Floor division of
z3's integers by a positive divisor is its own ``div``; for other divisors it is spelt out.
"""

from __future__ import annotations

import z3

from tensorsmith.ir import expr as ir
from tensorsmith.ir.dtype import Kind
from tensorsmith.ir.expr import Expr, Var


class Encoder:
    """Encodes expressions; `facts` collects what holds of their variables and divisors."""

    def __init__(self) -> None:
        self.known: dict[Expr, z3.ExprRef] = {}
        self.facts: list[z3.BoolRef] = []

    def encode(self, root: Expr) -> z3.ExprRef:
        for e in ir.postorder(root):
            if e not in self.known:
                self.known[e] = self.term(e, [self.known[a] for a in e.args])
        return self.known[root]

    def term(self, e: Expr, args: list[z3.ExprRef]) -> z3.ExprRef:
        if isinstance(e, ir.Const):
            return self.constant(e)
        if isinstance(e, Var):
            return self.variable(e)
        if isinstance(e, ir.Cast):
            return self.cast(e, args[0])
        if isinstance(e, ir.Reinterpret):
            return args[0]
        operand = e.args[0].dtype
        if type(e) in LOGICAL:
            return LOGICAL[type(e)](*args)
        if operand.flag & Kind.INDEX:
            if type(e) in (ir.FloorDiv, ir.FloorMod, ir.TruncDiv, ir.TruncMod):
                self.facts.append(args[1] != 0)
            return INTEGER[type(e)](*args)
        table = SIGNED if operand.kind is Kind.INT else UNSIGNED
        return table[type(e)](*args)

    def constant(self, e: ir.Const) -> z3.ExprRef:
        if e.dtype.flag & Kind.INDEX:
            return z3.IntVal(e.value)
        if e.dtype.flag & Kind.BOOL:
            return z3.BoolVal(e.value)
        return z3.BitVecVal(e.value, e.dtype.bits)

    def variable(self, v: Var) -> z3.ExprRef:
        name = f"{v.name}.{v.serial}"
        if v.dtype.flag & Kind.BOOL:
            return z3.Bool(name)
        if not v.dtype.flag & Kind.INDEX:
            return z3.BitVec(name, v.dtype.bits)
        term = z3.Int(name)
        if v.low is not None:
            self.facts.append(term >= v.low)
        if v.high is not None:
            self.facts.append(term <= v.high)
        if v.multiple_of != 1:
            self.facts.append(term % v.multiple_of == 0)
        return term

    def cast(self, e: Expr, a: z3.ExprRef) -> z3.ExprRef:
        source, target = e.args[0].dtype, e.dtype
        if source is target:
            return a
        if target.flag & Kind.INDEX:
            return z3.BV2Int(a, is_signed=source.kind is Kind.INT)
        if source.flag & Kind.INDEX:
            return z3.Int2BV(a, target.bits)
        raise NotImplementedError(f"{source} to {target}")


def _floor_div(a: z3.ArithRef, b: z3.ArithRef) -> z3.ArithRef:
    if z3.is_int_value(b) and b.as_long() > 0:
        return a / b
    return z3.If(b > 0, a / b, (-a) / (-b))


def _trunc_div(a: z3.ArithRef, b: z3.ArithRef) -> z3.ArithRef:
    magnitude = z3.If(a < 0, -a, a) / z3.If(b < 0, -b, b)
    return z3.If((a < 0) == (b < 0), magnitude, -magnitude)


def _signed_floor_div(a: z3.BitVecRef, b: z3.BitVecRef) -> z3.BitVecRef:
    quotient = a / b  # rounds towards zero
    exact = z3.SRem(a, b) == 0
    return z3.If(z3.Or(exact, (a < 0) == (b < 0)), quotient, quotient - 1)


def _select(c: z3.BoolRef, a: z3.ExprRef, b: z3.ExprRef) -> z3.ExprRef:
    return z3.If(c, a, b)


LOGICAL = {ir.And: z3.And, ir.Or: z3.Or, ir.Not: z3.Not, ir.Select: _select}
_COMMON = {
    ir.Add: lambda a, b: a + b,
    ir.Sub: lambda a, b: a - b,
    ir.Mul: lambda a, b: a * b,
    ir.Neg: lambda a: -a,
    ir.Eq: lambda a, b: a == b,
    ir.Ne: lambda a, b: a != b,
}
INTEGER = _COMMON | {
    ir.FloorDiv: _floor_div,
    ir.FloorMod: lambda a, b: a - b * _floor_div(a, b),
    ir.TruncDiv: _trunc_div,
    ir.TruncMod: lambda a, b: a - b * _trunc_div(a, b),
    ir.Min: lambda a, b: z3.If(a <= b, a, b),
    ir.Max: lambda a, b: z3.If(a <= b, b, a),
    ir.Lt: lambda a, b: a < b,
    ir.Le: lambda a, b: a <= b,
}
_BITS = _COMMON | {
    ir.BitAnd: lambda a, b: a & b,
    ir.BitOr: lambda a, b: a | b,
    ir.BitXor: lambda a, b: a ^ b,
    ir.BitNot: lambda a: ~a,
    ir.ShiftLeft: lambda a, b: a << b,
}
SIGNED = _BITS | {
    ir.FloorDiv: _signed_floor_div,
    ir.FloorMod: lambda a, b: a - b * _signed_floor_div(a, b),
    ir.TruncDiv: lambda a, b: a / b,
    ir.TruncMod: z3.SRem,
    ir.Min: lambda a, b: z3.If(a <= b, a, b),
    ir.Max: lambda a, b: z3.If(a <= b, b, a),
    ir.Lt: lambda a, b: a < b,
    ir.Le: lambda a, b: a <= b,
    ir.ShiftRight: lambda a, b: a >> b,
}
UNSIGNED = _BITS | {
    ir.FloorDiv: z3.UDiv,
    ir.FloorMod: z3.URem,
    ir.TruncDiv: z3.UDiv,
    ir.TruncMod: z3.URem,
    ir.Min: lambda a, b: z3.If(z3.ULE(a, b), a, b),
    ir.Max: lambda a, b: z3.If(z3.ULE(a, b), b, a),
    ir.Lt: z3.ULT,
    ir.Le: z3.ULE,
    ir.ShiftRight: z3.LShR,
}


ATTEMPTS = ({}, {"smt.arith.solver": 6}, {"smt.random_seed": 7})
"""Settings of the solver, tried in turn: which of them decides products of variables is luck."""


def proves(condition: Expr, left: Expr, right: Expr, *, timeout_ms: int = 20_000) -> bool:
    """Whether z3 proves ``left == right`` wherever `condition` holds. Raises if it cannot tell."""
    encoder = Encoder()
    a, b, c = (encoder.encode(e) for e in (left, right, condition))
    for settings in ATTEMPTS:
        solver = z3.Solver()
        solver.set("timeout", timeout_ms)
        for name, value in settings.items():
            solver.set(name, value)
        solver.add(*encoder.facts, c, a != b)
        answer = solver.check()
        if answer != z3.unknown:
            return bool(answer == z3.unsat)
    raise TimeoutError(f"z3 cannot tell within {timeout_ms} ms: {solver.reason_unknown()}")
