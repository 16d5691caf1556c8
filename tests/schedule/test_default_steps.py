"""Default schedules of recurrences: vectors in each step, for one sequence and for many."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tensorsmith.compiler import compile
from tensorsmith.compiler.pipeline import run
from tensorsmith.ir import IRModule, LoopKind, Var
from tensorsmith.ops import OPERATORS, GraphBuilder
from tensorsmith.schedule import default_schedule
from tensorsmith.schedule.tree import find_block
from tensorsmith.target import Target

LAYERS = {"lstm": (4, torch.nn.LSTM), "gru": (3, torch.nn.GRU)}


def layer(op, size, units, batch):
    """A layer in both directions with the weights of one of PyTorch's, and that one."""
    gates, make = LAYERS[op]
    torch.manual_seed(units)
    reference = make(size, units, bidirectional=True)
    order = {"lstm": [0, 3, 1, 2], "gru": [1, 0, 2]}[op]

    def operand(name):
        both = [getattr(reference, f"{name}{d}").detach().numpy() for d in ("", "_reverse")]
        parts = [np.split(x, gates) for x in both]
        return np.stack([np.concatenate([p[k] for k in order]) for p in parts])

    bias = np.concatenate([operand("bias_ih_l0"), operand("bias_hh_l0")], axis=1)
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (Var("steps", low=1), batch, size), "float32")
    weights = [b.constant(operand(n)) for n in ("weight_ih_l0", "weight_hh_l0")]
    attrs = {"direction": "bidirectional"}
    if op == "gru":
        attrs["linear_before_reset"] = True
    states, *_ = b.apply(op, [x, *weights, b.constant(bias)], attrs)
    return IRModule.of(b.function("main", [states])), reference


@pytest.mark.parametrize("op", LAYERS)
@pytest.mark.parametrize("units", [7, 20, 64])
@pytest.mark.parametrize("batch", [1, None])
def test_layers_compute_what_pytorch_does(op, units, batch):
    module, reference = layer(op, 6, units, batch or Var("batch", low=1))
    model = compile(module, threads=1)
    rng = np.random.default_rng(units)
    for steps, count in ((1, 1), (5, 1), (3, batch or 3), (4, batch or 8)):
        x = rng.standard_normal((steps, count, 6)).astype(np.float32)
        expected, _ = reference(torch.from_numpy(x))
        got = model(x).transpose(0, 2, 1, 3).reshape(steps, count, 2 * units)
        np.testing.assert_allclose(got, expected.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", LAYERS)
@pytest.mark.parametrize("batch", [1, None])
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_all_that_a_step_computes_is_in_vectors(op, batch, target):
    module, _ = layer(op, 64, 64, batch or Var("batch", low=1))
    (program,) = run(module).programs.values()
    notes = []
    made = default_schedule(program, Target.named(target), fallbacks=notes).program
    assert not [note for note in notes if note.rule == "vectors"]
    for name in ("recurrent", "state"):
        around = find_block(made, name).loops
        assert any(loop.kind is LoopKind.VECTORIZED for loop in around), name


@pytest.mark.parametrize("threads", [1, 2])
def test_large_weights_are_read_to_and_fro_on_threads(threads):
    module, reference = layer("lstm", 6, 256, 1)
    (program,) = run(module).programs.values()
    target = replace(Target.named("x86-64-v4"), cores=2)
    loops = find_block(default_schedule(program, target).program, "recurrent").loops
    shared = [loop for loop in loops if loop.kind is LoopKind.PARALLEL]
    assert [loop.attrs.get("to_and_fro") for loop in shared] == [True, True]
    x = np.random.default_rng(0).standard_normal((5, 1, 6)).astype(np.float32)
    expected, _ = reference(torch.from_numpy(x))
    got = compile(module, threads=threads)(x).transpose(0, 2, 1, 3).reshape(5, 1, 512)
    np.testing.assert_allclose(got, expected.detach().numpy(), rtol=1e-4, atol=1e-5)
