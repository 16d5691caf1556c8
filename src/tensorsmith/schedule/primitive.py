"""What every primitive of a schedule has in common: it is checked, applied, and recorded."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, cast

import numpy as np

from tensorsmith.ir import IRModule, TensorProgram, Var, View
from tensorsmith.ir.rewrite import statements
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.refs import BlockRef, LoopRef
from tensorsmith.schedule.trace import Instruction, Namer, Trace, Value
from tensorsmith.schedule.tree import unique_block_names

P = ParamSpec("P")
R = TypeVar("R")

PRIMITIVES: Final[dict[str, Callable[..., Any]]] = {}
"""Every primitive by name, in the order of the source: what the reference page is made from."""


def refuse_views(program: TensorProgram) -> None:
    """Raise ScheduleError if buffers of the program may lie in the same memory: primitives take
    each for memory of its own."""
    for s in statements(program.body):
        if isinstance(s, View):
            raise ScheduleError(
                f"{program.name!r} cannot be scheduled",
                where=s.span,
                because=f"{s.buffer.name!r} is a view of memory that others may share",
                try_="an allocation for each buffer",
            )


class Scheduled:
    """A module under a schedule: the functions as they are now, and how they came to be so."""

    def __init__(self, module: IRModule | TensorProgram, *, seed: int = 0) -> None:
        module = IRModule.holding(module)
        programs = {name: unique_block_names(f) for name, f in module.programs.items()}
        self.module = IRModule({**module.functions, **programs}, module.attrs)
        self.trace = Trace()
        self._random = np.random.default_rng(seed)
        self._decided: Value = None
        self._namer = Namer()
        self._depth = 0
        self._current = next(iter(programs), "")
        if programs:
            refuse_views(programs[self._current])

    @property
    def program(self) -> TensorProgram:
        """The program that `work_on` chose; the first one unless it was called."""
        return self.module.program(self._current)

    def copy(self, *, seed: int | None = None) -> Self:
        """A schedule in the same state, with which references into this one work, too.

        seed: of its choices; None continues as this one will.
        """
        new = copy.copy(self)
        vars(new).update(
            trace=Trace(list(self.trace.instructions)),
            _namer=self._namer.copy(),
            _random=copy.deepcopy(self._random) if seed is None else np.random.default_rng(seed),
        )
        return new

    def fork_seed(self) -> int:
        """A seed for another schedule's choices, drawn from this one's."""
        return int(self._random.integers(1 << 62))

    def dim(self, name: str) -> Var:
        """The symbolic dimension called `name`. Raises ScheduleError, with the names there are."""
        rest = (f for f in self.module.programs.values() if f is not self.program)
        dims = {d.name: d for f in (self.program, *rest) for d in reversed(f.dims)}
        if name not in dims:
            known = ", ".join(map(repr, dims)) or "none"
            raise ScheduleError(f"there is no dimension {name!r}", try_=f"one of {known}")
        return dims[name]

    def show(self) -> None:
        """Print the module as it is now."""
        self.module.show()

    def _update(self, program: TensorProgram) -> None:
        self.module = self.module.with_function(program)

    @contextmanager
    def _attempt(self) -> Iterator[None]:
        """What fails inside leaves the module as it was; primitives inside are not recorded."""
        before, current, succeeded = self.module, self._current, False
        self._depth += 1
        try:
            yield
            succeeded = True
        finally:
            self._depth -= 1
            if not succeeded:
                self.module, self._current, self._decided = before, current, None

    def _of(self, ref: BlockRef | LoopRef) -> TensorProgram:
        """The program that a reference points into."""
        return self.module.program(ref.program)


def primitive(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], R]:  # Any: what primitives extend
    """Make a method of `Scheduled` a primitive: recorded in the trace if it succeeds, undone if it
    fails. A primitive that calls others is recorded alone. An argument called `decision` is not
    recorded as such: the method sets `_decided` to what was chosen."""
    signature = inspect.signature(method)
    starred = {
        name: "*"
        for name, p in signature.parameters.items()
        if p.kind is inspect.Parameter.VAR_POSITIONAL
    }

    @functools.wraps(method)
    def call(self: Scheduled, *args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature.bind(self, *args, **kwargs)
        _check_references(method.__name__, signature, bound.arguments)
        if self._depth:
            return method(self, *args, **kwargs)
        inputs = {
            starred.get(k, k): v
            for k, v in bound.arguments.items()
            if k not in ("self", "decision")
        }
        named = {k: self._namer.use(v) for k, v in inputs.items()}
        with self._attempt():
            result = method(self, *args, **kwargs)
        decided, self._decided = self._decided, None
        outputs = self._namer.define(result)
        self.trace.instructions.append(Instruction(method.__name__, named, outputs, decided))
        return result

    PRIMITIVES[method.__name__] = call
    return cast("Callable[Concatenate[Any, P], R]", call)


_REFERENCES: Final[dict[str, tuple[type, ...]]] = {
    "BlockRef": (BlockRef,),
    "LoopRef": (LoopRef,),
    "BlockRef | LoopRef": (BlockRef, LoopRef),
    "LoopRef | BlockRef": (BlockRef, LoopRef),
}


def _check_references(
    name: str, signature: inspect.Signature, arguments: Mapping[str, object]
) -> None:
    """Raise ScheduleError where a block or loop is needed and something else was given."""
    for key, value in arguments.items():
        parameter = signature.parameters[key]
        wanted = _REFERENCES.get(str(parameter.annotation))
        if wanted is None:
            continue
        is_starred = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        values = value if is_starred and isinstance(value, tuple) else (value,)
        for v in values:
            if not isinstance(v, wanted):
                what = " or ".join("block" if w is BlockRef else "loop" for w in wanted)
                raise ScheduleError(
                    f"{name} takes a {what} for {key.rstrip('_')!r}, not {v!r}",
                    try_="get_block(name), get_loops(block)",
                )
