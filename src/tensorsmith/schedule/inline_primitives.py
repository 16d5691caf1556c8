"""Primitives that compute values where they are used, as users call them."""

from __future__ import annotations

from tensorsmith.schedule import epilogue as epilogues
from tensorsmith.schedule import inline
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.primitive import Scheduled, primitive
from tensorsmith.schedule.refs import BlockRef


class InlinePrimitives(Scheduled):
    """Blocks that become part of others."""

    @primitive
    def compute_inline(self, block: BlockRef) -> None:
        """Compute what a block makes in its consumers, wherever they read it.

        The block and the buffer it writes are gone afterwards.

        Not legal if the block is not complete, if its body is not a single store, or if it writes a
        parameter or a buffer that others write; if the point that belongs to an element cannot be
        said (the map from iterators to elements must have a known inverse); if what it reads is
        written before the last consumer; or if the result is passed to a call.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[63 - i] * 2.0, "B")
        >>> C = te.compute((62,), lambda i: B[i] + B[i + 2], "C")
        >>> s = Schedule(te.program([A], C, "f"))
        >>> s.compute_inline(s.get_block("B"))
        >>> print(s.program.body)
        for i in range(62):
            with T.block("C"):
                vi = T.remap("S", i)
                C[vi] = A[63 - vi] * 2.0 + A[63 - (vi + 2)] * 2.0
        """
        self._update(inline.compute_inline(self._of(block), block.name))

    @primitive
    def reverse_compute_inline(self, block: BlockRef) -> None:
        """Do what a block does with the result of another one in the block that makes it.

        Where the block uses only some of the elements, the rest is left out by a condition. The
        block and the buffer between the two are gone afterwards.

        Not legal if the block is not complete, or has other than spatial iterators; if the two
        bodies are not a single store each; if the buffer between is a parameter, is written by
        others or read by others; if the block reads several of its elements at one point, or the
        point that belongs to an element cannot be said; if what it writes is used, or what it reads
        is written, in between; or if the producer is a reduction.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64, 32), name="A")
        >>> B = te.compute((64, 32), lambda i, j: A[i, j] * 2.0, "B")
        >>> C = te.compute((32, 64), lambda i, j: B[j, i] + 1.0, "C")
        >>> s = Schedule(te.program([A], C, "f"))
        >>> s.reverse_compute_inline(s.get_block("C"))
        >>> print(s.program.body)
        for i, j in T.grid(64, 32):
            with T.block("C"):
                vi, vj = T.remap("SS", i, j)
                C[vj, vi] = A[vi, vj] * 2.0 + 1.0
        """
        self._update(epilogues.reverse_compute_inline(self._of(block), block.name))

    @primitive
    def fuse_reduction_epilogue(self, reduction: BlockRef, epilogue: BlockRef) -> None:
        """Start a reduction from what would be combined with its result, such as a bias.

        The epilogue must combine the result with one more value by the operation that the reduction
        is made of: ``sum + bias``, ``max(maximum, 0)``, ``product * scale``. The value becomes part
        of the start value. Of floating-point sums and products this changes the order of the
        operations, and so the rounding. Any other epilogue cannot be done before the reduction is
        complete; `reverse_compute_at` does it as soon as a part of the results is.

        Not legal if the reduction is not of the form ``x = x op value``; if the epilogue is of
        another operation, or reads several elements of the result at a point, or not all of it; or
        if the buffer between them is a parameter, or is used by others; or if what the epilogue
        reads is written in between.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64, 32), name="A")
        >>> bias = te.placeholder((64,), name="bias")
        >>> k = te.reduce_axis(32, "k")
        >>> total = te.compute((64,), lambda i: te.sum(A[i, k], axis=k), "total")
        >>> B = te.compute((64,), lambda i: total[i] + bias[i], "B")
        >>> s = Schedule(te.program([A, bias], B, "f"))
        >>> s.fuse_reduction_epilogue(s.get_block("total"), s.get_block("B"))
        >>> print(s.program.body)
        for i, k in T.grid(64, 32):
            with T.block("total"):
                vi, vk = T.remap("SR", i, k)
                with T.init():
                    B[vi] = 0.0 + bias[vi]
                B[vi] = B[vi] + A[vi, vk]
        """
        if reduction.program != epilogue.program:
            raise ScheduleError(f"{reduction!r} and {epilogue!r} are of different programs")
        program = self._of(reduction)
        self._update(epilogues.fuse_reduction_epilogue(program, reduction.name, epilogue.name))
