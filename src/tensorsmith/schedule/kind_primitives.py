"""Primitives that say how loops are carried out, as users call them."""

from __future__ import annotations

from tensorsmith.ir import LoopKind
from tensorsmith.schedule import kinds
from tensorsmith.schedule.primitive import Scheduled, primitive
from tensorsmith.schedule.refs import LoopRef


class KindPrimitives(Scheduled):
    """Parallel, vectorised, unrolled loops, and loops bound to hardware axes."""

    @primitive
    def parallel(self, loop: LoopRef) -> None:
        """Have the iterations run by threads, in any order. The extent may be symbolic.

        A local buffer that every iteration fills before it reads it does not tie iterations: each
        gets one of its own.

        Not legal if the loop reaches a reduce iterator, or an opaque one of a block with calls,
        assertions or while loops; if an iteration may write what another one reads or writes; if a
        call stands in the loop outside of blocks; or if the loop is vectorised, unrolled or bound.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((4, 8), name="A")
        >>> k = te.reduce_axis(8, "k")
        >>> S = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), "S")
        >>> s = Schedule(te.program([A], S, "total"))
        >>> i, k = s.get_loops(s.get_block("S"))
        >>> s.parallel(i)
        >>> print(s.program.body)
        for i in T.parallel(4):
            for k in range(8):
                with T.block("S"):
                    vi, vk = T.remap("SR", i, k)
                    with T.init():
                        S[vi] = 0.0
                    S[vi] = S[vi] + A[vi, vk]
        >>> s.parallel(k)
        Traceback (most recent call last):
            ...
        tensorsmith.schedule.errors.ScheduleError: ...loop 'k' cannot be parallel: the reduce...
        """
        self._update(kinds.set_kind(self._of(loop), loop.var, LoopKind.PARALLEL))

    @primitive
    def vectorize(self, loop: LoopRef) -> None:
        """Have the iterations computed as the lanes of vectors.

        Not legal if the extent is not constant, or where `parallel` is not.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"))
        >>> (i,) = s.get_loops(s.get_block("B"))
        >>> _, inner = s.split(i, [None, 8])
        >>> s.vectorize(inner)
        >>> print(s.program.body)
        for i_0 in range(8):
            for i_1 in T.vectorized(8):
                with T.block("B"):
                    vi = T.spatial(64, i_0 * 8 + i_1)
                    B[vi] = A[vi] + 1.0
        """
        self._update(kinds.set_kind(self._of(loop), loop.var, LoopKind.VECTORIZED))

    @primitive
    def unroll(self, loop: LoopRef) -> None:
        """Have the body repeated instead of looped over.

        A loop of symbolic extent stays a loop.

        Not legal if the loop is parallel, vectorised or bound.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((4,), name="A")
        >>> B = te.compute((4,), lambda i: A[i] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"))
        >>> s.unroll(*s.get_loops(s.get_block("B")))
        >>> print(s.program.body)
        for i in T.unrolled(4):
            with T.block("B"):
                vi = T.remap("S", i)
                B[vi] = A[vi] + 1.0
        """
        self._update(kinds.set_kind(self._of(loop), loop.var, LoopKind.UNROLLED))

    @primitive
    def bind(self, loop: LoopRef, thread: str) -> None:
        """Have the iterations run by a hardware axis: 'blockIdx.x', 'threadIdx.y', 'vthread', ...

        Not legal if the axis has no dotted name, or where `parallel` is not.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"))
        >>> (i,) = s.get_loops(s.get_block("B"))
        >>> s.bind(i, "threadIdx.x")
        >>> print(s.program.body)
        for i in T.thread("threadIdx.x", 64):
            with T.block("B"):
                vi = T.remap("S", i)
                B[vi] = A[vi] + 1.0
        """
        self._update(kinds.set_kind(self._of(loop), loop.var, LoopKind.THREAD, thread=thread))
