"""Running a program on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from tensorsmith.errors import EvaluationError
from tensorsmith.evaluate.memory import Memory
from tensorsmith.evaluate.numpy_domain import NumPyDomain
from tensorsmith.evaluate.walker import Walker, find_entry
from tensorsmith.ir.buffer import Buffer
from tensorsmith.ir.module import IRModule, TensorProgram
from tensorsmith.verify.context import written_buffers


def interpret(
    program: TensorProgram | IRModule,
    *args: object,
    entry: str | None = None,
    externs: Mapping[str, Callable[..., object]] | None = None,
    vectorize: bool = True,
    **named: object,
) -> None:
    """Run `program`, or the function `entry` of a module, on NumPy arrays.

    args, named: an array for each buffer (of exactly its dtype; any strides), a number for each
        scalar parameter, in order or by name. Arrays that the program writes are changed in
        place.
    externs: Python functions for calls of external functions; they take views of the arrays.
    vectorize: run independent iterations side by side. Slower without, with the same results.

    Dimensions are bound to the shapes of the arrays. Every access is checked. Raises ShapeError and
    DTypeError for arguments that do not fit, OutOfBoundsError, UninitializedError (for an element
    of a local buffer) and EvaluationError for what goes wrong in the run; arrays are then partly
    written.
    """
    function, functions = find_entry(program, entry)
    given = _in_order(function, args, named)
    _check_overlap(function, given)
    values = [
        Memory(arg) if isinstance(param, Buffer) and isinstance(arg, np.ndarray) else arg
        for param, arg in zip(function.params, given, strict=True)
    ]
    domain = NumPyDomain(externs=externs, vectorize=vectorize)
    Walker(domain, functions).call(function, values)


def _in_order(
    function: TensorProgram, args: tuple[object, ...], named: Mapping[str, object]
) -> list[object]:
    """The arguments, one a parameter."""
    names = [p.name for p in function.params]
    signature = f"{function.name}({', '.join(names)})"
    if len(args) > len(names):
        raise EvaluationError(f"{signature} takes {len(names)} arguments, and got {len(args)}")
    given = dict(zip(names, args, strict=False))
    for name, value in named.items():
        if name not in names:
            raise EvaluationError(f"{signature} has no parameter {name!r}")
        if name in given:
            raise EvaluationError(f"{signature} got its parameter {name!r} twice")
        given[name] = value
    if missing := [name for name in names if name not in given]:
        raise EvaluationError(f"{signature} lacks arguments for {', '.join(map(repr, missing))}")
    return [given[name] for name in names]


def _check_overlap(function: TensorProgram, given: Sequence[object]) -> None:
    """Raise EvaluationError if an array that is written shares memory with another one."""
    written = written_buffers(function.body)
    arrays = [
        (param, arg)
        for param, arg in zip(function.params, given, strict=True)
        if isinstance(param, Buffer) and isinstance(arg, np.ndarray)
    ]
    for (a, x), (b, y) in combinations(arrays, 2):
        if (a in written or b in written) and np.may_share_memory(x, y) and np.shares_memory(x, y):
            raise EvaluationError(
                f"arguments {a.name!r} and {b.name!r} of {function.name} overlap in memory",
                because=f"{function.name} writes {(a if a in written else b).name!r}",
                try_="a copy of one of them",
            )
