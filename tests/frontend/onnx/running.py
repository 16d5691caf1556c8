"""Models in ONNX's text form, and their results here and by ONNX's own reference."""

from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx.reference import ReferenceEvaluator

from tensorsmith.frontend.onnx.specialise import Specialised, flat_arguments, nested_results
from tensorsmith.ops.interpret import interpret_graph
from tensorsmith.runtime.strings import FUNCTIONS


def parse(text: str, opset: int = 18, **other: int) -> onnx.ModelProto:
    """The model of a graph, and perhaps functions, in ONNX's text form."""
    domains = {"": opset, **{k.replace("_", "."): v for k, v in other.items()}}
    imports = ", ".join(f'"{domain}" : {version}' for domain, version in domains.items())
    return onnx.parser.parse_model(f"<ir_version: 10, opset_import: [{imports}]>\n{text}")


def run(model: onnx.ModelProto, *inputs: Any, min_extent: int = 0) -> list[Any]:
    """What our reader makes of a model, by the reference interpreter."""
    read = Specialised(model, min_extent=min_extent)
    module = read.ready() or read.module_for(inputs)
    flat = interpret_graph(module, "main", flat_arguments(inputs), externs=FUNCTIONS)
    return nested_results(module, [o.name for o in model.graph.output], flat)


def reference(model: onnx.ModelProto, *inputs: Any) -> list[Any]:
    """What ONNX's reference evaluator makes of it."""
    names = [v.name for v in model.graph.input]
    return ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))


def check(model: onnx.ModelProto, *inputs: Any, rtol: float = 0.0, min_extent: int = 0) -> None:
    """Compare the two: types and shapes too, bit by bit unless `rtol` is given."""
    for ours, theirs in zip(
        run(model, *inputs, min_extent=min_extent), reference(model, *inputs), strict=True
    ):
        same(ours, theirs, rtol)


def same(ours: Any, theirs: Any, rtol: float = 0.0) -> None:
    """Compare two results, which may be sequences."""
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b, rtol)
        return
    assert ours.shape == np.shape(theirs)
    assert ours.dtype == np.asarray(theirs).dtype
    if rtol:
        np.testing.assert_allclose(ours, theirs, rtol=rtol)
    else:
        np.testing.assert_array_equal(ours, theirs)
