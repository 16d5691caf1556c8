"""Native code against the interpreter on random programs, and against NumPy on the kernels."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import ALL
from strategies import arguments, programs
from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.codegen import build
from tensorsmith.errors import EvaluationError
from tensorsmith.evaluate import interpret
from tensorsmith.ir import TensorProgram

FORMS = [
    pytest.param(kernel, getattr(kernel, form), id=f"{kernel.name}-{form}")
    for kernel in ALL
    for form in ("script", "te")
]


def check_kernel(kernel, program: TensorProgram, *, check_bounds: bool = False) -> None:
    """`program`, compiled, agrees with the kernel's reference at several sizes."""
    rng = np.random.default_rng(11)
    exe = build(program, threads=1, check_bounds=check_bounds)
    first = {name: choices[0] for name, choices in kernel.sizes.items()}
    for sizes in (first, *(kernel.draw_sizes(rng) for _ in range(4))):
        inputs = kernel.inputs(rng, sizes)
        expected = kernel.reference(*inputs)
        outputs = [
            np.full(e.value.shape, 99, dtype)
            for e, dtype in zip(expected, kernel.dtypes, strict=True)
        ]
        exe(*inputs, *outputs)
        for wanted, got in zip(expected, outputs, strict=True):
            if np.any(wanted.tolerance):
                assert np.all(np.abs(got - wanted.value) <= wanted.tolerance), sizes
            else:
                np.testing.assert_array_equal(got, wanted.value, err_msg=str(sizes))


@pytest.mark.parametrize(("kernel", "program"), FORMS)
def test_kernels_agree_with_numpy(kernel, program) -> None:
    check_kernel(kernel, program)


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "program"), FORMS)
def test_kernels_stay_in_bounds(kernel, program) -> None:
    check_kernel(kernel, program, check_bounds=True)


def copies(args) -> list[object]:
    return [np.copy(a) if isinstance(a, np.ndarray) else a for a in args]


def failure(run) -> EvaluationError | None:
    try:
        run()
    except EvaluationError as error:
        return error
    return None


def check_agreement(data: st.DataObject, *, check_bounds: bool = False) -> None:
    """A random program gives the same bits natively as in the interpreter, and fails alike."""
    program = data.draw(programs())
    args = data.draw(arguments(program))
    args = list(args.values()) if isinstance(args, dict) else list(args)
    expected, got = copies(args), copies(args)
    exe = build(program, threads=1, check_bounds=check_bounds)
    errors = failure(lambda: interpret(program, *expected)), failure(lambda: exe(*got))
    assert (errors[0] is None) == (errors[1] is None), errors
    if errors[0] is not None:
        return
    for parameter, a, b in zip(program.params, expected, got, strict=True):
        if isinstance(a, np.ndarray) and a.tobytes() != b.tobytes():
            np.testing.assert_array_equal(
                a.astype(np.float64), b.astype(np.float64), err_msg=f"{parameter}\n{program}"
            )


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_random_programs_agree(data: st.DataObject) -> None:
    check_agreement(data)


@settings(deadline=None, max_examples=15)
@given(st.data())
def test_random_programs_agree_with_checks(data: st.DataObject) -> None:
    check_agreement(data, check_bounds=True)


@pytest.mark.slow
@settings(deadline=None, max_examples=8000)
@given(st.data())
def test_many_random_programs_agree(data: st.DataObject) -> None:
    check_agreement(data)


@pytest.mark.slow
@settings(deadline=None, max_examples=2000)
@given(st.data())
def test_many_random_programs_agree_with_checks(data: st.DataObject) -> None:
    check_agreement(data, check_bounds=True)


@pytest.mark.parametrize("name", ["int2", "int4", "uint2", "uint4"])
def test_high_bits_of_narrow_integers_do_not_count(name):
    n = T.dim("n", min=0)
    A = te.placeholder((n,), name, "A")
    out = te.compute((n,), lambda i: T.cast(A[i], "int32"), "out")
    kept = te.compute((n,), lambda i: A[i], "kept")
    type_ = np.dtype(getattr(ml_dtypes, name))
    x = np.arange(256, dtype=np.uint8)
    wide, same = np.empty(256, np.int32), np.empty(256, type_)
    build(te.program([A], [out, kept]))(x.view(type_), wide, same)
    bits = 4 if name.endswith("4") else 2
    low = x & np.uint8((1 << bits) - 1)
    assert wide.tolist() == low.view(type_).astype(np.int32).tolist()
    assert same.view(np.uint8).tolist() == low.tolist()
