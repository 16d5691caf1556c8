"""Rules about slices: they sink behind views, to what can read them as they lie."""

from __future__ import annotations

from typing import Any, Final

from tensorsmith.graph.conditions import all_const
from tensorsmith.graph.patterns import Anything, Match, Op
from tensorsmith.graph.rewrite import Rule
from tensorsmith.ir import Buffer, Const, as_expr


def _reshaped_whole(m: Match) -> Buffer | None:
    """The slice of a reshape, for the reshape of a slice that leaves the axis be or cuts it in
    parts."""
    x, cut = m["x"], m.nodes["slice"].results[0]
    named: Any = m.attr("slice", "axes") or tuple(range(x.rank))
    starts, steps = m.attr("slice", "starts"), m.attr("slice", "steps") or ()
    if len(named) != 1 or not all_const(steps, 1):
        return None
    axis = named[0] % x.rank
    start, extent, whole = as_expr(starts[0]), cut.shape[axis], x.shape[axis]
    if not all(isinstance(e, Const) for e in (start, extent, whole)):
        return None
    first, count, most = (int(e.value) for e in (start, extent, whole) if isinstance(e, Const))
    after = len(cut.shape) - axis - 1
    shape = m.result.shape
    if len(shape) <= after or any(
        a is not b for a, b in zip(shape[len(shape) - after :], cut.shape[axis + 1 :], strict=True)
    ):
        return None
    at, inner = len(shape) - after - 1, 1
    while at >= 0 and isinstance(e := shape[at], Const) and inner * int(e.value) < count:
        inner *= int(e.value)
        at -= 1
    if at < 0 or not isinstance(e := shape[at], Const) or inner * int(e.value) != count:
        return None
    if inner == 0 or first % inner or most % inner:
        return None
    larger = (*shape[:at], as_expr(most // inner), *shape[at + 1 :])
    made = m.apply("reshape", x, shape=larger)
    return m.apply(
        "slice",
        made,
        starts=(as_expr(first // inner),),
        extents=(as_expr(count // inner),),
        axes=(at,),
        steps=(),
    )


SLICES: Final[tuple[Rule, ...]] = (
    Rule(
        "reshape-of-slice",
        Op("reshape", Op("slice", Anything("x"))),
        _reshaped_whole,
        lambda m: m.is_single("slice"),
    ),
)
"""Rules that keep every bit."""
