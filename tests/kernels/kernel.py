"""What a kernel of the list states: two programs, inputs, and what NumPy says of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tensorsmith.ir import TensorProgram

EPSILON = float(np.finfo(np.float32).eps)
"""Twice the largest relative error of one rounding to float32."""


@dataclass(frozen=True)
class Expected:
    """An output: its value, in float64 for float outputs, and how far off each element may be.

    tolerance: absolute, broadcast to the value; 0 for integers and for data that only moves.
    """

    value: np.ndarray
    tolerance: np.ndarray | float = 0.0


@dataclass(frozen=True)
class Kernel:
    """A classic kernel, in script form and as tensor expressions.

    sizes: for each name that `inputs` asks for, the extents to try.
    inputs: from a random generator and one extent a name to the arguments before the outputs.
    reference: from the inputs to what each output is, written with NumPy alone.
    dtypes: of the outputs.
    """

    name: str
    script: TensorProgram
    te: TensorProgram
    sizes: Mapping[str, Sequence[int]]
    inputs: Callable[[np.random.Generator, Mapping[str, int]], list[object]]
    reference: Callable[..., tuple[Expected, ...]]
    dtypes: tuple[str, ...] = field(default=("float32",))

    def draw_sizes(self, rng: np.random.Generator) -> dict[str, int]:
        """One of the extents for each name."""
        return {name: int(rng.choice(choices)) for name, choices in self.sizes.items()}

    def __str__(self) -> str:
        return self.name


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Normally distributed float32 numbers."""
    return rng.standard_normal(shape, dtype=np.float32)
