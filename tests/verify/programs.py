"""Programs for the verifier's tests: from scripts, and from the classes what no script can say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorsmith import ir
from tensorsmith.errors import Source, Span
from tensorsmith.ir.stmt import LoopKind
from tensorsmith.script import parse_module
from tensorsmith.verify import VerifyError, problems

ZERO = ir.const(0.0, "float32")


def span(text: str) -> Span:
    """A place whose line reads `text`."""
    return Span(Source("f.py", text), 1, 0, 1, len(text))


def program(*parts: ir.Param | ir.Stmt, name: str = "f") -> ir.TensorProgram:
    """The program of these parameters and statements."""
    params = tuple(p for p in parts if isinstance(p, (ir.Buffer, ir.Var)))
    return ir.TensorProgram(name, params, ir.seq(*(p for p in parts if isinstance(p, ir.Stmt))))


def loop(
    var: ir.Var, extent: ir.ExprLike, *body: ir.Stmt, kind: LoopKind = LoopKind.SERIAL
) -> ir.For:
    """A loop from 0."""
    return ir.For(var, ir.as_expr(extent), ir.seq(*body), kind)


def store(buffer: ir.Buffer, *indices: ir.ExprLike, value: ir.Expr = ZERO) -> ir.Store:
    """Store `value`."""
    return ir.Store(buffer, ir.as_exprs(indices), value)


def block(name: str, iters: Sequence[ir.Iter], *body: ir.Stmt, **fields: object) -> ir.Block:
    """A block."""
    return ir.Block(name, tuple(iters), ir.seq(*body), **fields)  # type: ignore[arg-type]


def spatial(var: ir.Var, extent: ir.ExprLike, binding: ir.ExprLike) -> ir.Iter:
    """A spatial iterator from 0."""
    return ir.Iter(var, ir.as_expr(extent), ir.IterKind.SPATIAL, ir.as_expr(binding))


def reduced(var: ir.Var, extent: ir.ExprLike, binding: ir.ExprLike) -> ir.Iter:
    """A reduce iterator from 0."""
    return ir.Iter(var, ir.as_expr(extent), ir.IterKind.REDUCE, ir.as_expr(binding))


def opaque(var: ir.Var, extent: ir.ExprLike, binding: ir.ExprLike) -> ir.Iter:
    """An opaque iterator from 0."""
    return ir.Iter(var, ir.as_expr(extent), ir.IterKind.OPAQUE, ir.as_expr(binding))


def only_problem(x: ir.TensorProgram | ir.IRModule, error: type[VerifyError]) -> str:
    """The text of the one problem of `x`, which is an `error`."""
    found = problems(x)
    assert [type(p) for p in found] == [error], [str(p) for p in found]
    return str(found[0])


HEADER = "from tensorsmith import script as T\n\n\n"


@dataclass(frozen=True)
class Case:
    """A script, and the text of the one error that it gives."""

    error: type[VerifyError]
    script: str
    text: str


def check_case(case: Case) -> None:
    """The script gives the error with its text, and no other."""
    found = problems(parse_module(HEADER + case.script, "f.py"))
    assert [type(p) for p in found] == [case.error]
    assert str(found[0]) == case.text
