"""The domain of costs: values are expressions, and what counts is counted on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from tensorsmith.arith import Analyzer
from tensorsmith.arith.regions import clip_region
from tensorsmith.arith.relax import symbolic_range
from tensorsmith.errors import ArithError
from tensorsmith.evaluate.counts import ONE, Count, CountAlgebra, Span
from tensorsmith.evaluate.domain import Body, Domain
from tensorsmith.ir import expr as ir
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.dtype import Kind
from tensorsmith.ir.expr import Call, Const, Expr, Load, Max, Not, Var, const, free_vars
from tensorsmith.ir.module import TensorProgram
from tensorsmith.ir.stmt import Alloc, Block, For, Invoke, Iter, IterKind, Store, While

Symbolic: TypeAlias = "Expr | None"
"""A value as an expression of dimensions, scalar parameters and loop variables; None: not known."""


class _Key(NamedTuple):
    """What a tally counts: 'flops', 'integers', or 'loads' and 'stores' of a buffer.

    once: loop variables over which the count is not summed (the init of a block).
    """

    what: str
    buffer: Buffer | None
    once: frozenset[Var]


_Tally: TypeAlias = dict[_Key, Count]


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a buffer lies: in which buffer of its own, from where on, and how large it is."""

    root: Buffer
    start: tuple[Symbolic, ...]
    shape: tuple[Symbolic, ...]


@dataclass(slots=True)
class _Branch:
    """An undecided branch: what was counted before it and in its first part."""

    condition: Symbolic
    outer: _Tally
    first: _Tally = field(default_factory=dict)
    facts: ExitStack = field(default_factory=ExitStack)
    """Undoes what is assumed in the current part."""


_INTEGERS: Final = int(Kind.INT | Kind.UINT)
_FLOATS: Final = int(Kind.FLOAT)
_COUNTED: Final = frozenset(
    {
        *(ir.Add, ir.Sub, ir.Mul, ir.Div, ir.Neg, ir.Min, ir.Max),
        *(ir.FloorDiv, ir.FloorMod, ir.TruncDiv, ir.TruncMod),
        *(ir.BitAnd, ir.BitOr, ir.BitXor, ir.BitNot, ir.ShiftLeft, ir.ShiftRight),
        *(ir.Eq, ir.Ne, ir.Lt, ir.Le, ir.Call),
    }
)
_UNCOUNTED: Final = frozenset({ir.Const, ir.Not, ir.Cast, ir.Reinterpret})


def is_counted(e: Expr) -> bool:
    """Whether the node is an operation on element values."""
    return type(e) in _COUNTED and bool(e.args[0].dtype.flag & (_INTEGERS | _FLOATS))


