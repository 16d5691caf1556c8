"""What the verifier accepts never leaves its buffer, over random loops, guards and subscripts."""

from __future__ import annotations

from hypothesis import assume
from hypothesis import strategies as st

from strategies import Scope, conditions, evaluate_expr, index_exprs, scopes, values_in
from strategies.cases import fast_and_slow
from tensorsmith import ir
from tensorsmith.verify import problems
from tensorsmith.verify.errors import BoundsError
from verify.programs import ZERO, program


def _nest(scope: Scope, body: ir.Stmt) -> ir.Stmt:
    """The loops of `scope` around `body`."""
    for r in reversed(scope):
        if r.extent is not None:
            body = ir.For(r.var, r.extent, body, start=r.start)
    return body


def _program(scope: Scope, size: ir.Expr, body: ir.Stmt, target: ir.Buffer) -> ir.TensorProgram:
    """A program whose parameters have the dimensions of `scope`, and which writes `target`."""
    dims = tuple(r.var for r in scope if r.extent is None)
    shapes = ir.Buffer("shapes", dims)
    return program(shapes, target, _nest(scope, body))


def accepted_accesses_are_inside(data: st.DataObject) -> None:
    """A subscript, also under a guard, is inside for all values if it is accepted, and never is if
    the verifier says that it always is outside."""
    scope = data.draw(scopes())
    index = data.draw(index_exprs(scope))
    size = data.draw(st.one_of(st.integers(1, 64).map(ir.const), index_exprs(scope[:1], 1)))
    dims = {r.var for r in scope if r.extent is None}
    assume(all(v in dims for v in ir.free_vars(size)))
    guard = data.draw(st.one_of(st.none(), conditions(scope, 1)))
    target = ir.Buffer("A", (size,))
    body: ir.Stmt = ir.Store(target, (index,), ZERO)
    if guard is not None:
        body = ir.If(guard, body)
    found = problems(_program(scope, size, body, target))
    assume(all(isinstance(p, BoundsError) for p in found))
    always = any(" may " not in p.what for p in found)
    for _ in range(8):
        values = data.draw(values_in(scope))
        if guard is not None and not evaluate_expr(guard, values):
            continue
        inside = 0 <= evaluate_expr(index, values) < evaluate_expr(size, values)
        assert inside or found
        assert not (inside and always)


def lazy_operators_guard_their_operands(data: st.DataObject) -> None:
    """The same for a load in a branch of a select."""
    scope = data.draw(scopes())
    index = data.draw(index_exprs(scope, 2))
    guard = data.draw(conditions(scope, 1))
    source, target = ir.Buffer("A", (16,)), ir.Buffer("B", ())
    load = ir.Load(source, (index,))
    chosen = data.draw(st.booleans())
    value = ir.Select(guard, *((load, ZERO) if chosen else (ZERO, load)))
    shapes = ir.Buffer("shapes", tuple(r.var for r in scope if r.extent is None))
    body = _nest(scope, ir.Store(target, (), value))
    found = problems(program(shapes, source, target, body))
    for _ in range(8):
        values = data.draw(values_in(scope))
        if bool(evaluate_expr(guard, values)) is chosen and not found:
            assert 0 <= evaluate_expr(index, values) < 16


test_accepted, test_accepted_slow = fast_and_slow(accepted_accesses_are_inside)
test_lazy, test_lazy_slow = fast_and_slow(lazy_operators_guard_their_operands)
