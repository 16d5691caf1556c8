"""Primitives that copy buffers through other memory, as users call them."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.schedule import cache
from tensorsmith.schedule.primitive import Scheduled, primitive
from tensorsmith.schedule.refs import BlockRef


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
