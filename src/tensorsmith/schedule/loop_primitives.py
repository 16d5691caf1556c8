"""Primitives on loops, as users call them."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.ir import ExprLike
from tensorsmith.schedule import loops, partition
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.primitive import Scheduled, primitive
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.tree import find_node


class LoopPrimitives(Scheduled):
    """Splitting, fusing, reordering loops."""

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

        One factor may be None: as many as are needed. Where the product is more than the extent,
        the blocks inside get a predicate. Factors may be symbolic.
        preserve_unit_loops: whether loops of extent 1 are kept.
        disable_predication: fail instead of adding a predicate.

        Not legal if the loop is parallel, vectorised, unrolled, bound or annotated; if there are no
        factors, or more than one is None; if a factor is not known to be positive; if the factors
        cover less than the extent; if a predicate is needed and disabled; or if it is not seen of
        the new nest that it takes each point once.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((30,), name="A")
        >>> B = te.compute((30,), lambda i: A[i] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"))
        >>> print(s.program.body)
        for i in range(30):
            with T.block("B"):
                vi = T.remap("S", i)
                B[vi] = A[vi] + 1.0
        >>> (i,) = s.get_loops(s.get_block("B"))
        >>> s.split(i, [None, 8])
        [loop 'i_0', loop 'i_1']
        >>> print(s.program.body)
        for i_0, i_1 in T.grid(4, 8):
            with T.block("B"):
                vi = T.spatial(30, i_0 * 8 + i_1)
                T.where(i_0 * 8 + i_1 < 30)
                B[vi] = A[vi] + 1.0
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

        Not legal if there are none; if something else stands between them; if the range of one
        depends on another; or if one is parallel, vectorised, unrolled, bound or annotated.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((4, 8), name="A")
        >>> B = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"))
        >>> print(s.program.body)
        for i, j in T.grid(4, 8):
            with T.block("B"):
                vi, vj = T.remap("SS", i, j)
                B[vi, vj] = A[vi, vj] + 1.0
        >>> s.fuse(*s.get_loops(s.get_block("B")))
        loop 'i_j_fused'
        >>> print(s.program.body)
        for i_j_fused in range(32):
            with T.block("B"):
                vi = T.spatial(4, i_j_fused // 8)
                vj = T.spatial(8, i_j_fused % 8)
                B[vi, vj] = A[vi, vj] + 1.0
        """
        where = _one_program(loops_)
        program, new = loops.fuse(self.module.program(where), [x.var for x in loops_])
        self._update(program)
        return LoopRef(where, new)

    @primitive
    def reorder(self, *loops_: LoopRef) -> None:
        """Put loops of one nest into the given order; others of the nest stay where they are.

        Not legal if a loop is named twice; if the loops are not of one nest; if it holds more than
        one block; if a range depends on a loop that would come to stand inside; or if loops that
        opaque iterators use would change their order, among each other or with a loop whose
        iterations meet in what they write.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((4, 8), name="A")
        >>> B = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"))
        >>> print(s.program.body)
        for i, j in T.grid(4, 8):
            with T.block("B"):
                vi, vj = T.remap("SS", i, j)
                B[vi, vj] = A[vi, vj] + 1.0
        >>> i, j = s.get_loops(s.get_block("B"))
        >>> s.reorder(j, i)
        >>> print(s.program.body)
        for j, i in T.grid(8, 4):
            with T.block("B"):
                vi, vj = T.remap("SS", i, j)
                B[vi, vj] = A[vi, vj] + 1.0
        """
        where = _one_program(loops_)
        self._update(loops.reorder(self.module.program(where), [x.var for x in loops_]))

    @primitive
    def loop_partition(self, loop: LoopRef, points: Sequence[ExprLike]) -> list[LoopRef]:
        """Cut the range of a loop into pieces, each a loop with blocks of its own.

        points: the numbers of the iterations, counted from 0, at which the second piece and those
            after it begin. May be symbolic.
        The blocks of the first piece keep their names. A reduction starts in the first piece, and
        goes on in the others.

        Not legal if there are no points; if they are not known to ascend within the range; if a
        piece takes no box of the points of a block (as half of a fused loop does); if it is not
        seen that the pieces together take each point once, as where a predicate never holds in one;
        or if it is not known where the reduction of a block starts.

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
        >>> s.loop_partition(i, [48])
        [loop 'i_0', loop 'i_1']
        >>> print(s.program.body)
        for i_0 in range(48):
            with T.block("B"):
                vi = T.remap("S", i_0)
                B[vi] = A[vi] + 1.0
        for i_1 in T.serial(16, start=48):
            with T.block("B_1"):
                vi = T.spatial(16, i_1, start=48)
                B[vi] = A[vi] + 1.0
        """
        program, new = partition.loop_partition(self._of(loop), loop.var, points)
        self._update(program)
        return [LoopRef(loop.program, v) for v in new]

    @primitive
    def merge(self, *loops_: LoopRef) -> LoopRef:
        """Make one nest of several that follow each other, from where they begin down to the loops
        given.

        In every iteration of the merged loop the bodies follow each other. The first reference
        stays valid, and is given back.

        Not legal for fewer than two loops; if one stands in another; if the second is before the
        first; if the nests are not equally deep, or hold something else around the loops; if ranges
        differ; if something stands between them; if a loop is parallel, vectorised, unrolled, bound
        or annotated; or if an iteration of one nest uses what another iteration of the other one
        writes.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] + 1.0, "B")
        >>> C = te.compute((64,), lambda i: B[i] * 2.0, "C")
        >>> s = Schedule(te.program([A], [B, C], "f"))
        >>> print(s.program.body)
        for i in range(64):
            with T.block("B"):
                vi = T.remap("S", i)
                B[vi] = A[vi] + 1.0
        for i in range(64):
            with T.block("C"):
                vi = T.remap("S", i)
                C[vi] = B[vi] * 2.0
        >>> (i,), (j,) = (s.get_loops(s.get_block(name)) for name in "BC")
        >>> s.merge(i, j)
        loop 'i'
        >>> print(s.program.body)
        for i in range(64):
            with T.block("B"):
                vi = T.remap("S", i)
                B[vi] = A[vi] + 1.0
            with T.block("C"):
                vi = T.remap("S", i)
                C[vi] = B[vi] * 2.0
        """
        where = _one_program(loops_)
        program, new = partition.merge(self.module.program(where), [x.var for x in loops_])
        self._update(program)
        return LoopRef(where, new)

    @primitive
    def add_unit_loop(self, of: BlockRef | LoopRef) -> LoopRef:
        """Put a loop of one iteration around a block or loop. Always legal.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((), name="A")
        >>> B = te.compute((), lambda: A[()] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"))
        >>> print(s.program.body)
        with T.block("B"):
            B[()] = A[()] + 1.0
        >>> s.add_unit_loop(s.get_block("B"))
        loop 'u'
        >>> print(s.program.body)
        for u in range(1):
            with T.block("B"):
                B[()] = A[()] + 1.0
        """
        program = self._of(of)
        program, new = partition.add_unit_loop(program, find_node(program, of))
        self._update(program)
        return LoopRef(of.program, new)


def _one_program(refs: Sequence[LoopRef]) -> str:
    names = {r.program for r in refs}
    if len(names) != 1:
        raise ScheduleError(
            "the loops must be of one program, and there must be some",
            given=", ".join(sorted(names)) or "no loops",
        )
    return names.pop()
