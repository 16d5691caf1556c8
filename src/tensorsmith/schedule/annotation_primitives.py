"""Primitives that note something on loops and blocks, as users call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorsmith.ir import AttrValue, Block, ExprLike, IndexMap
from tensorsmith.schedule import annotations as notes
from tensorsmith.schedule.annotations import Access
from tensorsmith.schedule.layout import as_index_map
from tensorsmith.schedule.primitive import Scheduled, primitive
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.tree import find_block, find_node


class AnnotationPrimitives(Scheduled):
    """Attributes of loops and blocks."""

    @primitive
    def annotate(self, of: BlockRef | LoopRef, key: str, value: AttrValue) -> None:
        """Give a loop or block an attribute, or another value for it.

        `schedule.annotations.ANNOTATIONS` lists the keys that lowering gives a meaning to; others
        are kept for whoever asks for them. Annotated loops cannot be split or fused.

        Not legal if the key is 'accumulate', which says what a block computes; or if the value is
        no bool, number, string, expression, or tuple of these.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"))
        >>> print(s.program.body)
        for i in range(64):
            with T.block("B"):
                vi = T.remap("S", i)
                B[vi] = A[vi] + 1.0
        >>> (i,) = s.get_loops(s.get_block("B"))
        >>> s.annotate(i, "prefetch", 8)
        >>> print(s.program.body)
        for i in T.serial(64, attrs={"prefetch": 8}):
            with T.block("B"):
                vi = T.remap("S", i)
                B[vi] = A[vi] + 1.0
        """
        program = self._of(of)
        node = find_node(program, of)
        self._update(notes.annotate(program, node, key, value))

    @primitive
    def unannotate(self, of: BlockRef | LoopRef, key: str) -> None:
        """Take an attribute from a loop or block.

        Not legal if there is none of this name, or if it says what a block computes.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"))
        >>> (i,) = s.get_loops(s.get_block("B"))
        >>> s.annotate(i, "prefetch", 8)
        >>> s.unannotate(i, "prefetch")
        >>> print(s.program.body)
        for i in range(64):
            with T.block("B"):
                vi = T.remap("S", i)
                B[vi] = A[vi] + 1.0
        """
        program = self._of(of)
        node = find_node(program, of)
        self._update(notes.unannotate(program, node, key))

    @primitive
    def annotate_buffer_access(
        self,
        block: BlockRef,
        buffer: str,
        access: Access,
        index_map: IndexMap | Callable[..., Sequence[ExprLike]],
    ) -> None:
        """Write out on a block which part of a buffer it reads or writes.

        From then on this is what counts, in place of what follows from the accesses; the regions of
        the other buffers that are read (or written) are written out as they are. Worth it where the
        derived region is wider than what really is touched, as with indices that data decide.
        buffer: its name. access: 'read' or 'write'.
        index_map: from the block's iterators to one output an axis (an element) or two (a start and
            an extent).

        Not legal if the block has no such access; if the map has other numbers of inputs or
        outputs; or if the region does not cover what the accesses tell, or leaves the buffer.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"))
        >>> s.annotate_buffer_access(s.get_block("B"), "A", "read", lambda vi: (vi // 8 * 8, 8))
        >>> print(s.program.body)
        for i in range(64):
            with T.block("B"):
                vi = T.remap("S", i)
                T.reads(A[vi // 8 * 8:vi // 8 * 8 + 8])
                B[vi] = A[vi] + 1.0
        """
        program = self._of(block)
        node = find_block(program, block.name).node
        assert isinstance(node, Block)
        made = as_index_map(index_map, len(node.iters))
        self._update(notes.annotate_buffer_access(program, block.name, buffer, access, made))

    @primitive
    def enter_postproc(self) -> None:
        """Mark in the trace where rules of a search end and what follows from them begins.

        Changes nothing. A search replays what stands before, and does what comes after anew.
        Always legal.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> s = Schedule(te.program([A], te.compute((64,), lambda i: A[i], "B"), "copy"))
        >>> s.enter_postproc()
        >>> print(s.trace)
        s.enter_postproc()
        """
