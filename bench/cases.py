"""Operators that are measured: an ONNX model of a few nodes, its exact result, its costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from work import Array, Expected, Work

EPSILON = float(np.finfo(np.float32).eps)
OPSET = 21
Node = tuple[str, Sequence[str], Mapping[str, Any]]
"""Operator, inputs, attributes. Node k gives `t{k}`; the last one gives the result."""


@dataclass(frozen=True)
class Operator:
    """An operator on fixed shapes.

    inputs: arrays by name, from a generator. constants: weights by name, made when they are needed.
    reference: the exact result, of the inputs in order, in float64 or integers. tolerance: how far
    results may be off, absolute.
    flops, bytes: what the algorithm as written needs; bytes count each tensor once.
    floats: whether the operations are on float32, so that the machine's peak bounds them.
    numpy, torch, may_round: as for `Work`.
    """

    name: str
    group: str
    nodes: Sequence[Node]
    inputs: Callable[[np.random.Generator], dict[str, Array]]
    reference: Callable[..., Array]
    tolerance: float
    flops: float
    bytes: float
    output: tuple[str, tuple[int, ...]]
    constants: Callable[[], dict[str, Array]] = dict
    floats: bool = True
    numpy: Callable[..., Array] | None = None
    torch: Callable[[], Callable[..., Any]] | None = None
    may_round: bool = False

    def arrays(self) -> dict[str, Array]:
        """The inputs, the same each time."""
        return self.inputs(np.random.default_rng(0))

    def work(self) -> Work:
        """What peers get."""
        inputs = self.arrays()
        model = onnx_model(self.name, self.nodes, inputs, self.constants(), self.output)
        serialized = model.SerializeToString()
        return Work(serialized, inputs, self.numpy, self.torch, may_round=self.may_round)

    def expected(self) -> Expected:
        """The exact result."""
        return Expected([self.reference(*self.arrays().values())], absolute=self.tolerance)


def onnx_model(
    name: str,
    nodes: Sequence[Node],
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array],
    output: tuple[str, tuple[int, ...]],
) -> Any:  # a ModelProto
    """A model of these nodes."""
    from onnx import helper, numpy_helper

    made = []
    for k, (op, args, attributes) in enumerate(nodes):
        given = dict(attributes)
        domain = given.pop("domain", "")
        made.append(helper.make_node(op, list(args), [f"t{k}"], domain=domain, **given))
    of = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        made,
        name,
        [helper.make_tensor_value_info(n, of(a.dtype), a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info(f"t{len(made) - 1}", of(np.dtype(output[0])), output[1])],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    opsets += [helper.make_opsetid(d, 1) for d in sorted({n.domain for n in made} - {""})]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def noise(*shape: int, seed: int = 1, deviation: float = 1.0) -> Array:
    """Normal noise in float32."""
    made = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return made * np.float32(deviation)


def normal(**shapes: tuple[int, ...]) -> Callable[[np.random.Generator], dict[str, Array]]:
    """Inputs of normal noise."""
    return lambda rng: {n: rng.standard_normal(s, dtype=np.float32) for n, s in shapes.items()}


def all_cases() -> dict[str, Operator]:
    """Every operator by name."""
    from image_cases import attention_cases, convolution_cases
    from matrix_cases import matrix_cases
    from quantized_cases import quantized_cases
    from row_cases import row_cases

    cases = [
        *matrix_cases(),
        *quantized_cases(),
        *convolution_cases(),
        *attention_cases(),
        *row_cases(),
    ]
    return {c.name: c for c in cases}
