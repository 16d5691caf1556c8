"""What a loop loads and stores in every iteration alike is kept in registers instead.

A loop that adds to ``C[i, j]`` again and again gets a small buffer, which becomes registers, and is
loaded before the loop and stored after it. A load whose place does not depend on the loop, from a
buffer that the loop does not write, is done once before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tensorsmith.arith import Analyzer
from tensorsmith.arith.iter_map import Level, detect
from tensorsmith.codegen.lower.tree import loads_anything, map_scopes
from tensorsmith.errors import ArithError
from tensorsmith.ir import (
    Alloc,
    And,
    Assert,
    Bind,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Invoke,
    Load,
    LoopKind,
    Or,
    Region,
    Select,
    Stmt,
    Store,
    TensorProgram,
    Var,
    While,
    const,
    free_vars,
    postorder,
    seq,
    transform,
)
from tensorsmith.ir.buffer import GLOBAL
from tensorsmith.ir.instantiate import instantiate
from tensorsmith.ir.rewrite import (
    children,
    expressions,
    map_exprs,
    statements,
    transform_stmt,
)
from tensorsmith.ir.stmt import ZERO

MOST_BYTES: Final = 1024
"""Bytes of elements that one loop keeps in registers."""
MOST_LOADS: Final = 8
"""Loads that are done before one loop."""


def hoist_loads(program: TensorProgram) -> TensorProgram:
    """Keep in registers what serial loops load and store at the same place in every iteration.

    Before: no blocks. After: the same; loops load and store less. Only loops that surely run, and
    accesses that every iteration surely does, so that nothing is touched that was not before.
    """

    def change(s: Stmt, facts: Analyzer) -> Stmt | None:
        if not isinstance(s, For) or s.kind is not LoopKind.SERIAL:
            return None
        if facts.prove(s.extent > 0) is not True:
            return None
        if any(isinstance(x, Assert) for x in statements(s.body)):
            return None  # it may be what keeps an access within its buffer
        return _Hoisting(s, facts, program.buffers).run()

    return map_scopes(program, change)


@dataclass(frozen=True, slots=True)
class _Access:
    """A load or store of one element in a loop's body. is_sure: whether every iteration does it."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    is_write: bool
    is_sure: bool


