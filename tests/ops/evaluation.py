"""Operators computed by the reference interpreter, or natively, and their ONNX reference."""

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from tensorsmith import codegen, schedule, te
from tensorsmith.arith import Analyzer
from tensorsmith.evaluate import interpret
from tensorsmith.ir import Const, Var, as_expr, substitute
from tensorsmith.ops import OPERATORS
from tensorsmith.ops.requirements import collecting

WAYS = [
    pytest.param(False, id="interpreted"),
    pytest.param(True, id="native", marks=pytest.mark.slow),
]
"""How `compute` may compute. A sample of each operator is computed natively in every run."""


def compute(name, *arrays, native=False, symbolic=False, **attrs):
    """The results of an operator of these arrays (None for an operand that is left out).

    symbolic: whether dimensions are variables (one for each extent), or those (operand, axis) that
    are. native: by compiled code.
    Attributes that are expressions hold constants only. One result comes back as an array.
    """
    sizes, variables = {}, {}

    def extent(size, *place):
        if not (symbolic if isinstance(symbolic, bool) else place in symbolic):
            return as_expr(size)
        if size not in variables:
            variables[size] = Var(f"n{size}", low=min(size, 1))
            sizes[variables[size]] = as_expr(size)
        return variables[size]

    tensors = [
        None
        if a is None
        else te.placeholder([extent(n, k, d) for d, n in enumerate(a.shape)], a.dtype.name, f"x{k}")
        for k, a in enumerate(arrays)
    ]
    with collecting() as required:
        results = OPERATORS[name](tensors, attrs)
    given = [t for t in tensors if t is not None]
    program = te.program(given, results, checks=list(required.items()))
    outputs = [np.zeros(shape_of(r, sizes), r.dtype.numpy) for r in results]
    inputs = [np.ascontiguousarray(a).reshape(a.shape) for a in arrays if a is not None]
    if native:
        codegen.build(schedule.default(program))(*inputs, *outputs)
    else:
        interpret(program, *inputs, *outputs)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def shape_of(tensor, sizes):
    """The shape of a tensor for these sizes of the dimensions."""
    facts = Analyzer()
    extents = [facts.simplify(substitute(e, sizes)) for e in tensor.shape]
    assert all(isinstance(e, Const) for e in extents), extents
    return tuple(int(e.value) for e in extents)


def model_of(op, *arrays, outputs=1, opset=23, domain="", **attrs):
    """A model with this one node, and what to feed it."""
    names = ["" if a is None else f"x{k}" for k, a in enumerate(arrays)]
    results = [f"y{k}" for k in range(outputs)]
    node = onnx.helper.make_node(op, names, results, domain=domain, **attrs)
    types = [
        onnx.helper.make_tensor_value_info(n, element_type(a), a.shape)
        for n, a in zip(names, arrays, strict=True)
        if a is not None
    ]
    made = [onnx.helper.make_empty_tensor_value_info(r) for r in results]
    graph = onnx.helper.make_graph([node], "one", types, made)
    opsets = [onnx.helper.make_opsetid("", 23 if domain else opset)]
    if domain:
        opsets.append(onnx.helper.make_opsetid(domain, opset))
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return model, {n: a for n, a in zip(names, arrays, strict=True) if a is not None}


def element_type(array):
    """The number by which ONNX calls the type of an array's elements."""
    return onnx.helper.np_dtype_to_tensor_dtype(array.dtype)


def onnx_reference(op, *arrays, outputs=1, **attrs):
    """The outputs of a model with this one node, by ONNX's own implementation."""
    model, feeds = model_of(op, *arrays, outputs=outputs, **attrs)
    found = ReferenceEvaluator(model).run(None, feeds)
    return found[0] if outputs == 1 else tuple(found)


def onnx_runtime(op, *arrays, outputs=1, **attrs):
    """The outputs of a model with this one node, by the ONNX runtime."""
    model, feeds = model_of(op, *arrays, outputs=outputs, **attrs)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    found = session.run(None, feeds)
    return found[0] if outputs == 1 else tuple(found)


def random(rng, shape, dtype="float32", low=None, high=None):
    """Random elements: floats around 0, integers of the range."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if np.issubdtype(kind, np.integer):
        return rng.integers(-9 if low is None else low, 10 if high is None else high, shape).astype(
            kind
        )
    return rng.standard_normal(shape).astype(kind)
