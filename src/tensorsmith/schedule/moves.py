"""A block that is to move under a loop: where it stands, and what stands between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from tensorsmith.ir import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    LoopKind,
    Seq,
    Stmt,
    TensorProgram,
    Var,
    While,
    seq,
)
from tensorsmith.ir.rewrite import children
from tensorsmith.schedule.dependence import (
    allocation,
    check_movable,
    defined_in,
    inside_symbols,
    interrupting_loop,
)
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.placement import (
    Place,
    inside_of,
    place_of,
)
from tensorsmith.schedule.tree import Site, find_block, find_loop, replace_stmt, replaced


@dataclass(frozen=True, slots=True)
class Move:
    """A block to be put under a loop of its scope.

    shared: the statements around both. between: the parts of the innermost of them from the one
    that stands first to the one that stands last, with what is left of the block's own part.
    """

    primitive: str
    program: TensorProgram
    block: Block
    block_site: Site
    loop: For
    loop_site: Site
    shared: tuple[Stmt, ...]
    between: tuple[Stmt, ...]

    @property
    def own_path(self) -> tuple[Stmt, ...]:
        """The statements around the block and not around the loop, outermost first."""
        return self.block_site.around[len(self.shared) :]

    @property
    def shared_loops(self) -> tuple[For, ...]:
        """The loops around both, in their scope."""
        inner = takewhile(lambda s: not isinstance(s, Block), reversed(self.shared))
        return tuple(s for s in inner if isinstance(s, For))[::-1]

    @property
    def place(self) -> Place:
        """Inside of the loop."""
        return place_of(inside_of(self.loop_site))

    def refuse(self, what: str, because: str, try_: str | None = None) -> ScheduleError:
        """The error that the move is not legal."""
        return ScheduleError(
            f"{self.primitive}: block {self.block.name!r} cannot move under loop"
            f" {self.loop.var.name!r}: {what}",
            because=because,
            try_=try_,
            where=self.block.span,
        )


def find_move(
    primitive: str, program: TensorProgram, name: str, var: Var, *, block_first: bool
) -> Move:
    """What moves where. Raises ScheduleError if the two do not stand so in one scope."""
    site, target = find_block(program, name), find_loop(program, var)
    assert isinstance(site.node, Block)
    assert isinstance(target.node, For)
    check_movable(site.node, primitive)
    _check_reduced_whole(site, primitive)
    path, other = (*site.around, site.node), (*target.around, target.node)
    count = sum(
        1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(path, other, strict=False))
    )
    move = Move(primitive, program, site.node, site, target.node, target, path[:count], ())
    if target.node in site.around:
        raise move.refuse("it stands there already", "there is nothing to move")
    if target.parent_block is not site.parent_block:
        raise move.refuse(
            "they stand in different blocks", "a block moves within the block around it"
        )
    inner = path[count - 1]
    order = list(children(inner))
    first, last = order.index(path[count]), order.index(other[count])
    if (first < last) is not block_first or isinstance(inner, (If, Block)):
        where = "before" if block_first else "after"
        raise move.refuse(
            f"it does not stand {where} the loop", "what is read must be written first"
        )
    check_path(move, path[count:-1], other[count:])
    parts = order[min(first, last) : max(first, last) + 1]
    kept = replaced(path[count], site.node, None) or Seq(())
    return replace(move, between=tuple(kept if p is path[count] else p for p in parts))


def _check_reduced_whole(site: Site, primitive: str) -> None:
    """The new nest takes each point of a reduction once; so must the old one, if repeatedly."""
    loop = interrupting_loop(site)
    if loop is not None:
        assert isinstance(site.node, Block)
        raise ScheduleError(
            f"{primitive}: block {site.node.name!r} is not reduced anew by each iteration of loop"
            f" {loop.var.name!r}, which repeats it",
            because="the loop stands inside of one of the reduction",
            where=site.node.span,
        )


def check_path(move: Move, own: Sequence[Stmt], target: Sequence[Stmt]) -> None:
    """Only loops stand between the two, and what the block uses is known at the loop."""
    for s in (*own, *target):
        if isinstance(s, (If, While)):
            raise move.refuse(
                "a condition stands between them",
                "the block would run where it did not, or not run where it did",
            )
    if move.loop.kind is LoopKind.VECTORIZED or any(
        isinstance(s, For) and s.kind is LoopKind.VECTORIZED for s in target
    ):
        raise move.refuse(
            "the loop is vectorised", "the lanes of a vector have no loops of their own"
        )
    hidden = defined_in(own) | {s.buffer for x in own for s in children(x) if isinstance(s, Alloc)}
    if used := hidden & inside_symbols(move.block):
        name = min(x.name for x in used)
        raise move.refuse(f"it uses {name!r}", "that is not defined at the loop")


def parts_of(s: Stmt) -> tuple[Stmt, ...]:
    """The statements of a sequence; of another statement, itself."""
    return s.stmts if isinstance(s, Seq) else (s,)


def allocate_inside(program: TensorProgram, buffer: Buffer, var: Var) -> TensorProgram:
    """The program with `buffer` allocated at the start of the body of the loop over `var`."""
    site = allocation(program, buffer)
    assert site is not None
    program = replace_stmt(program, site.node, None)
    loop = find_loop(program, var).node
    assert isinstance(loop, For)
    return replace_stmt(program, loop, replace(loop, body=seq(site.node, *parts_of(loop.body))))


def writer_name(s: Stmt) -> str:
    """How an error names a statement."""
    return f"block {s.name!r}" if isinstance(s, Block) else "a statement"


def own_loops(move: Move) -> list[For]:
    """The loops from the shared ones down to the target."""
    path = (*move.loop_site.around, move.loop)[len(move.shared) :]
    return [s for s in path if isinstance(s, For)]
