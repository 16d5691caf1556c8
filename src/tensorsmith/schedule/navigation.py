"""Finding loops and blocks in a schedule."""

from __future__ import annotations

from tensorsmith.ir import Block, For
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.primitive import Scheduled, primitive
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.tree import blocks_in, find_block, find_loop


class Navigation(Scheduled):
    """The primitives that give references."""

    @primitive
    def work_on(self, name: str) -> None:
        """Let names be looked up in the function `name` from here on."""
        self.module[name]
        self._current = name

    @primitive
    def get_block(self, name: str, program: str | None = None) -> BlockRef:
        """The block called `name`, of the function worked on unless `program` names another.

        Raises ScheduleError, with the names there are.
        """
        where = self._current if program is None else program
        find_block(self.module[where], name)
        return BlockRef(where, name)

    @primitive
    def get_loops(self, block: BlockRef) -> list[LoopRef]:
        """The loops around a block, outermost first, up to the block around it."""
        site = find_block(self._of(block), block.name)
        return [LoopRef(block.program, loop.var) for loop in site.loops]

    @primitive
    def get_child_blocks(self, of: BlockRef | LoopRef) -> list[BlockRef]:
        """The outermost blocks inside of a block or loop."""
        program = self._of(of)
        if isinstance(of, BlockRef):
            node = find_block(program, of.name).node
            assert isinstance(node, Block)
            inside = blocks_in(node.body)
        else:
            loop = find_loop(program, of.var).node
            assert isinstance(loop, For)
            inside = blocks_in(loop.body)
        return [BlockRef(of.program, b.name) for b in inside]

    @primitive
    def get_parent_block(self, block: BlockRef) -> BlockRef:
        """The block around a block. Raises ScheduleError if there is none."""
        parent = find_block(self._of(block), block.name).parent_block
        if parent is None:
            raise ScheduleError(f"{block!r} stands in no other block")
        return BlockRef(block.program, parent.name)
