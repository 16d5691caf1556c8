"""Bindings of graph functions as lines of the script form.

What a line of this form means stands in `docs/reference/script.md`. Types are written out, since
the text is read back without knowing any operator. `constants_of` has the arrays that are too large
for the text, which names them by their content.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from tensorsmith.errors import IRError
from tensorsmith.ir.buffer import Buffer
from tensorsmith.ir.content import content_hash
from tensorsmith.ir.dtype import Kind
from tensorsmith.ir.expr import Expr, Var, free_vars
from tensorsmith.ir.expr_text import Texts, float_literal
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
    bodies,
)
from tensorsmith.ir.names import is_plain_name
from tensorsmith.ir.stmt_text import MAX_DEPTH, StmtPrinter
from tensorsmith.ir.term_text import (
    attr_exprs,
    attr_text,
    attrs_text,
    buffer_exprs,
    buffer_text,
    facts_text,
    inline_text,
    string_text,
    tuple_text,
)

if TYPE_CHECKING:
    from tensorsmith.ir.module import IRModule

Array = np.ndarray[Any, np.dtype[Any]]

MAX_INLINE: Final = 16
"""Elements of a constant that the text writes out."""


# --- Constants -------------------------------------------------------------------------------


def constants_of(module: IRModule | GraphFunction) -> dict[str, Array]:
    """The constants that the text of `module` names, by the hash of their content."""
    graphs = (module,) if isinstance(module, GraphFunction) else module.graphs.values()
    found: dict[str, Array] = {}
    for graph in graphs:
        for binding in all_bindings(graph.body):
            if isinstance(binding, Constant) and _literal(binding) is None:
                found[content_hash(binding.data)] = binding.data
    return found


def all_bindings(bindings: Iterable[Binding]) -> Iterator[Binding]:
    """Every binding in order of the text, those inside of bodies after the one that has them."""
    for binding in bindings:
        yield binding
        for body in bodies(binding):
            yield from all_bindings(body.bindings)


def _literal(constant: Constant) -> str | None:
    """The elements as a Python literal, if they are few and come back bit by bit."""
    data, dtype = constant.data, constant.result.dtype
    if data.size > MAX_INLINE:
        return None
    if not (dtype.is_float or dtype.kind is Kind.STORAGE):
        items = [repr(x.item()) for x in data.reshape(-1)]
    else:
        values = [float(x) for x in data.reshape(-1)]
        back = np.array(values, np.float64).astype(data.dtype).reshape(data.shape)
        if content_hash(back) != content_hash(data):
            return None  # a NaN with a payload
        items = [float_literal(x, dtype) if np.isfinite(x) else f'float("{x}")' for x in values]
    return items[0] if data.shape == () else f"[{', '.join(items)}]"


# --- Types -----------------------------------------------------------------------------------


def type_exprs(value: Value) -> tuple[Expr, ...]:
    """The expressions in the type of a value."""
    return buffer_exprs(value) if isinstance(value, Buffer) else value.shape


def bound_variables(value: Value) -> tuple[Var, ...]:
    """The variables in the type of a value, which its definition may bind."""
    layout = value.layout if isinstance(value, Buffer) else None
    if layout is None:
        return free_vars(*type_exprs(value))
    inner = [v for v in free_vars(*layout.outputs) if v not in layout.inputs]
    return tuple(dict.fromkeys([*free_vars(*type_exprs(value)), *inner]))


def variable_type(var: Var) -> str:
    """The type of a variable, as the annotation of its name."""
    facts = facts_text(var)
    return f'T.Scalar("{var.dtype.name}"{facts})' if facts else f"T.{var.dtype.name}"


def dim_text(name: str, var: Var) -> str:
    """The line that declares a dimension."""
    facts = facts_text(var)
    return f'{name} = T.dim("{name}"{facts if var.low is not None else f", min=None{facts}"})'


def _is_attribute(name: str) -> bool:
    """Whether Python takes `name` after a dot and as a keyword argument."""
    return is_plain_name(name) and not keyword.iskeyword(name)


# --- Bindings --------------------------------------------------------------------------------


class GraphPrinter:
    """Adds the lines of a graph function to those of a `StmtPrinter`.

    declared: the variables that lines before have declared.
    """

    def __init__(self, lines: StmtPrinter, declared: Iterable[Var]) -> None:
        self._lines = lines
        self._names = lines.names
        self._declared = set(declared)
        self._sources: tuple[str, ...] = ()

    def function(self, graph: GraphFunction) -> None:
        """The lines inside of the function."""
        with self._lines.indented():
            self._sequence(graph.body)
            self._return(graph.results)

    def type_text(self, value: Value, text: Callable[[Expr], str]) -> str:
        """The type of a value. text: the text of one of its expressions."""
        if isinstance(value, Buffer):
            return f"T.Tensor({buffer_text(self._names, value, text)})"
        shape = f", {tuple_text(map(text, value.shape))}" if value.shape else ""
        return f"T.Opaque({string_text(value.kind)}{shape})"

    def _sequence(self, bindings: Iterable[Binding]) -> None:
        for binding in bindings:
            if binding.sources != self._sources:
                self._sources = binding.sources
                self._lines.emit(f"T.source({', '.join(map(string_text, binding.sources))})")
            self._PRINTERS[type(binding)](self, binding)

    @contextmanager
    def _body(self) -> Iterator[None]:
        """The inside of a body: sources that are stated inside end with it."""
        if self._lines.depth >= MAX_DEPTH:
            raise IRError(
                f"bodies are nested more than {MAX_DEPTH} levels deep, and have no text",
                because="Python, whose syntax the text has, takes no more levels of indentation",
            )
        sources = self._sources
        with self._lines.indented():
            yield
        self._sources = sources

    def _return(self, results: tuple[Value, ...]) -> None:
        self._lines.emit(f"return {self._values(results) or '()'}")

    def _values(self, values: Iterable[Value]) -> str:
        return ", ".join(map(self._names.of, values))

    def _declare_dims(self, values: Iterable[Value]) -> None:
        """Declare the variables that the definition of `values` binds."""
        for value in values:
            for var in bound_variables(value):
                if var not in self._declared:
                    self._declared.add(var)
                    self._lines.emit(dim_text(self._names.of(var), var))

    def _declare(self, values: tuple[Value, ...]) -> None:
        """A line with the type of each value, for the statement that gives several."""
        for value in values:
            texts = self._lines.texts(*type_exprs(value))
            name = self._names.of(value)
            self._lines.emit(f"{name}: {self.type_text(value, texts.of)}")

    def _define(
        self, results: tuple[Value, ...], exprs: Iterable[Expr], text: Callable[[Texts], str]
    ) -> None:
        """The line that gives `results` what `text` says in terms of `exprs`."""
        self._declare_dims(results)
        if len(results) == 1:
            (result,) = results
            texts = self._lines.texts(*type_exprs(result), *exprs)
            told = text(texts)
            name = self._names.of(result)
            self._lines.emit(f"{name}: {self.type_text(result, texts.of)} = {told}")
            return
        told = text(self._lines.texts(*exprs))
        self._declare(results)
        self._lines.emit(f"{self._values(results)} = {told}" if results else told)

    # Values of one line

    def _constant(self, binding: Constant) -> None:
        literal = _literal(binding)
        content = f'hash="{content_hash(binding.data)}"' if literal is None else literal
        self._define((binding.result,), (), lambda _: f"T.constant({content})")

    def _apply(self, binding: Apply) -> None:
        def text(texts: Texts) -> str:
            operands = [self._operand(o, texts) for o in binding.operands]
            if not all(map(_is_attribute, (binding.op, *binding.attrs))):
                attrs = [f"attrs={attrs_text(binding.attrs, texts)}"] if binding.attrs else []
                return f"T.apply({', '.join([string_text(binding.op), *operands, *attrs])})"
            attrs = [f"{k}={attr_text(binding.attrs[k], texts)}" for k in sorted(binding.attrs)]
            return f"T.op.{binding.op}({', '.join([*operands, *attrs])})"

        self._define(binding.results, attr_exprs(binding.attrs), text)

    def _operand(self, operand: Value | Expr | None, texts: Texts) -> str:
        if operand is None:
            return "None"
        return texts.of(operand) if isinstance(operand, Expr) else self._names.of(operand)

    def _call(self, binding: CallProgram) -> None:
        def text(texts: Texts) -> str:
            parts = [string_text(binding.callee)]
            parts += [self._operand(o, texts) for o in binding.operands]
            parts += [f"inplace={binding.inplace}"] if binding.inplace else []
            return f"T.call({', '.join(parts)})"

        scalars = [o for o in binding.operands if isinstance(o, Expr)]
        self._define(binding.results, scalars, text)

    def _extern(self, binding: CallExtern) -> None:
        def text(texts: Texts) -> str:
            parts = [string_text(binding.symbol)]
            parts += [self._operand(o, texts) for o in binding.operands]
            parts += [f"attrs={attrs_text(binding.attrs, texts)}"] if binding.attrs else []
            parts += ["is_python=True"] if binding.is_python else []
            parts += [] if binding.is_pure else ["is_pure=False"]
            return f"T.extern({', '.join(parts)})"

        scalars = [o for o in binding.operands if isinstance(o, Expr)]
        self._define(binding.results, [*scalars, *attr_exprs(binding.attrs)], text)

    def _match(self, binding: MatchShape) -> None:
        operand = self._names.of(binding.operand)
        self._define((binding.result,), (), lambda _: f"T.match_shape({operand})")

    def _alias(self, binding: Alias) -> None:
        operand = self._names.of(binding.operand)
        self._define((binding.result,), (), lambda _: f"T.reshaped({operand})")

    # Variables

    def _dims(self, binding: Dims) -> None:
        texts = self._lines.texts(*binding.values)
        told = f"T.read({', '.join(map(texts.of, binding.values))})"
        self._declared.update(binding.variables)
        if len(binding.variables) == 1:
            (var,) = binding.variables
            type_ = self._variable_type(var, binding.values[0])
            self._lines.emit(f"{self._names.of(var)}{type_} = {told}")
            return
        for var, value in zip(binding.variables, binding.values, strict=True):
            if type_ := self._variable_type(var, value):
                self._lines.emit(f"{self._names.of(var)}{type_}")
        names = ", ".join(map(self._names.of, binding.variables))
        self._lines.emit(f"{names} = {told}" if names else told)

    def _variable_type(self, var: Var, value: Expr) -> str:
        """Nothing where the value's type says it."""
        plain = var.dtype is value.dtype and not facts_text(var)
        return "" if plain else f": {variable_type(var)}"

    def _check(self, binding: Check) -> None:
        self._lines.line("assert ", binding.condition, f", {string_text(binding.message)}")

    # Control flow

    def _branch(self, binding: Branch) -> None:
        self._declare_dims(binding.results)
        self._declare(binding.results)
        self._lines.emit(f"if {self._names.of(binding.condition)}:")
        self._branch_body(binding.then, binding.results)
        self._lines.emit("else:")
        self._branch_body(binding.orelse, binding.results)

    def _branch_body(self, body: Body, results: tuple[Value, ...]) -> None:
        targets = self._values(results)
        with self._body():
            self._sequence(body.bindings)
            if results:
                self._lines.emit(f"{targets} = {self._values(body.results)}")
            elif not body.bindings:
                self._lines.emit("pass")

    def _loop(self, binding: Loop) -> None:
        body = binding.body
        self._declared.update(body.variables)
        self._declare_dims(body.params)
        name = self._names.fresh("body")
        at = len(self._lines.lines)
        with self._body():
            params = [f"{self._names.of(v)}: {variable_type(v)}" for v in body.variables]
            params += [f"{self._names.of(p)}: {self._inline_type(p)}" for p in body.params]
            self._sequence(body.bindings)
            self._return(body.results)
        self._lines.emit(f"def {name}({', '.join(params)}):")
        self._lines.lines.insert(at, self._lines.lines.pop())

        def text(texts: Texts) -> str:
            parts = [name, *map(self._names.of, binding.initial)]
            parts += [] if binding.trip is None else [f"trip={texts.of(binding.trip)}"]
            condition = binding.condition
            parts += [] if condition is None else [f"condition={self._names.of(condition)}"]
            parts += ["has_condition=True"] if binding.has_condition else []
            return f"T.loop({', '.join(parts)})"

        trip = () if binding.trip is None else (binding.trip,)
        self._define(binding.results, trip, text)

    def _inline_type(self, value: Value) -> str:
        return self.type_text(value, lambda e: inline_text(self._names, e))

    _PRINTERS: ClassVar[Mapping[type[Binding], Callable[[GraphPrinter, Any], None]]] = {
        Constant: _constant,
        Apply: _apply,
        CallProgram: _call,
        CallExtern: _extern,
        Dims: _dims,
        Check: _check,
        MatchShape: _match,
        Alias: _alias,
        Branch: _branch,
        Loop: _loop,
    }


__all__ = ["MAX_INLINE", "GraphPrinter", "constants_of"]
