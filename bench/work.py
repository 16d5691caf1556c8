"""What peers are given to run, and what must come out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Outputs = list[Array]
Run = Callable[[], Outputs]


class NoFormError(Exception):
    """A peer has no form of a work, which is no fault of its."""


@dataclass(frozen=True)
class Work:
    """An ONNX model with its inputs, in order, and the same for peers that read no ONNX.

    model: as bytes, or the path of a file that may have its weights beside it.
    may_be_empty: dimensions of the model that are 0 in some calls.
    numpy: a function of the inputs. torch: makes a module, or a function, of tensors of the inputs.
    may_round: whether floats that meet weights of few bits may be rounded to 8 bits, as the model
        allows (accuracy level 4 of MatMulNBits).
    """

    model: bytes | str
    inputs: Mapping[str, Array]
    numpy: Callable[..., Array] | None = None
    torch: Callable[[], Callable[..., Any]] | None = None
    may_be_empty: Sequence[str] = ()
    may_round: bool = False

    def proto(self) -> Any:
        """The model, with its weights, as a ModelProto."""
        import onnx

        if isinstance(self.model, str):
            return onnx.load(self.model)
        return onnx.load_from_string(self.model)

    def with_fixed_sizes(self) -> bytes:
        """The model for the sizes of these inputs alone."""
        model = self.proto()
        for value in model.graph.input:
            if value.name not in self.inputs:
                continue
            shape = value.type.tensor_type.shape
            del shape.dim[:]
            for extent in self.inputs[value.name].shape:
                shape.dim.add().dim_value = extent
        return bytes(model.SerializeToString())

    def has_dynamic_sizes(self) -> bool:
        """Whether an input of the model has a dimension that it leaves open."""
        graph = self.proto().graph
        known = {i.name for i in graph.initializer}
        shapes = [i.type.tensor_type.shape for i in graph.input if i.name not in known]
        return any(not d.HasField("dim_value") for shape in shapes for d in shape.dim)


@dataclass(frozen=True)
class Expected:
    """The right outputs, and how far one may be off: absolute, or of its largest element."""

    outputs: Sequence[Array]
    absolute: float = 0.0
    relative: float = 0.0

    def verdict(self, got: Sequence[Array]) -> str:
        """'ok', or what is wrong with outputs that should be like these."""
        if len(self.outputs) != len(got):
            return f"wrong: {len(got)} outputs for {len(self.outputs)}"
        for number, (e, g) in enumerate(zip(self.outputs, got, strict=True)):
            if e.shape != g.shape:
                return f"wrong: output {number} is {g.shape}, not {e.shape}"
            scale = float(np.max(np.abs(e), initial=0.0))
            error = float(np.max(np.abs(e.astype(np.float64) - g), initial=0.0))
            if not error <= self.absolute + self.relative * scale:
                return f"wrong: output {number} is off by {error:.2g}, its largest is {scale:.2g}"
        return "ok"
