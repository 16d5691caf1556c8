"""Primitives that copy buffers through other memory, as users call them."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.schedule import cache, inplace
from tensorsmith.schedule.primitive import Scheduled, primitive
from tensorsmith.schedule.refs import BlockRef, LoopRef


class CachePrimitives(Scheduled):
    """Copies through other memory."""

    @primitive
    def cache_read(
        self,
        block: BlockRef,
        buffer: int | str,
        scope: str,
        *,
        consumers: Sequence[BlockRef] | None = None,
    ) -> BlockRef:
        """Have a block read a copy of a buffer, made before in memory of the given scope.

        buffer: by name, or by its position among the buffers that the block reads.
        consumers: the blocks that read the copy; `block` alone if not given.
        The copy holds the box of what they read. It stands as far out as can be, before them and
        after all that writes the buffer. Gives the block that copies; `compute_at` moves it.

        Not legal if a consumer writes the buffer, or another does between the consumers; or if it
        is not known that all of the box was written before.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] * 2.0, "B")
        >>> s = Schedule(te.program([A], B, "f"))
        >>> s.cache_read(s.get_block("B"), "A", "local")
        block 'A_local'
        >>> print(s.program.body)
        A_local = T.alloc((64,), "float32", scope="local")
        for ax0 in range(64):
            with T.block("A_local"):
                v0 = T.remap("S", ax0)
                A_local[v0] = A[v0]
        for i in range(64):
            with T.block("B"):
                vi = T.remap("S", i)
                B[vi] = A_local[vi] * 2.0
        """
        names = None if consumers is None else [c.name for c in consumers]
        program, made = cache.cache_read(self._of(block), block.name, buffer, scope, names)
        self._update(program)
        return BlockRef(block.program, made)

    @primitive
    def cache_write(
        self,
        block: BlockRef,
        buffer: int | str,
        scope: str,
        *,
        consumers: Sequence[BlockRef] = (),
    ) -> BlockRef:
        """Have a block write to memory of the given scope, from where its results are copied.

        buffer: by name, or by its position among the buffers that the block writes.
        consumers: blocks that read the new buffer instead of the old one.
        A reduction accumulates in the new buffer. The copy stands as far out as can be, after the
        block and before anything else that uses the old buffer. Gives the block that copies;
        `reverse_compute_at` moves it.

        Not legal if the block is neither complete nor a reduction; if it does not write one element
        for each of its points; if its values are not final at the place of the copy; or if
        consumers are given and others write the buffer, too.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64, 32), name="A")
        >>> k = te.reduce_axis(32, "k")
        >>> B = te.compute((64,), lambda i: te.sum(A[i, k], axis=k), "B")
        >>> s = Schedule(te.program([A], B, "f"))
        >>> s.cache_write(s.get_block("B"), 0, "local")
        block 'B_local'
        >>> print(s.program.body)
        B_local = T.alloc((64,), "float32", scope="local")
        for i, k in T.grid(64, 32):
            with T.block("B"):
                vi, vk = T.remap("SR", i, k)
                with T.init():
                    B_local[vi] = 0.0
                B_local[vi] = B_local[vi] + A[vi, vk]
        for ax0 in range(64):
            with T.block("B_local"):
                vi = T.remap("S", ax0)
                B[vi] = B_local[vi]
        """
        names = [c.name for c in consumers]
        program, made = cache.cache_write(self._of(block), block.name, buffer, scope, names)
        self._update(program)
        return BlockRef(block.program, made)

    @primitive
    def read_at(self, loop: LoopRef, block: BlockRef, buffer: int | str, scope: str) -> BlockRef:
        """Have a block read a copy of a buffer, made in each iteration of a loop around it: the box
        that the iteration needs.

        Arguments and conditions as for `cache_read`, within the body of the loop.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] * 2.0, "B")
        >>> s = Schedule(te.program([A], B, "f"))
        >>> outer, inner = s.split(s.get_loops(s.get_block("B"))[0], [None, 16])
        >>> s.read_at(outer, s.get_block("B"), "A", "local")
        block 'A_local'
        >>> print(s.program.body)
        A_local = T.alloc((64,), "float32", scope="local")
        for i_0 in range(4):
            for ax0 in range(16):
                with T.block("A_local"):
                    v0 = T.spatial(64, i_0 * 16 + ax0)
                    A_local[v0] = A[v0]
            for i_1 in range(16):
                with T.block("B"):
                    vi = T.spatial(64, i_0 * 16 + i_1)
                    B[vi] = A_local[vi] * 2.0
        """
        program, made = cache.cache_read(self._of(block), block.name, buffer, scope, at=loop.var)
        self._update(program)
        return BlockRef(block.program, made)

    @primitive
    def write_at(self, loop: LoopRef, block: BlockRef, buffer: int | str, scope: str) -> BlockRef:
        """Have a block write to other memory, from where each iteration of a loop around it copies
        its results.

        Arguments and conditions as for `cache_write`, within the body of the loop.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] * 2.0, "B")
        >>> s = Schedule(te.program([A], B, "f"))
        >>> outer, inner = s.split(s.get_loops(s.get_block("B"))[0], [None, 16])
        >>> s.write_at(outer, s.get_block("B"), "B", "local")
        block 'B_local'
        >>> print(s.program.body)
        B_local = T.alloc((64,), "float32", scope="local")
        for i_0 in range(4):
            for i_1 in range(16):
                with T.block("B"):
                    vi = T.spatial(64, i_0 * 16 + i_1)
                    B_local[vi] = A[vi] * 2.0
            for ax0 in range(16):
                with T.block("B_local"):
                    vi = T.spatial(64, i_0 * 16 + ax0)
                    B[vi] = B_local[vi]
        """
        program, made = cache.cache_write(self._of(block), block.name, buffer, scope, at=loop.var)
        self._update(program)
        return BlockRef(block.program, made)

    @primitive
    def cache_inplace(
        self, block: BlockRef, buffer: int | str, scope: str
    ) -> tuple[BlockRef, BlockRef]:
        """Have a block that changes a buffer in place work on a copy, which is made before and
        written back after.

        buffer: by name, or by its position among those that the block both reads and writes.
        Gives the blocks that copy in and out.

        Not legal if the block does not read and write the buffer; or if it is not known that all of
        the box it touches was written before.

        >>> from tensorsmith.script import parse_program
        >>> from tensorsmith.schedule import Schedule
        >>> s = Schedule(parse_program('''
        ... from tensorsmith import script as T
        ... @T.program
        ... def sums(A: T.Buffer((8,), "int32")):
        ...     for i in range(7):
        ...         with T.block("sum"):
        ...             vi = T.opaque(7, i)
        ...             A[vi + 1] = A[vi + 1] + A[vi]
        ... '''))
        >>> s.cache_inplace(s.get_block("sum"), "A", "local")
        (block 'A_local_in', block 'A_local_out')
        >>> print(s.program.body)
        A_local = T.alloc((8,), "int32", scope="local")
        for ax0 in range(8):
            with T.block("A_local_in"):
                v0 = T.remap("S", ax0)
                A_local[v0] = A[v0]
        for i in range(7):
            with T.block("sum"):
                vi = T.remap("O", i)
                A_local[vi + 1] = A_local[vi + 1] + A_local[vi]
        for ax0 in range(8):
            with T.block("A_local_out"):
                v0 = T.remap("S", ax0)
                A[v0] = A_local[v0]
        """
        program, (first, last) = inplace.cache_inplace(self._of(block), block.name, buffer, scope)
        self._update(program)
        return BlockRef(block.program, first), BlockRef(block.program, last)

    @primitive
    def cache_index(self, block: BlockRef, *, least_operations: int = 2) -> list[BlockRef]:
        """Compute the subscripts of a block's loads once, and have the block load them.

        Those that are functions of the block's iterators and take at least `least_operations`
        operations get a buffer each, indexed by the iterators that they depend on. Gives the blocks
        that fill them, none if no subscript costs as much. Always legal.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((64,), lambda i: A[i // 8, (i * 3) % 8] * 2.0, "B")
        >>> s = Schedule(te.program([A], B, "f"))
        >>> s.cache_index(s.get_block("B"))
        [block 'B_index']
        >>> print(s.program.body)
        B_index = T.alloc((64,), "int64")
        for ax0 in range(64):
            with T.block("B_index"):
                vi = T.remap("S", ax0)
                B_index[vi] = T.int64(vi * 3 % 8)
        for i in range(64):
            with T.block("B"):
                vi = T.remap("S", i)
                B[vi] = A[vi // 8, T.index(B_index[vi])] * 2.0
        """
        program, made = inplace.cache_index(self._of(block), block.name, least_operations)
        self._update(program)
        return [BlockRef(block.program, name) for name in made]
