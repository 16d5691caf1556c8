"""Which loops can be computed in lanes."""

from __future__ import annotations

from tensorsmith.ir import (
    Alloc,
    Assert,
    Bind,
    Const,
    Expr,
    For,
    If,
    LoopKind,
    Seq,
    Stmt,
    Store,
    Var,
    postorder,
)


def can_have_lanes(loop: For) -> bool:
    """Whether the body can be computed for all values of the loop's variable at once.

    Each store must go to a different element for each value, and control that is not a mask may
    not depend on the variable. Whether the iterations are independent is for the schedule to say.
    Allocations are left aside.
    """
    return _plain(loop.body, {loop.var})


def is_vector(loop: For) -> bool:
    """Whether the loop is computed in lanes: a vectorised one, of which `strip_vectors` leaves
    those that can be."""
    return loop.kind is LoopKind.VECTORIZED and isinstance(loop.extent, Const)


def _plain(s: Stmt, varying: set[Var]) -> bool:
    match s:
        case Seq():
            return all(_plain(x, varying) for x in s.stmts)
        case Store():
            return any(depends(i, varying) for i in s.indices) or not depends(s.value, varying)
        case Bind():
            if depends(s.value, varying):
                varying.add(s.var)
            return True
        case If():
            return _plain(s.then, varying) and (s.orelse is None or _plain(s.orelse, varying))
        case For():
            bounds_vary = depends(s.start, varying) or depends(s.extent, varying)
            return s.kind is not LoopKind.THREAD and not bounds_vary and _plain(s.body, varying)
        case Assert() | Alloc():
            return True
    return False


def depends(e: Expr, varying: set[Var]) -> bool:
    """Whether the value of `e` uses one of the variables."""
    return any(type(x) is Var and x in varying for x in postorder(e))
