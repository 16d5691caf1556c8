"""Tensorsmith as a backend in the sense of `onnx.backend`: for ONNX's own test suite and its users.

>>> import tensorsmith.onnx_backend as backend
>>> backend.supports_device("CPU")
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from onnx import TypeProto, helper
from onnx.backend.base import Backend, BackendRep

from tensorsmith.frontend.onnx.specialise import Specialised, flat_arguments, nested_results
from tensorsmith.frontend.onnx.types import NUMBERS, STRING, Array
from tensorsmith.ir import IRModule

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Run: TypeAlias = "Callable[[Sequence[Array]], Sequence[Array]]"
"""Computes a module's results from its arguments, both in order."""

Execute: TypeAlias = "Callable[[IRModule], Run]"
"""Makes a module into something that runs."""


def compiled(module: IRModule) -> Run:
    """A module as native code."""
    from tensorsmith.compiler import compile as compile_model

    model = compile_model(module)

    def run(arguments: Sequence[Array]) -> Sequence[Array]:
        found = model(*arguments)
        return found if isinstance(found, tuple) else (found,)

    return run


def interpreted(module: IRModule) -> Run:
    """A module by the reference interpreter: slow, for comparison."""
    from tensorsmith.ops.interpret import interpret_graph
    from tensorsmith.runtime.strings import FUNCTIONS

    return lambda arguments: interpret_graph(module, "main", list(arguments), externs=FUNCTIONS)


class TensorsmithRep(BackendRep):
    """A model that is ready to run.

    What the model leaves open, such as the rank of an input, is taken from the first call, and
    code for other cases is made when they come.
    """

    def __init__(self, model: ModelProto, execute: Execute = compiled) -> None:
        self.model = Specialised(model)
        self.execute = execute
        self._runs: dict[int, tuple[IRModule, Run]] = {}
        self._ready = self.model.ready()
        if self._ready is not None:
            self._run_of(self._ready)

    def _run_of(self, module: IRModule) -> Run:
        if id(module) not in self._runs:
            self._runs[id(module)] = (module, self.execute(module))
        return self._runs[id(module)][1]

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The results for these inputs: arrays, lists of them for sequences, None for nothing.

        inputs: in order, or by name.
        """
        if isinstance(inputs, dict):
            inputs = [inputs[v.name] for v in self.model.inputs]
        arguments = list(inputs)
        module = self._ready or self.model.module_for(arguments)
        results = self._run_of(module)(flat_arguments(arguments))
        names = [o.name for o in self.model.model.graph.output]
        return tuple(nested_results(module, names, results))


class TensorsmithBackend(Backend):
    """Compiles models for the CPU."""

    execute: Execute = staticmethod(compiled)

    @classmethod
    def prepare(
        cls,
        model: ModelProto,
        device: str = "CPU",  # noqa: ARG003 - there is but one
        **kwargs: Any,  # noqa: ARG003 - of other backends
    ) -> TensorsmithRep:
        """A model, compiled as far as it can be before its inputs are known."""
        return TensorsmithRep(model, cls.execute)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,  # noqa: ARG003
        **kwargs: Any,  # noqa: ARG003 - of other backends
    ) -> tuple[Any, ...]:
        """The outputs of a single node, in the newest version of its operator."""
        names = [n for n in node.input if n]
        values = [np.asarray(i) for i in inputs]
        params = [
            helper.make_value_info(name, _type_of(value))
            for name, value in zip(names, values, strict=True)
        ]
        outputs = [helper.make_value_info(name, TypeProto()) for name in node.output if name]
        graph = helper.make_graph([node], "node", params, outputs)
        return cls.prepare(helper.make_model(graph), device).run(values)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether `device` is the CPU."""
        return device == "CPU"


class InterpretedBackend(TensorsmithBackend):
    """Runs models by the reference interpreter."""

    execute = staticmethod(interpreted)


def _type_of(value: Array) -> TypeProto:
    is_text = value.dtype.kind in "OUS"
    number = STRING if is_text else NUMBERS[value.dtype.name]
    return helper.make_tensor_type_proto(number, value.shape)


prepare = TensorsmithBackend.prepare
run_model = TensorsmithBackend.run_model
run_node = TensorsmithBackend.run_node
supports_device = TensorsmithBackend.supports_device
