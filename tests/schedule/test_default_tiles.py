"""Default schedules of products of bytes in tile registers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.codegen import build
from tensorsmith.codegen.llvm.module import print_llvm
from tensorsmith.evaluate import interpret
from tensorsmith.ir import IRModule, TensorProgram
from tensorsmith.schedule import Fallback, default_schedule
from tensorsmith.schedule.defaults.tile_products import BLOCKS, choose_block
from tensorsmith.schedule.defaults.tiles import Sizes
from tensorsmith.target import Target
from tensorsmith.verify import verify

TILES = Target.named("sapphirerapids")
HOST = Target.host()
KINDS = [(a, b) for a in ("uint8", "int8") for b in ("uint8", "int8")]
has_tiles = "amx-int8" in HOST.features
here = pytest.mark.skipif(not has_tiles, reason="the machine has no tile registers")


def bytes_product(
    m: object, n: int, k: int, kinds: tuple[str, str], *, turned: bool = False, batch: int = 0
) -> TensorProgram:
    """The 32-bit product of matrices of bytes."""
    around = (batch,) if batch else ()
    a = te.placeholder((*around, m, k), kinds[0], name="A")
    b = te.placeholder((*around, n, k) if turned else (*around, k, n), kinds[1], name="B")
    x = te.reduce_axis(k, "k")

    def element(*at: object) -> object:
        *first, i, j = at
        right = b[(*first, j, x)] if turned else b[(*first, x, j)]
        return te.sum(T.int32(a[(*first, i, x)]) * T.int32(right), axis=x)

    return te.program([a, b], te.compute((*around, m, n), element, "C"), "bytes")


def random_bytes(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def scheduled(program: TensorProgram, target: Target) -> TensorProgram:
    """The schedule, which is no fallback and uses tiles."""
    notes: list[Fallback] = []
    made = default_schedule(program, target, fallbacks=notes).program
    assert not notes
    verify(made)
    assert "tdpb" in print_llvm(IRModule.holding(made), target).render()
    return made


def operands(
    program: TensorProgram, rows: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bytes, and where the result belongs; `rows` for each extent that is not known."""
    rng = np.random.default_rng(seed)
    a, b, c = (
        tuple(int(getattr(e, "value", rows)) for e in buffer.shape) for buffer in program.buffers
    )
    kinds = [buffer.dtype.name for buffer in program.buffers]
    return random_bytes(rng, a, kinds[0]), random_bytes(rng, b, kinds[1]), np.full(c, 7, np.int32)


def expected(a: np.ndarray, b: np.ndarray, *, turned: bool) -> np.ndarray:
    right = b.swapaxes(-1, -2) if turned else b
    return a.astype(np.int64) @ right.astype(np.int64)


