"""Running a graph function on NumPy arrays: the reference that every pass is tested against.

Each operator is computed by the program of its definitions, on the reference interpreter of
programs; so it is slow, and as right as the operator itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np

from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import DTypeError, EvaluationError, ShapeError, TensorsmithError
from tensorsmith.evaluate import NumPyDomain, cost, interpret
from tensorsmith.evaluate.arguments import check_facts, solve
from tensorsmith.evaluate.expressions import evaluate_expr
from tensorsmith.ir import (
    Buffer,
    Const,
    Expr,
    IRModule,
    Load,
    TensorProgram,
    Var,
    const,
    free_vars,
)
from tensorsmith.ir.graph import (
    Alias,
    Apply,
    Binding,
    Body,
    Branch,
    CallExtern,
    CallProgram,
    Check,
    Constant,
    Dims,
    GraphFunction,
    Loop,
    MatchShape,
    Value,
)
from tensorsmith.ir.stmt import AttrValue
from tensorsmith.ops.operator import Operator

Array: TypeAlias = "np.ndarray[Any, Any]"
Type: TypeAlias = "tuple[tuple[int, ...], str]"
"""A shape of numbers, and the name of a dtype."""

FEW_ELEMENTS: Final = 1 << 12
"""Operands and results of no more elements are never much work."""
MOST_PROGRAMS: Final = 4096
"""Programs of operators that are kept."""


def interpret_graph(
    module: IRModule,
    function: GraphFunction | str,
    args: Sequence[Array],
    *,
    operators: Mapping[str, Operator] | None = None,
    externs: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
) -> list[Array]:
    """What `function`, one of `module` or its name, gives for these arrays, one a parameter.

    operators: by name; by default all of `tensorsmith.ops`.
    externs: Python functions for `CallExtern` besides those of the runtime, called with arrays and
        numbers as their operands and the attributes by name; each gives its results, a tuple of
        arrays unless it is one.
    Raises ShapeError, DTypeError or EvaluationError for arguments that do not fit, for checks that
    fail, and where a result is not of the type that the function says.
    """
    from tensorsmith.runtime import stages  # takes LLVM with it, which passes do without

    if operators is None:
        from tensorsmith.ops import OPERATORS

        operators = OPERATORS
    graph = module.graph(function) if isinstance(function, str) else function
    functions = {**stages.FUNCTIONS, **externs}
    return _Run(module, operators, functions).function(graph, args)


class _Run:
    """One run: the values and variables that are known so far."""

    def __init__(
        self,
        module: IRModule,
        operators: Mapping[str, Operator],
        externs: Mapping[str, Callable[..., Any]],
    ) -> None:
        self.module = module
        self.operators = operators
        self.externs = externs
        self.values: dict[Value, Array] = {}
        self.variables: dict[Var, Any] = {}
        self.domain = NumPyDomain()
        self.table: dict[type[Expr], Callable[..., Any]] = {
            **self.domain.operations,
            Load: self._load,
            Var: self._variable,
        }

    def function(self, graph: GraphFunction, args: Sequence[Array]) -> list[Array]:
        """The results for these arguments."""
        if len(args) != len(graph.params):
            raise EvaluationError(
                f"{graph.name} takes {len(graph.params)} arguments, and got {len(args)}"
            )
        self.define(graph.params, args)
        self.run(graph.body)
        return [self.values[r] for r in graph.results]

    # --- Values and variables ----------------------------------------------------------------

    def define(self, values: Sequence[Value], arrays: Sequence[Array]) -> None:
        """Give values their arrays, and the variables of their shapes that are new their numbers.

        Raises ShapeError or DTypeError where an array is not of the type of its value.
        """
        for value, array in zip(values, arrays, strict=True):
            _check_kind(value, array)
            if array.ndim != len(value.shape):
                raise ShapeError(
                    f"{value.name!r} has rank {len(value.shape)}, and is given rank {array.ndim}"
                )
        before = -1
        while before != len(self.variables):  # one that is found may settle another
            before = len(self.variables)
            for value, array in zip(values, arrays, strict=True):
                for extent, size in zip(value.shape, array.shape, strict=True):
                    known = set(self.variables)
                    solve(extent, size, self.variables)
                    for new in self.variables.keys() - known:
                        check_facts(new, self.variables[new], "dimension")
        for value, array in zip(values, arrays, strict=True):
            wanted = tuple(int(self.number(e)) for e in value.shape)
            if wanted != array.shape:
                raise ShapeError(
                    f"{value.name!r} is to have shape {wanted}, and has {array.shape}",
                    given=f"{value!r}",
                )
            self.values[value] = array

    def number(self, e: Expr) -> Any:
        """The value of an expression over variables and elements of values."""
        return evaluate_expr(e, self.domain, self.table, {})

    def _variable(self, var: Var) -> Any:
        if var not in self.variables:
            raise EvaluationError(f"the variable {var.name!r} is used before it has a value")
        return self.variables[var]

    def _load(self, e: Load, *indices: Any) -> Any:
        array = self.value(e.buffer)
        if any(not 0 <= i < n for i, n in zip(indices, array.shape, strict=True)):
            raise EvaluationError(f"element {indices} of {e.buffer.name!r} is outside of it")
        return self.domain.argument(array[tuple(indices)].item(), e.dtype)

    def value(self, value: Value) -> Array:
        """The array of a value."""
        if value not in self.values:
            raise EvaluationError(f"the value {value.name!r} is used before it is defined")
        return self.values[value]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is defined inside ends with it."""
        values, variables = dict(self.values), dict(self.variables)
        yield
        self.values, self.variables = values, variables

    # --- Bindings ----------------------------------------------------------------------------

    def run(self, bindings: Sequence[Binding]) -> None:
        """Carry out bindings in order. Errors get the place of the innermost one."""
        for binding in bindings:
            try:
                self._RUNNERS[type(binding)](self, binding)
            except TensorsmithError as error:
                error.at(", ".join(binding.sources) or binding.span)
                raise

    def constant(self, b: Constant) -> None:
        self.define((b.result,), (b.data,))

    def apply(self, b: Apply) -> None:
        operands = [None if o is None else self.value(o) for o in b.operands]
        attrs = {k: self.attribute(v) for k, v in b.attrs.items()}
        operator = self.operators.get(b.op)
        if operator is None:
            raise EvaluationError(f"there is no operator {b.op!r}")
        self.define(b.results, evaluate_operator(operator, operands, attrs))

    def attribute(self, value: AttrValue) -> AttrValue:
        """An attribute with the numbers of this run in place of variables."""
        if isinstance(value, tuple):
            return tuple(self.attribute(v) for v in value)
        return const(self.number(value), value.dtype) if isinstance(value, Expr) else value

    def call_program(self, b: CallProgram) -> None:
        operands = [self.value(o) if isinstance(o, Buffer) else self.number(o) for o in b.operands]
        results = [_empty(r.dtype, [int(self.number(e)) for e in r.shape]) for r in b.results]
        interpret(self.module, *operands, *results, entry=b.callee)
        self.define(b.results, results)

    def call_extern(self, b: CallExtern) -> None:
        function = self.externs.get(b.symbol)
        if function is None:
            raise EvaluationError(f"{b.symbol!r} is not given", try_="externs={name: function}")
        operands = [
            None if o is None else self.number(o) if isinstance(o, Expr) else self.value(o)
            for o in b.operands
        ]
        attrs = {k: _plain(self.attribute(v)) for k, v in b.attrs.items()}
        found = function(*operands, **attrs)
        self.define(b.results, found if isinstance(found, tuple) else (found,))

    def dims(self, b: Dims) -> None:
        numbers = [self.number(e) for e in b.values]
        for var, number in zip(b.variables, numbers, strict=True):
            check_facts(var, int(number), "the number")
            self.variables[var] = number

    def check(self, b: Check) -> None:
        if not self.number(b.condition):
            raise EvaluationError(
                b.message,
                where=", ".join(b.sources) or None,
                given=f"{b.condition!r} is false",
            )

    def match_shape(self, b: MatchShape) -> None:
        self.define((b.result,), (self.value(b.operand),))

    def alias(self, b: Alias) -> None:
        shape = [int(self.number(e)) for e in b.result.shape]
        self.define((b.result,), (np.ascontiguousarray(self.value(b.operand)).reshape(shape),))

    def branch(self, b: Branch) -> None:
        body = b.then if self.value(b.condition) else b.orelse
        with self.scope():
            self.run(body.bindings)
            results = [self.value(r) for r in body.results]
        self.define(b.results, results)

    def loop(self, b: Loop) -> None:
        trip = None if b.trip is None else int(self.number(b.trip))
        going = b.condition is None or bool(self.value(b.condition))
        states = [self.value(v) for v in b.initial]
        scans: list[list[Array]] = []
        at = 0
        while going and (trip is None or at < trip):
            found = self._iteration(b.body, at, states)
            if b.has_condition:
                going = bool(found.pop(0))
            states = found[: len(b.initial)]
            scans.append(found[len(b.initial) :])
            at += 1
        collected = [
            np.stack([row[k] for row in scans]) if scans else self._no_scan(result)
            for k, result in enumerate(b.results[len(states) :])
        ]
        self.define(b.results, [*states, *collected])

    def _iteration(self, body: Body, at: int, states: Sequence[Array]) -> list[Array]:
        with self.scope():
            for var in body.variables:
                self.variables[var] = at
            self.define(body.params, states)
            self.run(body.bindings)
            return [self.value(r) for r in body.results]

    def _no_scan(self, result: Value) -> Array:
        """What a scan of no iteration collects; an extent that only an iteration tells is 0."""
        assert isinstance(result, Buffer)
        known = [
            int(self.number(e)) if all(v in self.variables for v in free_vars(e)) else 0
            for e in result.shape[1:]
        ]
        return _empty(result.dtype, [0, *known])

    _RUNNERS: ClassVar[Mapping[type[Binding], Callable[[_Run, Any], None]]] = {
        Constant: constant,
        Apply: apply,
        CallProgram: call_program,
        CallExtern: call_extern,
        Dims: dims,
        Check: check,
        MatchShape: match_shape,
        Alias: alias,
        Branch: branch,
        Loop: loop,
    }


