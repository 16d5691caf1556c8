"""Local buffers move to the loops that use them, and shrink to what one iteration touches.

A schedule leaves allocations where the program made them, at full size. A buffer whose accesses all
lie in one loop's body is allocated there, with just the part that the body touches, if no iteration
uses what an earlier one wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorsmith.arith import Analyzer, Interval
from tensorsmith.arith.accesses import Access, collect_accesses
from tensorsmith.arith.privacy import reads_are_written, touch_apart
from tensorsmith.arith.regions import relaxed_region, union_region
from tensorsmith.arith.relax import symbolic_range
from tensorsmith.errors import ArithError
from tensorsmith.ir import (
    Alloc,
    Buffer,
    Expr,
    For,
    If,
    Invoke,
    Load,
    Region,
    Seq,
    Stmt,
    Store,
    TensorProgram,
    View,
    const,
    free_vars,
    postorder,
    seq,
    transform,
)
from tensorsmith.ir.rewrite import (
    children,
    expressions,
    map_exprs,
    statements,
    transform_stmt,
    with_children,
)
from tensorsmith.ir.stmt import ZERO


def compact_buffers(program: TensorProgram) -> TensorProgram:
    """Allocate every local buffer in the innermost loop that can hold it, at the least size.

    Before: no blocks. After: the same; buffers may be smaller and start at other indices.
    Cost: a walk of its scope for each buffer.
    """
    for alloc in [s for s in statements(program.body) if isinstance(s, Alloc)]:
        if alloc.buffer.layout is None and alloc.buffer.strides is None:
            program = _Compaction(program, alloc).run()
    return program


@dataclass(slots=True)
class _Compaction:
    """One buffer on its way inwards."""

    program: TensorProgram
    alloc: Alloc

    def run(self) -> TensorProgram:
        around = [s for s in self.around() if isinstance(s, For)]
        inwards = [s for s in self.path_to_uses() if isinstance(s, For)]
        facts = Analyzer()
        target = around[-1] if around else None  # where it is now
        region: Region | None = None
        try:
            for s in around:
                facts.bind(s.var, s.start, s.extent)
            if target is not None:
                region = self.touched(self.accesses(target), facts)
            for s in inwards:
                facts.bind(s.var, s.start, s.extent)
                accesses = self.accesses(s)
                if not self.private(s, accesses, facts):
                    break
                region, target = self.touched(accesses, facts), s
        except ArithError:  # dead code
            return self.program
        if target is None or region is None:
            return self.program
        loops = [*around, *inwards]
        inside = tuple(loops[: loops.index(target) + 1])
        return self.move(target, self.fixed_size(region, inside))

    def accesses(self, loop: For) -> list[Access]:
        """The accesses of the buffer in the body of `loop`."""
        body = without(loop.body, self.alloc)
        return [a for a in collect_accesses(body) if a.region.buffer is self.alloc.buffer]

    def touched(self, accesses: list[Access], facts: Analyzer) -> Region | None:
        """The box that the accesses touch together; None if there are none."""
        if not accesses:
            return None
        return union_region([relaxed_region(a, facts) for a in accesses], facts)

    def around(self) -> list[Stmt]:
        """The statements around the allocation, outermost first."""
        path: list[Stmt] = []
        here: Stmt | None = self.program.body
        while here is not None and here is not self.alloc:
            path.append(here)
            here = next((c for c in children(here) if _holds(c, self.alloc)), None)
        return path

    def path_to_uses(self) -> list[Stmt]:
        """The loops and conditions between the allocation and all uses, outermost first."""
        scope = next(
            s
            for s in statements(self.program.body)
            if (isinstance(s, Seq) and any(x is self.alloc for x in s.stmts)) or s is self.alloc
        )
        path: list[Stmt] = []
        here: Stmt = scope
        while True:
            using = [c for c in children(here) if uses(c, self.alloc.buffer)]
            if len(using) != 1:
                return path
            here = using[0]
            if isinstance(here, (For, If)) and not uses_directly(here, self.alloc.buffer):
                path.append(here)
            elif not isinstance(here, Seq):
                return path

    def private(self, loop: For, accesses: list[Access], facts: Analyzer) -> bool:
        """Whether no iteration of `loop` uses what another one wrote."""
        return touch_apart(loop, accesses, facts) or reads_are_written(accesses, loop.body, facts)

    def fixed_size(self, region: Region, loops: tuple[For, ...]) -> Region:
        """The region with extents that hold in every iteration of the loops around."""
        facts = Analyzer()
        for loop in loops:
            facts.bind(loop.var, loop.start, loop.extent)
        ranges: list[tuple[Expr, Expr]] = []
        for (start, extent), full in zip(region.ranges, self.alloc.buffer.shape, strict=True):
            used = {loop.var for loop in loops}
            size = extent
            if used.intersection(free_vars(extent)):
                bounds: Interval = facts.bounds(extent)
                widest = symbolic_range(extent, loops, facts)
                if bounds.high is not None:
                    size = const(bounds.high)
                elif widest is not None:
                    size = widest[1]
                else:
                    ranges.append((ZERO, full))
                    continue
            ranges.append((start, size))
        return Region(region.buffer, ranges)

    def move(self, loop: For, region: Region) -> TensorProgram:
        """The program with the buffer allocated in the body of `loop`, just for `region`."""
        old = self.alloc.buffer
        new = old.replace(shape=tuple(extent for _, extent in region.ranges))
        starts = tuple(start for start, _ in region.ranges)

        def rebase(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
            return tuple(Analyzer().simplify(i - s) for i, s in zip(indices, starts, strict=True))

        def loads(e: Expr) -> Expr | None:
            if isinstance(e, Load) and e.buffer is old:
                return Load(new, rebase(e.indices))
            return None

        def stores(s: Stmt) -> Stmt | None:
            if isinstance(s, Store) and s.buffer is old:
                return replace(s, buffer=new, indices=rebase(s.indices))
            if isinstance(s, Invoke):
                return replace(s, args=tuple(argument(a) for a in s.args))
            return None

        def argument(a: Expr | Region) -> Expr | Region:
            if not isinstance(a, Region) or a.buffer is not old:
                return a
            first = rebase(tuple(start for start, _ in a.ranges))
            extents = (extent for _, extent in a.ranges)
            return Region(new, zip(first, extents, strict=True))

        cache: dict[Expr, Expr] = {}
        body = map_exprs(loop.body, lambda e: transform(e, loads, cache))
        body = transform_stmt(without(body, self.alloc), stores)
        inner = replace(loop, body=seq(Alloc(new, span=self.alloc.span), body))

        def put(s: Stmt) -> Stmt:
            if s is loop:
                return inner
            changed = with_children(s, tuple(put(c) for c in children(s)))
            return seq(*changed.stmts) if isinstance(changed, Seq) else changed

        return replace(self.program, body=without(put(self.program.body), self.alloc))


def without(s: Stmt, alloc: Alloc) -> Stmt:
    """`s` without this allocation."""
    if s is alloc:
        return Seq(())
    changed = with_children(s, tuple(without(c, alloc) for c in children(s)))
    return seq(*changed.stmts) if isinstance(changed, Seq) and changed is not s else changed


def _holds(s: Stmt, alloc: Alloc) -> bool:
    return any(x is alloc for x in statements(s))


def uses(s: Stmt, buffer: Buffer) -> bool:
    """Whether `s` loads from, stores to or passes on the buffer, at any depth."""
    return any(uses_directly(x, buffer) for x in statements(s))


def uses_directly(s: Stmt, buffer: Buffer) -> bool:
    """Whether `s` itself does, not a statement inside it."""
    if isinstance(s, (Store, View)) and buffer in (s.buffer, getattr(s, "source", None)):
        return True
    if isinstance(s, Invoke) and any(isinstance(a, Region) and a.buffer is buffer for a in s.args):
        return True
    roots = tuple(expressions(s))
    return any(isinstance(e, Load) and e.buffer is buffer for e in postorder(*roots))
