"""Thousands of damaged files: each is read, or ends in an error of ours, soon and in bounds."""

import resource
import time

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from frontend.onnx.running import parse
from tensorsmith.errors import TensorsmithError
from tensorsmith.frontend.onnx import from_onnx

SECONDS = 3.0
MEBIBYTES = 512

CONVOLUTION = """g (float[n, 3, 8, 8] x) => (float[n, 4] y) {
    c = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w)
    r = Relu(c)
    p = GlobalAveragePool(r)
    one = Constant<value_ints: ints = [-1, 4]>()
    y = Reshape(p, one)
}"""
LOOP = """g (float[n] x, int64 m) => (float[n] y, float[k, n] s) {
    on = Constant<value_int = 1>()
    c = Cast<to = 9>(on)
    y, s = Loop<body = b (int64 i, bool go, float[n] v) => (bool g, float[n] w, float[n] u) {
        g = Identity(go)
        w = Add(v, v)
        u = Neg(v)
    }>(m, c, x)
}"""
BRANCH = """g (float[n, 2] x, bool c) => (float[a, b] y) {
    y = If<
        then_branch = t () => (float[a, b] o) { o = Transpose(x) },
        else_branch = e () => (float[a, b] p) { p = Identity(x) }
    >(c)
}"""
ATTENTION = """g (float[b, 2, s, 4] q, float[b, 2, t, 4] k) => (float[b, 2, s, 4] y) {
    y = Attention<is_causal = 1, scale = 0.5>(q, k, k)
}"""
FUNCTION = """g (float[n] x) => (float[n] y) { y = local.f<alpha = 0.5>(x) }
<domain: "local", opset_import: ["" : 18]>
f<alpha>(a) => (b) { c = LeakyRelu<alpha: float = @alpha>(a) b = Softmax(c) }"""


def convolution():
    model = parse(CONVOLUTION)
    rng = np.random.default_rng(0)
    kernel = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(kernel, "w"))
    return model


def packed():
    weight = TensorProto(name="w", data_type=TensorProto.INT4, dims=[3], raw_data=b"\x12\x03")
    x, y = (helper.make_tensor_value_info(n, TensorProto.INT4, (3,)) for n in "xy")
    node = helper.make_node("Concat", ["x", "w"], ["y"], axis=0)
    graph = helper.make_graph([node], "g", [x], [y], initializer=[weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


SEEDS = {
    "convolution": convolution(),
    "loop": parse(LOOP),
    "branch": parse(BRANCH),
    "attention": parse(ATTENTION, opset=23),
    "function": parse(FUNCTION, local=1),
    "packed": packed(),
}


def mutated(rng, data):
    """A file with bits flipped, bytes changed, parts cut out, put in twice or exchanged."""
    made = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(made)))
        match rng.integers(6):
            case 0:
                made[at] ^= 1 << int(rng.integers(8))
            case 1:
                made[at] = int(rng.choice([0, 1, 127, 128, 255, rng.integers(256)]))
            case 2:
                del made[at : at + int(rng.integers(1, 9))]
            case 3:
                made[at:at] = made[at : at + int(rng.integers(1, 33))]
            case 4:
                del made[at:]
            case 5:
                other = int(rng.integers(len(made)))
                made[at], made[other] = made[other], made[at]
        if not made:
            break
    return bytes(made)


def edited(rng, model):
    """A model with a number or a name of some message changed."""
    made = type(model)()
    made.CopyFrom(model)
    messages = [made.graph, *made.graph.node, *made.graph.input, *made.graph.initializer]
    messages += [a for n in made.graph.node for a in n.attribute]
    message = messages[int(rng.integers(len(messages)))]
    fields = [d for d, _ in message.ListFields() if d.enum_type is None]
    if not fields:
        return made.SerializeToString()
    field = fields[int(rng.integers(len(fields)))]
    number = int(rng.choice([0, -1, 1, 2, 77, 2**31 - 1, -(2**31)]))
    word = str(rng.choice(["", "x", "y", "q", "Neg", "Concat", "Loop"]))
    value = getattr(message, field.name)
    if hasattr(value, "append"):
        del value[int(rng.integers(len(value))) :]
    elif isinstance(value, int):
        setattr(message, field.name, number)
    elif isinstance(value, str):
        setattr(message, field.name, word)
    else:
        message.ClearField(field.name)
    return made.SerializeToString()


def read_all(seeds, rounds):
    for seed in range(rounds):
        rng = np.random.default_rng(seed)
        model = seeds[seed % len(seeds)]
        by_bytes = seed // len(seeds) % 2
        data = model.SerializeToString()
        damaged = mutated(rng, data) if by_bytes else edited(rng, model)
        start = time.process_time()
        try:
            from_onnx(damaged)
        except TensorsmithError:
            pass
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        assert time.process_time() - start < SECONDS, f"seed {seed}"


def test_some_damaged_files():
    read_all(list(SEEDS.values()), 300)


@pytest.mark.slow
def test_damaged_files():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read_all(list(SEEDS.values()), 20_000)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) / 1024 < MEBIBYTES
