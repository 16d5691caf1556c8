"""Default schedules of products: what is fused, how bytes are multiplied, what is not packed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.codegen import build
from tensorsmith.codegen.llvm.module import print_llvm
from tensorsmith.evaluate import interpret
from tensorsmith.ir import For, IRModule, Seq, TensorProgram
from tensorsmith.ops.convolution import conv
from tensorsmith.schedule import Fallback, default, default_schedule
from tensorsmith.schedule.defaults.tiles import Sizes, choose_tiles, is_far
from tensorsmith.target import Caches, Target
from tensorsmith.verify import verify

V3, V4 = (Target.named(f"x86-64-v{k}") for k in (3, 4))
VNNI = dataclasses.replace(V4, features=V4.features | {"avx512vnni"})
ARM = Target.named("neoverse-n1")


def nests(program: TensorProgram) -> int:
    """How many loops stand beside each other, outermost."""
    body = program.body
    return sum(isinstance(s, For) for s in (body.stmts if isinstance(body, Seq) else (body,)))


def whole(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Small whole numbers, whose products and sums are exact."""
    return rng.integers(-4, 5, shape).astype(np.float32)


def run(program: TensorProgram, *args: np.ndarray) -> None:
    """Schedule for this machine without a fallback, and run."""
    fallbacks: list[Fallback] = []
    scheduled = default_schedule(program, fallbacks=fallbacks).program
    assert not fallbacks
    verify(scheduled)
    build(scheduled, threads=2, cache=False)(*args)


# --- What follows and precedes ---------------------------------------------------------------


