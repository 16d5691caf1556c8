"""Small models for tests: hosts from scripts, and what their parameters are."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorsmith.codegen import HostInterface, build_model
from tensorsmith.ir import Buffer, IRModule
from tensorsmith.runtime.model import Model
from tensorsmith.script import parse_module

HEADER = "from tensorsmith import script as T\n"

AFFINE = (
    HEADER
    + """
n = T.dim("n", min=0)
m = T.dim("sequence_length")

@T.program
def add(A: T.Buffer((n, m), "float32"), B: T.Buffer((n, m), "float32"),
        C: T.Buffer((n, m), "float32")):
    for i, j in T.grid(n, m):
        C[i, j] = A[i, j] + B[i, j]

@T.program
def scale(A: T.Buffer((n, m), "float32"), W: T.Buffer((3,), "float32"),
          C: T.Buffer((n, m * 2), "float32")):
    for i, j in T.grid(n, m * 2):
        C[i, j] = A[i, j // 2] * W[j % 3]

@T.program(attrs={"host": True})
def main(ids: T.Buffer((n, m), "float32"), mask: T.Buffer((n, m), "float32"),
         total: T.Buffer((n, m), "float32"), scaled: T.Buffer((n, m * 2), "float32"),
         weights: T.Buffer((64,), "uint8", align=64)):
    arena = T.alloc(((n * m * 4 + 63) // 64 * 64,), "uint8", align=64)
    t = T.view(arena, 0, (n, m), "float32")
    w = T.view(weights, 0, (3,), "float32")
    T.call("add", ids, mask, t)
    T.call("add", t, mask, total)
    T.call("scale", t, w, scaled)
"""
)
WEIGHTS = np.array([2.0, 3.0, 5.0], np.float32)

COMPRESS = (
    HEADER
    + """
n = T.dim("n", min=0)

@T.program
def count(X: T.Buffer((n,), "int64"), K: T.Buffer((1,), "int64")):
    K[0] = T.int64(0)
    for i in range(n):
        if X[i] > 0:
            K[0] = K[0] + 1

@T.program(attrs={"host": True})
def main(X: T.Buffer((n,), "int64"), doubled: T.Buffer((n,), "int64"), token: T.int64):
    found = T.alloc((1,), "int64")
    T.call("count", X, found)
    k = T.max(T.cast(found[0], "index"), 0)
    kept = T.alloc((k, 2), "int64")
    place = T.alloc((1,), "index")
    place[0] = 0
    for i in range(n):
        doubled[i] = X[i] * 2
        if X[i] > 0:
            kept[place[0], 0] = X[i]
            kept[place[0], 1] = T.cast(i, "int64")
            place[0] = place[0] + 1
    T.call("ts_return", token, T.index(0), kept, k, T.index(2))
"""
)


def affine(**options: Any) -> Model:
    """``t = ids + mask``; total: ``t + mask``; scaled: t with each column twice, times weights."""
    module = parse_module(AFFINE)
    results = module.program("main").params[2:4]
    weights = np.zeros(64, np.uint8)
    weights[:12] = WEIGHTS.view(np.uint8)
    return model_of(module, results, weights, **options)


def compress(**options: Any) -> Model:
    """The positive numbers with their places, whose count only the program knows; all doubled."""
    module = parse_module(COMPRESS)
    main = module.program("main")
    n = main.dims[0]
    kept = Buffer("kept", (n, 2), "int64")
    interface = HostInterface((kept, main.buffers[1]), returned=(0,))
    return build_model(module, "main", interface, **options)


def model_of(
    module: IRModule, results: Any, weights: np.ndarray[Any, Any] | None = None, **options: Any
) -> Model:
    """The model of a host whose results are parameters."""
    interface = HostInterface(tuple(results), has_weights=weights is not None)
    return build_model(module, "main", interface, weights, **options)


def expected(ids: Any, mask: Any) -> tuple[Any, Any]:
    """What `affine` gives."""
    t = ids + mask
    columns = np.arange(t.shape[1] * 2)
    return t + mask, t[:, columns // 2] * WEIGHTS[columns % 3]
