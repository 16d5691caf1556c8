"""The schedule language."""

from __future__ import annotations

from tensorsmith.schedule.annotation_primitives import AnnotationPrimitives
from tensorsmith.schedule.kind_primitives import KindPrimitives
from tensorsmith.schedule.layout_primitives import LayoutPrimitives
from tensorsmith.schedule.loop_primitives import LoopPrimitives
from tensorsmith.schedule.movement_primitives import MovementPrimitives
from tensorsmith.schedule.navigation import Navigation
from tensorsmith.schedule.reduction_primitives import ReductionPrimitives
from tensorsmith.schedule.sampling_primitives import SamplingPrimitives
from tensorsmith.schedule.tensor_primitives import TensorPrimitives


class Schedule(
    Navigation,
    LoopPrimitives,
    KindPrimitives,
    SamplingPrimitives,
    ReductionPrimitives,
    MovementPrimitives,
    LayoutPrimitives,
    TensorPrimitives,
    AnnotationPrimitives,
):
    """A module and the primitives that change it.

    Every primitive checks that it keeps the meaning of the program before it changes anything; if
    it does not, ScheduleError says what would be violated and nothing has happened. References to
    loops and blocks stay valid as long as the loop or block exists. `trace` has all that was done.

    >>> from tensorsmith import te
    >>> from tensorsmith.schedule import Schedule
    >>> A = te.placeholder((64,), name="A")
    >>> B = te.compute((64,), lambda i: A[i] + 1.0, "B")
    >>> s = Schedule(te.program([A], B, "add_one"))
    >>> (i,) = s.get_loops(s.get_block("B"))
    >>> outer, inner = s.split(i, [None, 8])
    >>> s.vectorize(inner)
    >>> print(s.trace)
    b0 = s.get_block(name='B')
    [l0] = s.get_loops(block=b0)
    [l1, l2] = s.split(loop=l0, factors=[None, 8])
    s.vectorize(loop=l2)
    """
