"""Each kernel, in each form, is well-formed, prints and parses back, and agrees with NumPy."""

import numpy as np
import pytest

from kernels import ALL, Kernel
from tensorsmith.evaluate import interpret
from tensorsmith.ir import TensorProgram
from tensorsmith.ir.structural import diff, structural_equal
from tensorsmith.script import parse_program
from tensorsmith.verify import verify

FORMS = [
    pytest.param(kernel, getattr(kernel, form), id=f"{kernel.name}-{form}")
    for kernel in ALL
    for form in ("script", "te")
]
ROUNDS = 6


def run(program: TensorProgram, inputs, outputs):
    """`program` on `inputs`; its results stand in `outputs` afterwards."""
    interpret(program, *inputs, *outputs)


def check(kernel: Kernel, program: TensorProgram, rng, sizes):
    inputs = kernel.inputs(rng, sizes)
    expected = kernel.reference(*inputs)
    kept = [np.copy(i) for i in inputs]
    outputs = [
        np.full(e.value.shape, 99, dtype) for e, dtype in zip(expected, kernel.dtypes, strict=True)
    ]
    run(program, inputs, outputs)
    for before, after in zip(kept, inputs, strict=True):
        np.testing.assert_array_equal(before, after)
    for wanted, got in zip(expected, outputs, strict=True):
        if np.any(wanted.tolerance):
            assert np.all(np.abs(got - wanted.value) <= wanted.tolerance), (sizes, got, wanted)
        else:
            np.testing.assert_array_equal(got, wanted.value, err_msg=str(sizes))


def test_names_are_distinct():
    assert len({kernel.name for kernel in ALL}) == len(ALL)


@pytest.mark.parametrize(("kernel", "program"), FORMS)
def test_agrees_with_numpy(kernel, program):
    rng = np.random.default_rng(7)
    check(kernel, program, rng, {name: choices[0] for name, choices in kernel.sizes.items()})
    for _ in range(ROUNDS):
        check(kernel, program, rng, kernel.draw_sizes(rng))


@pytest.mark.parametrize(("kernel", "program"), FORMS)
def test_round_trips(kernel, program):
    text = program.script()
    parsed = parse_program(text)
    assert structural_equal(parsed, program), diff(parsed, program)
    assert parsed.script() == text


@pytest.mark.parametrize(("kernel", "program"), FORMS)
def test_is_well_formed(kernel, program):
    verify(program)


@pytest.mark.parametrize("kernel", ALL, ids=str)
def test_tolerance_notices_a_wrong_result(kernel):
    """The tolerances are tight enough to tell the results from those of other inputs."""
    rng = np.random.default_rng(11)
    sizes = {name: choices[-1] for name, choices in kernel.sizes.items()}
    one = kernel.reference(*kernel.inputs(rng, sizes))
    other = kernel.reference(*kernel.inputs(rng, sizes))
    assert any(
        np.any(np.abs(a.value - b.value) > a.tolerance) for a, b in zip(one, other, strict=True)
    )
