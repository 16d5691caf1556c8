"""What the benchmark of the compiler works on: index expressions and programs as they occur."""

from __future__ import annotations

from tensorsmith.arith import Analyzer
from tensorsmith.ir import (
    INTRINSICS,
    Block,
    Buffer,
    Expr,
    For,
    Iter,
    IterKind,
    Load,
    LoopKind,
    Max,
    Min,
    Stmt,
    Store,
    TensorProgram,
    Var,
    const,
    postorder,
    select,
    seq,
)

SPATIAL, REDUCE = IterKind.SPATIAL, IterKind.REDUCE


def loop_variables() -> tuple[Var, Var, Var, Var]:
    """A dimension that is a multiple of 16, and three loop variables."""
    n = Var("n", low=16, multiple_of=16)
    return n, Var("i"), Var("j"), Var("k")


def facts_of(n: Var, i: Var, j: Var, k: Var) -> Analyzer:
    """An analyzer that knows the loops: i < n // 16, j < 16, k < 64."""
    facts = Analyzer()
    facts.bind(i, 0, n // 16)
    facts.bind(j, 0, 16)
    facts.bind(k, 0, 64)
    return facts


def index_expressions(n: Var, i: Var, j: Var, k: Var) -> dict[str, Expr]:
    """Expressions of 10 to 20 nodes, as splits, fusions, layouts, padding and tails make them."""
    row = i * 16 + j
    return {
        "split and fused": (row * 64 + k) // 64 - (i * 16 + j),
        "offset of a tile": (row // 4 * 64 + k) * 4 + row % 4 - i * 1024,
        "packed layout": (row * 64 + k) // 1024 * 1024 + (row * 64 + k) % 1024,
        "tail of a tile": Min(Max(n - row, const(0)), const(16)) + row % 16 + k // 64,
        "padding": select((row - 1 >= 0) & (row - 1 < n), (row - 1) * 64 + k, 0),
        "symbolic rows": (row * n + k * (n // 16) + j) % n + (i * n + j) // n,
    }


def nodes_of(*roots: Expr) -> int:
    """How many distinct nodes the expressions have."""
    return len(list(postorder(*roots)))


def deep_sum(terms: int) -> tuple[Expr, list[Var]]:
    """A sum of products of a few variables, with as many terms."""
    variables = [Var(f"v{d}") for d in range(8)]
    total: Expr = const(0)
    for t in range(terms):
        total = total + variables[t % 8] * (t % 61) // (1 + t % 7)
    return total, variables


# --- Programs --------------------------------------------------------------------------------


def _loops(loops: list[tuple[Var, Expr, LoopKind]], body: Stmt) -> Stmt:
    for var, extent, kind in reversed(loops):
        body = For(var, extent, body, kind)
    return body


def matmul(n: Expr, m: Expr, k: Expr) -> TensorProgram:
    """``C = A @ B`` in one block."""
    a, b, c = Buffer("A", (n, k)), Buffer("B", (k, m)), Buffer("C", (n, m))
    extents = (n, m, k)
    variables = [Var(name) for name in "ijk"]
    iters = [
        Iter(Var(f"v{v.name}"), extent, kind, v)
        for v, extent, kind in zip(variables, extents, (SPATIAL, SPATIAL, REDUCE), strict=True)
    ]
    vi, vj, vk = (it.var for it in iters)
    update = Store(c, (vi, vj), c[vi, vj] + a[vi, vk] * b[vk, vj])
    block = Block("C", tuple(iters), update, Store(c, (vi, vj), const(0.0, "float32")))
    serial = [(v, e, LoopKind.SERIAL) for v, e in zip(variables, extents, strict=True)]
    return TensorProgram("matmul", (a, b, c), _loops(serial, block))


def tiled_matmul() -> TensorProgram:
    """A matmul as a schedule leaves it: tiles, a packed operand, a fused epilogue."""
    n = Var("n", low=64, multiple_of=64)
    a, b, bias = Buffer("A", (n, 512)), Buffer("B", (512, 768)), Buffer("bias", (768,))
    packed = Buffer("packed", (48, 512, 16), scope="global")
    c = Buffer("C", (n, 768))
    return TensorProgram(
        "tiled_matmul",
        (a, b, bias, packed, c),
        seq(_pack(b, packed), _tiles(n, a, packed, c), _epilogue(n, bias, c)),
    )


def _pack(b: Buffer, packed: Buffer) -> Stmt:
    f, lane = Var("f"), Var("lane")
    panel, depth, column = Var("vp"), Var("vd"), Var("vl")
    iters = (
        Iter(panel, const(48), SPATIAL, f // 512),
        Iter(depth, const(512), SPATIAL, f % 512),
        Iter(column, const(16), SPATIAL, lane),
    )
    body = Store(packed, (panel, depth, column), b[depth, panel * 16 + column])
    loops = [(f, const(48 * 512), LoopKind.PARALLEL), (lane, const(16), LoopKind.VECTORIZED)]
    return _loops(loops, Block("pack", iters, body))


def _tiles(n: Var, a: Buffer, packed: Buffer, c: Buffer) -> Stmt:
    names = ("io", "jo", "ko", "im", "ki", "ii", "ji")
    io, jo, ko, im, ki, ii, ji = variables = [Var(name) for name in names]
    extents = (n // 64, const(48), const(8), const(8), const(64), const(8), const(16))
    kinds = [LoopKind.SERIAL] * 7
    kinds[0], kinds[5], kinds[6] = LoopKind.PARALLEL, LoopKind.UNROLLED, LoopKind.VECTORIZED
    vi, vj, vk = Var("vi"), Var("vj"), Var("vk")
    iters = (
        Iter(vi, n, SPATIAL, io * 64 + im * 8 + ii),
        Iter(vj, const(768), SPATIAL, jo * 16 + ji),
        Iter(vk, const(512), REDUCE, ko * 64 + ki),
    )
    product = a[vi, vk] * packed[vj // 16, vk, vj % 16]
    update = Store(c, (vi, vj), c[vi, vj] + product)
    block = Block("C", iters, update, Store(c, (vi, vj), const(0.0, "float32")))
    return _loops(list(zip(variables, extents, kinds, strict=True)), block)


def _epilogue(n: Var, bias: Buffer, c: Buffer) -> Stmt:
    i, j, vi, vj = Var("i"), Var("j"), Var("vi"), Var("vj")
    value = c[vi, vj] + Load(bias, (vj,))
    gelu = value * 0.5 * (1.0 + INTRINSICS["erf"](value * 0.7071067690849304))
    iters = (Iter(vi, n, SPATIAL, i), Iter(vj, const(768), SPATIAL, j))
    loops = [(i, n, LoopKind.PARALLEL), (j, const(768), LoopKind.VECTORIZED)]
    return _loops(loops, Block("gelu", iters, Store(c, (vi, vj), gelu)))


def softmax(rows: int, columns: int) -> TensorProgram:
    """Row by row: the greatest, the exponentials, their sum, the quotients."""
    x, y = Buffer("X", (rows, columns)), Buffer("Y", (rows, columns))
    top, total = Buffer("top", (rows,)), Buffer("total", (rows,))
    stages = [
        _reduction("top", top, x, float("-inf"), lambda old, new, row: Max(old, new)),
        _reduction(
            "total", total, x, 0.0, lambda old, new, row: old + INTRINSICS["exp"](new - top[row])
        ),
    ]
    i, j, vi, vj = Var("i"), Var("j"), Var("vi"), Var("vj")
    iters = (Iter(vi, const(rows), SPATIAL, i), Iter(vj, const(columns), SPATIAL, j))
    quotient = INTRINSICS["exp"](x[vi, vj] - top[vi]) / total[vi]
    block = Block("Y", iters, Store(y, (vi, vj), quotient))
    last = _loops([(i, const(rows), LoopKind.SERIAL), (j, const(columns), LoopKind.SERIAL)], block)
    return TensorProgram("softmax", (x, top, total, y), seq(*stages, last))


def _reduction(name: str, out: Buffer, x: Buffer, identity: float, combine) -> Stmt:
    i, j, vi, vj = Var("i"), Var("j"), Var("vi"), Var("vj")
    rows, columns = x.shape
    iters = (Iter(vi, rows, SPATIAL, i), Iter(vj, columns, REDUCE, j))
    update = Store(out, (vi,), combine(out[vi], x[vi, vj], vi))
    block = Block(name, iters, update, Store(out, (vi,), const(identity, "float32")))
    return _loops([(i, rows, LoopKind.SERIAL), (j, columns, LoopKind.SERIAL)], block)
