"""Primitives that bring programs to the shape of hardware, as users call them."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.schedule import blockize as blocks
from tensorsmith.schedule import decompose_padding as unpadding
from tensorsmith.schedule import padding as paddings
from tensorsmith.schedule import rolling
from tensorsmith.schedule import tensorize as tensorizing
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.intrinsic import get_intrinsic
from tensorsmith.schedule.layout import BufferSpec
from tensorsmith.schedule.primitive import Scheduled, primitive
from tensorsmith.schedule.refs import BlockRef, LoopRef


class TensorPrimitives(Scheduled):
    """Padding, blocks of blocks, and tensor intrinsics."""

    @primitive
    def pad_einsum(
        self, block: BlockRef, padding: Sequence[int]
    ) -> tuple[list[BlockRef], list[BlockRef]]:
        """Compute a contraction on ranges that are padded to multiples.

        padding: for each iterator of the block what its extent becomes a multiple of.
        The inputs are copied to padded buffers in front of the block, filled up with zeros, or with
        what the reduction ignores; where no value is ignored, a condition in the block keeps the
        padding out. The block computes all, and the valid part of each padded output is copied to
        where it belongs. Gives the blocks that pad, and those that copy back. Loops stay.

        Not legal unless every iterator has a loop of its own that holds the block alone, from 0;
        if `padding` is not one positive number an iterator; for an opaque iterator; if the block
        does more than stores and bindings, divides by what may be 0, or loads under a condition; if
        a padded iterator is no subscript of a result, or stands in a subscript with others and is
        not spatial, or not there as a multiple; if the block reads a result that it does not
        initialise; or if a reduction to be padded is of no form that `rfactor` knows.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((5, 7), name="A")
        >>> k = te.reduce_axis(7, "k")
        >>> S = te.compute((5,), lambda i: te.sum(A[i, k] * A[i, k], axis=k), "S")
        >>> s = Schedule(te.program([A], S, "squares"))
        >>> print(s.program.body)
        for i, k in T.grid(5, 7):
            with T.block("S"):
                vi, vk = T.remap("SR", i, k)
                with T.init():
                    S[vi] = 0.0
                S[vi] = S[vi] + A[vi, vk] * A[vi, vk]
        >>> s.pad_einsum(s.get_block("S"), [4, 4])
        ([block 'A_pad'], [block 'S_unpad'])
        >>> print(s.program.body)
        A_pad = T.alloc((8, 8), "float32")
        S_pad = T.alloc((8,), "float32")
        for i, k in T.grid(8, 8):
            with T.block("A_pad"):
                v_i, v_k = T.remap("SS", i, k)
                A_pad[v_i, v_k] = T.select(v_i < 5 and v_k < 7, A[v_i, v_k], 0.0)
        for i, k in T.grid(8, 8):
            with T.block("S"):
                vi, vk = T.remap("SR", i, k)
                with T.init():
                    S_pad[vi] = 0.0
                S_pad[vi] = S_pad[vi] + A_pad[vi, vk] * A_pad[vi, vk]
        for i in range(5):
            with T.block("S_unpad"):
                v_i = T.remap("S", i)
                S[v_i] = S_pad[v_i]
        """
        program, pads, backs = paddings.pad_einsum(self._of(block), block.name, padding)
        self._update(program)
        where = block.program
        return [BlockRef(where, n) for n in pads], [BlockRef(where, n) for n in backs]

    @primitive
    def decompose_padding(self, block: BlockRef, loop: LoopRef) -> BlockRef:
        """Split a block that pads: fill all with the padding, then store the values inside.

        The block must store ``select(inside, value, padding)``. In front of `loop` a new block,
        which is given back, stores the padding at all points; the block itself then runs over the
        points inside alone, as far as the condition bounds iterators that are loops of their own.

        Not legal if the block does not say so, or loads anything for its padding or condition; if
        it reads what it writes; if an iterator is not spatial; or if the loop does not hold the
        block alone.

        >>> from tensorsmith import script as T
        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((8,), name="A")
        >>> B = te.compute(
        ...     (10,), lambda i: T.select((i >= 1) & (i < 9), A[i - 1], 0.0), "B"
        ... )
        >>> s = Schedule(te.program([A], B, "pad"))
        >>> block = s.get_block("B")
        >>> (i,) = s.get_loops(block)
        >>> print(s.program.body)
        for i in range(10):
            with T.block("B"):
                vi = T.remap("S", i)
                B[vi] = T.select(1 <= vi and vi < 9, A[vi - 1], 0.0)
        >>> s.decompose_padding(block, i)
        block 'B_pad'
        >>> print(s.program.body)
        for i_pad in range(10):
            with T.block("B_pad"):
                vi = T.remap("S", i_pad)
                B[vi] = 0.0
        for i in range(8):
            with T.block("B"):
                vi = T.spatial(8, i + 1, start=1)
                B[vi] = A[vi - 1]
        """
        program, fill = unpadding.decompose_padding(self._of(block), block.name, loop.var)
        self._update(program)
        return BlockRef(block.program, fill)

    @primitive
    def rolling_buffer(self, block: BlockRef, buffer: BufferSpec = (0, "write")) -> None:
        """Keep of a buffer only the window that a loop slides over it, and compute what is new.

        buffer: one that the block writes. In the innermost loop around that slides a window over
        it, the buffer becomes circular, as long as the window; the block computes all of the
        window in the first iteration, and in others only the elements that come in.

        Not legal for a parameter, or for a buffer with strides or a layout, or passed to a call; if
        no loop around slides a window, as `compute_at` leaves it, or windows do not overlap; if the
        loop is not serial, or more than loops and sequences stand between; if the block has a
        predicate, or computes elements otherwise in other iterations; if the buffer is used outside
        of the loop or allocated inside, written by others, or read before the block or outside of
        the window; or if the loop writes what the block reads.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((18,), name="A")
        >>> B = te.compute((18,), lambda i: A[i] + 1.0, "B")
        >>> C = te.compute((16,), lambda i: B[i] + B[i + 1] + B[i + 2], "C")
        >>> s = Schedule(te.program([A], C, "blur"))
        >>> (i,) = s.get_loops(s.get_block("C"))
        >>> s.compute_at(s.get_block("B"), i)
        >>> print(s.program.body)
        B = T.alloc((18,), "float32")
        for i in range(16):
            for ax0 in range(3):
                with T.block("B"):
                    vi, vi_1 = T.remap("OS", i, ax0)
                    B[vi + vi_1] = A[vi + vi_1] + 1.0
            with T.block("C"):
                vi = T.remap("S", i)
                C[vi] = B[vi] + B[vi + 1] + B[vi + 2]
        >>> s.rolling_buffer(s.get_block("B"))
        >>> print(s.program.body)
        B = T.alloc((3,), "float32")
        for i in range(16):
            for ax0 in range(3):
                with T.block("B"):
                    vi, vi_1 = T.remap("OS", i, ax0)
                    if vi == 0 or 2 <= vi_1:
                        B[(vi + vi_1) % 3] = A[vi + vi_1] + 1.0
            with T.block("C"):
                vi = T.remap("S", i)
                C[vi] = B[vi % 3] + B[(vi + 1) % 3] + B[(vi + 2) % 3]
        """
        self._update(rolling.rolling_buffer(self._of(block), block.name, buffer))

    @primitive
    def blockize(self, target: LoopRef | Sequence[BlockRef]) -> BlockRef:
        """Make one block of a loop and all in it, or of blocks that stand together.

        The iterators of the new block, which is given back, are the outer parts of those inside;
        the blocks inside keep their names, and get the rest. The init of a reduction that the outer
        block goes on with becomes the init of that one.

        Not legal if no block stands inside; if more than loops, sequences and allocations stand
        around those inside, or other blocks between those named; if an iterator does not start at
        0, or cannot be divided in an outer and an inner part; if what is inside depends on loops
        around in another way than by iterators; or if several blocks do not have their outer parts
        and predicates in common.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"))
        >>> i, j = s.get_loops(s.get_block("B"))
        >>> outer, inner = s.split(j, [2, 4])
        >>> print(s.program.body)
        for i, j_0, j_1 in T.grid(8, 2, 4):
            with T.block("B"):
                vi = T.spatial(8, i)
                vj = T.spatial(8, j_0 * 4 + j_1)
                B[vi, vj] = A[vi, vj] + 1.0
        >>> s.blockize(inner)
        block 'B_o'
        >>> print(s.program.body)
        for i, j_0 in T.grid(8, 2):
            with T.block("B_o"):
                vi_o, vj_o = T.remap("SS", i, j_0)
                for j_1 in range(4):
                    with T.block("B"):
                        vi = T.spatial(8, vi_o)
                        vj = T.spatial(8, j_1 + vj_o * 4)
                        B[vi, vj] = A[vi, vj] + 1.0
        """
        if isinstance(target, LoopRef):
            where = target.program
            program, name = blocks.blockize_loop(self._of(target), target.var)
        else:
            found = list(target)
            if len({b.program for b in found}) != 1:
                raise ScheduleError("blockize takes a loop, or blocks of one program")
            where = found[0].program
            program, name = blocks.blockize_blocks(
                self.module.program(where), [b.name for b in found]
            )
        self._update(program)
        return BlockRef(where, name)

    @primitive
    def tensorize(self, target: BlockRef | LoopRef, intrinsic: str) -> BlockRef:
        """Have a tensor intrinsic compute what is in a block, or in a loop and all inside.

        intrinsic: the name of one that is shipped or registered (`register_intrinsic`).
        A loop becomes a block first, as by `blockize`. Gives the block, whose inside is now the
        implementation of the intrinsic; loops and blocks that were inside are gone.

        Not legal if a loop cannot be made a block; or if what is inside is not what the intrinsic
        computes, up to names and order of loops, order of operands of + and *, and where the
        operands lie: in any buffers, as boxes, with their dimensions in any order that has the
        strides asked for. What is written must be in a buffer of its own. The init of a reduction
        is not matched: `decompose_reduction` moves it out.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((16, 32), name="A")
        >>> B = te.placeholder((32, 16), name="B")
        >>> k = te.reduce_axis(32, "k")
        >>> C = te.compute((16, 16), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")
        >>> s = Schedule(te.program([A, B], C, "matmul"))
        >>> block = s.get_block("C")
        >>> i, j, k = s.get_loops(block)
        >>> outer, inner = s.split(k, [None, 16])
        >>> s.reorder(outer, i, j, inner)
        >>> s.decompose_reduction(block, outer)
        block 'C_init'
        >>> print(s.program.body)
        for i_init, j_init in T.grid(16, 16):
            with T.block("C_init"):
                vi, vj = T.remap("SS", i_init, j_init)
                C[vi, vj] = 0.0
        for k_0, i, j, k_1 in T.grid(2, 16, 16, 16):
            with T.block("C"):
                vi = T.spatial(16, i)
                vj = T.spatial(16, j)
                vk = T.reduce(32, k_0 * 16 + k_1)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        >>> s.tensorize(i, "fake_accelerator_16x16x16")
        block 'C_o'
        >>> print(s.program.body)
        for i_init, j_init in T.grid(16, 16):
            with T.block("C_init"):
                vi, vj = T.remap("SS", i_init, j_init)
                C[vi, vj] = 0.0
        for k_0 in range(2):
            with T.block("C_o"):
                vk_o = T.remap("R", k_0)
                T.block_attrs({"tensor_intrinsic": "fake_accelerator_16x16x16"})
                with T.block("accelerator"):
                    T.reads(C[0:16, 0:16], A[0:16, vk_o * 16:vk_o * 16 + 16], B[vk_o * 16:vk_o * 16 + 16, 0:16])
                    T.writes(C[0:16, 0:16])
                    T.call("fake_accelerator_gemm", C, A[0:16, vk_o * 16:vk_o * 16 + 16], B[vk_o * 16:vk_o * 16 + 16, 0:16])
        """  # noqa: E501  # the example is the program's own text
        program, name = self._of(target), ""
        if isinstance(target, LoopRef):
            program, name = blocks.blockize_loop(program, target.var)
        else:
            name = target.name
        self._update(tensorizing.tensorize(program, name, get_intrinsic(intrinsic)))
        return BlockRef(target.program, name)
