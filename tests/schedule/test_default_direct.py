"""Default schedules of convolutions over blocks of channels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.arith import simplify
from tensorsmith.codegen import build
from tensorsmith.ir import Block, Expr, LoopKind, Select, TensorProgram, as_expr, substitute
from tensorsmith.schedule import Fallback, default_schedule
from tensorsmith.schedule.defaults import direct
from tensorsmith.schedule.tree import blocks_in, sites
from tensorsmith.target import Target
from tensorsmith.verify import verify

HOST = Target.host()
V3 = Target.named("x86-64-v3")


@dataclass(frozen=True)
class Layer:
    """A convolution of a (batch,) (groups,) channels x height x width image, over blocks."""

    channels: int
    made: int
    height: int
    width: int
    kernel: int = 3
    stride: int = 1
    pad: int = 1
    dilation: int = 1
    block: int = 16
    batch: int = 0
    groups: int = 1
    is_plain: bool = False
    """Whether the image has its channels outermost."""
    before: bool = False
    """Whether the image is computed from what is given, element by element."""
    residual: bool = False
    symbolic: bool = False

    @property
    def taps(self) -> tuple[int, int]:
        return (self.kernel, self.kernel)


def _image(layer: Layer, height: object, width: object) -> tuple[te.Tensor, te.Tensor]:
    """The image as it is given, and with padding: (batch?, groups?, blocks?, h, w, channels), or
    (batch?, groups?, channels, h, w)."""
    each = layer.channels // layer.groups
    lead = [n for n in (layer.batch, layer.groups) if n > 1 or (n and n is layer.batch)]
    blocks = [] if each == layer.block else [each // layer.block]
    inner = [each, height, width] if layer.is_plain else [*blocks, height, width, layer.block]
    given = te.placeholder((*lead, *inner), name="X")
    at, p = len(given.shape) - (2 if layer.is_plain else 3), layer.pad
    x = given
    if layer.before:
        x = te.compute(x.shape, lambda *i: T.max(given[i] + 1.0, T.float32(0)), "before")
    if not p:
        return given, x
    source = x

    def element(*i: Expr) -> Expr:
        h, w = i[at] - p, i[at + 1] - p
        inside = (h >= 0) & (h < height) & (w >= 0) & (w < width)
        return Select(inside, source[(*i[:at], h, w, *i[at + 2 :])], T.float32(0))

    shape = (*x.shape[:at], height + 2 * p, width + 2 * p, *x.shape[at + 2 :])
    return given, te.compute(shape, element, "padded")


def program_of(layer: Layer) -> TensorProgram:
    """The layer with a bias, maybe a residual, and max(., 0)."""
    height, width = layer.height, layer.width
    if layer.symbolic:
        height, width = T.dim("h", min=1), T.dim("w", min=1)
    given, x = _image(layer, height, width)
    each, b, k = layer.channels // layer.groups, layer.block, layer.kernel
    taps = () if k == 1 else (te.reduce_axis(k, "p"), te.reduce_axis(k, "q"))
    w = te.placeholder((layer.made, each, *((k,) * len(taps))), name="W")
    bias = te.placeholder((layer.made,), name="bias")
    reach = layer.dilation * (k - 1)
    sizes = [(e + 2 * layer.pad - reach - 1) // layer.stride + 1 for e in (height, width)]
    batch, groups = [layer.batch][: layer.batch], [layer.groups][: layer.groups - 1]
    blocks = layer.made // layer.groups // b
    shape = (*batch, *groups, *([blocks] if blocks > 1 else []), *sizes, b)
    outer = te.reduce_axis(each if layer.is_plain else each // b, "c")
    inner = te.reduce_axis(b, "e")
    lead = len(batch) + len(groups)

    def channel(i: tuple[Expr, ...]) -> Expr:
        group = i[len(batch)] if groups else 0
        return (group * blocks + (i[lead] if blocks > 1 else 0)) * b + i[-1]

    def term(*i: Expr) -> Expr:
        at = [
            y * layer.stride + (t * layer.dilation)
            for y, t in zip(i[-3:-1], taps or (0, 0), strict=True)
        ]
        if layer.is_plain:
            pixel, c, sums = x[(*i[:lead], outer, *at)], outer, (outer, *taps)
        elif each == b:
            pixel, c, sums = x[(*i[:lead], *at, inner)], inner, (*taps, inner)
        else:
            pixel, c = x[(*i[:lead], outer, *at, inner)], outer * b + inner
            sums = (outer, *taps, inner)
        return te.sum(pixel * w[(channel(i), c, *taps)], axis=sums)

    y = te.compute(shape, term, "conv")
    inputs = [given, w, bias]
    if layer.residual:
        inputs.append(te.placeholder(shape, name="R"))

    def after(*i: Expr) -> Expr:
        total = y[i] + bias[channel(i)]
        return T.max(total + inputs[3][i] if layer.residual else total, T.float32(0))

    z = te.compute(shape, after, "after")
    return te.program(inputs, z, "layer", attrs={"contract": True, "constants": ("W",)})


def expected(layer: Layer, x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """(batch, groups, blocks, h, w, channels)"""
    n, g, b, d, p = max(layer.batch, 1), layer.groups, layer.block, layer.dilation, layer.pad
    image = np.maximum(x + 1, 0) if layer.before else x
    size = (n, g, -1, layer.height, layer.width)
    if layer.is_plain:
        image = image.reshape(size)
    else:
        image = np.moveaxis(image.reshape(*size, b), -1, 3).reshape(size)
    image = np.pad(image, ((0, 0),) * 3 + ((p, p),) * 2)
    reach = d * (layer.kernel - 1) + 1
    windows = np.lib.stride_tricks.sliding_window_view(image, (reach, reach), (3, 4))
    windows = windows[:, :, :, :: layer.stride, :: layer.stride, ::d, ::d]
    weight = w.reshape(g, -1, b, image.shape[2], *layer.taps)
    total = np.einsum("ngchwpq,gobcpq->ngohwb", windows, weight)
    return total + bias.reshape(g, -1, 1, 1, b)


def check(layer: Layer, target: Target = HOST, threads: int = 2) -> TensorProgram:
    """Schedule without a fallback, run, and compare exactly. Gives the schedule."""
    fallbacks: list[Fallback] = []
    program = program_of(layer)
    schedule = default_schedule(program, target, fallbacks=fallbacks)
    assert not fallbacks
    verify(schedule.program)
    rng = np.random.default_rng(layer.height)
    *shapes, shape = (shape_of(program, n, layer) for n in range(len(program.params)))
    arrays = [rng.integers(-4, 5, size).astype(np.float32) for size in shapes]
    total = expected(layer, *arrays[:3])
    out = np.full(shape, np.nan, np.float32)
    build(schedule.program, target, threads=threads, cache=False)(*arrays, out)
    rest = arrays[3] if layer.residual else 0
    np.testing.assert_array_equal(out, np.maximum(total.reshape(shape) + rest, 0))
    return schedule.program


def shape_of(program: TensorProgram, at: int, layer: Layer) -> list[int]:
    extents = {"h": layer.height, "w": layer.width}
    values = {d: as_expr(extents[d.name]) for d in program.dims}
    return [int(simplify(substitute(e, values)).value) for e in program.params[at].shape]


def can_run(target: Target) -> bool:
    return target.features <= HOST.features and target.arch == HOST.arch


LAYERS = (
    Layer(16, 16, 7, 7),
    Layer(32, 64, 14, 14),
    Layer(48, 80, 11, 13),
    Layer(32, 32, 9, 23, stride=2),
    Layer(32, 32, 12, 10, dilation=2, pad=2),
    Layer(64, 32, 6, 17, kernel=1, pad=0),
    Layer(64, 32, 9, 9, kernel=1, pad=0, stride=2),
    Layer(16, 48, 8, 19, kernel=5, pad=0),
    Layer(3, 32, 23, 30, kernel=7, pad=3, stride=2, is_plain=True),
    Layer(4, 16, 8, 9, kernel=3, pad=1, is_plain=True, batch=2),
    Layer(24, 40, 10, 12, block=8),
    Layer(64, 64, 5, 6, block=32),
    Layer(64, 96, 5, 7, groups=2),
    Layer(32, 32, 6, 7, groups=2, batch=3, stride=2),
    Layer(32, 32, 1, 1),
)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda x: f"{x.channels}-{x.made}-{x.height}")
def test_layers_of_every_kind(layer: Layer) -> None:
    text = str(check(layer).body)
    assert "W_reindex[" in text, "the weights are packed"
    assert "X_reindex" not in text, "the image is not"


@pytest.mark.parametrize("number", [0, 3, 5, 6, 8, 12, 14])
def test_layers_of_any_height_and_width(number: int) -> None:
    check(replace(LAYERS[number], symbolic=True))


@pytest.mark.parametrize("number", [2, 3, 5, 6, 8, 9, 13])
@pytest.mark.parametrize("cache", [1 << 14, 1 << 21])
def test_parts_of_an_image_on_threads(
    number: int, cache: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "PARALLEL_FLOPS", 1.0)
    monkeypatch.setattr(direct, "PARALLEL_COPY", 1)
    target = replace(HOST, caches=replace(HOST.caches, l2=cache), cores=2)
    scheduled = check(replace(LAYERS[number], symbolic=number % 2 == 0), target)
    assert "T.parallel" in str(scheduled.body)


@pytest.mark.skipif(not can_run(V3), reason="this machine has not its instructions")
@pytest.mark.parametrize("layer", LAYERS[::3], ids=lambda x: f"{x.channels}-{x.made}-{x.height}")
def test_vectors_of_eight(layer: Layer) -> None:
    check(layer, V3)


@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("kernel", [1, 3])
def test_what_computes_the_image_is_done_once_an_element(kernel: int, pad: int) -> None:
    layer = Layer(32, 64, 10, 14, kernel=kernel, pad=pad, before=True, residual=True)
    program = check(layer)
    (copy,) = [b for b in blocks_in(program.body) if "X[" in str(b)]
    assert "W_reindex" not in str(copy), "it is not a part of the sum"
    assert "R[" in str(blocks_in(program.body)[-1]), "what follows is done on tiles"


def test_large_images_are_taken_part_by_part() -> None:
    layer = Layer(64, 32, 60, 100)
    target = replace(HOST, caches=replace(HOST.caches, l2=1 << 18), cores=2)
    scheduled = check(layer, target)
    (copy,) = [b for b in sites(scheduled) if isinstance(b.node, Block) and "X[" in str(b.node)]
    assert len(copy.loops) > 4, "in a loop over rows"
    assert any(x.kind is LoopKind.PARALLEL for x in copy.loops)


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (5, 2), (33, 17)])
def test_symbolic_images_of_any_size(shape: tuple[int, int]) -> None:
    height, width = shape
    check(Layer(32, 32, height, width, stride=2, symbolic=True, residual=True))
