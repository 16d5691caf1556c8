"""Primitives on layouts, as users call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorsmith.ir import ExprLike, IndexMap
from tensorsmith.schedule import block_layout, layout
from tensorsmith.schedule.layout import BufferSpec
from tensorsmith.schedule.primitive import Scheduled, primitive
from tensorsmith.schedule.refs import BlockRef, LoopRef


class LayoutPrimitives(Scheduled):
    """How buffers lie in memory, and how blocks run over them."""

    @primitive
    def transform_layout(
        self,
        block: BlockRef,
        buffer: BufferSpec,
        index_map: IndexMap | Callable[..., Sequence[ExprLike]],
        *,
        pad_value: ExprLike | bool | None = None,
        change_parameter: bool = False,
    ) -> None:
        """Lay out a buffer so that its element at ``i, j, ...`` lies at ``index_map(i, j, ...)``.

        buffer: one that the block accesses: its name, or a position and 'read' or 'write'.
        index_map: an IndexMap or a Python function, injective on the buffer's indices.
        pad_value: what to store in the places of the new shape that hold no element; None leaves
            them undefined.
        change_parameter: allow the buffer to be a parameter. It keeps its shape, and gets a
            `layout`: callers must pass the data so.
        All accesses in the program follow. The block that writes the buffer, if each of its
        iterators has a loop of its own, runs over the new layout: its loops are replaced.

        Not legal if the map is not proven to be injective; for a buffer that has strides or a
        layout already, or is passed to a call; for a parameter, unless asked for and with no
        `pad_value`.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((8,), name="A")
        >>> B = te.compute((8,), lambda i: A[i] + 1.0, "B")
        >>> C = te.compute((8,), lambda i: B[i] * 2.0, "C")
        >>> s = Schedule(te.program([A], C, "two_steps"))
        >>> print(s.program.body)
        B = T.alloc((8,), "float32")
        for i in range(8):
            with T.block("B"):
                vi = T.remap("S", i)
                B[vi] = A[vi] + 1.0
        for i in range(8):
            with T.block("C"):
                vi = T.remap("S", i)
                C[vi] = B[vi] * 2.0
        >>> s.transform_layout(s.get_block("B"), "B", lambda i: (i % 4, i // 4))
        >>> print(s.program.body)
        B = T.alloc((4, 2), "float32")
        for ax0, ax1 in T.grid(4, 2):
            with T.block("B"):
                v_ax0, v_ax1 = T.remap("SS", ax0, ax1)
                B[v_ax0, v_ax1] = A[v_ax0 + v_ax1 * 4] + 1.0
        for i in range(8):
            with T.block("C"):
                vi = T.remap("S", i)
                C[vi] = B[vi % 4, vi // 4] * 2.0
        """
        self._update(
            layout.transform_layout(
                self._of(block),
                block.name,
                buffer,
                index_map,
                pad_value=pad_value,
                change_parameter=change_parameter,
            )
        )

    @primitive
    def transform_block_layout(
        self, block: BlockRef, index_map: IndexMap | Callable[..., Sequence[ExprLike]]
    ) -> list[LoopRef]:
        """Replace the iterators and loops of a block by those that `index_map` makes of them.

        Gives the new loops, one for each output of the map, outermost first.

        Not legal unless every iterator has a loop of its own that holds the block alone, from 0;
        if the map is not a bijection onto a box; if an output mixes spatial and reduce iterators;
        or if an iterator is opaque.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((4, 6), name="A")
        >>> B = te.compute((4, 6), lambda i, j: A[i, j] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"))
        >>> print(s.program.body)
        for i, j in T.grid(4, 6):
            with T.block("B"):
                vi, vj = T.remap("SS", i, j)
                B[vi, vj] = A[vi, vj] + 1.0
        >>> s.transform_block_layout(s.get_block("B"), lambda i, j: (i * 6 + j,))
        [loop 'ax0']
        >>> print(s.program.body)
        for ax0 in range(24):
            with T.block("B"):
                v_ax0 = T.remap("S", ax0)
                B[v_ax0 // 6, v_ax0 % 6] = A[v_ax0 // 6, v_ax0 % 6] + 1.0
        """
        program, new = block_layout.transform_block_layout(self._of(block), block.name, index_map)
        self._update(program)
        return [LoopRef(block.program, v) for v in new]

    @primitive
    def reorder_block_iter_var(self, block: BlockRef, new_order: Sequence[int]) -> None:
        """Put the iterators of a block into another order, given by their positions.

        Nothing is computed otherwise: the order of iterators is that in which other primitives,
        such as `pad_einsum`, number them.

        Not legal unless `new_order` has each position once.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((4, 6), name="A")
        >>> B = te.compute((4, 6), lambda i, j: A[i, j] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"))
        >>> print(s.program.body)
        for i, j in T.grid(4, 6):
            with T.block("B"):
                vi, vj = T.remap("SS", i, j)
                B[vi, vj] = A[vi, vj] + 1.0
        >>> s.reorder_block_iter_var(s.get_block("B"), [1, 0])
        >>> print(s.program.body)
        for i, j in T.grid(4, 6):
            with T.block("B"):
                vj, vi = T.remap("SS", j, i)
                B[vi, vj] = A[vi, vj] + 1.0
        """
        self._update(block_layout.reorder_block_iter_var(self._of(block), block.name, new_order))

    @primitive
    def set_axis_separator(
        self, block: BlockRef, buffer: BufferSpec, separators: Sequence[int]
    ) -> None:
        """Cut a buffer's axes into groups, which memory of several dimensions keeps apart.

        separators: the positions in front of which a new group begins. Each group becomes one
            dimension of the memory, row-major; in flat memory nothing moves.

        Not legal for a buffer with strides or a layout, or for separators that do not rise or
        do not lie between axes.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((2, 4, 6), name="A")
        >>> B = te.compute((2, 4, 6), lambda i, j, k: A[i, j, k] + 1.0, "B")
        >>> C = te.compute((2, 4, 6), lambda i, j, k: B[i, j, k] * 2.0, "C")
        >>> s = Schedule(te.program([A], C, "two_steps"))
        >>> s.set_axis_separator(s.get_block("B"), "B", [1])
        >>> print(s.program.body)
        B = T.alloc((2, 4, 6), "float32", layout=lambda i0, i1, i2: (i0, i1 * 6 + i2))
        for i, j, k in T.grid(2, 4, 6):
            with T.block("B"):
                vi, vj, vk = T.remap("SSS", i, j, k)
                B[vi, vj, vk] = A[vi, vj, vk] + 1.0
        for i, j, k in T.grid(2, 4, 6):
            with T.block("C"):
                vi, vj, vk = T.remap("SSS", i, j, k)
                C[vi, vj, vk] = B[vi, vj, vk] * 2.0
        """
        self._update(layout.set_axis_separator(self._of(block), block.name, buffer, separators))
