"""Scaled dot-product attention, of all heads, with and without a causal mask."""

import numpy as np

from kernels.kernel import EPSILON, Expected, Kernel, normal
from kernels.normalization import expected_softmax, softmax_of
from tensorsmith import script as T
from tensorsmith import te

b = T.dim("b", min=0)
n = T.dim("n")
m = T.dim("m")
d = T.dim("d")


def is_seen(query, key):
    """A query sees the keys up to its own position."""
    return key <= query


def attention_script(causal):
    """Softmax is written out once more in this form."""

    @T.program
    def attention(
        Q: T.Buffer((b, n, d), "float32"),
        K: T.Buffer((b, m, d), "float32"),
        V: T.Buffer((b, m, d), "float32"),
        scale: T.float32,
        Y: T.Buffer((b, n, d), "float32"),
    ):
        score = T.alloc((b, n, m), "float32")
        largest = T.alloc((b, n), "float32")
        total = T.alloc((b, n), "float32")
        for h, i, j, k in T.grid(b, n, m, d):
            with T.block("score"):
                vh, vi, vj, vk = T.remap("SSSR", h, i, j, k)
                with T.init():
                    score[vh, vi, vj] = 0.0
                score[vh, vi, vj] += Q[vh, vi, vk] * K[vh, vj, vk]
        for h, i, j in T.grid(b, n, m):
            with T.block("scaled"):
                vh, vi, vj = T.remap("SSS", h, i, j)
                if causal:
                    score[vh, vi, vj] = T.select(
                        is_seen(vi, vj), score[vh, vi, vj] * scale, T.float32("-inf")
                    )
                else:
                    score[vh, vi, vj] *= scale
        for h, i, j in T.grid(b, n, m):
            with T.block("largest"):
                vh, vi, vj = T.remap("SSR", h, i, j)
                with T.init():
                    largest[vh, vi] = T.float32("-inf")
                largest[vh, vi] = T.max(largest[vh, vi], score[vh, vi, vj])
        for h, i, j in T.grid(b, n, m):
            with T.block("total"):
                vh, vi, vj = T.remap("SSR", h, i, j)
                with T.init():
                    total[vh, vi] = 0.0
                total[vh, vi] += T.exp(score[vh, vi, vj] - largest[vh, vi])
        for h, i, k, j in T.grid(b, n, d, m):
            with T.block("Y"):
                vh, vi, vk, vj = T.remap("SSSR", h, i, k, j)
                with T.init():
                    Y[vh, vi, vk] = 0.0
                weight = T.exp(score[vh, vi, vj] - largest[vh, vi]) / total[vh, vi]
                Y[vh, vi, vk] += weight * V[vh, vj, vk]

    return attention


def attention_te(causal):
    Q = te.placeholder((b, n, d), name="Q")
    K, V = te.placeholder((b, m, d), name="K"), te.placeholder((b, m, d), name="V")
    scale = te.var("scale", "float32")
    k, j = te.reduce_axis(d, "k"), te.reduce_axis(m, "j")
    dot = te.compute((b, n, m), lambda h, i, j: te.sum(Q[h, i, k] * K[h, j, k], axis=k), "dot")

    def scaled(h, i, j):
        value = dot[h, i, j] * scale
        return T.select(is_seen(i, j), value, float("-inf")) if causal else value

    weight = softmax_of(te.compute((b, n, m), scaled, "score"))
    Y = te.compute((b, n, d), lambda h, i, k: te.sum(weight[h, i, j] * V[h, j, k], axis=j), "Y")
    return te.program([Q, K, V, scale], Y, "attention")


def reference(q, k, v, scale, causal):
    """A weight is off relatively as a softmax is, and by twice the largest error of a score; the
    sum of m products adds m * EPSILON of the magnitudes."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    keys = k.transpose(0, 2, 1)
    score = q @ keys * scale
    error = (q.shape[-1] + 1) * EPSILON * (np.abs(q) @ np.abs(keys) * scale)
    if causal:
        hidden = np.arange(k.shape[1])[None, :] > np.arange(q.shape[1])[:, None]
        score = np.where(hidden, -np.inf, score)
        error = np.where(hidden, 0, error)
    weight, _ = expected_softmax(score)
    depth = np.ptp(np.where(np.isinf(score), score.max(-1, keepdims=True), score), -1)[..., None]
    relative = (k.shape[1] + 8 + 2 * depth) * EPSILON + 2 * error.max(-1, keepdims=True)
    tolerance = (relative + k.shape[1] * EPSILON) * (weight @ np.abs(v))
    return (Expected(weight @ v, tolerance),)


def inputs(rng, s):
    return [
        normal(rng, s["b"], s["n"], s["d"]),
        normal(rng, s["b"], s["m"], s["d"]),
        normal(rng, s["b"], s["m"], s["d"]),
        float(np.float32(s["d"] ** -0.5)),
    ]


def attention_kernel(name, causal):
    return Kernel(
        name,
        attention_script(causal),
        attention_te(causal),
        {"b": (0, 1, 2), "n": (1, 5), "m": (1, 7), "d": (1, 4)},
        inputs,
        lambda q, k, v, scale: reference(q, k, v, scale, causal),
    )


KERNELS = (
    attention_kernel("attention", causal=False),
    attention_kernel("causal_attention", causal=True),
)
