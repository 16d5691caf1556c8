"""Calls between programs, names of programs, depth of statements."""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from typing import Final

from tensorsmith.errors import Span
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.expr import Expr, Var, equal, substitute
from tensorsmith.ir.module import IRModule, Param, TensorProgram
from tensorsmith.ir.stmt import Invoke, Seq, Stmt
from tensorsmith.verify.context import Context, children, statements_under
from tensorsmith.verify.errors import (
    CallCycleError,
    FunctionNameError,
    NestingError,
    SignatureError,
)

MOST_NESTED: Final = 80
"""Statements inside one another, sequences not counted."""


def check_name(context: Context) -> None:
    """The program's name is an identifier, by which scripts can call it."""
    name = context.program.name
    if not name.isidentifier() or keyword.iskeyword(name):
        context.report(
            FunctionNameError,
            f"a program cannot be called {name!r}",
            because="the name must be a Python identifier, and no keyword",
        )


def check_nesting(context: Context) -> bool:
    """Statements are not nested too deeply. Returns whether that is so."""
    stack: list[tuple[Stmt, int]] = [(context.program.body, 0)]
    while stack:
        stmt, depth = stack.pop()
        inner = depth if isinstance(stmt, Seq) else depth + 1
        if inner > MOST_NESTED:
            with context.at(stmt):
                context.report(
                    NestingError,
                    f"statements are nested more than {MOST_NESTED} deep",
                    try_="one loop over several indices, or programs that call each other",
                )
            return False
        stack.extend((child, inner) for child in children(stmt))
    return True


def check_call(context: Context, stmt: Invoke) -> None:
    """The arguments fit the parameters of the program that is called."""
    callee = context.module.programs.get(stmt.callee)
    if callee is None and stmt.callee in context.module.graphs:
        context.report(
            SignatureError,
            f"{stmt.callee!r} is a graph function, and a program calls programs alone",
            try_="a graph function that calls both",
        )
    if callee is None:
        return
    if len(stmt.args) != len(callee.params):
        count = len(callee.params)
        arguments = "1 argument" if count == 1 else f"{count} arguments"
        context.report(
            SignatureError,
            f"{stmt.callee!r} takes {arguments}, not {len(stmt.args)}",
            given=f"its parameters are {', '.join(p.name for p in callee.params) or 'none'}",
        )
        return
    values = _callee_values(callee, stmt)
    for position, (arg, param) in enumerate(zip(stmt.args, callee.params, strict=True)):
        wrong = _mismatch(context, arg, param, values)
        if wrong is not None:
            context.report(
                SignatureError,
                f"argument {position} of {stmt.callee!r}, for {param.name!r}, {wrong}",
                given=f"{arg!r}",
            )


def _callee_values(callee: TensorProgram, stmt: Invoke) -> dict[Expr, Expr]:
    """What the callee's parameters and dimensions are in this call, as far as the arguments tell.

    A dimension that stands nowhere by itself gets a new variable: that of the callee may have
    another value in the caller.
    """
    values: dict[Expr, Expr] = {}
    for arg, param in zip(stmt.args, callee.params, strict=True):
        if isinstance(param, Var) and isinstance(arg, Expr) and arg.dtype is param.dtype:
            values[param] = arg
        elif isinstance(param, Buffer) and isinstance(arg, Region):
            for (_, given), wanted in zip(arg.ranges, param.shape, strict=False):
                if isinstance(wanted, Var) and wanted.dtype is given.dtype:
                    values.setdefault(wanted, given)
    for dim in callee.dims:
        values.setdefault(dim, dim.renamed(dim.name))
    return values


def _mismatch(
    context: Context, arg: Expr | Region, param: Param, values: dict[Expr, Expr]
) -> str | None:
    """What is wrong with `arg` as the value of `param`; None if nothing is."""
    if isinstance(arg, Region) and isinstance(param, Buffer):
        return _region_mismatch(context, arg, param, values)
    if isinstance(arg, Region):
        return f"is a region, and must be a scalar of type {param.dtype}"
    if isinstance(param, Buffer):
        return f"is a scalar, and must be a region of rank {param.rank}"
    return None if arg.dtype is param.dtype else f"is {arg.dtype}, and must be {param.dtype}"


def _region_mismatch(
    context: Context, arg: Region, param: Buffer, values: dict[Expr, Expr]
) -> str | None:
    if arg.buffer.dtype is not param.dtype:
        return f"holds {arg.buffer.dtype}, and must hold {param.dtype}"
    if arg.buffer.rank != param.rank:
        return f"has rank {arg.buffer.rank}, and must have rank {param.rank}"
    if arg.buffer.scope != param.scope:
        return f"lives in the scope {arg.buffer.scope!r}, and must live in {param.scope!r}"
    for axis, ((_, given), extent) in enumerate(zip(arg.ranges, param.shape, strict=True)):
        wanted = substitute(extent, values)
        same = equal(context.resolve(given), context.resolve(wanted))
        if context.prove(same) is False:
            return f"has the extent {given!r} in dimension {axis}, and must have {wanted!r}"
    return None


def call_cycles(module: IRModule) -> Iterator[CallCycleError]:
    """One error for each call that closes a cycle of programs which call each other."""
    finished: set[str] = set()
    for root in module.programs.values():
        if root.name not in finished:
            yield from _cycles_from(root, module, finished)


def _cycles_from(
    root: TensorProgram, module: IRModule, finished: set[str]
) -> Iterator[CallCycleError]:
    path = [root.name]
    work = [_calls(root, module)]
    while work:
        call = next(work[-1], None)
        if call is None:
            finished.add(path.pop())
            work.pop()
        elif call.callee in path:
            yield _cycle([*path[path.index(call.callee) :], call.callee], call, module)
        elif call.callee not in finished:
            path.append(call.callee)
            work.append(_calls(module.programs[call.callee], module))


def _calls(program: TensorProgram, module: IRModule) -> Iterator[Invoke]:
    for stmt in statements_under(program.body):
        if isinstance(stmt, Invoke) and stmt.callee in module.programs:
            yield stmt


def _cycle(names: list[str], call: Invoke, module: IRModule) -> CallCycleError:
    place: Span | str = call.span or module.programs[names[-2]].span or f"in {names[-2]!r}"
    return CallCycleError(
        f"{names[-1]!r} calls itself" + ("" if len(names) == 2 else " through others"),
        where=place,
        given=" -> ".join(names),
        because="tensor programs do not recurse",
        try_="a loop",
    )
