"""Element types and ranks."""

from __future__ import annotations

from tensorsmith.ir.dtype import Kind
from tensorsmith.ir.expr import Expr, Var
from tensorsmith.ir.stmt import Bind, Store
from tensorsmith.verify.context import Context, is_index
from tensorsmith.verify.errors import (
    BindTypeError,
    ConditionTypeError,
    IndexTypeError,
    RankError,
    StoreTypeError,
)


def check_store(context: Context, stmt: Store) -> bool:
    """The store fits its buffer: rank, subscripts, value. Returns whether the subscripts do."""
    buffer, value = stmt.buffer, stmt.value
    if value.dtype is not buffer.dtype:
        context.report(
            StoreTypeError,
            f"{value.dtype} is stored to {buffer.name!r}, which holds {buffer.dtype}",
            given=f"{value!r}: {value.dtype}",
            try_=f"T.cast(..., '{buffer.dtype}')",
        )
    if len(stmt.indices) != buffer.rank:
        subscripts = "1 subscript" if len(stmt.indices) == 1 else f"{len(stmt.indices)} subscripts"
        context.report(
            RankError,
            f"{buffer.name!r} has rank {buffer.rank}, and is stored to with {subscripts}",
            given=repr(buffer),
        )
        return False
    fits = [
        check_index(context, i, f"subscript {axis} of {buffer.name!r}")
        for axis, i in enumerate(stmt.indices)
    ]
    return all(fits)


def check_bind(context: Context, stmt: Bind) -> None:
    """The variable has the type of its value."""
    if stmt.var.dtype is not stmt.value.dtype:
        context.report(
            BindTypeError,
            f"{stmt.var.name!r} is {stmt.var.dtype}, and its value is {stmt.value.dtype}",
            given=f"{stmt.value!r}: {stmt.value.dtype}",
        )


def check_condition(context: Context, condition: Expr, of: str) -> bool:
    """The condition `of` something is a bool. Returns whether it is."""
    if condition.dtype.flag & Kind.BOOL and condition.dtype.lanes == 1:
        return True
    context.report(
        ConditionTypeError,
        f"the condition of {of} is {condition.dtype}, and must be bool",
        given=f"{condition!r}: {condition.dtype}",
        try_="a comparison, such as x != 0",
    )
    return False


def check_index(context: Context, e: Expr, what: str) -> bool:
    """`e`, which is `what`, is of type index. Returns whether it is."""
    if is_index(e):
        return True
    context.report(
        IndexTypeError,
        f"{what} is {e.dtype}, and must be index",
        given=f"{e!r}: {e.dtype}",
        try_="T.cast(..., 'index')" if e.dtype.is_integer and e.dtype.lanes == 1 else None,
    )
    return False


def check_index_var(context: Context, var: Var, what: str) -> bool:
    """`var`, which is `what`, is of type index. Returns whether it is."""
    if not is_index(var):
        context.report(
            IndexTypeError,
            f"{what} {var.name!r} is {var.dtype}, and must be index",
            try_="a cast of it where it is used",
        )
        return False
    return True
