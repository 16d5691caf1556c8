"""What can be known before the function runs is computed now: constant folding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, TypeAlias, TypeGuard

import numpy as np

from tensorsmith.arith import Analyzer
from tensorsmith.errors import EvaluationError, TensorsmithError
from tensorsmith.graph.substitution import Substitution
from tensorsmith.ir import Buffer, Const, Expr, IRModule, Load, Var, const, free_vars, transform
from tensorsmith.ir.graph import (
    Alias,
    Apply,
    Binding,
    Body,
    Branch,
    Check,
    Constant,
    Dims,
    GraphFunction,
    Loop,
    MatchShape,
    Opaque,
    Value,
)
from tensorsmith.ir.graph_text import bound_variables
from tensorsmith.ir.term_text import attr_exprs
from tensorsmith.ops import OPERATORS
from tensorsmith.ops.interpret import evaluate_operator, work_of
from tensorsmith.ops.operator import Operator

Array: TypeAlias = np.ndarray[Any, Any]
Evaluate: TypeAlias = Callable[[Operator, Sequence[Array | None], Mapping[str, Any]], list[Array]]
"""The results of an operator for arrays; attributes without variables."""

BUDGET: Final = 64 << 20
"""Bytes of results that are larger than their operands, of one operator and of all in a function
together."""
MOST_WORK: Final = 1 << 25
"""Elements that the reference interpreter reads and writes for one operator: about two seconds."""
SMALL: Final = 64 << 10
"""Bytes of a result that may be larger than the operands that it is computed from."""


def fold_constants(
    module: IRModule,
    *,
    operators: Mapping[str, Operator] = OPERATORS,
    evaluate: Evaluate | None = None,
    budget: int = BUDGET,
) -> IRModule:
    """Compute operators of constants; take the known side of branches; drop what holds anyway.

    Numbers that are read from constants stand in all types after them. A result that is much larger
    than its operands (an expanded scalar, say) is left to be computed when the function runs.
    evaluate: computes an operator; by default the reference interpreter does, if it is no more work
        than `MOST_WORK`.
    budget: bytes of results that are larger than their operands; past it, those beyond `SMALL`
        stay as they are.
    Gives `module` itself if nothing is known. The operators' own semantics are kept bit by bit.
    """
    graphs: dict[str, GraphFunction] = {}
    for name, graph in module.graphs.items():
        graphs[name] = _Folding(operators, evaluate or evaluate_quickly, budget).function(graph)
    if all(graphs[name] is graph for name, graph in module.graphs.items()):
        return module
    return replace(module, functions={**module.functions, **graphs})


def evaluate_quickly(
    operator: Operator, operands: Sequence[Array | None], attrs: Mapping[str, Any]
) -> list[Array]:
    """The results by the reference interpreter. Raises EvaluationError if it would take long."""
    if work_of(operator, operands, attrs) > MOST_WORK:
        raise EvaluationError(f"{operator.name!r} of constants takes long to compute")
    return evaluate_operator(operator, operands, attrs)


class _Folding:
    """A walk in order. known: the tensors that are known."""

    def __init__(self, operators: Mapping[str, Operator], evaluate: Evaluate, budget: int) -> None:
        self.operators = operators
        self.evaluate = evaluate
        self.left = budget
        self.known: dict[Value, Array] = {}
        self.facts = Analyzer()
        self.replaced = Substitution(self.facts.simplify)
        self.changed = False
        self.bound: set[Var] = set()

    def function(self, graph: GraphFunction) -> GraphFunction:
        self.bound.update(v for p in graph.params for v in bound_variables(p))
        body = self.sequence(graph.body)
        if not self.changed:
            return graph
        return replace(graph, body=body, results=tuple(map(self.replaced.value, graph.results)))

    def sequence(self, bindings: Iterable[Binding]) -> tuple[Binding, ...]:
        return tuple(made for binding in bindings for made in self.binding(binding))

    def binding(self, b: Binding) -> Sequence[Binding]:
        """What stands for `b`."""
        folder = self._FOLDERS.get(type(b))
        made = [self.replaced.binding(b)] if folder is None else folder(self, b)
        self.bound.update(v for o in b.outputs for v in bound_variables(o))
        if isinstance(b, Dims):
            self.bound.update(b.variables)
        return made

    def body(self, body: Body) -> Body:
        self.bound.update(body.variables)
        self.bound.update(v for p in body.params for v in bound_variables(p))
        params = self.replaced.defined(body.params)
        bindings = self.sequence(body.bindings)
        results = tuple(map(self.replaced.value, body.results))
        return replace(body, params=params, bindings=bindings, results=results)

    # --- Tensors -----------------------------------------------------------------------------

    def constant(self, b: Constant) -> Sequence[Binding]:
        self.known[b.result] = b.data
        return [b]

    def made(self, b: Binding, result: Value, data: Array) -> Binding:
        """The constant that `result` is from now on."""
        assert isinstance(result, Buffer)
        self.changed = True
        self.known[result] = data
        return Constant(result, data, sources=b.sources, span=b.span)

    def apply(self, b: Apply) -> Sequence[Binding]:
        new = self.replaced.binding(b)
        assert isinstance(new, Apply)
        operands = [None if o is None else self.known.get(o) for o in new.operands]
        unknown = any(
            o is not None and a is None for o, a in zip(new.operands, operands, strict=True)
        )
        if unknown or not self.fits(new.results, operands):
            return [new]
        if free_vars(*attr_exprs(new.attrs)) or new.op not in self.operators:
            return [new]
        try:
            found = self.evaluate(self.operators[new.op], operands, new.attrs)
        except TensorsmithError:  # it fails when the function runs, if it gets there
            return [new]
        if any(_shape(r) != a.shape for r, a in zip(new.results, found, strict=True)):
            return [new]
        return [self.made(new, r, a) for r, a in zip(new.results, found, strict=True)]

    def fits(self, results: Sequence[Buffer], operands: Sequence[Array | None]) -> bool:
        """Whether results of this size may be kept; if so those that are larger than what they are
        computed from count. Others take no more memory than the model has."""
        size = 0
        for result in results:
            shape = _shape(result)
            if shape is None or result.layout is not None or result.strides is not None:
                return False
            size += math.prod(shape) * result.dtype.bytes
        given = sum(a.nbytes for a in operands if a is not None)
        if size <= given:
            return True
        if size > SMALL and (size > 2 * given or size > self.left):
            return False
        self.left -= size
        return True

    def match(self, b: MatchShape) -> Sequence[Binding]:
        new = self.replaced.binding(b)
        assert isinstance(new, MatchShape)
        before, after = new.operand.shape, new.result.shape
        for given, wanted in zip(before, after, strict=True):
            if isinstance(given, Const) and self.is_new(wanted) and self.binds(wanted, given):
                self.replaced.variables[wanted] = given
        new = self.replaced.binding(new)
        assert isinstance(new, MatchShape)
        if new.operand in self.known and _shape(new.result) == self.known[new.operand].shape:
            return [self.made(b, new.result, self.known[new.operand])]
        return [new]

    def is_new(self, e: Expr) -> TypeGuard[Var]:
        """Whether `e` is a variable that has no value yet, which the binding at hand gives it."""
        return isinstance(e, Var) and e not in self.bound

    def binds(self, var: Var, value: Const) -> bool:
        """Whether `value` keeps the facts on `var`."""
        number = int(value.value)
        low = var.low is None or number >= var.low
        high = var.high is None or number <= var.high
        return low and high and number % var.multiple_of == 0

    def alias(self, b: Alias) -> Sequence[Binding]:
        new = self.replaced.binding(b)
        assert isinstance(new, Alias)
        shape = _shape(new.result)
        if shape is None or new.operand not in self.known:
            return [new]
        return [self.made(b, new.result, self.known[new.operand].reshape(shape))]

    # --- Numbers -----------------------------------------------------------------------------

    def dims(self, b: Dims) -> Sequence[Binding]:
        kept: list[tuple[Var, Expr]] = []
        for var, value in zip(b.variables, b.values, strict=True):
            number = self.number(value)
            if isinstance(number, Const) and self.binds(var, number):
                self.replaced.variables[var] = number
                self.changed = True
            else:
                kept.append((var, number))
        if not kept:
            return []
        variables, values = zip(*kept, strict=True)
        same = all(a is c for a, c in zip(values, b.values, strict=False))
        if len(kept) == len(b.variables) and same:
            return [b]
        return [replace(b, variables=variables, values=values)]

    def number(self, e: Expr) -> Expr:
        """`e` with elements of known tensors in place of their loads."""

        def change(x: Expr) -> Expr | None:
            if not isinstance(x, Load) or x.buffer not in self.known:
                return None
            at = tuple(int(i.value) for i in x.indices if isinstance(i, Const))
            data = self.known[x.buffer]
            if len(at) < len(x.indices) or any(
                not 0 <= i < n for i, n in zip(at, data.shape, strict=True)
            ):
                return None
            return const(data[at].item(), x.dtype)

        return self.facts.simplify(transform(self.replaced.expr(e), change))

    def check(self, b: Check) -> Sequence[Binding]:
        condition = self.number(b.condition)
        if self.facts.prove(condition) is True:
            self.changed = True
            return []
        return [b if condition is b.condition else replace(b, condition=condition)]

    # --- Control flow ------------------------------------------------------------------------

    def branch(self, b: Branch) -> Sequence[Binding]:
        condition = self.known.get(self.replaced.value(b.condition))
        if condition is None:
            new = replace(b, then=self.body(b.then), orelse=self.body(b.orelse))
            return [self.replaced.binding(new)]
        self.changed = True
        body = b.then if condition.item() else b.orelse
        made = self.sequence(body.bindings)
        return [*made, *self.stand_for(b, b.results, body.results)]

    def stand_for(
        self, b: Binding, results: Sequence[Value], values: Sequence[Value]
    ) -> Sequence[Binding]:
        """Let `values` stand for the results of control flow that is decided.

        A new variable in the type of a result is the extent that it has. Gives the matches for
        those whose types are equal and said in other words.
        """
        matches: list[Binding] = []
        given = tuple(map(self.replaced.value, values))
        for result, value in zip(results, given, strict=True):
            for wanted, extent in zip(result.shape, value.shape, strict=True):
                if self.is_new(wanted):
                    self.replaced.variables.setdefault(wanted, extent)
        for result, value in zip(results, given, strict=True):
            defined = self.replaced.define(result)
            if defined.shape == value.shape or isinstance(defined, Opaque):
                self.replaced.values[result] = value
                continue
            assert isinstance(value, Buffer)
            matches.append(MatchShape(defined, value, sources=b.sources, span=b.span))
        return matches

    def loop(self, b: Loop) -> Sequence[Binding]:
        condition = None if b.condition is None else self.replaced.value(b.condition)
        trip = None if b.trip is None else self.number(b.trip)
        going = condition is None or condition not in self.known or self.known[condition].item()
        never = not going or (isinstance(trip, Const) and trip.value <= 0)
        scans = b.results[len(b.initial) :]
        rows = [tuple(map(self.replaced.expr, s.shape[1:])) for s in scans]
        if never and all(isinstance(e, Const) for row in rows for e in row):
            self.changed = True
            matches = self.stand_for(b, b.results[: len(b.initial)], b.initial)
            return [*matches, *(self.empty(b, s) for s in scans)]
        return [self.replaced.binding(replace(b, body=self.body(b.body)))]

    def empty(self, b: Loop, scan: Value) -> Binding:
        """A scan of no iteration."""
        assert isinstance(scan, Buffer)
        times = scan.shape[0]
        if self.is_new(times):
            self.replaced.variables[times] = const(0)
        result = self.replaced.define(scan)
        assert isinstance(result, Buffer)
        if not isinstance(result.shape[0], Const):
            result = result.replace(shape=(const(0), *result.shape[1:]))
            self.replaced.values[scan] = result
        shape = _shape(result)
        assert shape is not None
        return self.made(b, result, np.zeros(shape, result.dtype.numpy))

    _FOLDERS: ClassVar[Mapping[type[Binding], Callable[[_Folding, Any], Sequence[Binding]]]] = {
        Constant: constant,
        Apply: apply,
        MatchShape: match,
        Alias: alias,
        Dims: dims,
        Check: check,
        Branch: branch,
        Loop: loop,
    }


def _shape(value: Buffer) -> tuple[int, ...] | None:
    """The shape, if it is of numbers."""
    extents = tuple(int(e.value) for e in value.shape if isinstance(e, Const))
    return extents if len(extents) == value.rank else None
