"""Traces: the primitives of a schedule with their inputs, outputs and decisions.

A trace replays on a program, prints as the calls that make it, and is what a tuning database stores
(as JSON). Source: Shao et al., MetaSchedule, NeurIPS 2022.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import TYPE_CHECKING, Final

from tensorsmith.errors import TensorsmithError
from tensorsmith.ir import IndexMap
from tensorsmith.schedule.argument_types import check_arguments
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef, LoopRef, Sampled
from tensorsmith.schedule.trace_values import (
    Name,
    Value,
    decode,
    dims_in,
    encode,
    names_in,
    resolve,
    show,
    show_index_map,
)

if TYPE_CHECKING:
    from tensorsmith.schedule.schedule import Schedule

QUERIES: Final = ("get_", "find_", "sample_")
"""How the names of primitives begin that change nothing, and only give something."""


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
        args = [show(v) for v in self.args.get("*", ())]
        args += [f"{k}={show(v)}" for k, v in self.args.items() if k != "*"]
        if self.decision is not None:
            args.append(f"decision={show(self.decision)}")
        call = f"s.{self.primitive}({', '.join(args)})"
        return call if self.outputs is None else f"{_targets(self.outputs)} = {call}"

    @property
    def is_query(self) -> bool:
        """Whether it changes nothing, so that it is of no use if its results are not used."""
        return self.primitive.startswith(QUERIES)


def _targets(outputs: Value) -> str:
    if isinstance(outputs, Name):
        return outputs.text
    return "_" if outputs is None else f"[{', '.join(map(_targets, outputs))}]"


@dataclass(slots=True)
class Trace:
    """The instructions of a schedule, in order.

    Printed it is the calls that do the same; `script` makes a Python function of them.
    """

    instructions: list[Instruction] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(map(str, self.instructions))

    def script(self, name: str = "schedule") -> str:
        """A Python module with a function that does the same to the schedule it is given.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] + 1.0, "B")
        >>> s = Schedule(te.program([A], B, "add_one"))
        >>> (i,) = s.get_loops(s.get_block("B"))
        >>> s.parallel(i)
        >>> print(s.trace.script())
        from tensorsmith import script as T
        <BLANKLINE>
        <BLANKLINE>
        def schedule(s):
            b0 = s.get_block(name='B')
            [l0] = s.get_loops(block=b0)
            s.parallel(loop=l0)
        """
        dims = {n: None for i in self.instructions for n in dims_in(i.args)}
        lines = [f"{n} = s.dim({n!r})" for n in dims] + [str(i) for i in self.instructions]
        body = "\n".join(f"    {line}" for line in lines or ["pass"])
        return f"from tensorsmith import script as T\n\n\ndef {name}(s):\n{body}"

    def apply(self, schedule: Schedule, *, decisions: bool = True) -> dict[str, Value]:
        """Do the same to `schedule`. Gives what each name stands for there.

        decisions: whether sampling primitives choose as they did; else they choose anew.
        Raises ScheduleError where an instruction is not legal there; those before it are done.
        """
        values: dict[str, Value] = {}
        for instruction in self.instructions:
            rest = (f for f in schedule.module.programs.values() if f is not schedule.program)
            programs = (schedule.program, *rest)
            args = {k: resolve(v, values, programs) for k, v in instruction.args.items()}
            if decisions and instruction.decision is not None:
                args["decision"] = instruction.decision
            _bind(instruction.outputs, _call(schedule, instruction.primitive, args), values)
        return values

    def simplified(self) -> Trace:
        """Without the queries whose results nothing uses; what it does is the same.

        Choices among these are left out, too: a schedule that draws anew draws other numbers.
        """
        used: set[str] = set()
        kept: list[Instruction] = []
        for i in reversed(self.instructions):
            if i.is_query and not used & names_in(i.outputs):
                continue
            used |= names_in(dict(i.args))
            kept.append(i)
        return Trace(kept[::-1])

    def with_decision(self, index: int, decision: Value) -> Trace:
        """With another decision for the instruction number `index`.

        Raises ScheduleError if that instruction takes none. Whether the decision is possible shows
        when the trace is applied.
        """
        if not 0 <= index < len(self.instructions):
            raise ScheduleError(
                f"the trace has no instruction {index}", given=f"{len(self.instructions)} of them"
            )
        old = self.instructions[index]
        if old.decision is None:
            raise ScheduleError(f"{old.primitive!r}, instruction {index}, decides nothing")
        new = list(self.instructions)
        new[index] = replace(old, decision=decision)
        return Trace(new)

    def to_json(self) -> str:
        """The trace as JSON, for `from_json`. Raises ScheduleError if an argument has no text."""
        rows = [
            [i.primitive, encode(dict(i.args)), encode(i.outputs), encode(i.decision)]
            for i in self.instructions
        ]
        return json.dumps(rows)

    @staticmethod
    def from_json(text: str) -> Trace:
        """The trace that `to_json` wrote. Raises ScheduleError if the text is not one."""
        try:
            rows = json.loads(text)
            if not isinstance(rows, list):
                raise ValueError("it is no list of instructions")  # noqa: TRY004, TRY301
            return Trace([_instruction(row) for row in rows])
        except (ValueError, TypeError, RecursionError, TensorsmithError) as error:
            raise ScheduleError(
                "this is not a trace",
                because=str(error) or "it is nested too deeply",
                given=str(text)[:60],
            ) from None


def _instruction(row: Value) -> Instruction:
    from tensorsmith.schedule.primitive import PRIMITIVES

    if not (isinstance(row, list) and len(row) == 4):
        raise ValueError("an instruction is a list of a name, arguments, outputs and a decision")
    name, args, outputs, decision = row[0], *map(decode, row[1:])
    if not isinstance(name, str) or name not in PRIMITIVES:
        raise ValueError(f"{str(name)[:60]!r} is no primitive")
    if not isinstance(args, dict) or not isinstance(args.get("*", []), list):
        raise ValueError(f"the arguments of {name!r} are not given by name")  # noqa: TRY004
    if not all(k == "*" or k.isidentifier() for k in args):
        raise ValueError(f"the arguments of {name!r} have names that are none")
    if not _are_outputs(outputs):
        raise ValueError(f"the results of {name!r} are not names")
    return Instruction(name, args, outputs, decision)


def _are_outputs(outputs: Value) -> bool:
    if isinstance(outputs, list):
        return all(map(_are_outputs, outputs))
    return outputs is None or isinstance(outputs, Name)


def _call(schedule: Schedule, name: str, args: dict[str, Value]) -> Value:
    from tensorsmith.schedule.primitive import PRIMITIVES

    primitive = getattr(schedule, name, None) if name in PRIMITIVES else None
    if primitive is None:
        raise ScheduleError(f"the trace uses {name!r}, which is no primitive")
    named = {k: v for k, v in args.items() if k != "*"}
    positional = args.get("*", ())
    try:
        bound = inspect.signature(primitive).bind(*positional, **named)
    except TypeError as error:
        raise ScheduleError(
            f"the trace calls {name!r} in a wrong way", because=str(error)
        ) from None
    if not positional:
        check_arguments(name, PRIMITIVES[name], bound.arguments)
    return primitive(*positional, **named)


def _bind(outputs: Value, results: Value, values: dict[str, Value]) -> None:
    if isinstance(outputs, Name):
        values[outputs.text] = results
    elif outputs is not None:
        found = results if isinstance(results, (list, tuple)) else ()
        if len(outputs) != len(found):
            raise ScheduleError(
                f"the trace expects {len(outputs)} results where there are {len(found)} now",
                because="it was made for another program",
            )
        for name, result in zip(outputs, found, strict=True):
            _bind(name, result, values)


class Namer:
    """Names for the references of one schedule, by kind and order."""

    def __init__(self) -> None:
        self.names: dict[object, Name] = {}
        self.sampled: dict[int, tuple[Sampled, Name]] = {}
        self.counts = {"b": 0, "l": 0, "v": 0}

    def copy(self) -> Namer:
        """The same names, for another schedule."""
        new = Namer()
        new.names, new.sampled = dict(self.names), dict(self.sampled)
        new.counts = dict(self.counts)
        return new

    def define(self, v: Value) -> Value:
        """New names for the references in a primitive's results."""
        if isinstance(v, (list, tuple)):
            return [self.define(x) for x in v]
        if isinstance(v, (BlockRef, LoopRef)):
            name = self._new("b" if isinstance(v, BlockRef) else "l")
            self.names.setdefault(v, name)  # the first one: later queries may be left out
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
            if v.__code__.co_flags & inspect.CO_VARARGS:
                raise ScheduleError(
                    "a function of any number of indices is no index map",
                    try_="IndexMap.of(function, rank), which says how many there are",
                )
            return IndexMap.of(v, v.__code__.co_argcount)
        return v


__all__ = ["Instruction", "Name", "Namer", "Trace", "Value", "show_index_map"]
