"""How loops are carried out: parallel, vectorised, unrolled, bound to a hardware axis."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from tensorsmith.ir import Const, For, LoopKind, TensorProgram, Var
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.independence import check_independent
from tensorsmith.schedule.tree import find_loop, replace_stmt

_AXIS: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def set_kind(
    program: TensorProgram, var: Var, kind: LoopKind, *, thread: str | None = None
) -> TensorProgram:
    """The program with the loop over `var` carried out as `kind` says."""
    site = find_loop(program, var)
    loop = site.node
    assert isinstance(loop, For)
    if loop.kind not in (LoopKind.SERIAL, kind):
        raise ScheduleError(
            f"loop {var.name!r} is {loop.kind.value} already",
            try_="split it first, to carry out its parts in different ways",
            where=loop.span,
        )
    if kind is LoopKind.VECTORIZED and not isinstance(loop.extent, Const):
        raise ScheduleError(
            f"loop {var.name!r} cannot be vectorized: its extent {loop.extent!r} is no constant",
            because="the lanes of a vector are counted when the code is made",
            try_="split it, and vectorise an inner loop of constant extent",
            where=loop.span,
        )
    if kind is LoopKind.THREAD and not (thread and _AXIS.fullmatch(thread)):
        raise ScheduleError(
            f"loop {var.name!r} cannot be bound to {thread!r}: that is no name of an axis",
            try_="'blockIdx.x', 'threadIdx.y', 'vthread'",
            where=loop.span,
        )
    if kind is not LoopKind.UNROLLED:
        check_independent(program, site, kind)
    return replace_stmt(program, loop, replace(loop, kind=kind, thread=thread))
