"""Default schedules of convolutions by minimal filtering."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ops.test_winograd import convolved
from tensorsmith.codegen import build
from tensorsmith.graph.legalize import legalize
from tensorsmith.ir import IRModule, TensorProgram, Var
from tensorsmith.ops import OPERATORS, GraphBuilder
from tensorsmith.schedule import Fallback, default_schedule
from tensorsmith.schedule.defaults.winograd_tiles import Shape, choose_strip
from tensorsmith.target import Target
from tensorsmith.verify import verify

HOST = Target.host()
V3 = Target.named("x86-64-v3")
PADS = (1, 1, 1, 1)


def layer(
    x: np.ndarray, weight: np.ndarray, blocks: tuple[int, int], tile: int, symbolic: str
) -> TensorProgram:
    """max(conv(x) + bias + residual, 0) as the kernel that a graph comes to.

    symbolic: 'n', 'h' and 'w' for those extents that the call tells.
    """
    b = GraphBuilder(OPERATORS)
    batch, channels, *image = x.shape
    n, h, w = (
        Var(name, low=0) if name in symbolic else size
        for name, size in zip("nhw", (batch, *image), strict=True)
    )
    given = b.param("x", (n, channels // blocks[0], h, w, blocks[0]), "float32")
    kernel = b.param("W", weight.shape, "float32")
    bias = b.param("bias", weight.shape[:1], "float32")
    made = b("winograd_conv", given, kernel, bias, block=blocks[1], pads=PADS, tile=tile)
    residual = b.param("r", made.shape, "float32")
    result = b("relu", b("add", made, residual))
    module = legalize(IRModule.of(b.function("main", [result])))
    (program,) = module.programs.values()
    return dataclasses.replace(program, attrs={**program.attrs, "constants": ("W", "bias")})


CASES = [
    # batch, channels, image, blocks, tile, symbolic
    (1, (32, 64), (24, 28), (16, 16), 4, ""),
    (1, (32, 48), (23, 21), (8, 16), 4, "hw"),
    (2, (32, 32), (13, 17), (16, 16), 2, "n"),
]
MORE = [
    (1, (32, 64), (24, 28), (16, 16), 4, "hw"),
    (1, (32, 48), (23, 21), (8, 16), 4, ""),
    (2, (48, 40), (9, 14), (16, 8), 4, ""),
    (3, (32, 32), (13, 6), (16, 16), 4, "nhw"),
    (1, (32, 32), (5, 17), (16, 16), 2, "w"),
    (1, (32, 32), (7, 7), (16, 16), 2, ""),
]
EVERY = [
    *((case, HOST, 2) for case in CASES),
    *(
        pytest.param(case, target, threads, marks=pytest.mark.slow)
        for case in (*CASES, *MORE)
        for target in (HOST, V3)
        for threads in (1, 2)
    ),
]


@pytest.mark.parametrize("symbolic", ["", "hw"])
def test_kernels_of_the_next_channels_are_fetched_ahead(symbolic: str) -> None:
    x, weight = np.ones((1, 64, 28, 28), np.float32), np.ones((128, 64, 3, 3), np.float32)
    program = layer(x, weight, (16, 16), 4, symbolic)
    trace = str(default_schedule(program, HOST).trace)
    assert trace.count("'prefetch_next'") + trace.count('"prefetch_next"') == 1


@pytest.mark.parametrize(("case", "target", "threads"), EVERY)
def test_convolutions(case: tuple, target: Target, threads: int) -> None:
    """By the rule for them, with what uses the result in its strips."""
    batch, (before, after), image, blocks, tile, symbolic = case
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, before, *image)).astype(np.float32)
    weight = rng.standard_normal((after, before, 3, 3)).astype(np.float32)
    bias = rng.standard_normal(after).astype(np.float32)
    residual = rng.standard_normal((batch, after, *image)).astype(np.float32)
    program = layer(x, weight, blocks, tile, symbolic)
    exact = convolved(x, weight, bias, PADS)
    expected = np.maximum(exact + residual, 0)
    fallbacks: list[Fallback] = []
    made = default_schedule(
        program, dataclasses.replace(target, cores=threads), fallbacks=fallbacks
    ).program
    assert not fallbacks
    verify(made)
    for name in ("winograd_conv", "conv_bias", "add"):
        assert f"{name} = T.alloc" not in made.script()
    given = [_blocked(x, blocks[0]), weight, bias, _blocked(residual, blocks[1])]
    out = np.full_like(given[-1], np.nan)
    by_name = dict(zip(("x", "W", "bias", "r"), given, strict=True))
    names = [p.name for p in program.params]
    run = build(made, threads=threads, cache=False)
    run(*(by_name.get(n, out).reshape(_squeezed(by_name.get(n, out), batch)) for n in names))
    limit = 5e-6 * np.abs(exact).max()
    np.testing.assert_allclose(out, _blocked(expected, blocks[1]), rtol=0, atol=limit)


@pytest.mark.parametrize(("tile", "threads"), [(4, 1), pytest.param(2, 2, marks=pytest.mark.slow)])
def test_one_kernel_for_images_of_any_size(tile: int, threads: int) -> None:
    """Images of nothing, of less than a tile, of whole tiles, of a prime number of pixels."""
    rng = np.random.default_rng(1)
    weight = rng.standard_normal((32, 32, 3, 3)).astype(np.float32)
    bias = rng.standard_normal(32).astype(np.float32)
    program = layer(np.zeros((1, 32, 1, 1)), weight, (16, 16), tile, "hw")
    made = default_schedule(program, dataclasses.replace(HOST, cores=threads)).program
    run = build(made, threads=threads, cache=False)
    names = [p.name for p in program.params]
    for size in ((0, 5), (5, 0), (1, 1), (2, 3), (16, 16), (13, 31), (37, 4), (4, 67)):
        x, residual = (rng.standard_normal((1, 32, *size)).astype(np.float32) for _ in range(2))
        exact = convolved(x, weight, bias, PADS) if 0 not in size else np.zeros_like(x)
        given = [_blocked(x, 16)[0], weight, bias, _blocked(residual, 16)[0]]
        out = np.full_like(given[-1], np.nan)
        by_name = dict(zip(("x", "W", "bias", "r"), given, strict=True))
        run(*(by_name.get(n, out) for n in names))
        expected = _blocked(np.maximum(exact + residual, 0), 16)[0]
        limit = 5e-6 * max(1, np.abs(exact).max(initial=0))
        np.testing.assert_allclose(out, expected, rtol=0, atol=limit)


def _blocked(x: np.ndarray, block: int) -> np.ndarray:
    apart = x.reshape(x.shape[0], x.shape[1] // block, block, *x.shape[2:])
    return np.ascontiguousarray(np.moveaxis(apart, 2, -1)).astype(np.float32)


def _squeezed(x: np.ndarray, batch: int) -> tuple[int, ...]:
    """The shape by which a kernel knows an operand: without a batch of one."""
    return x.shape[1:] if x.ndim == 5 and batch == 1 else x.shape


@pytest.mark.parametrize("target", [HOST, V3, Target.named("neoverse-n1")], ids=lambda t: t.cpu)
@pytest.mark.parametrize("size", [1, 2, 4, 7, 14, 56, 61, None])
@pytest.mark.parametrize("channels", [(16, 16), (64, 64), (96, 208), (512, 512)])
def test_strips_fit(size: int | None, channels: tuple[int, int], target: Target) -> None:
    """Sums and kernel points fit the registers; strips of a known size fill the image."""
    vectors = max(1, 16 // target.lanes(4))
    strip = choose_strip(Shape(size, size, *channels, vectors, 36), target)
    held = strip.tiles * strip.vectors + strip.vectors + 1
    assert held <= target.vector_registers
    assert channels[1] % (strip.vectors * target.lanes(4)) == 0
    if size is not None:
        assert size % strip.rows == 0
        assert size % strip.columns == 0
        whole = strip.rows * strip.columns % strip.tiles == 0 or strip.rows == size
        assert strip.is_padded or whole
