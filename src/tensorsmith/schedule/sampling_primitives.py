"""Primitives that choose, as users call them."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.ir import TensorProgram
from tensorsmith.schedule import compute_location, sampling
from tensorsmith.schedule.dependence import consumers
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.primitive import Scheduled, primitive
from tensorsmith.schedule.refs import STAY, BlockRef, LoopRef, Sampled
from tensorsmith.schedule.tree import find_block


class SamplingPrimitives(Scheduled):
    """Choices that a search makes. Each takes a decision, which then is what it gives."""

    @primitive
    def sample_perfect_tile(
        self,
        loop: LoopRef,
        n: int,
        max_innermost_factor: int = 16,
        *,
        decision: Sequence[int | None] | None = None,
    ) -> list[int | None]:
        """Choose `n` factors whose product is the extent of `loop`, for `split`.

        Every such list is equally likely in which the last factor is at most
        `max_innermost_factor`. Where the extent is symbolic, the first factor is None (as many as
        are needed: `split` then adds a predicate unless it divides), and the others are powers of
        two up to 64.

        Not possible if a decision is given that is no list of `n` such factors.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"), seed=1)
        >>> (i,) = s.get_loops(s.get_block("B"))
        >>> factors = s.sample_perfect_tile(i, 2, decision=[4, 16])
        >>> print(*s.split(i, factors))
        loop 'i_0' loop 'i_1'
        >>> print(s.trace)
        b0 = s.get_block(name='B')
        [l0] = s.get_loops(block=b0)
        [v0, v1] = s.sample_perfect_tile(loop=l0, n=2, decision=[4, 16])
        [l1, l2] = s.split(loop=l0, factors=[v0, v1])
        """
        extent = sampling.extent_of(self._of(loop), loop.var)
        factors = sampling.perfect_tile(extent, n, max_innermost_factor, decision, self._random)
        return self._chosen(factors)

    @primitive
    def sample_partitioned_tile(
        self,
        loop: LoopRef,
        n: int,
        partition_pos: int,
        innerpart_factor: int,
        *,
        decision: Sequence[int | None] | None = None,
    ) -> list[int | None]:
        """Choose `n` factors of the extent of `loop` of which those from number `partition_pos` on
        make `innerpart_factor`.

        So the tile of a hardware instruction can be cut, and the loops over tiles, each apart.
        Where the extent is symbolic, the first factor is None, as in `sample_perfect_tile`.

        Not possible if `partition_pos` leaves a side without factors; if `innerpart_factor` does
        not divide the extent; or if a decision is given that is no list of such factors.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((96,), name="A")
        >>> B = te.compute((96,), lambda i: A[i] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"))
        >>> (i,) = s.get_loops(s.get_block("B"))
        >>> a, b, c, d = s.sample_partitioned_tile(i, 4, 2, 16)
        >>> a * b, c * d
        (6, 16)
        """
        extent = sampling.extent_of(self._of(loop), loop.var)
        cut = (partition_pos, n - partition_pos)
        return self._chosen(
            sampling.partitioned_tile(extent, cut, innerpart_factor, decision, self._random)
        )

    @primitive
    def sample_categorical(
        self,
        candidates: Sequence[int],
        probabilities: Sequence[float] | None = None,
        *,
        decision: int | None = None,
    ) -> int:
        """Choose one of `candidates`; the decision is its index.

        probabilities: a weight for each candidate; None for equal ones.

        Not possible if there are no candidates; if the weights are not one number of at least 0 for
        each, with one above 0; or if a decision is given that is no index.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"), seed=3)
        >>> s.sample_categorical([1, 4, 16], decision=1)
        4
        >>> s.sample_categorical([1, 4, 16], [0.0, 0.0, 2.0])
        16
        """
        at = sampling.categorical(candidates, probabilities, decision, self._random)
        self._decided = at
        return Sampled(candidates[at])

    @primitive
    def sample_compute_location(self, block: BlockRef, *, decision: int | None = None) -> LoopRef:
        """Choose a loop for `compute_at`: one of those around the block's first consumer, or none.

        All loops at which the block may be computed are equally likely, and so is leaving it where
        it is: then `compute_at` with the loop that this gives does nothing. The decision is the
        number of the loop among the possible ones, outermost first, or -1 for none.

        Not possible if a decision is given that is no such number.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((4, 64), name="A")
        >>> B = te.compute((4, 64), lambda i, j: A[i, j] * 2.0, "B")
        >>> C = te.compute((4, 64), lambda i, j: B[i, j] + 1.0, "C")
        >>> s = Schedule(te.program([A], C, "f"))
        >>> loop = s.sample_compute_location(s.get_block("B"), decision=1)
        >>> loop
        loop 'j'
        >>> s.compute_at(s.get_block("B"), loop)
        """
        possible = _locations(self._of(block), block)
        if decision is None:
            at = int(self._random.integers(-1, len(possible)))
        else:
            at = sampling.checked_index("sample_compute_location", decision, -1, len(possible))
        self._decided = at
        return LoopRef(block.program, STAY) if at < 0 else possible[at]

    def _chosen(self, factors: sampling.Factors) -> list[int | None]:
        self._decided = factors
        return [None if f is None else Sampled(f) for f in factors]


def _locations(program: TensorProgram, block: BlockRef) -> list[LoopRef]:
    """The loops around the first consumer at which the block may be computed, outermost first."""
    found: list[LoopRef] = []
    users = consumers(program, block.name)
    for loop in find_block(program, users[0].name).loops if users else ():
        try:
            compute_location.compute_at(program, block.name, loop.var)
        except ScheduleError:
            continue
        found.append(LoopRef(block.program, loop.var))
    return found
