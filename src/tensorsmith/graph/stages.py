"""A graph function that calls Python as parts that do not, with the calls between them.

Native code and Python take turns. Each binding gets a *level*: native ones even, calls of Python
odd ones, as low as what they read allows; the native bindings of one level become a function of
their own. What is cheap to say again is: constants, and the reading of dimensions from tensors
(`Dims`), which a later part repeats from the same tensor. Where a part needs a dimension that only
a tensor of strings tells, Python gives its shape as a tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from tensorsmith.errors import UnsupportedOpError
from tensorsmith.graph.dependences import values_read, variables_used
from tensorsmith.ir import Buffer, Cast, Expr, Load, Opaque, Var, const, free_vars
from tensorsmith.ir.dtype import index
from tensorsmith.ir.graph import (
    Apply,
    Binding,
    CallExtern,
    CallProgram,
    Check,
    Constant,
    Dims,
    GraphFunction,
    MatchShape,
    Value,
    bodies,
    captured,
)

SHAPE: Final = "runtime.shape"
"""The Python function that gives the shape of a tensor, as a tensor."""
COPY: Final = "runtime.copy"
"""The Python function that gives a copy of a tensor."""
_FIRST: Final = -1
"""The level of parameters: an odd one, so that native code may use them at level 0."""

Part: TypeAlias = "GraphFunction | CallExtern"


@dataclass(frozen=True, slots=True)
class Stages:
    """The parts of a function, in the order in which they run, and what all of them together give.

    A part that is a graph function takes and gives tensors only. results: each the result of a
    part, none twice.
    """

    parts: tuple[Part, ...]
    results: tuple[Value, ...]


def needs_stages(graph: GraphFunction) -> bool:
    """Whether a function calls Python, or has values that are no tensors."""
    return any(isinstance(v, Opaque) for v in (*graph.params, *graph.results)) or any(
        _is_python(b) for b in graph.body
    )


def split_stages(graph: GraphFunction) -> Stages:
    """The parts of a function.

    Before: any function. After: no part but the calls themselves has anything to do with Python.
    Raises UnsupportedOpError for a branch or loop with Python or strings inside.
    """
    return _Splitter(graph).split()


def _is_python(binding: Binding) -> bool:
    return isinstance(binding, CallExtern) and (
        binding.is_python or any(isinstance(v, Opaque) for v in binding.outputs)
    )


def _refuse_python_inside(binding: Binding) -> None:
    for body in bodies(binding):
        values = {*body.params, *body.results, *captured(body)}
        if any(isinstance(v, Opaque) for v in values) or any(map(_is_python, body.bindings)):
            raise UnsupportedOpError(
                "strings in a branch or loop are not supported",
                where=", ".join(binding.sources) or None,
                try_="a model that works on strings before or after it",
            )
        for inner in body.bindings:
            _refuse_python_inside(inner)


@dataclass(slots=True)
class _Splitter:
    """One function on its way.

    values: the level of each value. checked: the highest level of a check so far.
    variables: what tells each variable: a binding that may be repeated, or a tensor that has it in
        its shape.
    """

    graph: GraphFunction
    body: list[Binding] = field(default_factory=list)
    makers: dict[Value, Binding] = field(default_factory=dict)
    values: dict[Value, int] = field(default_factory=dict)
    variables: dict[Var, Binding | Buffer] = field(default_factory=dict)
    levels: dict[Binding, int] = field(default_factory=dict)
    checked: int = _FIRST

    def split(self) -> Stages:
        """The parts."""
        for p in self.graph.params:
            self.define(p, _FIRST)
        for b in self.graph.body:
            self.place(b)
        results = tuple(self.results())
        segments = {level: self.segment(level) for level in self.native_levels()}
        needed: dict[Value, None] = dict.fromkeys(results)
        for b in self.body:
            if isinstance(b, CallExtern) and _is_python(b) and b.symbol != SHAPE:
                needed.update(dict.fromkeys(b.inputs))
                needed.update(dict.fromkeys(self.told_by(b)))
        for segment in segments.values():
            needed.update(segment.inputs)
        return Stages(tuple(self.parts(segments, needed)), results)

    # --- Levels ------------------------------------------------------------------------------

    def define(self, value: Value, level: int) -> None:
        """Let a value be known from a level on, and what its shape tells."""
        self.values[value] = level
        fresh = [e for e in value.shape if isinstance(e, Var) and e not in self.variables]
        if fresh:
            told = value if isinstance(value, Buffer) else self.shape_of(value)
            self.variables.update(dict.fromkeys(fresh, told))

    def shape_of(self, value: Opaque) -> Dims:
        """What tells native code the dimensions in the shape of a value that it cannot see."""
        shape = Buffer(f"{value.name}_shape", (len(value.shape),), "int64")
        call = CallExtern((shape,), SHAPE, (value,), is_python=True)
        self.note(call, self.values[value])
        plain = {v: at for at, v in enumerate(value.shape) if isinstance(v, Var)}
        loads = tuple(Cast(Load(shape, (const(at),)), index) for at in plain.values())
        return Dims(tuple(plain), loads)

    def note(self, binding: Binding, level: int) -> None:
        """Have a binding at a level."""
        self.body.append(binding)
        self.levels[binding] = level
        for value in binding.outputs:
            self.makers[value] = binding
            self.define(value, level)

    def place(self, b: Binding) -> None:
        """Have a binding at the lowest level that what it reads allows."""
        if isinstance(b, Constant):
            self.makers[b.result] = b
            self.values[b.result] = 0
            self.body.append(b)
            return
        _refuse_python_inside(b)
        read = [self.values[v] for v in values_read(b)]
        read += [self.level_of(v) for v in variables_used(b) if v in self.variables]
        if _is_python(b):
            read.append(self.checked)  # Python sees nothing that a check refuses
        level = max(read, default=_FIRST)
        level += (level % 2 == 0) == _is_python(b)
        if isinstance(b, Dims):
            self.variables.update(dict.fromkeys(b.variables, b))
        elif isinstance(b, Check):
            self.checked = max(self.checked, level)
        elif isinstance(b, MatchShape):
            fresh = [v for v in free_vars(*b.result.shape) if v not in self.variables]
            self.variables.update(dict.fromkeys(fresh, b))
        self.note(b, level)

    def level_of(self, v: Var) -> int:
        """The level from which on a variable is known."""
        told = self.variables[v]
        if isinstance(told, Buffer):
            return self.values[told]
        return max((self.values[x] for x in told.inputs), default=_FIRST)

    def results(self) -> Iterator[Value]:
        """The results, each made by a binding of its own."""
        taken: set[Value] = set()
        for result in self.graph.results:
            maker = self.makers.get(result)
            if maker is None or isinstance(maker, Constant) or result in taken:
                level = self.values[result]
                made = _again(result)
                call = CallExtern((made,), COPY, (result,), is_python=True)
                self.note(call, level if level % 2 else level + 1)
                yield made
            else:
                taken.add(result)
                yield result

    # --- Parts -------------------------------------------------------------------------------

    def native_levels(self) -> list[int]:
        """The levels at which there is something to do for native code."""
        found = {self.levels[b] for b in self.levels if not isinstance(b, Dims)}
        given = {v for b in self.body if _is_python(b) for v in b.inputs}
        if any(isinstance(self.makers.get(v), Constant) for v in given):
            found.add(0)
        return sorted(level for level in found if level % 2 == 0)

    def segment(self, level: int) -> _Segment:
        """The native code of a level."""
        members = [b for b in self.body if self.levels.get(b) == level]
        segment = _Segment(self, members)
        while segment.take_values() or segment.take_variables():
            pass
        return segment

    def told_by(self, call: CallExtern) -> Iterator[Value]:
        """The tensors that the numbers among the operands of a call are read from."""
        for v in free_vars(*(o for o in call.operands if isinstance(o, Expr))):
            told = self.variables.get(v)
            if isinstance(told, Dims) and told in self.levels:
                yield from told.inputs

    def parts(self, segments: dict[int, _Segment], needed: dict[Value, None]) -> Iterator[Part]:
        """All parts, in order."""
        constants = [b for b in self.body if isinstance(b, Constant) and b.result in needed]
        for level in range(_FIRST, max(self.levels.values(), default=_FIRST) + 1):
            if level in segments:
                name = f"{self.graph.name}_{level // 2}"
                yield segments[level].function(name, needed, constants if level == 0 else [])
            here = (b for b in self.body if self.levels.get(b) == level)
            calls = [b for b in here if isinstance(b, CallExtern) and _is_python(b)]
            yield from (b for b in calls if b.symbol != SHAPE or b.results[0] in needed)


def _again(value: Value) -> Value:
    """Another value of the same type."""
    if isinstance(value, Opaque):
        return replace(value)
    return Buffer(value.name, value.shape, value.dtype)


@dataclass(slots=True)
class _Segment:
    """The native code of one level: its bindings, what they repeat, and what they take."""

    splitter: _Splitter
    members: list[Binding]
    repeated: dict[Binding, None] = field(default_factory=dict)
    inputs: dict[Value, None] = field(default_factory=dict)

    def take_values(self) -> bool:
        """Take the values that the bindings read, or repeat the constants among them."""
        before = len(self.inputs), len(self.repeated)
        bindings = (*self.repeated, *self.members)
        made = {v for b in bindings for v in b.outputs}
        for v in dict.fromkeys(v for b in bindings for v in values_read(b)):
            maker = self.splitter.makers.get(v)
            if isinstance(maker, Constant):
                self.repeated[maker] = None
            elif v not in made:
                self.inputs[v] = None
        return before != (len(self.inputs), len(self.repeated))

    def take_variables(self) -> bool:
        """Take or repeat what tells the variables that the bindings need."""
        bindings = (*self.repeated, *self.members)
        used = {v for b in bindings for v in variables_used(b)}
        used.update(free_vars(*(e for x in self.inputs for e in x.shape)))
        known = {e for x in self.inputs for e in x.shape if isinstance(e, Var)}
        for b in bindings:
            if isinstance(b, Dims):
                known.update(b.variables)
            elif not isinstance(b, (Apply, CallProgram, Constant)):
                known.update(e for x in b.outputs for e in x.shape if isinstance(e, Var))
        missing = [v for v in used - known if v in self.splitter.variables]
        for v in sorted(missing, key=lambda v: v.name):
            told = self.splitter.variables[v]
            if isinstance(told, Buffer):
                self.inputs[told] = None
            else:
                self.repeated[told] = None
        return bool(missing)

    def function(
        self, name: str, needed: dict[Value, None], constants: Sequence[Constant]
    ) -> GraphFunction:
        """The bindings as a function that gives what is needed elsewhere.

        constants: what it gives besides.
        """
        order = {b: at for at, b in enumerate(self.splitter.body)}
        repeated = sorted((*self.repeated, *constants), key=lambda b: order.get(b, _FIRST))
        body = dict.fromkeys([*repeated, *self.members])
        made = {v for b in (*self.members, *constants) for v in b.outputs}
        results = tuple(v for v in needed if v in made)
        params = tuple(v for v in self.inputs if isinstance(v, Buffer))
        return GraphFunction(name, params, tuple(body), results)


__all__ = ["COPY", "SHAPE", "Part", "Stages", "needs_stages", "split_stages"]
