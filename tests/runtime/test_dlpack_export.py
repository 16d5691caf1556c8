"""Tensors that other libraries take by DLPack."""

from __future__ import annotations

import gc

import ml_dtypes
import numpy as np
import pytest

from runtime.models import affine, expected
from tensorsmith.runtime import dlpack_export
from tensorsmith.runtime.dlpack import view
from tensorsmith.runtime.dlpack_export import Tensor

torch = pytest.importorskip("torch")


def held() -> int:
    """How many tensors consumers hold."""
    gc.collect()
    return len(dlpack_export._exported)


@pytest.mark.parametrize("name", ["float32", "int64", "uint8", "bool", "float16", "complex"])
def test_numpy_and_torch_take_them(name: str) -> None:
    if name == "complex":
        with pytest.raises(TypeError, match="complex128 cannot be passed"):
            Tensor(np.zeros(2, complex)).__dlpack__()
        return
    array = np.arange(12).reshape(3, 4).astype(name)[:, ::2]
    before = held()
    taken = np.from_dlpack(Tensor(array)), torch.from_dlpack(Tensor(array))
    assert held() == before + 2
    for x in taken:
        np.testing.assert_array_equal(np.asarray(x), array)
    assert np.shares_memory(taken[0], array)
    del taken, x
    assert held() == before


def test_types_that_numpy_does_not_export() -> None:
    array = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    taken = torch.from_dlpack(Tensor(array))
    assert taken.dtype == torch.bfloat16
    assert taken.tolist() == [1.5, -2.0]
    seen = view(Tensor(np.array([1, 2], ml_dtypes.float8_e5m2)))
    assert (seen.tensor.dtype.code, seen.tensor.dtype.bits) == (12, 8)


def test_capsules_that_nobody_takes_hold_nothing() -> None:
    before = held()
    tensor = Tensor(np.zeros((), np.float32))
    capsules = [tensor.__dlpack__(), tensor.__dlpack__(max_version=(1, 0))]
    assert held() == before + 2
    del capsules
    assert held() == before
    assert tensor.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="not on device"):
        tensor.__dlpack__(dl_device=(2, 0))


def test_results_of_a_model() -> None:
    x = np.ones((2, 3), np.float32)
    for result, wanted in zip(affine(outputs="dlpack")(x, x), expected(x, x), strict=True):
        assert isinstance(result, Tensor)
        assert (result.shape, result.dtype) == (wanted.shape, "float32")
        np.testing.assert_allclose(torch.from_dlpack(result).numpy(), wanted)
        np.testing.assert_allclose(result.numpy(), wanted)
    assert repr(result) == "<tensor float32[2, 6]>"