class _Hoisting:
    """One loop on its way."""

    def __init__(self, loop: For, facts: Analyzer, params: tuple[Buffer, ...]) -> None:
        self.loop = loop
        self.params = params
        self.facts = facts
        self.inner = {x.var: x for x in statements(loop.body) if isinstance(x, For)}
        self.defined = {loop.var, *self.inner}
        self.defined |= {x.var for x in statements(loop.body) if isinstance(x, Bind)}
        self.own = {x.buffer for x in statements(loop.body) if isinstance(x, Alloc)}
        self.passed = {
            a.buffer
            for x in statements(loop.body)
            if isinstance(x, Invoke)
            for a in x.args
            if isinstance(a, Region)
        }
        self.accesses: dict[Buffer, list[_Access]] = {}
        for a in _accesses(loop.body, self.facts, is_sure=True):
            self.accesses.setdefault(a.buffer, []).append(a)

    def run(self) -> Stmt | None:
        before: list[Stmt] = []
        after: list[Stmt] = []
        loop = self.loop
        room = MOST_BYTES
        for buffer, accesses in self.accesses.items():
            loops = self.tile(buffer, accesses)
            if loops is None:
                continue
            room -= _size(loops) * buffer.dtype.bytes
            if room < 0:
                break
            held, loop = self.keep(loop, accesses[0], loops, before, after)
            if not (accesses[0].is_write and accesses[0].is_sure):
                at = 1 + before.index(next(x for x in before if _allocates(x, held)))
                before.insert(at, _copy(held, accesses[0], loops, inwards=True))
        loads = self.invariant_loads()
        if not before and not loads:
            return None
        values: dict[Expr, Expr] = {}
        for load in loads:
            name = Var(load.buffer.name.lower(), load.dtype)
            before.append(Bind(name, load, span=loop.span))
            values[load] = name
        if values:
            cache: dict[Expr, Expr] = {}
            body = map_exprs(loop.body, lambda e: transform(e, values.get, cache))
            loop = replace(loop, body=body)
        return seq(*before, loop, *after)

    # --- Sums ----------------------------------------------------------------------------------

    def tile(self, buffer: Buffer, accesses: list[_Access]) -> list[For] | None:
        """The loops inside whose variables pick the element of `buffer` that every iteration uses,
        and that alone; None if there is more to it."""
        indices = accesses[0].indices
        if buffer in self.own or buffer in self.passed or buffer.scope != GLOBAL:
            return None
        if any(a.indices != indices for a in accesses):
            return None
        if not accesses[0].is_sure and buffer not in self.params:
            return None  # it may hold nothing yet that could be loaded
        if not any(a.is_write and a.is_sure for a in accesses):
            return None
        used = self.defined.intersection(free_vars(*indices))
        loops = [x for v, x in self.inner.items() if v in used]
        if len(loops) != len(used) or any(map(loads_anything, indices)):
            return None
        for x in loops:
            fixed = isinstance(x.extent, Const) and x.start is ZERO
            if not fixed or x.kind not in (LoopKind.VECTORIZED, LoopKind.UNROLLED):
                return None
        return loops if not loops or self.is_injective(indices, loops) else None

    def is_injective(self, indices: tuple[Expr, ...], loops: list[For]) -> bool:
        ranges = {x.var: (x.start, x.extent) for x in loops}
        try:
            detect(indices, ranges, level=Level.INJECTIVE, analyzer=self.facts)
        except ArithError:
            return False
        return True

    def keep(
        self, loop: For, a: _Access, loops: list[For], before: list[Stmt], after: list[Stmt]
    ) -> tuple[Buffer, For]:
        """The loop with the element(s) in a buffer of its own; what goes before and after it."""
        shape = [x.extent for x in loops] or [const(1)]
        held = Buffer(f"{a.buffer.name}_held", shape, a.buffer.dtype, scope="local")
        here = tuple(x.var for x in loops) or (ZERO,)
        before.append(Alloc(held, span=loop.span))
        after.append(_copy(held, a, loops, inwards=False))

        def loads(e: Expr) -> Expr | None:
            return Load(held, here) if isinstance(e, Load) and e.buffer is a.buffer else None

        def stores(s: Stmt) -> Stmt | None:
            if isinstance(s, Store) and s.buffer is a.buffer:
                return replace(s, buffer=held, indices=here)
            return None

        cache: dict[Expr, Expr] = {}
        body = transform_stmt(map_exprs(loop.body, lambda e: transform(e, loads, cache)), stores)
        return held, replace(loop, body=body)

    # --- Loads ---------------------------------------------------------------------------------

    def invariant_loads(self) -> list[Load]:
        """Loads that each iteration does, at a place and of a value that stay."""
        found: dict[Load, None] = {}
        for buffer, accesses in self.accesses.items():
            if buffer in self.own or buffer in self.passed or any(a.is_write for a in accesses):
                continue
            for a in accesses:
                varies = self.defined.intersection(free_vars(*a.indices))
                if a.is_sure and not varies and not any(map(loads_anything, a.indices)):
                    load = Load(buffer, a.indices)
                    assert isinstance(load, Load)
                    found[load] = None
        return list(found)[:MOST_LOADS]


def _size(loops: list[For]) -> int:
    size = 1
    for x in loops:
        assert isinstance(x.extent, Const)
        size *= int(x.extent.value)
    return size


def _allocates(s: Stmt, buffer: Buffer) -> bool:
    return isinstance(s, Alloc) and s.buffer is buffer


def _copy(held: Buffer, a: _Access, loops: list[For], *, inwards: bool) -> Stmt:
    """The element(s) to the buffer that holds them, or back."""
    here = tuple(x.var for x in loops) or (ZERO,)
    body: Stmt = (
        Store(held, here, Load(a.buffer, a.indices))
        if inwards
        else Store(a.buffer, a.indices, Load(held, here))
    )
    for x in reversed(loops):
        body = replace(x, body=body)
    return instantiate(body)


def _accesses(s: Stmt, facts: Analyzer, *, is_sure: bool) -> Iterator[_Access]:
    """The accesses in a statement, in order."""
    for e in expressions(s):
        sure = _sure_loads(e)
        for x in postorder(e):
            if isinstance(x, Load):
                yield _Access(x.buffer, x.indices, is_write=False, is_sure=is_sure and x in sure)
    if isinstance(s, Store):
        yield _Access(s.buffer, s.indices, is_write=True, is_sure=is_sure)
    surely = is_sure and not isinstance(s, (If, While))
    if isinstance(s, For) and facts.prove(s.extent > 0) is not True:
        surely = False
    for c in children(s):
        yield from _accesses(c, facts, is_sure=surely)


def _sure_loads(root: Expr) -> set[Expr]:
    """The loads that evaluating `root` surely does."""
    found: set[Expr] = set()
    stack = [root]
    while stack:
        e = stack.pop()
        if e in found:
            continue
        found.add(e)
        stack.extend(e.args[:1] if isinstance(e, (Select, And, Or)) else e.args)
    return {e for e in found if isinstance(e, Load)}