def layer(m: object, n: int, k: int) -> TensorProgram:
    """max(A B + bias, 0) + R, in four blocks."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    bias, r = te.placeholder((n,), name="bias"), te.placeholder((m, n), name="R")
    x = te.reduce_axis(k, "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, x] * b[x, j], axis=x), "C")
    d = te.compute((m, n), lambda i, j: c[i, j] + bias[j], "D")
    e = te.compute((m, n), lambda i, j: T.max(d[i, j], T.float32(0)), "E")
    f = te.compute((m, n), lambda i, j: e[i, j] + r[i, j], "F")
    return te.program([a, b, bias, r], f, "layer", attrs={"contract": True})


@pytest.mark.parametrize("m", [1, 5, 24, 40, 100, "symbolic"])
@pytest.mark.parametrize(("n", "k"), [(64, 32), (50, 33)])
def test_what_follows_a_product_is_done_on_its_tiles(m: object, n: int, k: int) -> None:
    extent = T.dim("m") if m == "symbolic" else m
    program = layer(extent, n, k)
    scheduled = default(program)
    last = scheduled.body.stmts[-1] if isinstance(scheduled.body, Seq) else scheduled.body
    assert "F[" in str(last), "the last nest makes the result"
    assert "local" in str(scheduled.body), "from a tile"
    assert not any(f"{name} = T.alloc" in str(scheduled.body) for name in "CDE")
    rows = 37 if m == "symbolic" else int(str(m))
    rng = np.random.default_rng(rows)
    a, b, bias = whole(rng, rows, k), whole(rng, k, n), whole(rng, n)
    r, out = whole(rng, rows, n), np.full((rows, n), np.nan, np.float32)
    run(program, a, b, bias, r, out)
    np.testing.assert_array_equal(out, np.maximum(a @ b + bias, 0) + r)


def test_a_packed_operand_is_fetched_ahead_of_its_use() -> None:
    program = dataclasses.replace(
        layer(T.dim("m"), 64, 384), attrs={"contract": True, "constants": ("B",)}
    )
    (text,) = [x for x in str(default(program, V4).body).splitlines() if "prefetch" in x]
    assert text.strip().startswith("for k"), "in the loop of sums"
    assert "llvm.prefetch" in print_llvm(IRModule.holding(default(program, V4)), V4).render()


@pytest.mark.parametrize("m", [12, 20])
@pytest.mark.parametrize(("n", "k"), [(256, 96), (100, 97)])
def test_a_matrix_that_is_used_a_few_times_is_packed_in_blocks(m: int, n: int, k: int) -> None:
    host = Target.host()
    small = dataclasses.replace(host, caches=Caches(l1=2048, l2=16384, l3=65536))
    fallbacks: list[Fallback] = []
    scheduled = default_schedule(layer(m, n, k), small, fallbacks=fallbacks).program
    assert not fallbacks
    verify(scheduled)
    assert "for k_0" in str(scheduled.body), "blocks of the depth"
    rng = np.random.default_rng(0)
    a, b, bias, r = whole(rng, m, k), whole(rng, k, n), whole(rng, n), whole(rng, m, n)
    out = np.empty_like(r)
    build(scheduled, threads=2, cache=False)(a, b, bias, r, out)
    np.testing.assert_array_equal(out, np.maximum(a @ b + bias, 0) + r)


def test_packing_in_blocks_pays_for_large_matrices_that_are_used_a_few_times() -> None:
    target = dataclasses.replace(V4, caches=Caches(l1=49152, l2=1 << 21, l3=1 << 25), cores=1)

    def blocks(m: int, n: int | None, k: int) -> bool:
        sizes = Sizes(m, n, k)
        return is_far(sizes, choose_tiles(sizes, target), target)

    assert blocks(33, 1000, 3072)
    assert blocks(128, 384, 768)
    assert not blocks(33, 384, 768), "it stays near, and is read three times"
    assert not blocks(1024, 1024, 1024), "all of it is packed once"
    assert not blocks(33, None, 3072)
    sizes = Sizes(128, 1000, 3072)
    tiles = choose_tiles(sizes, target).in_blocks(sizes, target, 1)
    assert 3072 % tiles.depth == 0
    assert tiles.depth * tiles.columns * 4 < target.caches.l1
    assert tiles.depth * tiles.columns * tiles.strip * 4 <= target.caches.l2 // 4


def test_what_makes_an_operand_is_done_while_it_is_packed() -> None:
    a, b = te.placeholder((40, 70), name="A"), te.placeholder((70, 50), name="B")
    k = te.reduce_axis(70, "k")
    p = te.compute((40, 70), lambda i, j: T.max(a[i, j], T.float32(0)), "P")
    q = te.compute((70, 50), lambda i, j: b[i, j] * T.float32(2), "Q")
    c = te.compute((40, 50), lambda i, j: te.sum(p[i, k] * q[k, j], axis=k), "C")
    program = te.program([a, b], c, "f", attrs={"contract": True})
    assert not any(f"{name} = T.alloc" in str(default(program).body) for name in "PQ")
    rng = np.random.default_rng(3)
    x, y, out = whole(rng, 40, 70), whole(rng, 70, 50), np.zeros((40, 50), np.float32)
    run(program, x, y, out)
    np.testing.assert_array_equal(out, np.maximum(x, 0) @ (2 * y))


def test_two_products_in_a_row() -> None:
    a, b, w = (
        te.placeholder(s, name=n) for s, n in (((30, 40), "A"), ((40, 50), "B"), ((50, 20), "W"))
    )
    k, x = te.reduce_axis(40, "k"), te.reduce_axis(50, "x")
    c = te.compute((30, 50), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    d = te.compute((30, 50), lambda i, j: T.max(c[i, j], T.float32(0)), "D")
    e = te.compute((30, 20), lambda i, j: te.sum(d[i, x] * w[x, j], axis=x), "E")
    program = te.program([a, b, w], e, "mlp", attrs={"contract": True})
    rng = np.random.default_rng(3)
    x, y, z = whole(rng, 30, 40), whole(rng, 40, 50), whole(rng, 50, 20)
    out = np.zeros((30, 20), np.float32)
    run(program, x, y, z, out)
    np.testing.assert_array_equal(out, np.maximum(x @ y, 0) @ z)


# --- Several axes ----------------------------------------------------------------------------


def convolution(n: object, stride: int) -> TensorProgram:
    """3 by 3, with a bias for each channel."""
    x = te.placeholder((n, 6, 11, 13), name="X")
    w, bias = te.placeholder((16, 6, 3, 3), name="W"), te.placeholder((16,), name="bias")
    c, p, q = te.reduce_axis(6, "c"), te.reduce_axis(3, "p"), te.reduce_axis(3, "q")
    shape = (n, 16, (11 - 3) // stride + 1, (13 - 3) // stride + 1)
    y = te.compute(
        shape,
        lambda i, f, a, b: te.sum(
            x[i, c, a * stride + p, b * stride + q] * w[f, c, p, q], axis=(c, p, q)
        ),
        "Y",
    )
    z = te.compute(shape, lambda i, f, a, b: y[i, f, a, b] + bias[f], "Z")
    return te.program([x, w, bias], z, "convolution", attrs={"contract": True})


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("symbolic", [False, True])
def test_a_convolution_is_a_product(stride: int, *, symbolic: bool) -> None:
    program = convolution(T.dim("n") if symbolic else 2, stride)
    used = [i.primitive for i in default_schedule(program).trace.instructions]
    assert "transform_block_layout" in used
    rng = np.random.default_rng(stride)
    x, w, bias = whole(rng, 2, 6, 11, 13), whole(rng, 16, 6, 3, 3), whole(rng, 16)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::stride, ::stride]
    expected = np.einsum("nchwpq,fcpq->nfhw", windows, w) + bias[:, None, None]
    out = np.zeros(expected.shape, np.float32)
    run(program, x, w, bias, out)
    np.testing.assert_array_equal(out, expected)


def test_rows_of_images_need_not_fill_vectors() -> None:
    """A result whose rows and tiles end at different places is stored in vectors all the same."""
    x, w = te.placeholder((3, 27, 27), name="X"), te.placeholder((40, 3, 3, 3), name="W")
    c, p, q = te.reduce_axis(3, "c"), te.reduce_axis(3, "p"), te.reduce_axis(3, "q")
    y = te.compute(
        (40, 25, 25),
        lambda f, a, b: te.sum(x[c, a + p, b + q] * w[f, c, p, q], axis=(c, p, q)),
        "Y",
    )
    z = te.compute(y.shape, lambda f, a, b: T.max(y[f, a, b], T.float32(0)), "Z")
    program = te.program([x, w], z, "images", attrs={"contract": True})
    rng = np.random.default_rng(1)
    image, weight = whole(rng, 3, 27, 27), whole(rng, 40, 3, 3, 3)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (1, 2))
    out = np.zeros((40, 25, 25), np.float32)
    run(program, image, weight, out)
    np.testing.assert_array_equal(out, np.einsum("chwpq,fcpq->fhw", windows, weight).clip(0))


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize(("groups", "each"), [(2, 16), (3, 17), (4, 34)])
def test_groups_are_batches_of_products(groups: int, each: int, kernel: int) -> None:
    """What follows sees one axis of channels, and is done on the tiles of each group."""
    rng = np.random.default_rng(each)
    image = whole(rng, 1, groups * 5, 14, 14)
    weight = whole(rng, groups * each, 5, kernel, kernel)
    x, w = (te.placeholder(a.shape, name=n) for a, n in ((image, "X"), (weight, "W")))
    y = conv(x, w, groups=groups)
    z = te.compute(y.shape, lambda n, f, *at: T.max(y[(n, f, *at)], T.float32(0)), "Z")
    program = te.program([x, w], z, "grouped", attrs={"contract": True})
    parts = np.lib.stride_tricks.sliding_window_view(image[0], (kernel, kernel), (1, 2))
    parts = parts.reshape(groups, 5, *parts.shape[1:])
    apart = weight.reshape(groups, each, 5, kernel, kernel)
    expected = np.einsum("gchwpq,gfcpq->gfhw", parts, apart).clip(0)
    out = np.zeros((1, groups * each, *expected.shape[2:]), np.float32)
    run(program, image, weight, out)
    np.testing.assert_array_equal(out[0], expected.reshape(out.shape[1:]))


@pytest.mark.parametrize("least", [0, 1])
def test_a_linear_layer_on_batches_of_any_size(least: int) -> None:
    b, s = T.dim("b", min=least), T.dim("s", min=least)
    x, w = te.placeholder((b, s, 48), name="X"), te.placeholder((48, 80), name="W")
    k = te.reduce_axis(48, "k")
    y = te.compute((b, s, 80), lambda i, j, c: te.sum(x[i, j, k] * w[k, c], axis=k), "Y")
    program = te.program([x, w], y, "linear", attrs={"contract": True})
    rng = np.random.default_rng(least)
    for shape in ((3, 7), (1, 1), (2, 8)):
        a, c = whole(rng, *shape, 48), whole(rng, 48, 80)
        out = np.zeros((*shape, 80), np.float32)
        run(program, a, c, out)
        np.testing.assert_array_equal(out, a @ c)


# --- Bytes -----------------------------------------------------------------------------------


def bytes_product(m: object, n: int, k: int, *, turned: bool, kinds: str = "u8s8") -> TensorProgram:
    """The 32-bit product of matrices of bytes."""
    names = {"u8s8": ("uint8", "int8"), "s8s8": ("int8", "int8")}[kinds]
    a = te.placeholder((m, k), names[0], name="A")
    b = te.placeholder((n, k) if turned else (k, n), names[1], name="B")
    x = te.reduce_axis(k, "k")
    at = (lambda j: b[j, x]) if turned else (lambda j: b[x, j])
    c = te.compute((m, n), lambda i, j: te.sum(T.int32(a[i, x]) * T.int32(at(j)), axis=x), "C")
    return te.program([a, b], c, "bytes")


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kinds", ["u8s8", "s8s8"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(64, 64, 64), (33, 100, 50), (9, 17, 3), (16, 31, 128), (200, 40, 12)]
)
def test_products_of_bytes_are_exact(m: int, n: int, k: int, kinds: str, *, turned: bool) -> None:
    program = bytes_product(m, n, k, turned=turned, kinds=kinds)
    rng = np.random.default_rng(m)
    low, high, dtype = (0, 256, np.uint8) if kinds == "u8s8" else (-128, 128, np.int8)
    a = rng.integers(low, high, (m, k), dtype=dtype)
    b = rng.integers(-128, 128, (n, k) if turned else (k, n), dtype=np.int8)
    out = np.zeros((m, n), np.int32)
    run(program, a, b, out)
    right = (b.T if turned else b).astype(np.int32)
    np.testing.assert_array_equal(out, a.astype(np.int32) @ right)


@pytest.mark.parametrize(
    ("target", "kinds", "instruction"),
    [
        (VNNI, "u8s8", "vpdpbusd.512"),
        (ARM, "s8s8", "sdot"),
        (V3, "u8s8", "avx2.pmadd.wd"),
        (V3, "s8s8", "avx2.pmadd.wd"),
        (V4, "s8s8", "avx512.pmaddw.d.512"),
        (ARM, "u8s8", None),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_the_instruction_that_a_machine_has_is_used(
    target: Target, kinds: str, instruction: str | None, *, turned: bool
) -> None:
    scheduled = default(bytes_product(40, 64, 32, turned=turned, kinds=kinds), target)
    text = print_llvm(IRModule.holding(scheduled), target).render()
    assert (instruction or "none of them") in text or instruction is None
    a = np.arange(40 * 32).reshape(40, 32).astype(np.uint8 if kinds == "u8s8" else np.int8)
    b = np.arange(64 * 32).reshape((64, 32) if turned else (32, 64)).astype(np.int8)
    out = np.zeros((40, 64), np.int32)
    interpret(scheduled, a, b, out)
    right = (b.T if turned else b).astype(np.int32)
    np.testing.assert_array_equal(out, a.astype(np.int32) @ right)


def test_rows_of_bytes_are_interleaved_in_registers() -> None:
    scheduled = default(bytes_product(128, 64, 64, turned=False), VNNI)
    text = print_llvm(IRModule.holding(scheduled), VNNI).render()
    assert "masked.gather" not in text
