"""Strategies for graph functions of convolutions and what stands between them.

All arithmetic is exact: floats are small whole numbers. So a pass that adds in another order has to
keep every bit, but for a mean, which is rounded once.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tensorsmith.ir import Buffer, GraphFunction, Var, as_expr
from tensorsmith.ir.graph import Branch, Loop
from tensorsmith.ops import OPERATORS, GraphBuilder

CHANNELS = (3, 8, 14, 16, 24)


class Network:
    """A network on its way: `values` are the images that the next layer may read."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        self.builder = GraphBuilder(OPERATORS)
        batch, height = draw(st.sampled_from([1, 2, Var("n", low=1)])), Var("h", low=1)
        self.image = (batch, as_expr(draw(st.sampled_from([4, height]))), as_expr(5))
        self.depth = 0
        channels = draw(st.sampled_from(CHANNELS))
        shape = (self.image[0], channels, *self.image[1:])
        self.values = [self.builder.param("x", shape, "float32")]

    def weight(self, *shape: int) -> Buffer:
        return self.builder.constant(self.rng.integers(-2, 3, shape).astype(np.float32))

    def pick(self, like: Buffer | None = None) -> Buffer:
        """An image, of the shape of another."""
        fit = [v for v in self.values if like is None or v.shape == like.shape]
        return self.draw(st.sampled_from(fit))

    def add(self, value: Buffer) -> None:
        self.values.append(value)


def channels(x: Buffer) -> int:
    return int(x.shape[1].value)


