"""Finding loops and blocks in a schedule."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

from tensorsmith.ir import Block, For, TensorProgram
from tensorsmith.schedule import dependence
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.primitive import Scheduled, primitive, refuse_views
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.tree import Site, blocks_in, find_block, find_loop, sites


class Navigation(Scheduled):
    """The primitives that give references."""

    @primitive
    def work_on(self, name: str) -> None:
        """Let names be looked up in the function `name` from here on.

        Not possible if the module has no such function.

        >>> from tensorsmith import te
        >>> from tensorsmith.ir import IRModule
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((4,), name="A")
        >>> f, g = (te.program([A], te.compute((4,), lambda i: A[i], n), n) for n in "fg")
        >>> s = Schedule(IRModule.of(f, g))
        >>> s.work_on("g")
        >>> s.get_output_blocks()
        [block 'g']
        """
        if name not in self.module.programs:
            known = ", ".join(map(repr, self.module.programs)) or "none"
            raise ScheduleError(f"the module has no function {name!r}", try_=f"one of {known}")
        refuse_views(self.module.programs[name])
        self._current = name

    @primitive
    def get_block(self, name: str, program: str | None = None) -> BlockRef:
        """The block called `name`, of the function worked on unless `program` names another.

        name: also a pattern that one block alone fits, where ``*`` stands for any characters, ``?``
            for one; and a path, ``"outer/inner"``, which asks for blocks around the block.
        Not possible if no block is called so, or several fit; the error has the names there are.
        `find_blocks` gives all that fit.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((4,), name="A")
        >>> B = te.compute((4,), lambda i: A[i] + 1.0, "plus_one")
        >>> C = te.compute((4,), lambda i: B[i] * 2.0, "twice")
        >>> s = Schedule(te.program([A], C, "f"))
        >>> s.get_block("twice"), s.get_block("plus*")
        (block 'twice', block 'plus_one')
        """
        where = self._current if program is None else program
        return BlockRef(where, _one_block(self._function(where), name))

    def find_blocks(
        self, pattern: str | Callable[[Block], bool] = "*", program: str | None = None
    ) -> list[BlockRef]:
        """All blocks that a pattern fits (see `get_block`), or of which a function says so.

        In order of the program. The trace has a `get_block` for each.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((4,), name="A")
        >>> B = te.compute((4,), lambda i: A[i] + 1.0, "B_1")
        >>> C = te.compute((4,), lambda i: B[i] * 2.0, "B_2")
        >>> s = Schedule(te.program([A], C, "f"))
        >>> s.find_blocks("B_?")
        [block 'B_1', block 'B_2']
        >>> s.find_blocks(lambda block: block.name > "B_1")
        [block 'B_2']
        """
        where = self._current if program is None else program
        found = _matching(self._function(where), pattern)
        if program is None:
            return [self.get_block(name) for name in found]
        return [self.get_block(name, program) for name in found]

    @primitive
    def get_loops(self, block: BlockRef) -> list[LoopRef]:
        """The loops around a block, outermost first, up to the block around it.

        Not possible if the block is no longer there.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((4, 8), name="A")
        >>> B = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "f"))
        >>> s.get_loops(s.get_block("B"))
        [loop 'i', loop 'j']
        """
        site = find_block(self._of(block), block.name)
        return [LoopRef(block.program, loop.var) for loop in site.loops]

    @primitive
    def get_child_blocks(self, of: BlockRef | LoopRef) -> list[BlockRef]:
        """The outermost blocks inside of a block or loop.

        Not possible if the block or loop is no longer there.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((4, 8), name="A")
        >>> B = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "f"))
        >>> i, j = s.get_loops(s.get_block("B"))
        >>> s.get_child_blocks(i), s.get_child_blocks(s.get_block("B"))
        ([block 'B'], [])
        """
        program = self._of(of)
        if isinstance(of, BlockRef):
            node = find_block(program, of.name).node
            assert isinstance(node, Block)
            inside = blocks_in(node.body)
        else:
            loop = find_loop(program, of.var).node
            assert isinstance(loop, For)
            inside = blocks_in(loop.body)
        return _refs(of.program, inside)

    @primitive
    def get_parent_block(self, block: BlockRef) -> BlockRef:
        """The block around a block.

        Not possible if the block stands in no other.

        >>> from tensorsmith.script import parse_program
        >>> from tensorsmith.schedule import Schedule
        >>> s = Schedule(parse_program('''
        ... from tensorsmith import script as T
        ... @T.program
        ... def f(A: T.Buffer((4, 8), "int8")):
        ...     for i in range(4):
        ...         with T.block("row"):
        ...             vi = T.remap("S", i)
        ...             for j in range(8):
        ...                 with T.block("element"):
        ...                     vj = T.remap("S", j)
        ...                     A[vi, vj] = 1
        ... '''))
        >>> s.get_parent_block(s.get_block("row/element"))
        block 'row'
        """
        parent = find_block(self._of(block), block.name).parent_block
        if parent is None:
            raise ScheduleError(f"{block!r} stands in no other block")
        return BlockRef(block.program, parent.name)

    @primitive
    def get_producers(self, block: BlockRef) -> list[BlockRef]:
        """The blocks in front of a block, in the same block or program, that write what it reads.

        Not possible if the block is no longer there.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((4,), name="A")
        >>> B = te.compute((4,), lambda i: A[i] + 1.0, "B")
        >>> C = te.compute((4,), lambda i: B[i] * 2.0, "C")
        >>> s = Schedule(te.program([A], C, "f"))
        >>> s.get_producers(s.get_block("C")), s.get_consumers(s.get_block("B"))
        ([block 'B'], [block 'C'])
        """
        return _refs(block.program, dependence.producers(self._of(block), block.name))

    @primitive
    def get_consumers(self, block: BlockRef) -> list[BlockRef]:
        """The blocks behind a block, in the same block or program, that read what it writes.

        Not possible if the block is no longer there.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((4,), name="A")
        >>> B = te.compute((4,), lambda i: A[i] + 1.0, "B")
        >>> C = te.compute((4,), lambda i: B[i] * 2.0, "C")
        >>> s = Schedule(te.program([A], C, "f"))
        >>> s.get_consumers(s.get_block("B"))
        [block 'C']
        """
        return _refs(block.program, dependence.consumers(self._of(block), block.name))

    @primitive
    def get_output_blocks(self, program: str | None = None) -> list[BlockRef]:
        """The outermost blocks that write parameters of the function worked on, or of `program`.

        Not possible if the module has no such function.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((4,), name="A")
        >>> B = te.compute((4,), lambda i: A[i] + 1.0, "B")
        >>> C = te.compute((4,), lambda i: B[i] * 2.0, "C")
        >>> Schedule(te.program([A], C, "f")).get_output_blocks()
        [block 'C']
        """
        where = self._current if program is None else program
        return _refs(where, dependence.output_blocks(self._function(where)))

    def _function(self, name: str) -> TensorProgram:
        if name not in self.module.programs:
            known = ", ".join(map(repr, self.module.programs)) or "none"
            raise ScheduleError(f"the module has no function {name!r}", try_=f"one of {known}")
        return self.module.programs[name]


def _refs(program: str, blocks: list[Block]) -> list[BlockRef]:
    return [BlockRef(program, b.name) for b in blocks]


def _one_block(program: TensorProgram, name: str) -> str:
    """The name of the one block that `name` is, or fits, or leads to."""
    if not any(c in name for c in "*?[/"):
        find_block(program, name)
        return name
    found = _matching(program, name)
    if len(found) == 1:
        return found[0]
    if found:
        raise ScheduleError(
            f"{len(found)} blocks of {program.name!r} fit {name!r}",
            given=", ".join(map(repr, found)),
            try_="find_blocks, which gives all of them",
        )
    find_block(program, name)
    return name


def _matching(program: TensorProgram, pattern: str | Callable[[Block], bool]) -> list[str]:
    found = []
    for site in sites(program):
        if isinstance(site.node, Block):
            fits = _fits(site, pattern) if isinstance(pattern, str) else pattern(site.node)
            if fits:
                found.append(site.node.name)
    return found


def _fits(site: Site, pattern: str) -> bool:
    """Whether the names of the block and of those around it end with what the pattern asks for."""
    names = [s.name for s in (*site.around, site.node) if isinstance(s, Block)]
    if names[-1] == pattern:
        return True
    parts = pattern.split("/")
    return len(parts) <= len(names) and all(
        fnmatchcase(name, part) for name, part in zip(names[-len(parts) :], parts, strict=True)
    )
