"""Traces: the primitives of a schedule with their inputs, outputs and decisions.

A trace replays on a program, prints as the calls that make it, and is what a tuning database stores
(as JSON). Source: Shao et al., MetaSchedule, NeurIPS 2022.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

from tensorsmith.ir import Expr, IndexMap, structural
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef, LoopRef, Sampled

if TYPE_CHECKING:
    from tensorsmith.schedule.schedule import Schedule

Value: TypeAlias = Any
"""An argument or result of a primitive: a reference, a number, a string, an expression, or a list,
tuple or dict of such."""


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a reference in a trace: 'b0' for a block, 'l3' for a loop, 'v1' for a number."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Instruction:
    """One call of a primitive. References in `args` and `outputs` are `Name`s.

    args: by parameter; of a primitive that takes any number of loops, those under '*'.
    decision: what a sampling primitive chose; None for the others.
    """

    primitive: str
    args: Mapping[str, Value]
    outputs: Value
    decision: Value = None

    def __str__(self) -> str:
        args = [_show(v) for v in self.args.get("*", ())]
        args += [f"{k}={_show(v)}" for k, v in self.args.items() if k != "*"]
        if self.decision is not None:
            args.append(f"decision={_show(self.decision)}")
        call = f"s.{self.primitive}({', '.join(args)})"
        return call if self.outputs is None else f"{_targets(self.outputs)} = {call}"


def _targets(outputs: Value) -> str:
    if isinstance(outputs, Name):
        return outputs.text
    names = ", ".join(_targets(o) if not isinstance(o, list) else f"[{_targets(o)}]" for o in outputs)
    return f"[{names}]" if names else "_"


def _show(v: Value) -> str:
    if isinstance(v, (list, tuple)):
        inner = ", ".join(map(_show, v))
        return f"[{inner}]"
    if isinstance(v, dict):
        return "{" + ", ".join(f"{k!r}: {_show(x)}" for k, x in v.items()) + "}"
    if isinstance(v, IndexMap):
        return show_index_map(v)
    return repr(v)


def show_index_map(m: IndexMap) -> str:
    """An index map as a Python lambda."""
    inputs = ", ".join(v.name for v in m.inputs)
    outputs = ", ".join(map(repr, m.outputs))
    return f"lambda {inputs}: ({outputs}{',' if len(m.outputs) == 1 else ''})"


@dataclass(slots=True)
class Trace:
    """The instructions of a schedule, in order."""

    instructions: list[Instruction] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(map(str, self.instructions))

    def apply(self, schedule: Schedule, *, decisions: bool = True) -> dict[str, Value]:
        """Do the same to `schedule`. Gives what each name stands for there.

        decisions: whether sampling primitives choose as they did; else they choose anew.
        """
        values: dict[str, Value] = {}
        for instruction in self.instructions:
            args = {k: _resolve(v, values) for k, v in instruction.args.items()}
            if decisions and instruction.decision is not None:
                args["decision"] = instruction.decision
            primitive = getattr(schedule, instruction.primitive, None)
            if primitive is None:
                raise ScheduleError(f"the trace uses {instruction.primitive!r}, which is no primitive")
            positional = args.pop("*", ())
            _bind(instruction.outputs, primitive(*positional, **args), values)
        return values

    def to_json(self) -> str:
        """The trace as JSON, for `from_json`."""
        rows = [
            [i.primitive, _encode(dict(i.args)), _encode(i.outputs), _encode(i.decision)]
            for i in self.instructions
        ]
        return json.dumps(rows)

    @staticmethod
    def from_json(text: str) -> Trace:
        """The trace that `to_json` wrote. Raises ScheduleError if the text is not one."""
        try:
            rows = json.loads(text)
            made = [
                Instruction(name, _decode(args), _decode(outputs), _decode(decision))
                for name, args, outputs, decision in rows
            ]
        except (ValueError, TypeError, KeyError) as error:
            raise ScheduleError(
                "this is not a trace", because=str(error), given=text[:60]
            ) from None
        return Trace(made)


def _resolve(v: Value, values: Mapping[str, Value]) -> Value:
    if isinstance(v, Name):
        try:
            return values[v.text]
        except KeyError:
            raise ScheduleError(f"the trace uses {v.text!r} before anything gives it") from None
    if isinstance(v, (list, tuple)):
        return [_resolve(x, values) for x in v]
    if isinstance(v, dict):
        return {k: _resolve(x, values) for k, x in v.items()}
    return v


def _bind(outputs: Value, results: Value, values: dict[str, Value]) -> None:
    if isinstance(outputs, Name):
        values[outputs.text] = results
    elif isinstance(outputs, (list, tuple)):
        if len(outputs) != len(results):
            raise ScheduleError(
                f"the trace expects {len(outputs)} results where there are {len(results)} now",
                because="it was made for another program",
            )
        for name, result in zip(outputs, results, strict=True):
            _bind(name, result, values)


def _encode(v: Value) -> Value:
    if isinstance(v, Name):
        return {"ref": v.text}
    if isinstance(v, (list, tuple)):
        return [_encode(x) for x in v]
    if isinstance(v, dict):
        return {"dict": {k: _encode(x) for k, x in v.items()}}
    if isinstance(v, IndexMap):
        return {"map": show_index_map(v)}
    if isinstance(v, Expr):
        return {"expr": repr(v)}
    return v


def _decode(v: Value) -> Value:
    if isinstance(v, list):
        return [_decode(x) for x in v]
    if isinstance(v, dict):
        (kind, content), *_ = v.items()
        match kind:
            case "ref":
                return Name(content)
            case "dict":
                return {k: _decode(x) for k, x in content.items()}
            case "map":
                from tensorsmith.script import parse_index_map

                return parse_index_map(content)
        raise ValueError(f"{kind!r} is no kind of value")
    return v


class Namer:
    """Names for the references of one schedule, by kind and order."""

    def __init__(self) -> None:
        self.names: dict[object, Name] = {}
        self.sampled: dict[int, tuple[Sampled, Name]] = {}
        self.counts = {"b": 0, "l": 0, "v": 0}

    def define(self, v: Value) -> Value:
        """New names for the references in a primitive's results."""
        if isinstance(v, (list, tuple)):
            return [self.define(x) for x in v]
        if isinstance(v, (BlockRef, LoopRef)):
            name = self._new("b" if isinstance(v, BlockRef) else "l")
            self.names[v] = name
            return name
        if isinstance(v, Sampled):
            name = self._new("v")
            self.sampled[id(v)] = (v, name)  # equal numbers may have different names
            return name
        return None

    def _new(self, kind: str) -> Name:
        name = Name(f"{kind}{self.counts[kind]}")
        self.counts[kind] += 1
        return name

    def use(self, v: Value) -> Value:
        """The arguments of a primitive with references made names."""
        if isinstance(v, (list, tuple)):
            return [self.use(x) for x in v]
        if isinstance(v, dict):
            return {k: self.use(x) for k, x in v.items()}
        if isinstance(v, (BlockRef, LoopRef)):
            if v not in self.names:
                raise ScheduleError(
                    f"{v!r} does not come from this schedule", try_="get_block or get_loops"
                )
            return self.names[v]
        if isinstance(v, Sampled):
            known = self.sampled.get(id(v))
            return int(v) if known is None else known[1]
        if isinstance(v, FunctionType):
            return IndexMap.of(v, v.__code__.co_argcount)
        return v


__all__ = ["Instruction", "Name", "Namer", "Trace", "Value", "show_index_map", "structural"]