class CostDomain(Domain[Symbolic, Place]):
    """Values are expressions where they are known; the walk's result are the tallies."""

    values_depend_on_branch = True

    def __init__(self) -> None:
        self.operations = dict.fromkeys(_COUNTED | _UNCOUNTED, self._operation)
        self.analyzer = Analyzer()
        self.counts = CountAlgebra(self.analyzer, self._unknown)
        self.tally: _Tally = {}
        self.unknowns: list[Var] = []
        self.boxes: dict[tuple[str, Buffer], list[Region]] = {}
        self._loops: list[Span] = []
        self._branches: list[_Branch] = []
        self._iterators: dict[Var, Symbolic] = {}
        self._once: frozenset[Var] = frozenset()

    # --- Counting ---

    def _count(self, what: str, buffer: Buffer | None = None, by: Count = ONE) -> None:
        _add(self.tally, _Key(what, buffer, self._once), by, self.counts)

    def counted(self, what: str, buffer: Buffer | None = None) -> Count | None:
        """What was counted in all: 'flops', 'integers', or 'loads' or 'stores' of a buffer."""
        return self.tally.get(_Key(what, buffer, frozenset()))

    def _unknown(self, name: str) -> Var:
        self.unknowns.append(Var(name, low=0))
        return self.unknowns[-1]

    def _operation(self, e: Expr, *args: Symbolic) -> Symbolic:
        if is_counted(e):
            what = "flops" if e.args[0].dtype.flag & _FLOATS else "integers"
            twice = isinstance(e, Call) and e.intrinsic.name == "fma"
            self._count(what, None, Count({(): 2}) if twice else ONE)
        if e.dtype.flag & _FLOATS:
            return None
        known = [a for a in args if a is not None]
        return e.with_args(tuple(known)) if len(known) == len(args) else None

    # --- Calls ---

    def bind_parameters(
        self, program: TensorProgram, args: Sequence[Symbolic | Place]
    ) -> tuple[dict[Var, Symbolic], dict[Buffer, Place]]:
        values: dict[Var, Symbolic] = {}
        memories: dict[Buffer, Place] = {}
        for param, arg in zip(program.params, args, strict=True):
            if isinstance(param, Buffer):
                assert isinstance(arg, Place)
                memories[param] = arg
                for extent, size in zip(param.shape, arg.shape, strict=True):
                    if isinstance(extent, Var):
                        values.setdefault(extent, size)
                    elif extent is size:  # the program that the evaluation starts with
                        values.update((v, v) for v in free_vars(extent))
            else:
                assert not isinstance(arg, Place)
                values[param] = arg
        for dim in program.dims:
            values.setdefault(dim, None)
        return values, memories

    def call_external(self, stmt: Invoke, args: Sequence[Symbolic | Place]) -> None:
        """An unknown number of operations; every element of each region is read and written."""
        operations = self._unknown(f"operations_of_{stmt.callee}")
        self._count("flops", None, self.counts.of(operations))
        for arg in args:
            if isinstance(arg, Place):
                size: Expr = const(1)
                for extent in arg.shape:
                    size = size * (self._unknown("extent") if extent is None else extent)
                for what in ("loads", "stores"):
                    self._count(what, arg.root, self.counts.of(size))
                    self._touch(what, arg.root, list(zip(arg.start, arg.shape, strict=True)))

    # --- Buffers ---

    def allocate(self, stmt: Alloc, shape: Sequence[Symbolic]) -> Place:
        return Place(stmt.buffer, (const(0),) * len(shape), tuple(shape))

    def view(
        self, region: Region, memory: Place, ranges: Sequence[tuple[Symbolic, Symbolic]]
    ) -> Place:
        start = tuple(_plus(at, s) for at, (s, _) in zip(memory.start, ranges, strict=True))
        return Place(memory.root, start, tuple(extent for _, extent in ranges))

    def load(self, e: Load, memory: Place, indices: Sequence[Symbolic]) -> Symbolic:
        self._access("loads", memory, indices)
        return None

    def store(
        self, stmt: Store, memory: Place, indices: Sequence[Symbolic], value: Symbolic
    ) -> None:
        self._access("stores", memory, indices)

    def _access(self, what: str, memory: Place, indices: Sequence[Symbolic]) -> None:
        self._count(what, memory.root)
        one = const(1)
        starts = [_plus(s, i) for s, i in zip(memory.start, indices, strict=True)]
        self._touch(what, memory.root, [(start, one) for start in starts])

    def _touch(
        self, what: str, buffer: Buffer, ranges: Sequence[tuple[Symbolic, Symbolic]]
    ) -> None:
        """Note the box of all elements that an access touches over the loops around it."""
        box = []
        for (start, extent), size in zip(ranges, buffer.shape, strict=True):
            found = self._relaxed(start, extent)
            box.append((const(0), size) if found is None else found)
        boxes = self.boxes.setdefault((what, buffer), [])
        region = clip_region(Region(buffer, box), self.analyzer)
        if not any(region.ranges == other.ranges for other in boxes):
            boxes.append(region)

    def _relaxed(self, start: Symbolic, extent: Symbolic) -> tuple[Expr, Expr] | None:
        if start is None or extent is None:
            return None
        first, stop = self.analyzer.simplify(start), self.analyzer.simplify(start + extent)
        lowest = symbolic_range(first, self._loops, self.analyzer)
        highest = symbolic_range(stop, self._loops, self.analyzer)
        if lowest is None or highest is None:
            return None
        return lowest[0], self.analyzer.simplify(highest[1] - lowest[0])

    # --- Branches ---

    def decide(self, condition: Symbolic) -> bool | None:
        return None if condition is None else self.analyzer.prove(condition)

    def enter_then(self, condition: Symbolic) -> None:
        branch = _Branch(condition, self.tally)
        self._branches.append(branch)
        self.tally = {}
        self._assume(branch, condition)

    def enter_init(self, block: Block, condition: Symbolic) -> None:
        self.enter_then(condition)
        reduced = self._loop_vars(block, IterKind.REDUCE)
        kept = self._once
        self._branches[-1].facts.callback(lambda: setattr(self, "_once", kept))
        self._once = kept | (reduced - self._loop_vars(block, IterKind.SPATIAL))

    def _loop_vars(self, block: Block, kind: IterKind) -> frozenset[Var]:
        values = [self._iterators.get(it.var) for it in block.iters if it.kind is kind]
        return frozenset(free_vars(*[v for v in values if v is not None]))

    def enter_else(self) -> None:
        branch = self._branches[-1]
        branch.facts.close()
        branch.first, self.tally = self.tally, {}
        self._assume(branch, None if branch.condition is None else Not(branch.condition))

    def leave(self) -> None:
        branch = self._branches.pop()
        branch.facts.close()
        second, self.tally = self.tally, branch.outer
        for key in {**branch.first, **second}:
            either = [tally[key] for tally in (branch.first, second) if key in tally]
            count = either[0] if len(either) == 1 else self.counts.greater(*either)
            _add(self.tally, key, count, self.counts)

    def _assume(self, branch: _Branch, condition: Symbolic) -> None:
        branch.facts.enter_context(self.analyzer.scope())
        if condition is not None:
            with suppress(ArithError):  # it cannot hold: what is counted here is too much
                self.analyzer.assume(condition)

    def merge(self, e: Expr, condition: Symbolic, a: Symbolic, b: Symbolic) -> Symbolic:
        if condition is None or a is None or b is None:
            return None
        return ir.Select(condition, a, b)

    # --- Statements ---

    def iterate(self, loop: For, start: Symbolic, extent: Symbolic, body: Body[Symbolic]) -> None:
        size = self._unknown(f"extent_of_{loop.var.name}") if extent is None else extent
        if self.analyzer.prove(const(0) <= size) is not True:
            size = Max(size, const(0))
        self._repeat(loop.var.name, size, lambda n: body(_plus(start, n)))

    def repeat(
        self, loop: While, condition: Callable[[], Symbolic], body: Callable[[], None]
    ) -> None:
        def once(_: Var) -> None:
            condition()
            body()

        self._repeat("iteration", self._unknown("iterations_of_while"), once)

    def _repeat(self, name: str, extent: Expr, once: Callable[[Var], None]) -> None:
        """Count what `once` counts, for each value of a new variable from 0 to ``extent - 1``."""
        if self.analyzer.prove(extent <= 0) is True:
            return
        span = Span(Var(name), self.analyzer.simplify(extent))
        outer, self.tally = self.tally, {}
        with self.analyzer.scope():
            self.analyzer.bind(span.var, 0, span.extent)
            self._loops.append(span)
            once(span.var)
            self._loops.pop()
            for key, count in self.tally.items():
                self._sum(outer, key, count, span)
        self.tally = outer

    def _sum(self, into: _Tally, key: _Key, count: Count, span: Span) -> None:
        if span.var in key.once:
            total = self.counts.at_first(count, span)
        else:
            total = self.counts.total(count, span)
        _add(into, key._replace(once=key.once - {span.var}), total, self.counts)

    def bind_iterator(
        self, block: Block, it: Iter, value: Symbolic, start: Symbolic, extent: Symbolic
    ) -> Symbolic:
        self._iterators[it.var] = value
        return value


def _add(tally: _Tally, key: _Key, count: Count, counts: CountAlgebra) -> None:
    known = tally.get(key)
    tally[key] = count if known is None else counts.add(known, count)


def _plus(a: Symbolic, b: Symbolic) -> Symbolic:
    """A sum, where 0 adds nothing."""
    if a is None or b is None:
        return None
    if isinstance(a, Const) and a.value == 0:
        return b
    return a + b