@pytest.mark.parametrize("kinds", KINDS, ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_schedules_for_tiles_compute_the_same(kinds: tuple[str, str], *, turned: bool) -> None:
    """On any machine: the interpreter runs what the tiles are described by."""
    program = bytes_product(19, 37, 70, kinds, turned=turned)
    a, b, out = operands(program, 0, 1)
    interpret(scheduled(program, TILES), a, b, out)
    np.testing.assert_array_equal(out, expected(a, b, turned=turned))


@here
@settings(deadline=None, max_examples=25)
@given(
    m=st.integers(3, 90),
    n=st.sampled_from((5, 16, 31, 64, 97, 160)),
    k=st.sampled_from((1, 4, 63, 64, 65, 200)),
    kinds=st.sampled_from(KINDS),
    turned=st.booleans(),
    batch=st.sampled_from((0, 0, 3)),
)
def test_products_are_exact(
    m: int, n: int, k: int, kinds: tuple[str, str], *, turned: bool, batch: int
) -> None:
    program = bytes_product(m, n, k, kinds, turned=turned, batch=batch)
    a, b, out = operands(program, 0, m)
    build(scheduled(program, HOST), threads=2, cache=False)(a, b, out)
    np.testing.assert_array_equal(out, expected(a, b, turned=turned))


@here
@pytest.mark.parametrize("least", [0, 1])
def test_rows_that_only_the_call_tells(least: int) -> None:
    program = bytes_product(T.dim("m", min=least), 96, 100, ("uint8", "int8"))
    run = build(scheduled(program, HOST), threads=2, cache=False)
    for rows in (least, 1, 2, 13, 16, 17, 31, 32, 33, 257):
        a, b, out = operands(program, rows, rows)
        run(a, b, out)
        np.testing.assert_array_equal(out, expected(a, b, turned=False))


@here
@pytest.mark.parametrize(("m", "n", "k"), [(300, 200, 600), (100, 2100, 1100), (700, 1100, 1030)])
def test_large_products_run_on_threads(m: int, n: int, k: int) -> None:
    program = bytes_product(m, n, k, ("int8", "int8"))
    made = scheduled(program, HOST)
    assert HOST.cores == 1 or "parallel" in made.script()
    a, b, out = operands(program, 0, k)
    build(made, threads=2, cache=False)(a, b, out)
    np.testing.assert_array_equal(out, expected(a, b, turned=False))


def quantized_layer(m: object, n: int, k: int) -> TensorProgram:
    """Floats to bytes, times bytes, and back: with a scale, a bias and a residual."""
    x, w = te.placeholder((m, k), name="X"), te.placeholder((k, n), "int8", name="W")
    bias, r = te.placeholder((n,), name="bias"), te.placeholder((m, n), name="R")
    steps = te.reduce_axis(k, "k")
    q = te.compute(
        (m, k),
        lambda i, j: T.cast(T.cast(T.max(T.min(T.round(x[i, j]), 255.0), 0.0), "int32"), "uint8"),
        "Q",
    )
    c = te.compute(
        (m, n), lambda i, j: te.sum(T.int32(q[i, steps]) * T.int32(w[steps, j]), axis=steps), "C"
    )
    d = te.compute((m, n), lambda i, j: T.float32(c[i, j]) * 0.5 + bias[j], "D")
    e = te.compute((m, n), lambda i, j: T.max(d[i, j], T.float32(0)) + r[i, j], "E")
    return te.program([x, w, bias, r], e, "layer", attrs={"constants": ("W",)})


@pytest.mark.parametrize("m", [33, "symbolic"])
def test_what_precedes_and_follows_is_done_with_the_tiles(m: object) -> None:
    program = quantized_layer(T.dim("m") if m == "symbolic" else m, 70, 130)
    target = HOST if has_tiles else TILES
    made = scheduled(program, target)
    assert not any(f"{name} = T.alloc" in made.script() for name in "QCDE")
    rng = np.random.default_rng(2)
    x = rng.uniform(-20, 280, (33, 130)).astype(np.float32)
    w = random_bytes(rng, (130, 70), "int8")
    bias = rng.integers(-9, 9, 70).astype(np.float32)
    r = rng.integers(-9, 9, (33, 70)).astype(np.float32)
    out = np.zeros((33, 70), np.float32)
    if has_tiles:
        build(made, threads=2, cache=False)(x, w, bias, r, out)
    else:
        interpret(made, x, w, bias, r, out)
    sums = np.rint(x).clip(0, 255).astype(np.int64) @ w.astype(np.int64)
    layer = sums.astype(np.float32) * np.float32(0.5) + bias
    np.testing.assert_array_equal(out, np.maximum(layer, 0) + r)


def test_few_rows_stay_in_vectors() -> None:
    made = default_schedule(bytes_product(1, 256, 256, ("uint8", "int8")), TILES).program
    assert "tdpb" not in print_llvm(IRModule.holding(made), TILES).render()


def test_blocks_leave_little_empty() -> None:
    assert BLOCKS[0] == (32, 32)
    chosen = {
        (m, n): (tiles.rows, tiles.columns)
        for m, n in ((1024, 1024), (16, 512), (10, 16), (48, 16), (17, 24))
        for tiles in (choose_block(Sizes(m, n, 512, 4, 1), TILES),)
    }
    assert chosen == {
        (1024, 1024): (32, 32),
        (16, 512): (16, 64),
        (10, 16): (16, 16),
        (48, 16): (48, 16),
        (17, 24): (32, 32),
    }
