"""Convolutions over two dimensions, NCHW."""

import numpy as np

from kernels.kernel import EPSILON, Expected, Kernel, normal
from tensorsmith import script as T
from tensorsmith import te

n = T.dim("n", min=0)
c = T.dim("c")
o = T.dim("o")
h = T.dim("h", min=3)
w = T.dim("w", min=3)

SIDE = 3
"""Rows and columns of the window."""


def extent_out(extent, padding, stride, dilation):
    """How many windows fit along an axis."""
    return (extent + 2 * padding - dilation * (SIDE - 1) - 1) // stride + 1


def make_conv2d(padding, stride):
    """A convolution with symbolic channels, in both forms."""
    oh = extent_out(h, padding, stride, 1)
    ow = extent_out(w, padding, stride, 1)

    @T.program
    def conv2d(
        X: T.Buffer((n, c, h, w), "float32"),
        F: T.Buffer((o, c, SIDE, SIDE), "float32"),
        Y: T.Buffer((n, o, oh, ow), "float32"),
    ):
        for b, f, y, x, p, r, s in T.grid(n, o, oh, ow, c, SIDE, SIDE):
            with T.block("Y"):
                vb, vf, vy, vx, vp, vr, vs = T.remap("SSSSRRR", b, f, y, x, p, r, s)
                with T.init():
                    Y[vb, vf, vy, vx] = 0.0
                row = vy * stride + vr - padding
                col = vx * stride + vs - padding
                inside = 0 <= row < h and 0 <= col < w
                Y[vb, vf, vy, vx] += T.select(inside, X[vb, vp, row, col], 0.0) * F[vf, vp, vr, vs]

    X, F = te.placeholder((n, c, h, w), name="X"), te.placeholder((o, c, SIDE, SIDE), name="F")
    p, r, s = te.reduce_axis(c, "p"), te.reduce_axis(SIDE, "r"), te.reduce_axis(SIDE, "s")

    def element(b, f, y, x):
        row, col = y * stride + r - padding, x * stride + s - padding
        inside = (row >= 0) & (row < h) & (col >= 0) & (col < w)
        return te.sum(T.select(inside, X[b, p, row, col], 0.0) * F[f, p, r, s], axis=(p, r, s))

    Y = te.compute((n, o, oh, ow), element, "Y")
    return conv2d, te.program([X, F], Y, "conv2d")


