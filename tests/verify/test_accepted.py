"""Programs that are well-formed, for reasons that the verifier must find."""

from __future__ import annotations

import pytest

from tensorsmith.script import parse_module
from tensorsmith.verify import problems, verify

HEADER = "from tensorsmith import script as T\n"

PROGRAMS = {
    "guarded by select": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(n):
        B[i] = T.select(i >= 1 and i + 1 < n, A[i - 1] + A[i + 1], 0.0)
""",
    "guarded by conditions that do not hold together": """
@T.program
def f(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
    for t, i in T.grid(2, 2):
        B[i] = T.select(t < i, T.select(t == 0, 0.0, A[t - 1 - i]), 0.0)
""",
    "guarded by or": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "bool")):
    for i in range(n):
        B[i] = i < 1 or A[i - 1] < 0.0
""",
    "guarded by a part of a condition on data": """
n = T.dim("n")

@T.program
def f(M: T.Buffer((n,), "int32"), A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(n):
        B[i] = T.select(i >= 1 and M[i] > 0, A[i - 1], 0.0)
""",
    "guarded by if and else": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(2 * n):
        if i < n:
            A[i] = 0.0
        else:
            B[i - n] = 0.0
""",
    "guarded by a bound condition": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n,), "float32")):
    for i in range(n + 5):
        inside = i < n
        if inside:
            A[i] = 0.0
""",
    "guarded by an assertion": """
n = T.dim("n")
m = T.dim("m")

@T.program
def f(A: T.Buffer((n,), "float32"), B: T.Buffer((m,), "float32")):
    assert m <= n, "m is too large"
    for i in range(m):
        B[i] = A[i]
""",
    "bound subscripts": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n, n), "float32")):
    for i in range(n * n):
        row = i // n
        column = i % n
        A[row, column] = 0.0
""",
    "unreachable": """
n = T.dim("n", max=4)

@T.program
def f(A: T.Buffer((n,), "float32")):
    if n > 4:
        A[n + 1] = 0.0
    for i in range(n - 4):
        A[i + 100] = 0.0
    A[0] = T.select(n > 7, A[7], 0.0)
""",
    "triangular loops": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n, n), "float32")):
    for i in range(n):
        for j in range(i, n):
            A[i, j] = 0.0
""",
    "gather": """
n = T.dim("n")
m = T.dim("m")

@T.program
def f(D: T.Buffer((n,), "int32"), A: T.Buffer((m,), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(n):
        at = T.cast(D[i], "index")
        B[i] = A[at] + A[at + 1]
""",
    "scalar parameter": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n,), "float32"), first: T.index, count: T.index):
    for i in range(count):
        A[first + i] = 0.0
""",
    "data decides a loop": """
n = T.dim("n")
m = T.dim("m")

@T.program
def f(R: T.Buffer((n + 1,), "int32"), V: T.Buffer((m,), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(n):
        B[i] = 0.0
        for j in range(T.cast(R[i], "index"), T.cast(R[i + 1], "index")):
            B[i] += V[j]
""",
    "what data decides may change": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n,), "float32"), P: T.Buffer((1,), "index")):
    if P[0] >= n:
        P[0] = 0
        A[P[0]] = 1.0
""",
    "while": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n,), "float32"), P: T.Buffer((1,), "index")):
    while P[0] < n:
        A[P[0]] = 1.0
        P[0] += 1
""",
    "split and fused": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n, 8), "float32")):
    for o, f, i in T.grid((n + 3) // 4, 2, 16):
        with T.block("zero"):
            vi = T.spatial(n, o * 4 + (f * 16 + i) // 8)
            vj = T.spatial(8, (f * 16 + i) % 8)
            T.where(o * 4 + (f * 16 + i) // 8 < n)
            A[vi, vj] = 0.0
""",
    "opaque repetition": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n,), "float32")):
    for t, i in T.grid(10, n):
        with T.block("step"):
            vt, vi = T.remap("OS", t, i)
            A[vi] = A[vi] * 0.5
