"""ONNX models, read into modules."""

from tensorsmith.frontend.onnx.limits import Limits
from tensorsmith.frontend.onnx.node import Node
from tensorsmith.frontend.onnx.read import from_onnx
from tensorsmith.frontend.onnx.types import AbsentType, KnownValue, SequenceType, TensorType

__all__ = ["AbsentType", "KnownValue", "Limits", "Node", "SequenceType", "TensorType", "from_onnx"]
