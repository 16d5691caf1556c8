"""Primitives on reductions, as users call them."""

from __future__ import annotations

from tensorsmith.schedule import reduction
from tensorsmith.schedule.primitive import Scheduled, primitive
from tensorsmith.schedule.refs import BlockRef, LoopRef


class ReductionPrimitives(Scheduled):
    """Cutting reductions into parts."""

    @primitive
    def decompose_reduction(self, block: BlockRef, loop: LoopRef) -> BlockRef:
        """Move the init of a reduction into a block of its own, in front of `loop`.

        The loops that the new block needs are made anew, of the same kinds; the block given stays
        as the update. Gives the block of the init.

        Not legal if the block has no init; if the loop is not around it, or a loop of the
        reduction is outside of the loop; if a loop inside serves spatial and reduce iterators at
        once, or an opaque one; if a condition ties both; if the reduction may be over no points;
        if the extents of the init's loops are known only inside; or if something else in the loop
        uses what the init writes.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((4, 8), name="A")
        >>> k = te.reduce_axis(8, "k")
        >>> S = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), "S")
        >>> s = Schedule(te.program([A], S, "total"))
        >>> print(s.program.body)
        for i, k in T.grid(4, 8):
            with T.block("S"):
                vi, vk = T.remap("SR", i, k)
                with T.init():
                    S[vi] = 0.0
                S[vi] = S[vi] + A[vi, vk]
        >>> block = s.get_block("S")
        >>> i, k = s.get_loops(block)
        >>> s.decompose_reduction(block, k)
        block 'S_init'
        >>> print(s.program.body)
        for i in range(4):
            with T.block("S_init"):
                vi = T.remap("S", i)
                S[vi] = 0.0
            for k in range(8):
                with T.block("S"):
                    vi, vk = T.remap("SR", i, k)
                    S[vi] = S[vi] + A[vi, vk]
        """
        program, init = reduction.decompose_reduction(self._of(block), block.name, loop.var)
        self._update(program)
        return BlockRef(block.program, init)
