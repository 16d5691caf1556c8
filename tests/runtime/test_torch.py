"""torch tensors as arguments: used where they lie, or refused with the reason."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import numpy as np
import pytest

from tensorsmith import te
from tensorsmith.codegen import build
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.runtime import fast_call
from tensorsmith.runtime.general_call import GeneralCall

torch = pytest.importorskip("torch")


def added(dtype: str, size: int = 6):
    a, b = te.placeholder((size,), dtype, "A"), te.placeholder((size,), dtype, "B")
    return build(
        te.program([a, b], te.compute((size,), lambda i: a[i] + b[i], "C"), "added"), threads=1
    )


@pytest.fixture(scope="module")
def exe():
    return added("float32")


DTYPES = ["int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type(dtype) -> None:
    exe = added(dtype)
    a = torch.arange(6).to(getattr(torch, dtype))
    c = torch.empty_like(a)
    exe(a, a, c)
    assert torch.equal(c, a + a)


def test_after_the_first_call_torch_is_fast(exe, monkeypatch) -> None:
    a, c = torch.arange(6.0), torch.empty(6)
    exe(a, a, c)
    seen: list[object] = []
    monkeypatch.setattr(GeneralCall, "__call__", lambda self, *values: seen.append(values))
    assert fast_call._torch_cell[0] == id(torch.Tensor)
    exe(a, a, c)
    assert seen == []
    assert torch.equal(c, 2 * a)


def test_torch_and_numpy_in_one_call(exe) -> None:
    a, b, c = torch.arange(6.0), np.ones(6, np.float32), torch.empty(6)
    exe(a, b, c)
    assert torch.equal(c, a + 1)


def test_a_part_of_a_tensor(exe) -> None:
    whole = torch.zeros(20)
    exe(torch.arange(6.0), torch.ones(6), whole[7:13])
    assert whole[7:13].tolist() == [1, 2, 3, 4, 5, 6]
    assert whole.sum() == 21


def plain() -> torch.Tensor:
    return torch.zeros(6)


REFUSED = {
    "gradient": (
        lambda: torch.zeros(6, requires_grad=True),
        DTypeError,
        (
            "'Tensor' cannot be passed to compiled code\n  because: Can't export tensors that"
            " require gradient, use tensor.detach()"
        ),
    ),
    "parameter": (
        lambda: torch.nn.Parameter(torch.zeros(6)),
        DTypeError,
        (
            "'Parameter' cannot be passed to compiled code\n  because: Can't export tensors that"
            " require gradient, use tensor.detach()"
        ),
    ),
    "meta": (
        lambda: torch.zeros(6, device="meta"),
        DTypeError,
        "'Tensor' cannot be passed to compiled code\n  because: Cannot pack tensors on meta",
    ),
    "sparse": (
        lambda: torch.zeros(6).to_sparse(),
        DTypeError,
        (
            "'Tensor' cannot be passed to compiled code\n  because: Can't export tensors with"
            " layout other than torch.strided"
        ),
    ),
    "type": (
        lambda: torch.zeros(6, dtype=torch.int32),
        DTypeError,
        (
            "added: 'A' must be float32\n  given: A: torch.int32[6]; B: torch.float32[6];"
            " C: torch.float32[6]"
        ),
    ),
    "shape": (
        lambda: torch.zeros(5),
        ShapeError,
        (
            "added: axis 0 of 'A' must have extent 6\n  given: A: torch.float32[5];"
            " B: torch.float32[6]; C: torch.float32[6]"
        ),
    ),
    "strides": (
        lambda: torch.zeros(12)[::2],
        ShapeError,
        (
            "added: 'A' must be contiguous, in row-major order\n  given: A: torch.float32[6];"
            " B: torch.float32[6]; C: torch.float32[6]"
        ),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(exe, case) -> None:
    make, kind, text = REFUSED[case]
    for _ in range(2):  # by the general call, then by the fast one
        with pytest.raises(kind) as caught:
            exe(make(), plain(), plain())
        assert str(caught.value) == text


def test_references_are_given_back(exe) -> None:
    a, c = torch.arange(6.0), torch.empty(6)
    grad = torch.zeros(6, requires_grad=True)
    exe(a, a, c)
    counted = (a, c, grad, True, False, "requires_grad")
    before = [sys.getrefcount(o) for o in counted]
    for _ in range(2000):
        exe(a, a, c)
        with contextlib.suppress(DTypeError):
            exe(grad, a, c)
    after = [sys.getrefcount(o) for o in counted]
    assert max(abs(p - q) for p, q in zip(before, after, strict=True)) < 500  # of other threads


def test_torch_may_come_after_the_executable() -> None:
    code = """
import sys
import numpy as np
from tensorsmith import te
from tensorsmith.codegen import build
from tensorsmith.runtime import fast_call
a = te.placeholder((4,), name="A")
exe = build(te.program([a], te.compute((4,), lambda i: a[i] + 1.0, "B"), "inc"), threads=1)
exe(np.zeros(4, np.float32), np.zeros(4, np.float32))
assert "torch" not in sys.modules and not fast_call._torch_cell[0]
import torch
out = torch.zeros(4)
for _ in range(2):
    exe(torch.arange(4.0), out)
assert fast_call._torch_cell[0]
print(out.tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[1.0, 2.0, 3.0, 4.0]"
