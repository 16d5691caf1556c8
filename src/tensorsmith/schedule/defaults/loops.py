"""The loops around a block: how long they are, and which iterators they move."""

from __future__ import annotations

from tensorsmith.ir import Block, Const, For, IterKind, Store, Var, free_vars
from tensorsmith.ir.rewrite import statements
from tensorsmith.schedule.defaults.analysis import SYMBOLIC_EXTENT
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import find_block, find_loop


def loop_node(s: Schedule, loop: LoopRef) -> For:
    """The loop as it stands in the program."""
    node = find_loop(s.program, loop.var).node
    assert isinstance(node, For)
    return node


def known_extent(s: Schedule, loop: LoopRef) -> int | None:
    """How often a loop runs; None if only the call tells."""
    extent = loop_node(s, loop).extent
    return int(extent.value) if isinstance(extent, Const) else None


def size(s: Schedule, loop: LoopRef) -> float:
    """How often a loop runs, or what that is taken to be."""
    known = known_extent(s, loop)
    return SYMBOLIC_EXTENT if known is None else float(known)


def element_bytes(block: Block) -> int:
    """Bytes of the smallest elements that a block stores."""
    sizes = [x.buffer.dtype.bytes for x in statements(block.body) if isinstance(x, Store)]
    return max(min(sizes, default=4), 1)


def loop_of(s: Schedule, ref: BlockRef, axis: Var) -> LoopRef | None:
    """The loop whose variable is the last part of the iterator's binding; None where `axis` is no
    iterator, but a loop inside of the block."""
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    used = set(free_vars(*(it.binding for it in block.iters if it.var is axis)))
    inner = [x for x in s.get_loops(ref) if x.var in used]
    return inner[-1] if inner else None


def is_reduced(s: Schedule, ref: BlockRef, loop: LoopRef) -> bool:
    """Whether a block reduces over a loop."""
    block = find_block(s.program, ref.name).node
    assert isinstance(block, Block)
    return any(
        it.kind is IterKind.REDUCE and loop.var in free_vars(it.binding) for it in block.iters
    )


def even_width(extent: int | None, width: int, lanes: int) -> int:
    """Elements to compute at a time: `width`, less where the loop is short or would not divide."""
    if extent is None:
        return width
    while width > lanes and (extent < width or extent % width):
        width //= 2
    return min(width, extent)
