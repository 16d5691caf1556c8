"""Attributes of loops and blocks, and regions written out on blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from tensorsmith.arith import Analyzer
from tensorsmith.arith.regions import block_regions, clip_region
from tensorsmith.ir import (
    AttrValue,
    Block,
    Expr,
    For,
    IndexMap,
    Load,
    Region,
    Stmt,
    TensorProgram,
    as_expr,
    postorder,
)
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.tree import find_block, replace_stmt

ANNOTATIONS: Final[Mapping[str, str]] = {
    "prefetch": "of a loop: fetch what is so many iterations ahead into the cache",
    "prefetch_next": "of a loop: true to fetch what its next iteration uses while this one runs",
    "to_and_fro": "of a parallel loop: true to run its pieces backwards in every other iteration"
    " of the serial loop around it, which finds in cache what the iteration before read last",
    "nontemporal": "of a loop or block: true to store past the caches",
    "double_buffer": "of a block: true to fill one copy of its buffer while the other is used",
    "software_pipeline_stage": "of a loop: the stage of each statement in it, as a tuple",
    "software_pipeline_order": "of a loop: the order of the statements in it, as a tuple",
    "pragma_unroll_explicit": "of a loop: unroll inner loops of at most so many iterations",
}
"""What lowering gives a meaning to. Other keys are kept for whoever asks for them."""

MEANING: Final = frozenset({"accumulate"})
"""Attributes that say what a block computes; a schedule does not change them."""

Access = Literal["read", "write"]


def annotate(program: TensorProgram, node: Stmt, key: str, value: AttrValue) -> TensorProgram:
    """See `Schedule.annotate`."""
    assert isinstance(node, (For, Block))
    _check_key("annotate", node, key)
    if not _is_value(value):
        raise ScheduleError(
            f"annotate: {value!r} is no value of an annotation",
            try_="a bool, a number, a string, an expression of dimensions, or a tuple of these",
            where=node.span,
        )
    kept = _as_tuples(value)
    return replace_stmt(program, node, replace(node, attrs={**node.attrs, key: kept}))


def unannotate(program: TensorProgram, node: Stmt, key: str) -> TensorProgram:
    """See `Schedule.unannotate`."""
    assert isinstance(node, (For, Block))
    _check_key("unannotate", node, key)
    if key not in node.attrs:
        known = ", ".join(map(repr, node.attrs)) or "none"
        raise ScheduleError(
            f"unannotate: there is no annotation {key!r}",
            given=f"annotations: {known}",
            where=node.span,
        )
    attrs = {k: v for k, v in node.attrs.items() if k != key}
    return replace_stmt(program, node, replace(node, attrs=attrs))


def _check_key(primitive: str, node: Stmt, key: str) -> None:
    if not key:
        raise ScheduleError(f"{primitive}: the key of an annotation is a name, not {key!r}")
    if key in MEANING:
        raise ScheduleError(
            f"{primitive}: {key!r} says what a block computes",
            because="a schedule keeps the meaning of the program",
            where=node.span,
        )


def _is_value(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_value, value))
    if isinstance(value, Expr):
        return not any(isinstance(e, Load) for e in postorder(value))
    return isinstance(value, (bool, int, float, str))


def _as_tuples(value: AttrValue) -> AttrValue:
    """The value with lists, as JSON has them, made tuples."""
    return tuple(map(_as_tuples, value)) if isinstance(value, (tuple, list)) else value


# --- Regions ---------------------------------------------------------------------------------


def annotate_buffer_access(
    program: TensorProgram, name: str, buffer: str, access: Access, index_map: IndexMap
) -> TensorProgram:
    """See `Schedule.annotate_buffer_access`."""
    block = find_block(program, name).node
    assert isinstance(block, Block)
    if access not in ("read", "write"):
        raise ScheduleError(
            f"annotate_buffer_access: an access is 'read' or 'write', not {access!r}"
        )
    reads, writes = block_regions(block)
    stated = block.reads if access == "read" else block.writes
    facts = _facts(block)
    derived = (clip_region(r, facts) for r in (reads if access == "read" else writes))
    regions = list(stated or derived)
    found = [at for at, r in enumerate(regions) if r.buffer.name == buffer]
    if len(found) != 1:
        known = ", ".join(repr(r.buffer.name) for r in regions) or "nothing"
        raise ScheduleError(
            f"annotate_buffer_access: block {name!r} has {len(found)} {access}s of {buffer!r}",
            given=f"it {access}s {known}",
            where=block.span,
        )
    old = regions[found[0]]
    new = regions[found[0]] = _region(block, old, index_map)
    _check_covers(block, old, new, facts)
    if access == "read":
        changed = replace(block, reads=tuple(regions))
    else:
        changed = replace(block, writes=tuple(regions))
    return replace_stmt(program, block, changed)


def _region(block: Block, old: Region, index_map: IndexMap) -> Region:
    """The region that the map says: a start for each axis, or a start and an extent."""
    rank = old.buffer.rank
    takes, gives = len(index_map.inputs), len(index_map.outputs)
    if takes != len(block.iters) or gives not in (rank, 2 * rank):
        raise ScheduleError(
            f"annotate_buffer_access: the map is not from the {len(block.iters)} iterators of block"
            f" {block.name!r} to the {rank} axes of {old.buffer.name!r}",
            given=f"{takes} inputs, {gives} outputs",
            try_=f"{rank} outputs for an element, {2 * rank} for a start and an extent an axis",
            where=block.span,
        )
    values = index_map(*(it.var for it in block.iters))
    if gives == rank:
        return Region.point(old.buffer, values)
    return Region(old.buffer, zip(values[::2], values[1::2], strict=True))


def _facts(block: Block) -> Analyzer:
    facts = Analyzer()
    for it in block.iters:
        facts.bind(it.var, it.start, it.extent)
    return facts


def _check_covers(block: Block, old: Region, new: Region, facts: Analyzer) -> None:
    """The new region holds all that is accessed, and lies in the buffer."""
    for size, (start, extent), (low, count) in zip(
        new.buffer.shape, old.ranges, new.ranges, strict=True
    ):
        covers = (low <= start) & (start + extent <= low + count)
        inside = (as_expr(0) <= low) & (low + count <= size)
        for condition, what in ((covers, f"does not cover {old!r}"), (inside, "leaves the buffer")):
            if facts.prove(condition) is not True:
                raise ScheduleError(
                    f"annotate_buffer_access: {new!r} {what}, or this cannot be proven",
                    because=f"block {block.name!r} accesses {old!r}",
                    where=block.span,
                )
