"""What is computed twice is computed once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from tensorsmith.graph.substitution import Substitution
from tensorsmith.ir import Buffer, Expr, IRModule, Var
from tensorsmith.ir.graph import (
    Alias,
    Apply,
    Binding,
    Body,
    Branch,
    CallProgram,
    Constant,
    Dims,
    GraphFunction,
    Loop,
    Value,
)
from tensorsmith.ir.stmt import Attrs, AttrValue

Key: TypeAlias = "tuple[Hashable, ...]"

SAMPLE: Final = 64
"""Elements of a constant that its hash is of."""


def eliminate_common_subexpressions(module: IRModule) -> IRModule:
    """Let one binding stand for all that compute the same of the same.

    Operators, calls of programs, constants of equal content, and numbers that are read. What a body
    computes that was computed before it outside is taken from there. Gives `module` itself if
    nothing is there twice.
    """
    graphs = {name: _function(graph) for name, graph in module.graphs.items()}
    if all(graphs[name] is graph for name, graph in module.graphs.items()):
        return module
    return replace(module, functions={**module.functions, **graphs})


def _function(graph: GraphFunction) -> GraphFunction:
    walk = _Walk()
    body = walk.sequence(graph.body)
    if not walk.found:
        return graph
    return replace(graph, body=body, results=tuple(map(walk.replaced.value, graph.results)))


class _Walk:
    """A walk in order. known: what was computed so far and is in scope, by its key."""

    def __init__(self) -> None:
        self.replaced = Substitution()
        self.known: dict[Key, tuple[Value | Var, ...]] = {}
        self.found = False

    def sequence(self, bindings: Iterable[Binding]) -> tuple[Binding, ...]:
        made: list[Binding] = []
        for binding in bindings:
            new = self.binding(binding)
            if new is not None:
                made.append(new)
        return tuple(made)

    def binding(self, b: Binding) -> Binding | None:
        """`b` in terms of what stands for its operands; None if it was there before."""
        if isinstance(b, Branch):
            then, orelse = self.body(b.then), self.body(b.orelse)
            return self.replaced.binding(replace(b, then=then, orelse=orelse))
        if isinstance(b, Loop):
            return self.replaced.binding(replace(b, body=self.body(b.body)))
        new = self.replaced.binding(b)
        key = key_of(new)
        if key is None:
            return new
        defined: tuple[Value | Var, ...] = new.variables if isinstance(new, Dims) else new.outputs
        before = self.known.setdefault(key, defined)
        if before is defined:
            return new
        self.found = True
        old = b.variables if isinstance(b, Dims) else b.outputs
        for what, other in zip(old, before, strict=True):
            if isinstance(what, Var) and isinstance(other, Var):
                self.replaced.variables[what] = other
            elif not isinstance(what, Var) and not isinstance(other, Var):
                self.replaced.values[what] = other
        return None

    def body(self, body: Body) -> Body:
        outside = dict(self.known)
        params = self.replaced.defined(body.params)
        bindings = self.sequence(body.bindings)
        self.known = outside
        results = tuple(map(self.replaced.value, body.results))
        return replace(body, params=params, bindings=bindings, results=results)


def key_of(b: Binding) -> Key | None:
    """What two bindings have in common that compute the same; None if there is no telling."""
    if isinstance(b, Constant):
        return ("constant", _types(b.outputs), _Content(b.data))
    if isinstance(b, Apply):
        return ("apply", b.op, b.operands, attrs_key(b.attrs), _types(b.outputs))
    if isinstance(b, CallProgram) and not b.inplace:
        return ("call", b.callee, b.operands, _types(b.outputs))
    if isinstance(b, Alias):
        return ("alias", b.operand, _types(b.outputs))
    if isinstance(b, Dims):
        facts = tuple((v.dtype.name, v.low, v.high, v.multiple_of) for v in b.variables)
        return ("dims", b.values, facts)
    return None


class _Content:
    """An array as a key: equal to one of the same bytes. Its hash is of a sample, so that weights
    need not be read to tell that they differ."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self.data = data
        places = np.arange(0, data.size, max(1, data.size // SAMPLE))
        sample = data[np.unravel_index(places, data.shape)] if data.ndim else data
        self._hash = hash((data.shape, data.dtype.name, sample.tobytes()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Content) or self._hash != other._hash:
            return False
        a, b = self.data, other.data
        if a is b:
            return True
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        left, right = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
        return np.array_equal(left, right)


def _types(values: Iterable[Value]) -> Key:
    return tuple(
        (v.shape, v.dtype.name, v.strides, v.offset, v.layout, v.scope, v.align)
        if isinstance(v, Buffer)
        else (v.shape, v.kind)
        for v in values
    )


def attrs_key(attrs: Attrs) -> Key:
    """Attributes as a key, in which 1, 1.0 and True are three."""
    return tuple((name, _value_key(attrs[name])) for name in sorted(attrs))


def _value_key(value: AttrValue) -> Hashable:
    if isinstance(value, tuple):
        return tuple(map(_value_key, value))
    return value if isinstance(value, Expr) else (type(value).__name__, repr(value))