def make_grouped_conv2d(padding, stride, dilation, groups, c_group, o_group):
    """A dilated convolution whose channels fall into groups, in both forms."""
    oh = extent_out(h, padding, stride, dilation)
    ow = extent_out(w, padding, stride, dilation)

    @T.program
    def grouped_conv2d(
        X: T.Buffer((n, groups * c_group, h, w), "float32"),
        F: T.Buffer((groups * o_group, c_group, SIDE, SIDE), "float32"),
        Y: T.Buffer((n, groups * o_group, oh, ow), "float32"),
    ):
        for b, f, y, x, p, r, s in T.grid(n, groups * o_group, oh, ow, c_group, SIDE, SIDE):
            with T.block("Y"):
                vb, vf, vy, vx, vp, vr, vs = T.remap("SSSSRRR", b, f, y, x, p, r, s)
                with T.init():
                    Y[vb, vf, vy, vx] = 0.0
                row = vy * stride + vr * dilation - padding
                col = vx * stride + vs * dilation - padding
                channel = vf // o_group * c_group + vp
                if 0 <= row < h and 0 <= col < w:
                    Y[vb, vf, vy, vx] += X[vb, channel, row, col] * F[vf, vp, vr, vs]

    X = te.placeholder((n, groups * c_group, h, w), name="X")
    F = te.placeholder((groups * o_group, c_group, SIDE, SIDE), name="F")
    p, r, s = te.reduce_axis(c_group, "p"), te.reduce_axis(SIDE, "r"), te.reduce_axis(SIDE, "s")

    def element(b, f, y, x):
        row, col = y * stride + r * dilation - padding, x * stride + s * dilation - padding
        inside = (row >= 0) & (row < h) & (col >= 0) & (col < w)
        value = X[b, f // o_group * c_group + p, row, col] * F[f, p, r, s]
        return te.sum(value, axis=(p, r, s), where=inside)

    Y = te.compute((n, groups * o_group, oh, ow), element, "Y")
    return grouped_conv2d, te.program([X, F], Y, "grouped_conv2d")


@T.program
def depthwise_conv2d(
    X: T.Buffer((n, c, h, w), "float32"),
    F: T.Buffer((c, SIDE, SIDE), "float32"),
    Y: T.Buffer((n, c, h - 2, w - 2), "float32"),
):
    for b, f, y, x, r, s in T.grid(n, c, h - 2, w - 2, SIDE, SIDE):
        with T.block("Y"):
            vb, vf, vy, vx, vr, vs = T.remap("SSSSRR", b, f, y, x, r, s)
            with T.init():
                Y[vb, vf, vy, vx] = 0.0
            Y[vb, vf, vy, vx] += X[vb, vf, vy + vr, vx + vs] * F[vf, vr, vs]


def depthwise_conv2d_te():
    X, F = te.placeholder((n, c, h, w), name="X"), te.placeholder((c, SIDE, SIDE), name="F")
    r, s = te.reduce_axis(SIDE, "r"), te.reduce_axis(SIDE, "s")
    Y = te.compute(
        (n, c, h - 2, w - 2),
        lambda b, f, y, x: te.sum(X[b, f, y + r, x + s] * F[f, r, s], axis=(r, s)),
        "Y",
    )
    return te.program([X, F], Y, "depthwise_conv2d")


def convolve(x, f, padding=0, stride=1, dilation=1, groups=1):
    """Window by window. Each output sums c * 9 products; see `matmul.product` for the bound."""
    x, f = x.astype(np.float64), f.astype(np.float64)
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    reach = dilation * (SIDE - 1) + 1
    c_group, o_group = x.shape[1] // groups, f.shape[0] // groups
    oh = (x.shape[2] - reach) // stride + 1
    ow = (x.shape[3] - reach) // stride + 1
    y = np.zeros((x.shape[0], f.shape[0], oh, ow))
    scale = np.zeros_like(y)
    for g in range(groups):
        weights = f[g * o_group : (g + 1) * o_group]
        for i in range(oh):
            for j in range(ow):
                window = x[
                    :,
                    g * c_group : (g + 1) * c_group,
                    i * stride : i * stride + reach : dilation,
                    j * stride : j * stride + reach : dilation,
                ]
                at = (slice(None), slice(g * o_group, (g + 1) * o_group), i, j)
                y[at] = np.einsum("ncrs,ocrs->no", window, weights)
                scale[at] = np.einsum("ncrs,ocrs->no", np.abs(window), np.abs(weights))
    return (Expected(y, c_group * SIDE * SIDE * EPSILON * scale),)


PLANE = {"h": (3, 5, 8), "w": (3, 4, 7)}


def conv2d_kernel(name, padding, stride):
    script, expressions = make_conv2d(padding, stride)
    return Kernel(
        name,
        script,
        expressions,
        {"n": (0, 1, 2), "c": (1, 3), "o": (1, 2), **PLANE},
        lambda rng, s: [
            normal(rng, s["n"], s["c"], s["h"], s["w"]),
            normal(rng, s["o"], s["c"], SIDE, SIDE),
        ],
        lambda x, f: convolve(x, f, padding, stride),
    )


def grouped_kernel():
    script, expressions = make_grouped_conv2d(2, 2, 2, groups=3, c_group=2, o_group=4)
    return Kernel(
        "grouped_conv2d",
        script,
        expressions,
        {"n": (0, 1, 2), **PLANE},
        lambda rng, s: [normal(rng, s["n"], 6, s["h"], s["w"]), normal(rng, 12, 2, SIDE, SIDE)],
        lambda x, f: convolve(x, f, padding=2, stride=2, dilation=2, groups=3),
    )


KERNELS = (
    conv2d_kernel("conv2d", padding=0, stride=1),
    conv2d_kernel("conv2d_padded", padding=1, stride=1),
    conv2d_kernel("conv2d_strided", padding=1, stride=2),
    grouped_kernel(),
    Kernel(
        "depthwise_conv2d",
        depthwise_conv2d,
        depthwise_conv2d_te(),
        {"n": (0, 1, 2), "c": (1, 3), **PLANE},
        lambda rng, s: [
            normal(rng, s["n"], s["c"], s["h"], s["w"]),
            normal(rng, s["c"], SIDE, SIDE),
        ],
        lambda x, f: convolve(x, f[:, None], groups=f.shape[0]),
    ),
)
