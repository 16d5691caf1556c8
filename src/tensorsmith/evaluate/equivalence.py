"""Whether two programs compute the same, as far as random inputs over a prime field tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorsmith.errors import EvaluationError, OutOfBoundsError, ShapeError
from tensorsmith.evaluate.expressions import evaluate_expr
from tensorsmith.evaluate.memory import Memory
from tensorsmith.evaluate.prime_field import DEFAULT_PRIME, PrimeFieldDomain
from tensorsmith.evaluate.rounding import Value, carrier, wrap
from tensorsmith.evaluate.walker import evaluate, find_entry
from tensorsmith.ir.buffer import Buffer
from tensorsmith.ir.dtype import DType, Kind
from tensorsmith.ir.expr import Expr, Var
from tensorsmith.ir.module import IRModule, TensorProgram

_FLOATS = int(Kind.FLOAT | Kind.STORAGE)
MOST = 6
"""Random dimensions are at most this much above the least value that their facts allow."""


def equivalent(
    program_a: TensorProgram | IRModule,
    program_b: TensorProgram | IRModule,
    *,
    trials: int = 4,
    prime: int = DEFAULT_PRIME,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    entry: str | None = None,
) -> bool:
    """Whether the programs leave the same in all buffer parameters, for random inputs.

    Floats are elements of the field of integers modulo `prime`, where arithmetic is exact; see
    `PrimeFieldDomain` for which laws hold there. Each trial draws new dimensions (but those that
    `dims` states, by their names in program_a) and new inputs. False may also mean that the two
    are equal by a law that does not hold in the field. True is wrong with a probability of about
    (degree / prime) ** trials for arithmetic, and about 2 ** -comparisons for a difference that
    only the outcome of one of so many comparisons shows.

    Integers are random over their type; if that takes a subscript outside of a buffer they are
    drawn again from 0 up to the least extent. Raises EvaluationError if the parameters of the two
    do not correspond.
    """
    a, _ = find_entry(program_a, entry)
    b, _ = find_entry(program_b, entry)
    _check_signatures(a, b)
    for trial in range(trials):
        random = np.random.default_rng((seed, trial))
        sizes = {v: (dims or {}).get(v.name, _random_dim(v, random)) for v in a.dims}
        inputs = _Inputs(a, _shapes(a, sizes, prime), prime, trial)
        try:
            left = inputs.run(program_a, entry, random, small=False)
        except OutOfBoundsError:
            left = inputs.run(program_a, entry, random, small=True)
        right = inputs.run_again(program_b, entry)
        if not all(np.array_equal(x, y) for x, y in zip(left, right, strict=True)):
            return False
    return True


def _check_signatures(a: TensorProgram, b: TensorProgram) -> None:
    def signature(program: TensorProgram) -> list[str]:
        return [
            f"{p.dtype}[{', '.join(':' * p.rank)}]" if isinstance(p, Buffer) else f"{p.dtype}"
            for p in program.params
        ]

    if signature(a) != signature(b):
        raise EvaluationError(
            f"{a.name} and {b.name} have different parameters, and cannot be compared",
            given=f"({', '.join(signature(a))}) and ({', '.join(signature(b))})",
        )


def _random_dim(var: Var, random: np.random.Generator) -> int:
    """A small value that the facts on `var` allow."""
    step = var.multiple_of
    least = -(-(1 if var.low is None else var.low) // step) * step
    most = least + MOST * step if var.high is None else min(var.high, least + MOST * step)
    if most < least:
        raise ShapeError(f"no multiple of {step} is a value of the dimension {var.name!r}")
    return int(random.integers(least // step, most // step + 1)) * step


def _shapes(program: TensorProgram, sizes: Mapping[Var, int], prime: int) -> list[tuple[int, ...]]:
    domain = PrimeFieldDomain(prime)
    known: dict[Expr, Any] = dict(sizes.items())
    return [
        tuple(evaluate_expr(extent, domain, domain.operations, known) for extent in buffer.shape)
        for buffer in program.buffers
    ]


@dataclass(slots=True)
class _Inputs:
    """Random arguments for a program, which two programs run on."""

    program: TensorProgram
    shapes: list[tuple[int, ...]]
    prime: int
    salt: int
    drawn: tuple[Value, ...] = ()

    def run(
        self,
        program: TensorProgram | IRModule,
        entry: str | None,
        random: np.random.Generator,
        *,
        small: bool,
    ) -> list[Value]:
        """What is in the buffers after a run on new inputs; small: integers index every buffer."""
        least = min((n for shape in self.shapes for n in shape), default=1)
        shapes = iter(self.shapes)
        self.drawn = tuple(
            self._draw(p.dtype, next(shapes), random, least, small)
            if isinstance(p, Buffer)
            else self._draw_scalar(p, random, least, small)
            for p in self.program.params
        )
        return self.run_again(program, entry)

    def run_again(self, program: TensorProgram | IRModule, entry: str | None) -> list[Value]:
        """What is in the buffers after a run on copies of the same inputs."""
        args = [
            Memory(values.copy()) if isinstance(p, Buffer) else values[()]
            for p, values in zip(self.program.params, self.drawn, strict=True)
        ]
        domain = PrimeFieldDomain(self.prime, salt=self.salt)
        evaluate(program, domain, args, entry=entry)
        return [arg.data for arg in args if isinstance(arg, Memory)]

    def _draw_scalar(
        self, param: Var, random: np.random.Generator, least: int, small: bool
    ) -> Value:
        if (param.low, param.high, param.multiple_of) != (None, None, 1):
            return np.asarray(_random_dim(param, random)).astype(carrier(param.dtype))
        return self._draw(param.dtype, (), random, least, small)

    def _draw(
        self,
        dtype: DType,
        shape: tuple[int, ...],
        random: np.random.Generator,
        least: int,
        small: bool,
    ) -> Value:
        if dtype.flag & _FLOATS:
            return np.asarray(random.integers(0, self.prime, shape, np.int64))
        if dtype.flag & Kind.BOOL:
            return np.asarray(random.integers(0, 2, shape).astype(np.bool_))
        if small or dtype.flag & Kind.INDEX:
            values = random.integers(0, max(min(least, dtype.max_value), 1), shape, np.int64)
        else:
            values = random.integers(0, 1 << 64, shape, np.uint64)
        whole = wrap(np.asarray(values).astype(carrier(dtype)), dtype)
        return np.asarray(whole).astype(dtype.numpy)
