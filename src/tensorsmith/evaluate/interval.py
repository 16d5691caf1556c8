"""The domain of intervals: what values a program can compute.

The body of a loop is walked with its variable as an interval, and again as long as what buffers
may hold still grows; after some rounds a growing end is taken to be unbounded. A buffer has one
interval for all its elements. Integer operations follow `tensorsmith.arith.interval`, which the
prover uses too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tensorsmith.arith import interval as integers
from tensorsmith.arith.interval import Interval
from tensorsmith.errors import EvaluationError
from tensorsmith.evaluate.domain import Body, Domain
from tensorsmith.evaluate.float_ranges import ANY_FLOAT, FLOAT_TABLE, FloatRange, Range
from tensorsmith.evaluate.walker import evaluate, find_entry
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.dtype import DType, Kind
from tensorsmith.ir.expr import Expr, Load, Var
from tensorsmith.ir.module import IRModule, TensorProgram
from tensorsmith.ir.stmt import Alloc, Block, For, Invoke, Iter, Store, While
from tensorsmith.verify.context import written_buffers

ROUNDS: Final = 3
"""After so many rounds of a loop, an end that still grows is taken to be unbounded."""
_FLOATS: Final = int(Kind.FLOAT | Kind.STORAGE)


def everything(dtype: DType) -> Range:
    """All values of `dtype`."""
    return ANY_FLOAT if dtype.flag & _FLOATS else integers.of_dtype(dtype)


@dataclass(slots=True, eq=False)
class Content:
    """What the elements of a buffer may be; None before anything was written."""

    dtype: DType
    value: Range | None = None


class IntervalDomain(Domain[Range, Content]):
    """Values are intervals: `Interval` for integers and bools, `FloatRange` for floats.

    dims: what is known of dimensions besides the facts that stand on them.
    """

    def __init__(self, dims: Mapping[Var, Range] | None = None) -> None:
        self._dims = dims or {}
        self.operations = {kind: _by_operands(kind) for kind in {**integers.TABLE, **FLOAT_TABLE}}
        self._locals: dict[Alloc, Content] = {}
        self._changes = 0
        self._widening = False

    # --- Calls ---

    def bind_parameters(
        self, program: TensorProgram, args: Sequence[Range | Content]
    ) -> tuple[dict[Var, Range], dict[Buffer, Content]]:
        values = {v: self._dims.get(v, of_var(v)) for v in program.dims}
        memories: dict[Buffer, Content] = {}
        for param, arg in zip(program.params, args, strict=True):
            if isinstance(param, Buffer):
                assert isinstance(arg, Content)
                memories[param] = arg
            else:
                assert not isinstance(arg, Content)
                values[param] = arg
        return values, memories

    def call_external(self, stmt: Invoke, args: Sequence[Range | Content]) -> None:
        for arg in args:
            if isinstance(arg, Content):
                self._join(arg, everything(arg.dtype))

    # --- Buffers ---

    def allocate(self, stmt: Alloc, shape: Sequence[Range]) -> Content:
        return self._locals.setdefault(stmt, Content(stmt.buffer.dtype))

    def view(
        self, region: Region, memory: Content, ranges: Sequence[tuple[Range, Range]]
    ) -> Content:
        return memory

    def load(self, e: Load, memory: Content, indices: Sequence[Range]) -> Range:
        return everything(e.dtype) if memory.value is None else memory.value

    def store(self, stmt: Store, memory: Content, indices: Sequence[Range], value: Range) -> None:
        self._join(memory, value)

    def _join(self, memory: Content, value: Range) -> None:
        old = memory.value
        new = value if old is None else join(old, value)
        if new == old:
            return
        if self._widening and old is not None:
            new = _widen(old, new, everything(memory.dtype))
        memory.value = new
        self._changes += 1

    # --- Branches ---

    def decide(self, condition: Range) -> bool | None:
        return bool(condition.low) if condition.low == condition.high else None

    def merge(self, e: Expr, condition: Range, a: Range, b: Range) -> Range:
        return join(a, b)

    # --- Statements ---

    def iterate(self, loop: For, start: Range, extent: Range, body: Body[Range]) -> None:
        values = _iterations(start, extent)
        if values.low is not None and values.high is not None and values.low > values.high:
            return
        self._until_stable(lambda: body(values))

    def repeat(self, loop: While, condition: Callable[[], Range], body: Callable[[], None]) -> None:
        def once() -> None:
            if self.decide(condition()) is not False:
                body()

        self._until_stable(once)

    def _until_stable(self, once: Callable[[], None]) -> None:
        outer = self._widening
        rounds = 0
        while True:
            before = self._changes
            once()
            rounds += 1
            if self._changes == before:
                break
            self._widening = outer or rounds >= ROUNDS
        self._widening = outer

    def bind_iterator(
        self, block: Block, it: Iter, value: Range, start: Range, extent: Range
    ) -> Range:
        assert isinstance(value, Interval)
        return value.intersect(_iterations(start, extent))


def _by_operands(kind: type[Expr]) -> Callable[..., Range]:
    """The rule for floats if there is one among a node's types, else that for integers."""
    on_integers, on_floats = integers.TABLE.get(kind), FLOAT_TABLE.get(kind)

    def apply(e: Expr, *args: Range) -> Range:
        is_float = e.dtype.flag & _FLOATS or any(a.dtype.flag & _FLOATS for a in e.args)
        rule = on_floats if is_float and kind in FLOAT_TABLE else on_integers
        assert rule is not None
        found: Range = rule(e, *args)
        if is_float and not e.dtype.flag & _FLOATS and isinstance(found, FloatRange):
            return everything(e.dtype)
        return found

    return apply


