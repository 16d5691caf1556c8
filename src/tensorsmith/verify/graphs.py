"""The rules of graph functions: scopes, types, calls, control flow.

What operators there are is not known here: whether an `Apply` fits its operator is found out by
whoever infers types (`tensorsmith.ops`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar, Final

from tensorsmith.arith import Analyzer
from tensorsmith.errors import ArithError, Span
from tensorsmith.ir.buffer import Buffer
from tensorsmith.ir.expr import Const, Expr, Load, Var, const, equal, postorder, substitute
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
    Opaque,
    Value,
)
from tensorsmith.ir.graph_text import bound_variables
from tensorsmith.ir.module import IRModule, TensorProgram
from tensorsmith.ir.stmt import Attrs
from tensorsmith.verify.errors import (
    AttributeTypeError,
    BindTypeError,
    BranchTypeError,
    ConditionTypeError,
    ConstantTypeError,
    LoopTypeError,
    NestingError,
    OutOfScopeError,
    RedefinedError,
    ShapeViewError,
    SignatureError,
    UndefinedError,
    VerifyError,
)

MOST_BODIES: Final = 64
"""Bodies inside of each other; see `NestingError`."""


def check_graph(graph: GraphFunction, module: IRModule) -> list[VerifyError]:
    """The problems of one graph function, in order of the text."""
    checker = _Checker(graph, module)
    checker.values(graph.params, binds=True)
    checker.attrs(graph.attrs)
    checker.sequence(graph.body)
    checker.place = graph.span or f"in {graph.name!r}"
    for result in graph.results:
        checker.use(result)
    return checker.problems


class _Checker:
    """A walk over one graph function: what is in scope, what is known, what was found."""

    def __init__(self, graph: GraphFunction, module: IRModule) -> None:
        self.graph = graph
        self.module = module
        self.problems: list[VerifyError] = []
        self.place: Span | str = graph.span or f"in {graph.name!r}"
        self.visible: set[Value | Var] = set()
        self.ended: set[Value | Var] = set()
        self.facts = Analyzer()
        self.depth = 0
        self._reported: set[object] = set()

    def report(
        self,
        error: type[VerifyError],
        what: str,
        *,
        about: object = None,
        given: str | None = None,
        because: str | None = None,
        try_: str | None = None,
    ) -> None:
        """Note a problem at this place; one error a class and thing that it is `about`."""
        if about is not None:
            if (error, about) in self._reported:
                return
            self._reported.add((error, about))
        self.problems.append(error(what, where=self.place, given=given, because=because, try_=try_))

    # --- Scopes ------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is defined and learnt inside ends with it."""
        visible = set(self.visible)
        with self.facts.scope():
            yield
        self.ended |= self.visible - visible
        self.visible = visible

    def values(self, values: Iterable[Value], *, binds: bool) -> None:
        """Define values. binds: whether new variables of their shapes get their value so."""
        for value in values:
            for var in bound_variables(value):
                if binds and var not in self.visible:
                    self.define(var)
                else:
                    self.use(var)
        for value in values:
            self.define(value)

    def define(self, symbol: Value | Var) -> None:
        """Let `symbol` be known from here on."""
        if symbol in self.visible or symbol in self.ended:
            self.report(
                RedefinedError,
                f"{symbol.name!r} is defined twice",
                about=symbol,
                because="every value and variable has one definition in a function",
                try_="a new Buffer or Var for each definition; they may share a name",
            )
        self.visible.add(symbol)

    def use(self, symbol: Value | Var) -> None:
        """`symbol` is defined before, and in scope."""
        if symbol in self.visible:
            return
        kind = "variable" if isinstance(symbol, Var) else "value"
        if symbol in self.ended:
            self.report(
                OutOfScopeError,
                f"the {kind} {symbol.name!r} is used outside of its scope",
                about=symbol,
                because="what the body of a branch or loop defines ends with it",
                try_="a result of the branch or loop",
            )
            return
        known = "a parameter, or a result of a binding before this place"
        if kind == "variable":
            known = "a dimension of a parameter, or what a read or match before this place binds"
        self.report(
            UndefinedError,
            f"the {kind} {symbol.name!r} is used, and nothing defines it before",
            about=symbol,
            try_=known,
        )

    def exprs(self, exprs: Iterable[Expr]) -> None:
        """Everything under expressions is in scope."""
        for e in postorder(*exprs):
            if isinstance(e, Var):
                self.use(e)
            elif isinstance(e, Load):
                self.use(e.buffer)

    def attrs(self, attrs: Attrs) -> None:
        """Attributes are what the text can say, in terms of what is in scope."""
        for name, value in attrs.items():
            found: list[Expr] = []
            if not _is_attribute(value, found):
                self.report(
                    AttributeTypeError,
                    f"the attribute {name!r} is {value!r}: {type(value).__name__}",
                    because="attributes are numbers and strings of Python, None, expressions, and"
                    " tuples of these",
                )
            self.exprs(found)

    def differ(self, a: Expr, b: Expr) -> bool:
        """Whether two extents are known to differ."""
        try:
            return self.facts.prove(equal(a, b)) is False
        except ArithError:
            return False

    def mismatch(self, given: Value, wanted: Value) -> str | None:
        """Why `given` cannot be what `wanted` says; None if nothing is known to be wrong."""
        if _kind(given) != _kind(wanted):
            return f"holds {_kind(given)}, and must hold {_kind(wanted)}"
        if len(given.shape) != len(wanted.shape):
            return f"has rank {len(given.shape)}, and must have rank {len(wanted.shape)}"
        for axis, (a, b) in enumerate(zip(given.shape, wanted.shape, strict=True)):
            if self.differ(a, b):
                return f"has the extent {a!r} in dimension {axis}, and must have {b!r}"
        return None

    # --- Bindings ----------------------------------------------------------------------------

    def sequence(self, bindings: Iterable[Binding]) -> None:
        """Check bindings in order."""
        around = self.place
        for binding in bindings:
            where = ", ".join(binding.sources)
            self.place = binding.span or (f"{where} in {self.graph.name!r}" if where else around)
            for value in binding.inputs:
                self.use(value)
            self._CHECKS[type(binding)](self, binding)
            binds = isinstance(binding, (MatchShape, Branch, Loop, CallExtern))
            self.values(binding.outputs, binds=binds)
        self.place = around

    def constant(self, b: Constant) -> None:
        result, data = b.result, b.data
        shape = tuple(int(e.value) if isinstance(e, Const) else None for e in result.shape)
        if shape != data.shape:
            self.report(
                ConstantTypeError,
                f"the constant {result.name!r} is {result!r}, and its data has shape {data.shape}",
            )
        elif data.dtype != result.dtype.numpy:
            self.report(
                ConstantTypeError,
                f"the constant {result.name!r} is {result.dtype}, and its data {data.dtype}",
            )

    def apply(self, b: Apply) -> None:
        self.attrs(b.attrs)

    def call_program(self, b: CallProgram) -> None:
        self.exprs(o for o in b.operands if isinstance(o, Expr))
        callee = self.module.functions.get(b.callee)
        if not isinstance(callee, TensorProgram):
            what = "is a graph function" if callee else "is not in the module"
            self.report(
                SignatureError,
                f"{b.callee!r} {what}, and a graph function calls tensor programs",
                try_=f"one of {', '.join(map(repr, self.module.programs)) or 'none'}",
            )
            return
        args = (*b.operands, *b.results)
        if len(args) != len(callee.params):
            self.report(
                SignatureError,
                f"{b.callee!r} takes {len(callee.params)} arguments, not {len(args)}",
                given=f"its parameters are {', '.join(p.name for p in callee.params) or 'none'}",
            )
            return
        for arg, wrong in self.arguments(args, callee):
            self.report(SignatureError, f"an argument of {b.callee!r}, {arg!r}, {wrong}")
        self.inplace(b)

    def arguments(
        self, args: Sequence[Buffer | Expr], callee: TensorProgram
    ) -> Iterator[tuple[Buffer | Expr, str]]:
        """The arguments that do not fit, and why."""
        known: dict[Expr, Expr] = {}
        for arg, param in zip(args, callee.params, strict=True):
            if isinstance(param, Var) and isinstance(arg, Expr) and arg.dtype is param.dtype:
                known[param] = arg
            elif isinstance(param, Buffer) and isinstance(arg, Buffer):
                pairs = zip(param.shape, arg.shape, strict=False)
                known.update({w: known.get(w, e) for w, e in pairs if isinstance(w, Var)})
        for dim in callee.dims:
            known.setdefault(dim, dim.renamed(dim.name))
        for arg, param in zip(args, callee.params, strict=True):
            wrong: str | None
            if isinstance(param, Var):
                fits = isinstance(arg, Expr) and arg.dtype is param.dtype
                wrong = None if fits else f"must be a scalar of type {param.dtype}"
            elif not isinstance(arg, Buffer):
                wrong = f"is a scalar, and must be a tensor of rank {param.rank}"
            else:
                wanted = param.replace(
                    shape=tuple(substitute(e, known) for e in param.shape),
                    strides=None,
                    layout=None,
                )
                wrong = self.mismatch(arg, wanted)
            if wrong is not None:
                yield arg, wrong

    def inplace(self, b: CallProgram) -> None:
        results, operands = (len(b.results), len(b.operands))
        taken = [operand for _, operand in b.inplace]
        for result, operand in b.inplace:
            fits = 0 <= result < results and 0 <= operand < operands
            if not fits or not isinstance(b.operands[operand], Buffer) or taken.count(operand) > 1:
                self.report(
                    SignatureError,
                    f"{b.callee!r} cannot put result {result} in the memory of operand {operand}",
                    because="each result takes over the memory of one operand, a tensor",
                )

    def call_extern(self, b: CallExtern) -> None:
        self.exprs(o for o in b.operands if isinstance(o, Expr))
        self.attrs(b.attrs)

    def dims(self, b: Dims) -> None:
        self.exprs(b.values)
        if len(b.variables) != len(b.values):
            self.report(
                BindTypeError, f"{len(b.values)} values for {len(b.variables)} variables are read"
            )
        for var, value in zip(b.variables, b.values, strict=False):
            if var.dtype is not value.dtype or not var.dtype.is_integer:
                self.report(
                    BindTypeError,
                    f"{var.name!r} is {var.dtype}, and its value is {value.dtype}",
                    given=f"{value!r}: {value.dtype}",
                    because=None if var.dtype.is_integer else "what is read is an integer",
                )
        for var in b.variables:
            self.define(var)

    def check(self, b: Check) -> None:
        self.exprs([b.condition])
        if not b.condition.dtype.is_bool:
            self.report(
                ConditionTypeError,
                f"the condition of a check is {b.condition.dtype}, and must be bool",
                given=f"{b.condition!r}: {b.condition.dtype}",
            )
            return
        self.assume(b.condition)

    def assume(self, condition: Expr) -> None:
        try:
            self.facts.assume(condition)
        except ArithError:  # it never holds: what follows does not run
            return

    def match_shape(self, b: MatchShape) -> None:
        if wrong := self.mismatch(b.operand, b.result):
            self.report(ShapeViewError, f"{b.operand.name!r} {wrong} to be {b.result.name!r}")
            return
        for before, after in zip(b.operand.shape, b.result.shape, strict=True):
            self.assume(equal(before, after))

    def alias(self, b: Alias) -> None:
        if b.operand.dtype is not b.result.dtype:
            self.report(
                ShapeViewError,
                f"{b.operand.name!r} holds {b.operand.dtype}, and by another shape"
                f" {b.result.dtype}",
            )
        sizes = (math.prod(v.shape, start=const(1)) for v in (b.operand, b.result))
        before, after = map(self.facts.simplify, sizes)
        if self.differ(before, after):
            self.report(
                ShapeViewError,
                f"{b.operand.name!r} has {before!r} elements, and by another shape {after!r}",
            )

    # --- Control flow ------------------------------------------------------------------------

    def decides(self, value: Buffer, what: str) -> None:
        """`value` is a boolean of shape ()."""
        if not value.dtype.is_bool or value.rank:
            self.report(
                ConditionTypeError,
                f"the condition of {what} is {value!r}, and must be bool of shape ()",
            )

    def body(self, body: Body) -> None:
        """What stands inside, and the results, in a scope of their own."""
        for var in body.variables:
            if not var.dtype.is_index:
                self.report(LoopTypeError, f"the iteration number {var.name!r} is no index")
            self.define(var)
        self.values(body.params, binds=True)
        if self.depth >= MOST_BODIES:
            self.report(
                NestingError,
                f"bodies are nested more than {MOST_BODIES} deep",
                about=self.graph,
                try_="a loop with a state, or programs of their own for the inner",
            )
            return
        self.depth += 1
        self.sequence(body.bindings)
        self.depth -= 1
        for result in body.results:
            self.use(result)

    def branch(self, b: Branch) -> None:
        self.decides(b.condition, "a branch")
        for side, body in (("then", b.then), ("else", b.orelse)):
            if body.params or body.variables:
                self.report(BranchTypeError, f"the {side} side of a branch has parameters")
            with self.scope():
                self.body(body)
                self.results(body.results, b.results, f"the {side} side", BranchTypeError)

    def results(
        self,
        given: Sequence[Value],
        wanted: Sequence[Value],
        what: str,
        error: type[VerifyError],
    ) -> None:
        """The results that a body gives are what the binding says."""
        if len(given) != len(wanted):
            self.report(error, f"{what} gives {len(given)} results, and must give {len(wanted)}")
            return
        for a, b in zip(given, wanted, strict=True):
            if wrong := self.mismatch(a, b):
                self.report(error, f"{what} gives {a.name!r} for {b.name!r}, which {wrong}")

    def loop(self, b: Loop) -> None:
        if b.trip is not None:
            self.exprs([b.trip])
            if not b.trip.dtype.is_integer:
                self.report(
                    LoopTypeError, f"the number of iterations, {b.trip!r}, is {b.trip.dtype}"
                )
        if b.condition is not None:
            self.decides(b.condition, "a loop")
        states = len(b.body.params)
        self.results(b.initial, b.body.params, "the start", LoopTypeError)
        with self.scope():
            self.body(b.body)
            found = list(b.body.results)
            if b.has_condition and found:
                going = found.pop(0)
                if isinstance(going, Buffer):
                    self.decides(going, "a loop")
            if len(found) != len(b.results) or len(found) < states:
                self.report(
                    LoopTypeError,
                    f"an iteration gives {len(found)} states and scans, and the loop"
                    f" {len(b.results)} results for {states} states",
                )
                return
            self.results(found[:states], b.body.params, "an iteration", LoopTypeError)
            self.results(found[:states], b.results[:states], "the end", LoopTypeError)
            rows = [_row(r) for r in b.results[states:]]
            self.results(found[states:], rows, "a scan", LoopTypeError)

    _CHECKS: ClassVar[Mapping[type[Binding], Callable[..., None]]] = {
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


def _kind(value: Value) -> str:
    return value.dtype.name if isinstance(value, Buffer) else value.kind


def _row(scan: Value) -> Value:
    """The type of what one iteration adds to a scan."""
    if isinstance(scan, Buffer) and scan.rank:
        return scan.replace(shape=scan.shape[1:], strides=None, layout=None)
    return Opaque(scan.name, "a scan, which has an axis more")


def _is_attribute(value: object, exprs: list[Expr]) -> bool:
    """Whether `value` can be an attribute; expressions in it are added to `exprs`."""
    if isinstance(value, tuple):
        return all(_is_attribute(part, exprs) for part in value)
    if isinstance(value, Expr):
        exprs.append(value)
        return True
    return type(value) in (bool, int, float, str, type(None))
