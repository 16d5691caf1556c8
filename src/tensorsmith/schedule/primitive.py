"""What every primitive of a schedule has in common: it is checked, applied, and recorded."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

from tensorsmith.ir import IRModule, TensorProgram
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.trace import Instruction, Namer, Trace
from tensorsmith.schedule.tree import unique_block_names

P = ParamSpec("P")
R = TypeVar("R")

PRIMITIVES: Final[dict[str, Callable[..., Any]]] = {}
"""Every primitive by name, in the order of the source: what the reference page is made from."""


class Scheduled:
    """A module under a schedule: the functions as they are now, and how they came to be so."""

    def __init__(self, module: IRModule | TensorProgram, *, seed: int = 0) -> None:
        if isinstance(module, TensorProgram):
            module = IRModule.of(module)
        functions = {name: unique_block_names(f) for name, f in module.functions.items()}
        self.module = IRModule(functions, module.attrs)
        self.trace = Trace()
        self.seed = seed
        self._namer = Namer()
        self._depth = 0
        self._current = next(iter(functions), "")

    @property
    def program(self) -> TensorProgram:
        """The program that `work_on` chose; the first one unless it was called."""
        return self.module[self._current]

    def _update(self, program: TensorProgram) -> None:
        self.module = self.module.with_function(program)

    def _of(self, ref: BlockRef | LoopRef) -> TensorProgram:
        """The program that a reference points into."""
        return self.module[ref.program]


def primitive(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], R]:  # Any: what primitives extend
    """Make a method of `Scheduled` a primitive: recorded in the trace if it succeeds, undone if it
    fails. A primitive that calls others is recorded alone. An argument called `decision` is kept as
    the decision, not as an argument; where it is None, the result is the decision."""
    signature = inspect.signature(method)
    starred = {
        name: "*"
        for name, p in signature.parameters.items()
        if p.kind is inspect.Parameter.VAR_POSITIONAL
    }

    @functools.wraps(method)
    def call(self: Scheduled, *args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature.bind(self, *args, **kwargs)
        before = self.module
        inputs = {
            starred.get(k, k): v
            for k, v in bound.arguments.items()
            if k not in ("self", "decision")
        }
        named = {k: self._namer.use(v) for k, v in inputs.items()} if not self._depth else {}
        self._depth += 1
        try:
            result = method(self, *args, **kwargs)
        except ScheduleError:
            self.module = before
            raise
        finally:
            self._depth -= 1
        if not self._depth:
            outputs = self._namer.define(result)
            decision = None
            if "decision" in signature.parameters:
                decision = bound.arguments.get("decision")
                decision = _plain(result) if decision is None else decision
            self.trace.instructions.append(
                Instruction(method.__name__, named, outputs, decision)
            )
        return result

    PRIMITIVES[method.__name__] = call
    return cast("Callable[Concatenate[Any, P], R]", call)


def _plain(v: Any) -> Any:  # noqa: ANN401  # a decision is numbers, or lists of them
    if isinstance(v, (list, tuple)):
        return [_plain(x) for x in v]
    return int(v) if isinstance(v, int) else v
