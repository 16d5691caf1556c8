"""Images in blocks of channels between convolutions."""

import numpy as np
import pytest
from hypothesis import strategies as st

from graph.passes import floats, ops_of
from strategies.cases import fast_and_slow
from strategies.graphs import same_results
from strategies.images import images, networks
from tensorsmith.graph import regions
from tensorsmith.graph.layouts import LayoutReport, choose_layouts, layout_report
from tensorsmith.ir import IRModule, Var, as_expr
from tensorsmith.ops import OPERATORS, GraphBuilder
from tensorsmith.ops.interpret import interpret_graph
from tensorsmith.verify import problems


def check(module, args):
    """The module after the pass, which gives the same results."""
    after = choose_layouts(module)
    assert problems(after) == []
    assert choose_layouts(after) is after
    left, right = (interpret_graph(m, "main", args) for m in (module, after))
    assert same_results(left, right)
    return after


def layouts_keep_results(data):
    graph = data.draw(networks())
    args = data.draw(images(graph))
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):  # all that can be in blocks is
            patch.setattr(regions, "LEAST_FLOPS", 0.0)
        check(IRModule.of(graph), args)


test_layouts_keep_results, test_layouts_keep_results_slow = fast_and_slow(
    layouts_keep_results, fast=30
)


class Net:
    """A network of wide layers over images that are not known in size."""

    def __init__(self, channels=32, shape=None):
        self.b = GraphBuilder(OPERATORS)
        h, w = Var("h", low=8), Var("w", low=8)
        self.x = self.b.param("x", shape or (1, channels, h, w), "float32")

    def conv(self, x, made, size=3, **attrs):
        depth = int(x.shape[1].value) // attrs.get("groups", 1)
        weight = self.b.constant(floats(made, depth, size, size))
        return self.b("conv", x, weight, pads=(size // 2,) * 4, **attrs)

    def ops(self, *results):
        """The operators after the pass, but for constants."""
        module = choose_layouts(IRModule.of(self.b.function("main", results)))
        assert problems(module) == []
        return [op for op in ops_of(module.graph("main").body) if op != "Constant"]


IN = ["reshape", "transpose"]
OUT = ["transpose", "reshape"]


def test_images_stay_in_blocks_from_one_convolution_to_the_next():
    net = Net()
    y = net.b("relu", net.conv(net.x, 64))
    z = net.b("add", net.conv(y, 64), y)
    assert net.ops(z) == [*IN, "blocked_conv", "relu", "blocked_conv", "add", *OUT]


def test_images_are_put_back_once_for_all_that_read_them():
    net = Net()
    y = net.conv(net.x, 64)
    turned = [net.b("flip", y, axes=(k,)) for k in (1, 2)]
    assert net.ops(*turned) == [*IN, "blocked_conv", *OUT, "flip", "flip"]


def test_few_channels_are_read_as_they_are():
    net = Net(channels=3)
    assert net.ops(net.conv(net.conv(net.x, 32), 32))[:2] == ["blocked_conv", "blocked_conv"]


def test_channels_that_no_block_fits_stay_plain():
    net = Net()
    assert net.ops(net.conv(net.conv(net.x, 36), 36)) == ["conv", "conv"]


def test_the_last_block_is_padded_where_channels_stay_together():
    net = Net()
    y = net.conv(net.conv(net.x, 40), 40, groups=40)
    scaled = net.b("mul", y, net.b.constant(floats(40, 1, 1)))
    results = [net.conv(scaled, 64), net.b("flip", scaled, axes=(1,))]
    graph = net.b.function("main", results)
    module = choose_layouts(IRModule.of(graph))
    shapes = [b.outputs[0].shape for b in module.graph("main").body if b.outputs[0].rank == 5]
    assert [int(s[1].value) for s in shapes if s[-1] is as_expr(16)] == [2, 3, 3, 3, 3, 4]
    args = [floats(1, 32, 9, 8)]
    left, right = (interpret_graph(m, "main", args) for m in (IRModule.of(graph), module))
    for a, b in zip(left, right, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-3)


def test_a_last_convolution_reads_blocks_though_it_makes_none():
    net = Net()
    assert net.ops(net.conv(net.conv(net.x, 32), 18)) == [*IN, "blocked_conv", "blocked_conv"]


def test_a_small_convolution_between_plain_values_stays_plain():
    net = Net()
    assert net.ops(net.conv(net.x, 32, size=1)) == ["conv"]
    net = Net(channels=512)
    assert net.ops(net.conv(net.x, 512, size=1)) == [*IN, "blocked_conv", *OUT]


def test_joined_channels_have_blocks_that_fit_all():
    net = Net()
    parts = [net.conv(net.x, made) for made in (32, 24)]
    whole = net.b("concat", *parts, axis=1)
    module = choose_layouts(IRModule.of(net.b.function("main", [net.conv(whole, 32)])))
    blocks = [
        b.attrs["block"] for b in module.graph("main").body if "block" in getattr(b, "attrs", ())
    ]
    assert blocks == [8, 8, 16]
    assert "concat" in ops_of(module.graph("main").body)


def test_squeeze_and_excite_moves_nothing():
    net = Net()
    y = net.conv(net.x, 64)
    point = net.b("reduce_mean", y, axes=(2, 3), keep_dims=True)
    factor = net.b("sigmoid", net.conv(point, 64, size=1))
    z = net.conv(net.b("mul", y, factor), 64)
    middle = ["reduce_mean", "reshape", "conv", "sigmoid", "reshape", "mul"]
    assert net.ops(z) == [*IN, "blocked_conv", *middle, "blocked_conv", *OUT]


def test_each_channel_alone_keeps_its_block():
    net = Net()
    y = net.conv(net.conv(net.conv(net.x, 64), 64, groups=64), 64)
    assert net.ops(y) == [*IN, *["blocked_conv"] * 3, *OUT]


def test_transposed_convolutions_make_blocks_if_their_windows_lie_apart():
    net = Net()
    y = net.conv(net.x, 64)
    weight = net.b.constant(floats(64, 16, 2, 2))
    z = net.conv(net.b("conv_transpose", y, weight, strides=(2, 2)), 64)
    middle = ["blocked_conv", "conv_transpose", "blocked_conv"]
    assert net.ops(z) == [*IN, *middle, *OUT]
    net = Net()
    weight = net.b.constant(floats(64, 16, 2, 2))
    z = net.b("conv_transpose", net.conv(net.x, 64), weight, strides=(1, 1))
    assert net.ops(z)[-3:] == [*OUT, "conv_transpose"]


def test_the_report_counts_what_makes_blocks_and_what_is_moved():
    net = Net()
    y = net.conv(net.conv(net.x, 32), 64)
    results = [net.b("flip", y, axes=(1,)), net.conv(y, 18)]
    module = choose_layouts(IRModule.of(net.b.function("main", results)))
    assert layout_report(module.graph("main")) == LayoutReport(2, 1, 1)


def test_what_is_broadcast_to_blocks_is_laid_out_at_compile_time():
    net = Net()
    scale = net.b.constant(floats(64, 1, 1))
    z = net.b("mul", net.conv(net.x, 64), scale)
    module = choose_layouts(IRModule.of(net.b.function("main", [z])))
    (made,) = [b for b in module.graph("main").body if getattr(b, "op", "") == "mul"]
    assert [int(e.value) for e in made.operands[1].shape] == [1, 4, 1, 1, 16]
    args = [np.ones((1, 32, 9, 8), np.float32)]
    before = interpret_graph(IRModule.of(net.b.function("main", [z])), "main", args)
    np.testing.assert_allclose(
        interpret_graph(module, "main", args)[0], before[0], rtol=1e-4, atol=1e-4
    )
