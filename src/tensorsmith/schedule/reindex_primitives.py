"""Primitives that index copies by a block's iterators, as users call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorsmith.ir import ExprLike, IndexMap
from tensorsmith.schedule import reindex
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.primitive import Scheduled, primitive
from tensorsmith.schedule.refs import BlockRef


class ReindexPrimitives(Scheduled):
    """Copies that are indexed by the iterators of the block that uses them."""

    @primitive
    def reindex(self, block: BlockRef, buffer: int | str, access: str) -> BlockRef:
        """Have a block access a copy of a buffer that is indexed by the block's iterators.

        buffer: by name, or by its position among those that the block reads (writes).
        access: 'read' or 'write'. The copy lives in the memory of the buffer. It has a dimension
        for each iterator on which the place of the element depends. Gives the block that copies.

        Not legal if the block does not access one element of the buffer at each of its points,
        under no condition and whatever the data; further as for `cache_read` and `cache_write`.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((66,), name="A")
        >>> k = te.reduce_axis(3, "k")
        >>> B = te.compute((64,), lambda i: te.sum(A[i + k], axis=k), "B")
        >>> s = Schedule(te.program([A], B, "f"))
        >>> s.reindex(s.get_block("B"), "A", "read")
        block 'A_reindex'
        >>> print(s.program.body)
        A_reindex = T.alloc((64, 3), "float32")
        for ax0, ax1 in T.grid(64, 3):
            with T.block("A_reindex"):
                vi, vk = T.remap("SS", ax0, ax1)
                A_reindex[vi, vk] = A[vi + vk]
        for i, k in T.grid(64, 3):
            with T.block("B"):
                vi, vk = T.remap("SR", i, k)
                with T.init():
                    B[vi] = 0.0
                B[vi] = B[vi] + A_reindex[vi, vk]
        """
        if access not in ("read", "write"):
            raise ScheduleError(f"reindex: {access!r} is no access", try_="'read' or 'write'")
        function = reindex.reindex_read if access == "read" else reindex.reindex_write
        program, made = function(self._of(block), block.name, buffer, None)
        self._update(program)
        return BlockRef(block.program, made)

    @primitive
    def reindex_cache_read(
        self,
        block: BlockRef,
        buffer: int | str,
        scope: str,
        index_map: IndexMap | Callable[..., Sequence[ExprLike]],
    ) -> BlockRef:
        """Have a block read a copy of a buffer, in memory of the given scope, whose indices are
        `index_map` of the block's iterators.

        index_map: an IndexMap or a Python function of all iterators of the block. The copy has one
        element for each point of those that it uses. Gives the block that copies.

        Not legal if the map is not proven to be injective, or does not use an iterator on which the
        place of the element in the buffer depends; further as for `reindex`.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64, 64), name="A")
        >>> B = te.compute((64, 64), lambda i, j: A[j, i] * 2.0, "B")
        >>> s = Schedule(te.program([A], B, "f"))
        >>> s.reindex_cache_read(s.get_block("B"), "A", "global", lambda i, j: (i // 4, j, i % 4))
        block 'A_global'
        >>> print(s.program.body)
        A_global = T.alloc((16, 64, 4), "float32")
        for ax0, ax1 in T.grid(64, 64):
            with T.block("A_global"):
                vi, vj = T.remap("SS", ax0, ax1)
                A_global[vi // 4, vj, vi % 4] = A[vj, vi]
        for i, j in T.grid(64, 64):
            with T.block("B"):
                vi, vj = T.remap("SS", i, j)
                B[vi, vj] = A_global[vi // 4, vj, vi % 4] * 2.0
        """
        program, made = reindex.reindex_read(self._of(block), block.name, buffer, scope, index_map)
        self._update(program)
        return BlockRef(block.program, made)

    @primitive
    def reindex_cache_write(
        self,
        block: BlockRef,
        buffer: int | str,
        scope: str,
        index_map: IndexMap | Callable[..., Sequence[ExprLike]],
    ) -> BlockRef:
        """Have a block write to memory of the given scope, at `index_map` of its iterators, from
        where its results are copied.

        index_map: an IndexMap or a Python function of all iterators of the block, of which it uses
        spatial ones alone. Gives the block that copies.

        Not legal if the map is not proven to be injective, or does not use an iterator on which the
        place of the element in the buffer depends, or uses one that is not spatial; further as for
        `cache_write`.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] * 2.0, "B")
        >>> s = Schedule(te.program([A], B, "f"))
        >>> s.reindex_cache_write(s.get_block("B"), "B", "global", lambda i: (i % 4, i // 4))
        block 'B_global'
        >>> print(s.program.body)
        B_global = T.alloc((4, 16), "float32")
        for i in range(64):
            with T.block("B"):
                vi = T.remap("S", i)
                B_global[vi % 4, vi // 4] = A[vi] * 2.0
        for ax0 in range(64):
            with T.block("B_global"):
                vi = T.remap("S", ax0)
                B[vi] = B_global[vi % 4, vi // 4]
        """
        program, made = reindex.reindex_write(self._of(block), block.name, buffer, scope, index_map)
        self._update(program)
        return BlockRef(block.program, made)
