"""Ways to run a program in tests of the interpreter."""

from __future__ import annotations

import numpy as np

from tensorsmith.evaluate import interpret
from tensorsmith.ir import (
    Block,
    Buffer,
    For,
    Iter,
    IterKind,
    Stmt,
    Store,
    TensorProgram,
    Var,
    const,
)

n, m, k = (Var(name, low=1) for name in "nmk")
i, j, p = (Var(name) for name in "ijp")


def program(body: Stmt, *params: Buffer | Var, name: str = "f") -> TensorProgram:
    return TensorProgram(name, params, body)


def same_either_way(f: TensorProgram, *args: np.ndarray) -> list[np.ndarray]:
    """Runs `f` side by side and one by one; the results, which must be the same bits."""
    left, right = [a.copy() for a in args], [a.copy() for a in args]
    interpret(f, *left)
    interpret(f, *right, vectorize=False)
    for x, y in zip(left, right, strict=True):
        assert x.tobytes() == y.tobytes()
    return left


def matmul(type_: str = "float32") -> TensorProgram:
    a, b, c = Buffer("A", (n, k), type_), Buffer("B", (k, m), type_), Buffer("C", (n, m), type_)
    vi, vj, vk = (Var(v) for v in ("vi", "vj", "vk"))
    block = Block(
        "C",
        (
            Iter(vi, n, IterKind.SPATIAL, i),
            Iter(vj, m, IterKind.SPATIAL, j),
            Iter(vk, k, IterKind.REDUCE, p),
        ),
        Store(c, (vi, vj), c[vi, vj] + a[vi, vk] * b[vk, vj]),
        init=Store(c, (vi, vj), const(0, type_)),
    )
    return program(For(i, n, For(j, m, For(p, k, block))), a, b, c, name="matmul")