def _check_kind(value: Value, array: object) -> None:
    if not isinstance(array, np.ndarray):
        raise DTypeError(f"{value.name!r} is given {type(array).__name__}, no array")
    if isinstance(value, Buffer) and array.dtype != value.dtype.numpy:
        raise DTypeError(f"{value.name!r} is {value.dtype}, and is given {array.dtype}")


def _plain(value: AttrValue) -> Any:
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    return value.value if isinstance(value, Const) else value


def _empty(dtype: Any, shape: Sequence[int]) -> Array:
    return np.zeros(shape, dtype.numpy)


# --- Operators on arrays ---------------------------------------------------------------------


def evaluate_operator(
    operator: Operator,
    operands: Sequence[Array | None],
    attrs: Mapping[str, AttrValue],
    *,
    run: Callable[..., object] = interpret,
) -> list[Array]:
    """The results of an operator.

    attrs: without variables. run: runs its program, called with that and an array for each
        parameter, results last.
    """
    types = tuple(None if a is None else (a.shape, a.dtype.name) for a in operands)
    made = _program(operator, types, _Attrs(attrs))
    given = [a for a in operands if a is not None]
    fresh = [_empty(p.dtype, _numbers(p.shape)) for p in made.outputs]
    if made.program is not None:
        run(made.program, *given, *fresh)
    results = iter(fresh)
    return [next(results) if at is None else given[at] for at in made.passed_on]


