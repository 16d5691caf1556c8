"""Which convolutions are computed by minimal filtering."""

import numpy as np
import pytest

from tensorsmith.compiler import compile
from tensorsmith.graph.winograd import choose_minimal_filtering
from tensorsmith.ir import IRModule, Var
from tensorsmith.ir.graph import Apply
from tensorsmith.ops import OPERATORS, GraphBuilder

PADS = (1, 1, 1, 1)


def convolution(image, channels=(64, 64), *, taps=(3, 3), blocks=(16, 16), batch=1, **attrs):
    """A module of one convolution of blocks."""
    b = GraphBuilder(OPERATORS)
    before, after = channels
    h, w = (Var(e, low=1) if isinstance(e, str) else e for e in image)
    x = b.param("x", (batch, before // blocks[0], h, w, blocks[0]), "float32")
    weight = b.constant(np.ones((after, before // attrs.get("groups", 1), *taps), np.float32))
    made = b("blocked_conv", x, weight, block=blocks[1], **{"pads": PADS, **attrs})
    return IRModule.of(b.function("main", [b("relu", made)]))


def chosen(module):
    """The tile of the convolution after the pass; None if it is as it was."""
    after = choose_minimal_filtering(module)
    (found,) = (
        b for b in after.graph("main").body if isinstance(b, Apply) and b.op.endswith("_conv")
    )
    assert (found.op == "blocked_conv") is (after is module)
    return found.attrs.get("tile")


@pytest.mark.parametrize(
    ("image", "channels", "tile"),
    [
        ((224, 224), (64, 64), 4),
        ((56, 56), (64, 64), 4),
        ((28, 28), (128, 128), 4),
        ((28, 28), (512, 512), 4),
        ((14, 14), (512, 512), 2),
        ((2, 2), (512, 512), None),
        ((56, 56), (16, 16), None),
        (("height", 56), (64, 64), 4),
        (("height", "width"), (64, 64), 4),
        (("height", "width"), (16, 16), None),
        ((2, "width"), (512, 512), None),
    ],
)
def test_many_channels_and_tiles(image, channels, tile):
    assert chosen(convolution(image, channels)) == tile


@pytest.mark.parametrize(
    "other",
    [{"strides": (2, 2)}, {"dilations": (2, 2)}, {"groups": 2}, {"taps": (3, 1)}, {"taps": (5, 5)}],
    ids=str,
)
def test_what_is_left(other):
    assert chosen(convolution((56, 56), **other)) is None
    assert chosen(convolution((56, 56), strides=(1, 1), dilations=(1, 1), groups=1)) == 4


@pytest.mark.slow
def test_in_a_model():
    """From plain images and back, with what stands around convolutions."""
    rng = np.random.default_rng(0)
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (Var("batch", low=1), 64, 20, 24), "float32")
    y = x
    weights = [rng.standard_normal((64, 64, 3, 3), np.float32) / 24 for _ in range(3)]
    for data in weights:
        y = b("relu", b("conv", y, b.constant(data), pads=PADS))
    module = IRModule.of(b.function("main", [b("add", y, x)]))
    plain = compile(module, threads=1, winograd=False)
    made = compile(module, threads=1)
    data = rng.standard_normal((1, 64, 20, 24), np.float32)
    for model, is_filtered in ((plain, False), (made, True)):
        names = {k.name for k in model.profile(data, repeats=1).kernels}
        assert any("winograd_conv" in name for name in names) is is_filtered
    expected = plain(data)
    np.testing.assert_allclose(made(data), expected, rtol=0, atol=5e-6 * np.abs(expected).max())
