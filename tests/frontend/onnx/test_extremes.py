"""Numbers at the edges, in attributes, shapes, types and operands of every operator's own cases."""

import time

import numpy as np
import pytest

from suites.onnx_cases import cases, data_of
from tensorsmith.errors import TensorsmithError
from tensorsmith.frontend.onnx.specialise import Specialised

NUMBERS = (0, -1, 1, 2, 3, 7, 2**31 - 1, -(2**31), 2**40, 2**62, -(2**63), 2**63 - 1)
FLOATS = (0.0, -1.0, float("nan"), float("inf"), 1e30)
SECONDS = 15.0


def chosen(rng, values):
    return values[int(rng.integers(len(values)))]


def change_attribute(rng, model):
    """Another number in an attribute of some node."""
    attributes = [a for n in model.graph.node for a in n.attribute]
    if not attributes:
        return
    attribute = chosen(rng, attributes)
    if attribute.ints:
        attribute.ints[int(rng.integers(len(attribute.ints)))] = chosen(rng, NUMBERS)
    elif attribute.floats:
        attribute.floats[int(rng.integers(len(attribute.floats)))] = chosen(rng, FLOATS)
    elif attribute.HasField("i"):
        attribute.i = chosen(rng, NUMBERS)
    elif attribute.HasField("f"):
        attribute.f = chosen(rng, FLOATS)


def change_shape(rng, model):
    """Another extent or rank of an input."""
    shaped = [v.type.tensor_type.shape for v in model.graph.input]
    shaped = [s for s in shaped if len(s.dim)]
    if not shaped:
        return
    shape = chosen(rng, shaped)
    dim = chosen(rng, shape.dim)
    match rng.integers(4):
        case 0:
            dim.dim_value = chosen(rng, [n for n in NUMBERS if n >= 0])
        case 1:
            dim.dim_param = "n"
        case 2:
            del shape.dim[-1]
        case 3:
            shape.dim.add().dim_value = int(rng.integers(3))


def change_type(rng, model):
    """Another element type of an input."""
    if model.graph.input:
        tensor = chosen(rng, model.graph.input).type.tensor_type
        if tensor.HasField("elem_type"):
            tensor.elem_type = int(rng.integers(1, 28))


def changed_operands(rng, inputs):
    """Other numbers in the small integer operands."""
    return [
        np.array([chosen(rng, NUMBERS[:9]) for _ in range(x.size)]).astype(x.dtype).reshape(x.shape)
        if isinstance(x, np.ndarray) and x.dtype in (np.int64, np.int32) and x.size < 9
        else x
        for x in inputs
    ]


def read_changed(rounds, first_seed):
    everything = cases(kinds=("node",))
    for seed in range(first_seed, first_seed + rounds):
        rng = np.random.default_rng(seed)
        case = chosen(rng, everything)
        model = type(case.model)()
        model.CopyFrom(case.model)
        inputs, _ = next(data_of(case, case.model))
        change = chosen(rng, (change_attribute, change_shape, change_type, None))
        if change is None:
            inputs = changed_operands(rng, inputs)
        else:
            change(rng, model)
        start = time.process_time()
        try:
            read = Specialised(model)
            _ = read.ready() or read.module_for(inputs)
        except TensorsmithError:
            pass
        except Exception as error:
            error.add_note(f"{case.name}, seed {seed}")
            raise
        assert time.process_time() - start < SECONDS, f"{case.name}, seed {seed}"


def test_some_extreme_numbers():
    read_changed(60, 0)


@pytest.mark.slow
def test_extreme_numbers():
    read_changed(10_000, 1_000)
