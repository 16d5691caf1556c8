"""Primitives on reductions, as users call them."""

from __future__ import annotations

from tensorsmith.schedule import common_factor, reduction, rfactor
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
        if the extents of the init's loops, or the buffers that it uses, are defined inside of the
        loop; or if something else in the loop uses what the init writes.

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

    @primitive
    def rfactor(self, loop: LoopRef, factor_axis: int = 0) -> BlockRef:
        """Reduce each iteration of `loop` apart, then combine the partial results.

        The partial results lie in a new buffer with one dimension more, at `factor_axis` (negative:
        counted from the end). Their block, which is given back, takes the place of the old one in
        its loops, where `loop` is spatial from now on: it can be parallel or vectorised. The block
        that combines them keeps the old name. Floats are added in another order, and are rounded
        otherwise.

        The reduction must be one operation (+, *, min, max, and, or, &, |, ^), or several results
        combined at once as `te.argmax` does; other reducers are tried on samples, and must be
        commutative and associative, and start from their neutral elements.

        Not legal if the loop is not one of the reduction; if its loops hold more than the block or
        have ranges that depend on loops; if one serves spatial and reduce iterators at once, or an
        opaque one; if a condition ties both; if the block has no init or is no reduction of such a
        form; or if `factor_axis` is no place among the dimensions.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> k = te.reduce_axis(64, "k")
        >>> S = te.compute((), lambda: te.sum(A[k], axis=k), "S")
        >>> s = Schedule(te.program([A], S, "total"))
        >>> block = s.get_block("S")
        >>> (k,) = s.get_loops(block)
        >>> outer, inner = s.split(k, [None, 16])
        >>> print(s.program.body)
        for k_0, k_1 in T.grid(4, 16):
            with T.block("S"):
                vk = T.reduce(64, k_0 * 16 + k_1)
                with T.init():
                    S[()] = 0.0
                S[()] = S[()] + A[vk]
        >>> s.rfactor(outer)
        block 'S_rf'
        >>> print(s.program.body)
        S_rf = T.alloc((4,), "float32")
        for k_0, k_1 in T.grid(4, 16):
            with T.block("S_rf"):
                vk_0, vk_1 = T.remap("SR", k_0, k_1)
                with T.init():
                    S_rf[vk_0] = 0.0
                S_rf[vk_0] = S_rf[vk_0] + A[vk_0 * 16 + vk_1]
        for k_0_out in range(4):
            with T.block("S"):
                vk_0 = T.remap("R", k_0_out)
                with T.init():
                    S[()] = 0.0
                S[()] = S[()] + S_rf[vk_0]
        """
        program, partial = rfactor.rfactor(self._of(loop), loop.var, factor_axis)
        self._update(program)
        return BlockRef(loop.program, partial)

    @primitive
    def factor_out(self, block: BlockRef) -> None:
        """Multiply a sum by what its terms have in common where it is used, not each term.

        All factors of the terms that vary with the element of the result alone are taken out.
        Floats are rounded otherwise.

        Not legal if the block is no sum of products; if there is no such factor, or no other one;
        if the result is a parameter, or written by another block, too; if a call uses it; or if
        what the factor is made of changes before the result is used.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A, B = te.placeholder((4, 8), name="A"), te.placeholder((4,), name="B")
        >>> k = te.reduce_axis(8, "k")
        >>> C = te.compute((4,), lambda i: te.sum(A[i, k] * B[i], axis=k), "C")
        >>> D = te.compute((4,), lambda i: C[i] + 1.0, "D")
        >>> s = Schedule(te.program([A, B], D, "scaled"))
        >>> s.factor_out(s.get_block("C"))
        >>> print(s.program.body)
        C = T.alloc((4,), "float32")
        for i, k in T.grid(4, 8):
            with T.block("C"):
                vi, vk = T.remap("SR", i, k)
                with T.init():
                    C[vi] = 0.0
                C[vi] = C[vi] + A[vi, vk]
        for i in range(4):
            with T.block("D"):
                vi = T.remap("S", i)
                D[vi] = C[vi] * B[vi] + 1.0
        """
        self._update(common_factor.factor_out(self._of(block), block.name))