def conv(g: Network) -> None:
    """A convolution that keeps the image, or halves it; dense, in groups, or each channel alone."""
    x = g.pick()
    count, size = channels(x), g.draw(st.sampled_from([1, 3]))
    kind = g.draw(st.sampled_from(["dense", "dense", "groups", "alone"]))
    groups = {"dense": 1, "groups": 2 if count % 2 == 0 else 1, "alone": count}[kind]
    made = count if kind == "alone" else g.draw(st.sampled_from(CHANNELS[1:]))
    weight = g.weight(made, count // groups, size, size)
    bias = [g.weight(made)] if g.draw(st.booleans()) else []
    stride, pad = g.draw(st.sampled_from([1, 1, 2])), size // 2
    g.add(
        g.builder(
            "conv",
            *(x, weight, *bias),
            strides=(stride, stride),
            pads=(pad,) * 4,
            groups=groups,
        )
    )


def upward(g: Network) -> None:
    """A transposed convolution, whose windows overlap or lie next to each other."""
    x = g.pick()
    if len(g.values) < 6:
        weight = g.weight(channels(x), g.draw(st.sampled_from(CHANNELS)), 2, 2)
        stride = g.draw(st.sampled_from([1, 2, 2]))
        g.add(g.builder("conv_transpose", x, weight, strides=(stride, stride)))


def pool(g: Network) -> None:
    x = g.pick()
    op = g.draw(st.sampled_from(["max_pool", "average_pool"]))
    attrs = {"count_pads": True} if op == "average_pool" else {}
    g.add(g.builder(op, x, kernel=(2, 2), strides=(1, 1), pads=(0, 0, 1, 1), **attrs))


def unary(g: Network) -> None:
    g.add(g.builder(g.draw(st.sampled_from(["relu", "neg", "abs"])), g.pick()))


def residual(g: Network) -> None:
    x = g.pick()
    g.add(g.builder(g.draw(st.sampled_from(["add", "sub", "max"])), x, g.pick(x)))


def scaled(g: Network) -> None:
    """By channels, by pixels of a row, by one number, or by all elements."""
    x = g.pick()
    count = channels(x)
    shape = g.draw(st.sampled_from([(), (count, 1, 1), (1, count, 1, 1), (5,), (1, 1, 1)]))
    if shape == (5,) and x.shape[3] is not as_expr(5):
        shape = ()
    operands = [x, g.weight(*shape)]
    g.add(g.builder("add", *(operands if g.draw(st.booleans()) else operands[::-1])))


def excited(g: Network) -> None:
    """A factor for each channel, computed of the whole image."""
    x = g.pick()
    point = g.builder("reduce_max", x, axes=(2, 3), keep_dims=True)
    inner = g.builder("conv", point, g.weight(channels(x), channels(x), 1, 1))
    g.add(g.builder("add", x, g.builder("relu", inner)))


def joined(g: Network) -> None:
    x = g.pick()
    others = [v for v in g.values if v.shape[2:] == x.shape[2:]]
    if channels(x) < 64:
        g.add(g.builder("concat", x, g.draw(st.sampled_from(others)), axis=1))


def cut(g: Network) -> None:
    x = g.pick()
    start = g.draw(st.sampled_from([0, 3, 8]))
    if channels(x) - start >= 8:
        extent = g.draw(st.sampled_from([8, channels(x) - start]))
        g.add(g.builder("slice", x, starts=(start,), extents=(extent,), axes=(1,)))


def resized(g: Network) -> None:
    x = g.pick()
    facts = g.builder.facts
    shape = (*x.shape[:2], *(facts.simplify(e * 2) for e in x.shape[2:]))
    if len(g.values) < 6:
        g.add(
            g.builder(
                "resize",
                x,
                shape=shape,
                factors=(1.0, 1.0, 2.0, 2.0),
                transform="asymmetric",
                nearest="floor",
            )
        )


def padded(g: Network) -> None:
    before, after = (0, 0, 1, 0), (0, 0, 0, 2)
    mode = g.draw(st.sampled_from(["constant", "edge"]))
    g.add(g.builder("pad", g.pick(), before=before, after=after, mode=mode))


def shuffled(g: Network) -> None:
    """Something that does not follow: rows in reverse."""
    g.add(g.builder("flip", g.pick(), axes=(1,)))


def matched(g: Network) -> None:
    x = g.pick()
    g.add(g.builder.match(x, x.shape))


def branch(g: Network) -> None:
    if g.depth:
        return
    x = g.pick()
    condition = g.builder(
        "less",
        g.builder("reduce_max", x, axes=(0, 1, 2, 3), keep_dims=False),
        g.builder.scalar(5.0, "float32"),
    )

    def side() -> list[Buffer]:
        kept, g.depth = list(g.values), 1
        grow(g, 2)
        like = [v for v in g.values if v.shape == x.shape]
        made = g.draw(st.sampled_from(like))
        g.values, g.depth = kept, 0
        return [made]

    then, orelse = (g.builder.body(side) for _ in range(2))
    result = Buffer("either", x.shape, x.dtype)
    g.builder.emit(Branch((result,), condition, then, orelse))
    g.add(result)


def loop(g: Network) -> None:
    if g.depth:
        return
    x = g.pick()
    state, i = Buffer("state", x.shape, x.dtype), Var("i", low=0)

    def inside() -> list[Buffer]:
        kept, g.depth = list(g.values), 1
        g.values.append(state)
        grow(g, 2)
        like = [v for v in g.values if v.shape == x.shape]
        made = g.draw(st.sampled_from(like))
        g.values, g.depth = kept, 0
        return [made]

    last = Buffer("last", x.shape, x.dtype)
    body = g.builder.body(inside, [state], [i])
    g.builder.emit(Loop((last,), as_expr(2), None, (x,), body))
    g.add(last)


LAYERS = (
    *(
        conv,
        conv,
        conv,
        upward,
        pool,
        unary,
        residual,
        scaled,
        excited,
        joined,
        cut,
        resized,
        padded,
    ),
    *(shuffled, matched, branch, loop),
)


def grow(g: Network, most: int) -> None:
    """Add up to `most` layers."""
    for _ in range(g.draw(st.integers(1, most))):
        g.draw(st.sampled_from(LAYERS))(g)


@st.composite
def networks(draw: st.DrawFn, *, most_layers: int = 8) -> GraphFunction:
    """A graph function of convolutions and other layers, some of whose values are its results."""
    g = Network(draw)
    conv(g)
    grow(g, most_layers)
    results = draw(st.lists(st.sampled_from(g.values[::-1]), min_size=1, max_size=3))
    return g.builder.function("main", results)


@st.composite
def images(draw: st.DrawFn, graph: GraphFunction) -> list[np.ndarray]:
    """An array for each parameter."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = {v: draw(st.integers(1, 4)) for v in graph.dims}
    return [
        rng.integers(
            -3, 4, [sizes[e] if isinstance(e, Var) else int(e.value) for e in p.shape]
        ).astype(p.dtype.numpy)
        for p in graph.params
    ]
