"""Calls of functions that are given by address."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tensorsmith import script as T
from tensorsmith.codegen import build
from tensorsmith.errors import DTypeError, EvaluationError


@T.program
def rows(A: T.Buffer((4, 8), "float32"), factor: T.int32):
    for i in range(4):
        T.call("scale_row", A[i : i + 1, 0:8], factor)


@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_float), ctypes.c_int32)
def scale_row(row, factor):
    if factor < 0:
        return 77
    for j in range(8):
        row[j] *= factor
    return 0


@pytest.mark.parametrize("as_address", [False, True])
def test_functions_are_called_by_name(as_address) -> None:
    function = ctypes.cast(scale_row, ctypes.c_void_p).value if as_address else scale_row
    exe = build(rows, externs={"scale_row": function})
    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    expected = a * 3
    exe(a, 3)
    np.testing.assert_array_equal(a, expected)
    with pytest.raises(EvaluationError, match="failed with code 77"):
        exe(a, -1)


def test_other_objects_are_no_functions() -> None:
    with pytest.raises(DTypeError) as caught:
        build(rows, externs={"scale_row": "printf"})
    assert str(caught.value) == (
        "'printf' is no function of C\n"
        "  try: an address, or what ctypes.CFUNCTYPE makes of a Python function"
    )
