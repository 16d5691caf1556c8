"""The values in traces: as Python text, as JSON, and as what they stand for in a schedule."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tensorsmith.errors import TensorsmithError
from tensorsmith.ir import DType, Expr, IndexMap, TensorProgram, Var, dtype, free_vars, substitute
from tensorsmith.schedule.errors import ScheduleError

Value: TypeAlias = Any
"""An argument or result of a primitive: a reference, a number, a string, an expression, an index
map, an element type, or a list, tuple or dict of such."""

DEEPEST: Final = 32
"""Lists in lists, beyond which a text is no trace."""


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a reference in a trace: 'b0' for a block, 'l3' for a loop, 'v1' for a number."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Written:
    """An expression or an index map as text, over the dimensions of the program it will be for."""

    text: str
    is_map: bool

    def __repr__(self) -> str:
        return self.text


def show(v: Value) -> str:
    """The value as Python text."""
    if isinstance(v, (list, tuple)):
        return f"[{', '.join(map(show, v))}]"
    if isinstance(v, dict):
        return "{" + ", ".join(f"{k!r}: {show(x)}" for k, x in v.items()) + "}"
    if isinstance(v, IndexMap):
        return show_index_map(v)
    return repr(v.name) if isinstance(v, DType) else repr(v)


def show_index_map(m: IndexMap) -> str:
    """An index map as a Python lambda."""
    inputs = ", ".join(v.name for v in m.inputs)
    outputs = ", ".join(map(repr, m.outputs))
    return f"lambda {inputs}: ({outputs}{',' if len(m.outputs) == 1 else ''})"


# --- JSON ------------------------------------------------------------------------------------


def encode(v: Value) -> Value:
    """The value as what JSON can say. Raises ScheduleError where it cannot."""
    match v:
        case Name():
            return {"ref": v.text}
        case list() | tuple():
            return [encode(x) for x in v]
        case dict():
            return {"dict": {k: encode(x) for k, x in v.items()}}
        case Written():
            return {"map" if v.is_map else "expr": v.text}
        case IndexMap():
            return {"map": show_index_map(v)}
        case Expr():
            return {"expr": repr(v)}
        case DType():
            return {"dtype": v.name}
        case None | bool() | int() | float() | str():
            return v
    raise ScheduleError(f"a trace with {v!r} cannot be written as JSON")


def decode(v: Value, depth: int = 0) -> Value:
    """What `encode` encoded. Raises ValueError if it did not make this."""
    if depth > DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(v, list):
        return [decode(x, depth + 1) for x in v]
    if not isinstance(v, dict):
        return v
    if len(v) != 1:
        raise ValueError(f"a value is of one kind, not {sorted(v)}")
    ((kind, content),) = v.items()
    if kind == "dict" and isinstance(content, dict):
        return {k: decode(x, depth + 1) for k, x in content.items()}
    if not isinstance(content, str):
        raise ValueError(f"{kind!r} does not hold {type(content).__name__}")  # noqa: TRY004
    match kind:
        case "ref":
            if not (content.isidentifier() and content.isascii()):
                raise ValueError(f"{content!r} is no name")
            return Name(content)
        case "map" | "expr":
            return Written(content, is_map=kind == "map")
        case "dtype":
            return dtype(content)
    raise ValueError(f"{kind!r} is no kind of value")


# --- In a schedule ---------------------------------------------------------------------------


def resolve(v: Value, values: Mapping[str, Value], programs: Sequence[TensorProgram]) -> Value:
    """What the value stands for: names of `values`, dimensions by name, those of earlier programs
    first. Raises ScheduleError where it stands for nothing."""
    match v:
        case Name():
            if v.text not in values:
                raise ScheduleError(f"the trace uses {v.text!r} before anything gives it")
            return values[v.text]
        case list() | tuple():
            return [resolve(x, values, programs) for x in v]
        case dict():
            return {k: resolve(x, values, programs) for k, x in v.items()}
        case Written():
            return _read(v, _dims(programs))
        case Expr():
            return _rebound((v,), (), programs)[0]
        case IndexMap():
            return IndexMap(v.inputs, _rebound(v.outputs, v.inputs, programs))
    return v


def _dims(programs: Sequence[TensorProgram]) -> dict[str, Var]:
    return {d.name: d for program in reversed(programs) for d in program.dims}


def _read(v: Written, names: Mapping[str, Expr]) -> Expr | IndexMap:
    from tensorsmith.script import parse_expr, parse_index_map

    try:
        return parse_index_map(v.text, names) if v.is_map else parse_expr(v.text, names)
    except TensorsmithError as error:
        raise ScheduleError(
            f"the trace holds {v.text[:60]!r}, which cannot be read", because=error.what
        ) from None


def _rebound(
    exprs: Sequence[Expr], own: Sequence[Var], programs: Sequence[TensorProgram]
) -> tuple[Expr, ...]:
    """The expressions with dimensions of another program replaced by those of the same names."""
    known = {d for program in programs for d in program.dims}
    by_name = _dims(programs)
    values: dict[Expr, Expr] = {}
    for v in free_vars(*exprs):
        if v in known or v in own:
            continue
        if v.name not in by_name:
            raise ScheduleError(f"the trace uses the dimension {v.name!r}, which is not there")
        values[v] = by_name[v.name]
    return tuple(substitute(e, values) for e in exprs)


def names_in(v: Value) -> set[str]:
    """The names of references in a value."""
    if isinstance(v, Name):
        return {v.text}
    if isinstance(v, dict):
        v = list(v.values())
    return {n for x in v for n in names_in(x)} if isinstance(v, (list, tuple)) else set()


def dims_in(v: Value) -> dict[str, None]:
    """The names of dimensions that a value uses, in order."""
    if isinstance(v, dict):
        v = list(v.values())
    if isinstance(v, (list, tuple)):
        return {n: None for x in v for n in dims_in(x)}
    if isinstance(v, Expr):
        return {d.name: None for d in free_vars(v)}
    if isinstance(v, IndexMap):
        return {d.name: None for d in free_vars(*v.outputs) if d not in v.inputs}
    return _names_of_text(v.text) if isinstance(v, Written) else {}


def _names_of_text(text: str) -> dict[str, None]:
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    own = {a.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for a in node.args}
    used = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {n: None for n in used if n not in own and n not in ("T", "min", "max", "abs")}
