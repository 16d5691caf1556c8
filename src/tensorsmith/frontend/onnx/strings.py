"""Tensors of strings: values of their own kind, worked on by Python functions.

A `CallExtern` names a function of `tensorsmith.runtime.strings`. Where all strings are known while
the model is read, the function is called at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorsmith.frontend.onnx.types import Array
from tensorsmith.ir import Attrs, CallExtern, ExprLike, Opaque, as_expr

if TYPE_CHECKING:
    from tensorsmith.ops import GraphBuilder


def constant_strings(builder: GraphBuilder, array: Array, name: str) -> Opaque:
    """A known tensor of strings."""
    values = tuple(str(s) for s in array.reshape(-1))
    made = string_tensor(name, array.shape)
    attrs: Attrs = {"values": values, "shape": tuple(int(d) for d in array.shape)}
    call = CallExtern(
        (made,), "strings.constant", (), attrs, is_python=True, sources=builder.sources
    )
    builder.emit(call)
    return made


def string_tensor(name: str, shape: Sequence[ExprLike]) -> Opaque:
    """A new value for a tensor of strings."""
    return Opaque(name, "strings", tuple(as_expr(e) for e in shape))
