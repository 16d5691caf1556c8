"""Primitives that move producers and consumers under loops, as users call them."""

from __future__ import annotations

from tensorsmith.ir import TensorProgram
from tensorsmith.schedule import compute_location
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.primitive import Scheduled, primitive
from tensorsmith.schedule.refs import STAY, BlockRef, LoopRef


class ComputeLocationPrimitives(Scheduled):
    """Where blocks are computed."""

    @primitive
    def compute_at(
        self, block: BlockRef, loop: LoopRef, *, preserve_unit_loops: bool = False
    ) -> None:
        """Compute a producer inside of a loop of its consumers, just what an iteration needs.

        The block gets new loops in front of the first consumer in the loop. Where several
        iterations need the same points, these are computed again in each.
        preserve_unit_loops: whether new loops of extent 1 are kept.

        Not legal if the block is neither complete nor a reduction; if it writes a parameter, or is
        not the only one to write its results; if a consumer stands outside of the loop; if what
        the block reads is written between the old and the new place; if a condition stands between
        them; or if the loop is vectorised.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] * 2.0, "B")
        >>> C = te.compute((64,), lambda i: B[i] + 1.0, "C")
        >>> s = Schedule(te.program([A], C, "f"))
        >>> outer, inner = s.split(s.get_loops(s.get_block("C"))[0], [None, 16])
        >>> s.compute_at(s.get_block("B"), outer)
        >>> print(s.program.body)
        B = T.alloc((64,), "float32")
        for i_0 in range(4):
            for ax0 in range(16):
                with T.block("B"):
                    vi = T.spatial(64, i_0 * 16 + ax0)
                    B[vi] = A[vi] * 2.0
            for i_1 in range(16):
                with T.block("C"):
                    vi = T.spatial(64, i_0 * 16 + i_1)
                    C[vi] = B[vi] + 1.0
        """
        if loop.var is STAY:
            return
        self._update(
            compute_location.compute_at(
                _same_program(self, block, loop),
                block.name,
                loop.var,
                preserve_unit_loops=preserve_unit_loops,
            )
        )

    @primitive
    def reverse_compute_at(
        self, block: BlockRef, loop: LoopRef, *, preserve_unit_loops: bool = False
    ) -> None:
        """Compute a consumer inside of a loop of its producers, as soon as an iteration has made
        what it reads.

        The block gets new loops at the end of the loop's body.
        preserve_unit_loops: whether new loops of extent 1 are kept.

        Not legal if the block is neither complete nor a reduction; if the loops around would not
        take each of its points exactly once, or those of a reduction not in order; if it reads more
        than one iteration writes, or what an iteration leaves unfinished (inside of a reduction);
        if what it reads is written, or what it writes is used, between the new and the old place;
        or if a condition stands between them.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] * 2.0, "B")
        >>> C = te.compute((64,), lambda i: B[i] + 1.0, "C")
        >>> s = Schedule(te.program([A], C, "f"))
        >>> outer, inner = s.split(s.get_loops(s.get_block("B"))[0], [None, 16])
        >>> s.reverse_compute_at(s.get_block("C"), outer)
        >>> print(s.program.body)
        B = T.alloc((64,), "float32")
        for i_0 in range(4):
            for i_1 in range(16):
                with T.block("B"):
                    vi = T.spatial(64, i_0 * 16 + i_1)
                    B[vi] = A[vi] * 2.0
            for ax0 in range(16):
                with T.block("C"):
                    vi = T.spatial(64, i_0 * 16 + ax0)
                    C[vi] = B[vi] + 1.0
        """
        if loop.var is STAY:
            return
        self._update(
            compute_location.reverse_compute_at(
                _same_program(self, block, loop),
                block.name,
                loop.var,
                preserve_unit_loops=preserve_unit_loops,
            )
        )


def _same_program(s: Scheduled, block: BlockRef, loop: LoopRef) -> TensorProgram:
    if block.program != loop.program:
        raise ScheduleError(
            f"{block!r} and {loop!r} are of different programs",
            given=f"{block.program!r} and {loop.program!r}",
        )
    return s._of(block)  # noqa: SLF001  # a part of the primitives
