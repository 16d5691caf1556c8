"""Graph functions with values and variables replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar

from tensorsmith.ir import Buffer, Expr, Load, Var, transform
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
    Loop,
    MatchShape,
    Opaque,
    Value,
)
from tensorsmith.ir.stmt import Attrs, AttrValue


class Substitution:
    """What stands for values and variables from here on.

    A value whose type has a replaced variable is defined anew, with the type that results, and the
    new value stands for the old one.
    values: the replacements of values. variables: those of variables, expressions in what is in
        scope wherever the variable was.
    simplify: what is done to an expression in which something was replaced, or with `always` to
        every one.
    """

    def __init__(
        self, simplify: Callable[[Expr], Expr] | None = None, *, always: bool = False
    ) -> None:
        self.values: dict[Value, Value] = {}
        self.variables: dict[Var, Expr] = {}
        self._simplify = simplify
        self._always = always and simplify is not None

    # --- Parts -------------------------------------------------------------------------------

    def value(self, value: Value) -> Value:
        """What stands for `value`; also where what stood for it was replaced itself."""
        while value in self.values:
            value = self.values[value]
        return value

    def tensor(self, value: Buffer) -> Buffer:
        """What stands for a tensor."""
        found = self.value(value)
        assert isinstance(found, Buffer)
        return found

    def expr(self, e: Expr) -> Expr:
        """`e` with variables and loaded values replaced."""
        new = self.plain(e)
        if self._simplify is not None and (self._always or new is not e):
            return self._simplify(new)
        return new

    def plain(self, e: Expr) -> Expr:
        """`e` with variables and loaded values replaced, and not simplified."""
        return transform(e, self._change) if self.variables or self.values else e

    def _change(self, e: Expr) -> Expr | None:
        if isinstance(e, Var):
            return self.variables.get(e)
        if isinstance(e, Load) and e.buffer in self.values:
            return Load(self.tensor(e.buffer), e.indices)
        return None

    def exprs(self, exprs: Iterable[Expr]) -> tuple[Expr, ...]:
        """Each of the expressions."""
        return tuple(map(self.expr, exprs))

    def attrs(self, attrs: Attrs) -> Attrs:
        """Attributes; themselves if nothing in them changes."""
        new = {k: self._attr(v) for k, v in attrs.items()}
        same = all(new[k] is attrs[k] for k in attrs)
        return attrs if same else MappingProxyType(new)

    def _attr(self, value: AttrValue) -> AttrValue:
        if isinstance(value, Expr):
            return self.expr(value)
        if isinstance(value, tuple):
            parts = tuple(map(self._attr, value))
            return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
        return value

    def define(self, value: Value) -> Value:
        """`value` as it is defined from now on: itself, or a new one if its type changes."""
        if not self.variables and not self._always:
            return value
        shape = self.exprs(value.shape)
        if all(a is b for a, b in zip(shape, value.shape, strict=True)):
            return value
        made: Value
        if isinstance(value, Opaque):
            made = Opaque(value.name, value.kind, shape)
        else:
            made = value.replace(shape=shape)
        self.values[value] = made
        return made

    def defined(self, values: Iterable[Value]) -> tuple[Any, ...]:
        """Each of the values as it is defined from now on."""
        return tuple(map(self.define, values))

    # --- Bindings ----------------------------------------------------------------------------

    def binding(self, b: Binding) -> Binding:
        """`b` with all that it uses replaced, inside of its bodies, too."""
        return self._MAKERS[type(b)](self, b)

    def body(self, body: Body) -> Body:
        """`body` with all that it uses replaced."""
        params = self.defined(body.params)
        bindings = tuple(map(self.binding, body.bindings))
        return replace(
            body, params=params, bindings=bindings, results=tuple(map(self.value, body.results))
        )

    def _operand(self, operand: Value | Expr | None) -> Any:
        if operand is None:
            return None
        return self.expr(operand) if isinstance(operand, Expr) else self.value(operand)

    def _constant(self, b: Constant) -> Binding:
        return b

    def _apply(self, b: Apply) -> Binding:
        operands, attrs = tuple(map(self._operand, b.operands)), self.attrs(b.attrs)
        results = self.defined(b.results)
        if operands == b.operands and attrs is b.attrs and results == b.results:
            return b
        return replace(b, operands=operands, attrs=attrs, results=results)

    def _call_program(self, b: CallProgram) -> Binding:
        operands = tuple(map(self._operand, b.operands))
        return replace(b, operands=operands, results=self.defined(b.results))

    def _call_extern(self, b: CallExtern) -> Binding:
        operands, attrs = tuple(map(self._operand, b.operands)), self.attrs(b.attrs)
        return replace(b, operands=operands, attrs=attrs, results=self.defined(b.results))

    def _dims(self, b: Dims) -> Binding:
        return replace(b, values=self.exprs(b.values))

    def _check(self, b: Check) -> Binding:
        return replace(b, condition=self.expr(b.condition))

    def _match(self, b: MatchShape) -> Binding:
        (result,) = self.defined([b.result])
        return replace(b, operand=self.tensor(b.operand), result=result)

    def _alias(self, b: Alias) -> Binding:
        (result,) = self.defined([b.result])
        return replace(b, operand=self.tensor(b.operand), result=result)

    def _branch(self, b: Branch) -> Binding:
        condition = self.tensor(b.condition)
        then, orelse = self.body(b.then), self.body(b.orelse)
        results = self.defined(b.results)
        return replace(b, condition=condition, then=then, orelse=orelse, results=results)

    def _loop(self, b: Loop) -> Binding:
        return replace(
            b,
            trip=None if b.trip is None else self.expr(b.trip),
            condition=None if b.condition is None else self.tensor(b.condition),
            initial=tuple(map(self.value, b.initial)),
            body=self.body(b.body),
            results=self.defined(b.results),
        )

    _MAKERS: ClassVar[Mapping[type[Binding], Callable[[Substitution, Any], Binding]]] = {
        Constant: _constant,
        Apply: _apply,
        CallProgram: _call_program,
        CallExtern: _call_extern,
        Dims: _dims,
        Check: _check,
        MatchShape: _match,
        Alias: _alias,
        Branch: _branch,
        Loop: _loop,
    }
