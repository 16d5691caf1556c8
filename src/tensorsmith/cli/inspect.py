"""``tensorsmith inspect``: what is in a model file, without compiling it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from tensorsmith.cli.display import out, print_json, size_text
from tensorsmith.cli.models import Json, ModelPath, is_compiled
from tensorsmith.errors import TensorsmithError


def inspect(
    model: ModelPath,
    *,
    ir: Annotated[
        bool, typer.Option("--ir", help="Print the module that the reader makes of it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """What a model takes and gives, of which operators it is made, and its size."""
    if not model.exists():
        raise TensorsmithError(f"there is no file {model}")
    if is_compiled(model):
        if ir:
            raise TensorsmithError(f"{model} is compiled: there is no module in it")
        found = _compiled(model)
    elif ir:
        from tensorsmith.frontend.onnx import from_onnx

        out().print(from_onnx(model).script(), markup=False)
        return
    else:
        found = _onnx(model)
    if as_json:
        print_json(found)
        return
    for name, value in found.items():
        whole = (
            ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
        )
        for number, line in enumerate(whole if isinstance(whole, list) else [whole]):
            out().print(f"{'' if number else name:12} {line}", markup=False)


def _compiled(path: Path) -> dict[str, Any]:
    from tensorsmith.runtime.artifact import load

    manifest = load(path, verify_weights=False).manifest
    return {
        "kind": "compiled model",
        "name": manifest.name,
        "size": size_text(path.stat().st_size),
        "inputs": [str(i) for i in manifest.inputs],
        "outputs": [str(o) for o in manifest.outputs],
        "kernels": len(manifest.kernels),
        "machine": f"{manifest.machine.triple}, {manifest.machine.cpu}",
        "features": " ".join(manifest.machine.features),
        "versions": dict(manifest.versions),
    }


def _onnx(path: Path) -> dict[str, Any]:
    from tensorsmith.frontend.onnx.limits import Limits
    from tensorsmith.frontend.onnx.load import load

    model = load(path, Limits()).model
    initial = {i.name for i in model.graph.initializer}
    operators = Counter(
        f"{n.domain}::{n.op_type}" if n.domain else n.op_type for n in model.graph.node
    )
    return {
        "kind": "ONNX model",
        "producer": f"{model.producer_name} {model.producer_version}".strip() or "unknown",
        "size": size_text(path.stat().st_size),
        "opsets": {o.domain or "ai.onnx": o.version for o in model.opset_import},
        "inputs": [_value(v) for v in model.graph.input if v.name not in initial],
        "outputs": [_value(v) for v in model.graph.output],
        "weights": len(initial),
        "nodes": len(model.graph.node),
        "operators": dict(operators.most_common()),
    }


def _value(info: Any) -> str:
    import onnx

    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        return f"{info.name}: {str(kind).removesuffix('_type')}"
    tensor = info.type.tensor_type
    dtype = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
    if not tensor.HasField("shape"):
        return f"{info.name}: {dtype} of any shape"
    shape = [
        d.dim_param or (d.dim_value if d.HasField("dim_value") else "?") for d in tensor.shape.dim
    ]
    return f"{info.name}: {dtype}[{', '.join(map(str, shape))}]"