""",
    "repetition fused with what it repeats": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n,), "float32")):
    for t_i in range(10 * n):
        with T.block("step"):
            vt = T.opaque(10, t_i // n)
            vi = T.spatial(n, t_i % n)
            A[vi] = A[vi] * 0.5
""",
    "repetition fused with a reduction, under another one": """
@T.program
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
    for s, t_k in T.grid(3, 40):
        with T.block("total"):
            vs = T.opaque(3, s)
            vt = T.opaque(6, t_k // 8 + 1)
            vk = T.reduce(8, t_k % 8)
            with T.init():
                B[0] = 0.0
            B[0] = B[0] + A[vk]
""",
    "scan": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(n):
        with T.block("scan"):
            vi = T.remap("O", i)
            B[vi] = A[vi] + T.select(vi > 0, B[vi - 1], 0.0)
""",
    "initialised before": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n, 8), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(n):
        with T.block("zero"):
            vi = T.remap("S", i)
            B[vi] = 0.0
    for i, k in T.grid(n, 8):
        with T.block("total"):
            vi, vk = T.remap("SR", i, k)
            B[vi] += A[vi, vk]
""",
    "accumulate": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n, 8), "float32"), B: T.Buffer((n,), "float32")):
    for i, k in T.grid(n, 8):
        with T.block("total"):
            vi, vk = T.remap("SR", i, k)
            T.block_attrs({"accumulate": True})
            B[vi] += A[vi, vk]
""",
    "histogram": """
n = T.dim("n")

@T.program
def f(D: T.Buffer((n,), "int32"), H: T.Buffer((16,), "int32")):
    for b in range(16):
        with T.block("zero"):
            vb = T.remap("S", b)
            H[vb] = 0
    for i in range(n):
        with T.block("count"):
            vi = T.remap("R", i)
            bin = T.cast(D[vi], "index")
            H[bin] += 1
""",
    "nested blocks": """
n = T.dim("n", multiple_of=4)

@T.program
def f(A: T.Buffer((n, 8), "float32"), B: T.Buffer((n,), "float32")):
    for o in range(n // 4):
        with T.block("tile"):
            vo = T.remap("S", o)
            for i, k in T.grid(4, 8):
                with T.block("total"):
                    vi = T.spatial(n, vo * 4 + i)
                    vk = T.reduce(8, k)
                    with T.init():
                        B[vi] = 0.0
                    B[vi] += A[vi, vk]
""",
    "one iteration chosen": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n, 8), "float32"), B: T.Buffer((n,), "float32")):
    for i, k in T.grid(n, 8):
        if k == 0:
            with T.block("zero"):
                vi = T.remap("S", i)
                B[vi] = 0.0
        with T.block("total"):
            vi, vk = T.remap("SR", i, k)
            B[vi] += A[vi, vk]
""",
    "regions around an external call": """
@T.program
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        with T.block("row"):
            vi = T.remap("S", i)
            T.reads(A[vi, 0:8])
            T.writes(B[vi, 0:8])
            T.call("external_row", A[vi, 0:8], B[vi, 0:8])
""",
    "dimensions are the callee's own": """
n = T.dim("n")

@T.module
class M:
    @T.program
    def f(A: T.Buffer((n + 1,), "float32"), B: T.Buffer((n + 1,), "float32")):
        T.call("g", A, B)

    @T.program
    def g(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        for i in range(n):
            B[i] = A[i]
""",
    "local buffers": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(n):
        with T.block("twice"):
            vi = T.remap("S", i)
            t = T.alloc((2,), "float32", scope="local")
            t[0] = A[vi]
            t[1] = t[0] + t[0]
            B[vi] = t[1]
""",
    "thread hierarchy": """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n,), "float32")):
    for b in T.thread("blockIdx.x", (n + 31) // 32):
        for t in T.thread("threadIdx.x", 32):
            with T.block("zero"):
                vi = T.spatial(n, b * 32 + t)
                T.where(b * 32 + t < n)
                A[vi] = 0.0
""",
    "empty dimension": """
n = T.dim("n", min=0)

@T.program
def f(A: T.Buffer((n, 0), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(n):
        B[i] = 0.0
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_accepted(name: str) -> None:
    module = parse_module(HEADER + PROGRAMS[name])
    assert [str(p) for p in problems(module)] == []
    verify(module)
