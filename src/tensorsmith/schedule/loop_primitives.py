"""Primitives on loops, as users call them."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.ir import ExprLike, LoopKind
from tensorsmith.schedule import kinds, loops
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.primitive import Scheduled, primitive
from tensorsmith.schedule.refs import LoopRef


class LoopPrimitives(Scheduled):
    """Splitting, fusing, reordering and marking loops."""

    @primitive
    def split(
        self,
        loop: LoopRef,
        factors: Sequence[ExprLike | None],
        *,
        preserve_unit_loops: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRef]:
        """Replace a loop by a nest of loops with the extents `factors`, outermost first.

        One factor may be None: as many as are needed. Where the product is more than the extent, the
        blocks inside get a predicate. Factors may be symbolic.
        preserve_unit_loops: whether loops of extent 1 are kept.
        disable_predication: fail instead of adding a predicate.
        Not legal for loops that are parallel, vectorised, unrolled, bound or annotated.
        """
        program, new = loops.split(
            self._of(loop),
            loop.var,
            factors,
            preserve_unit_loops=preserve_unit_loops,
            disable_predication=disable_predication,
        )
        self._update(program)
        return [LoopRef(loop.program, v) for v in new]

    @primitive
    def fuse(self, *loops_: LoopRef) -> LoopRef:
        """Make one loop of perfectly nested ones, given outermost first.

        Not legal if something else stands between them, or if the range of one depends on another.
        """
        where = _one_program(loops_)
        program, new = loops.fuse(self.module[where], [x.var for x in loops_])
        self._update(program)
        return LoopRef(where, new)

    @primitive
    def reorder(self, *loops_: LoopRef) -> None:
        """Put loops of one nest into the given order; others of the nest stay where they are.

        Not legal if the nest holds more than one block, if a range depends on a loop that would
        come to stand inside, or if loops that opaque iterators use would change their order.
        """
        where = _one_program(loops_)
        self._update(loops.reorder(self.module[where], [x.var for x in loops_]))

    @primitive
    def parallel(self, loop: LoopRef) -> None:
        """Have the iterations run by threads, in any order.

        Not legal unless each iteration writes its own elements and none reads what another writes.
        """
        self._update(kinds.set_kind(self._of(loop), loop.var, LoopKind.PARALLEL))

    @primitive
    def vectorize(self, loop: LoopRef) -> None:
        """Have the iterations computed as the lanes of vectors. Conditions as for `parallel`."""
        self._update(kinds.set_kind(self._of(loop), loop.var, LoopKind.VECTORIZED))

    @primitive
    def unroll(self, loop: LoopRef) -> None:
        """Have the body repeated instead of looped over. Always legal."""
        self._update(kinds.set_kind(self._of(loop), loop.var, LoopKind.UNROLLED))

    @primitive
    def bind(self, loop: LoopRef, thread: str) -> None:
        """Have the iterations run by a hardware axis: 'blockIdx.x', 'threadIdx.y', 'vthread', ...

        Conditions as for `parallel`.
        """
        self._update(kinds.set_kind(self._of(loop), loop.var, LoopKind.THREAD, thread=thread))


def _one_program(refs: Sequence[LoopRef]) -> str:
    names = {r.program for r in refs}
    if len(names) != 1:
        raise ScheduleError("the loops must be of one program", given=", ".join(sorted(names)))
    return names.pop()
