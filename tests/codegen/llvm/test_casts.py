"""Conversions of floats to integers in vectors: saturated, and NaN as 0."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.codegen import build
from tensorsmith.codegen.llvm.module import print_llvm
from tensorsmith.evaluate import interpret
from tensorsmith.ir import IRModule, TensorProgram
from tensorsmith.schedule import default
from tensorsmith.target import Target

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (4, 8, 16, 32, 64)]
EDGES = [2.0**bits + step for bits in (3, 4, 7, 8, 15, 16) for step in (-1.5, -1, -0.5, 0, 0.5)]
EDGES += [x for bits in (31, 32, 63, 64) for x in (2.0**bits, 2.0**bits * (1 - 2.0**-24))]
EDGES += [0.0, 0.5, 0.99, 1.0, 1.5, 3.0, 1e30, np.inf]
VALUES = np.array([*EDGES, *(-x for x in EDGES), np.nan])


def conversion(source: str, target: str, count: int) -> TensorProgram:
    x = te.placeholder((count,), source, name="x")
    return te.program([x], te.compute((count,), lambda i: T.cast(x[i], target), "y"), "convert")


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("target", INTEGERS)
def test_conversions_in_vectors_saturate(source: str, target: str) -> None:
    with np.errstate(over="ignore"):
        x = np.resize(VALUES, 192).astype(source)
    type_ = np.dtype(getattr(ml_dtypes, target) if target.endswith("int4") else target)
    expected, got = np.zeros(192, type_), np.zeros(192, type_)
    program = conversion(source, target, 192)
    interpret(program, x, expected)
    build(default(program), cache=False)(x, got)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("target", ["int8", "uint8", "int32"])
def test_no_lane_is_converted_alone(name: str, target: str) -> None:
    machine = Target.named(name)
    text = print_llvm(
        IRModule.holding(default(conversion("float32", target, 64), machine)), machine
    )
    assert "fptosi <" in text.render()
    assert ".sat." not in text.render()