def join(a: Range, b: Range) -> Range:
    """The least interval around both, which are of one type."""
    if isinstance(a, FloatRange):
        assert isinstance(b, FloatRange)
        return a.union(b)
    assert isinstance(b, Interval)
    return a.union(b)


def _widen(old: Range, new: Range, whole: Range) -> Range:
    """`new` with each end that has moved put to the end of the type."""
    low = new.low if new.low == old.low else whole.low
    high = new.high if new.high == old.high else whole.high
    if isinstance(new, FloatRange):
        assert low is not None
        assert high is not None
        return FloatRange(low, high, new.nan)
    assert not isinstance(low, float)
    assert not isinstance(high, float)
    return Interval(low, high)


def _iterations(start: Range, extent: Range) -> Interval:
    """The values of a loop variable."""
    assert isinstance(start, Interval)
    assert isinstance(extent, Interval)
    last = integers.add(integers.add(start, extent), Interval(-1, -1))
    return Interval(start.low, last.high)


def of_var(var: Var) -> Range:
    """What the facts on `var` and its type say of its values."""
    whole = everything(var.dtype)
    return whole.intersect(Interval(var.low, var.high)) if isinstance(whole, Interval) else whole


def value_bounds(
    program: TensorProgram | IRModule,
    values: Mapping[str, tuple[float, float]] | None = None,
    *,
    entry: str | None = None,
) -> dict[str, Range]:
    """What each buffer parameter of `program` may hold after a run.

    values: by the names of parameters and dimensions, the least and greatest value that they (or
        their elements, none of them NaN) have before. What is not stated may be anything in its
        type; but a buffer that is written and not stated is taken to be an output, which is
        written before it is read.
    entry: the function of a module to start with.

    >>> from tensorsmith.ir import const
    >>> a, b, i = Buffer("a", (8,), "int32"), Buffer("b", (8,), "int32"), Var("i")
    >>> double = TensorProgram("double", (a, b), For(i, const(8), Store(b, (i,), a[i] * 2)))
    >>> value_bounds(double, {"a": (-1, 5)})["b"]
    Interval(low=-2, high=10)
    """
    function, _ = find_entry(program, entry)
    given = dict(values or {})
    written = written_buffers(function.body)
    args: list[Range | Content] = []
    for param in function.params:
        stated = given.pop(param.name, None)
        known = everything(param.dtype) if stated is None else _between(param.dtype, *stated)
        if isinstance(param, Buffer):
            output = stated is None and param in written
            args.append(Content(param.dtype, None if output else known))
        else:
            args.append(known if stated is not None else of_var(param))
    dims = {v: _between(v.dtype, *given.pop(v.name)) for v in function.dims if v.name in given}
    if given:
        raise EvaluationError(
            f"{function.name} has no parameter or dimension {', '.join(map(repr, given))}"
        )
    evaluate(program, IntervalDomain(dims), args, entry=entry)
    return {
        param.name: everything(param.dtype) if arg.value is None else arg.value
        for param, arg in zip(function.params, args, strict=True)
        if isinstance(arg, Content)
    }


def _between(dtype: DType, low: float, high: float) -> Range:
    if dtype.flag & _FLOATS:
        return FloatRange(float(low), float(high))
    return Interval(int(low), int(high))