def work_of(
    operator: Operator, operands: Sequence[Array | None], attrs: Mapping[str, AttrValue]
) -> int:
    """How many elements `evaluate_operator` reads and writes, or a bound on it."""
    types = tuple(None if a is None else (a.shape, a.dtype.name) for a in operands)
    made = _program(operator, types, _Attrs(attrs))
    if made.program is None:
        return 0
    sizes = [math.prod(_numbers(b.shape)) for b in made.program.buffers]
    if sum(sizes) <= FEW_ELEMENTS:
        return sum(sizes) ** 2
    counted = cost(made.program)
    if counted.unknowns:
        return sum(sizes) ** 2
    counts = [e for t in counted.traffic.values() for e in (t.loads, t.stores)]
    return sum(_numbers(counts))


def _numbers(exprs: Sequence[Expr]) -> list[int]:
    """The values of expressions without variables."""
    facts = Analyzer()
    found = [facts.simplify(e) for e in exprs]
    return [int(e.value) for e in found if isinstance(e, Const)]


class _Attrs:
    """Attributes as a key, in which 1, 1.0 and True are three."""

    def __init__(self, attrs: Mapping[str, AttrValue]) -> None:
        self.attrs = attrs
        self._key = tuple((k, repr(attrs[k])) for k in sorted(attrs))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Attrs) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class _OperatorProgram:
    """The program of an operator for operands of constant shape.

    outputs: its parameters that are results. passed_on: for each result of the operator, the number
    of the operand that it is, or None for the next output.
    """

    def __init__(
        self, operator: Operator, types: tuple[Type | None, ...], attrs: Mapping[str, AttrValue]
    ) -> None:
        inputs = [
            None if t is None else te.placeholder(t[0], t[1], f"x{k}") for k, t in enumerate(types)
        ]
        given = [i for i in inputs if i is not None]
        results = operator(inputs, attrs)
        self.passed_on = [given.index(r) if r in given else None for r in results]
        outputs = [r for r in results if r not in given]
        self.program: TensorProgram | None = None
        self.outputs: tuple[Any, ...] = ()
        if outputs:
            self.program = te.program(given, outputs, "operator")
            self.outputs = self.program.buffers[len(given) :]


@lru_cache(maxsize=MOST_PROGRAMS)
def _program(operator: Operator, types: tuple[Type | None, ...], attrs: _Attrs) -> _OperatorProgram:
    return _OperatorProgram(operator, types, attrs.attrs)
