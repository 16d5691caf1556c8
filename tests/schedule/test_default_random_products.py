"""Products of any shape, layout and type, in panels and strips of any number, natively."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.codegen import build
from tensorsmith.ir import TensorProgram
from tensorsmith.schedule import Fallback, default_schedule
from tensorsmith.target import Caches, Target
from tensorsmith.verify import verify

SIZES = (1, 2, 3, 7, 8, 9, 15, 16, 31, 33, 48, 64, 65, 100, 127, 160, 200)
KINDS = {
    "floats": ("float32", "float32", "float32"),
    "doubles": ("float64", "float64", "float64"),
    "bytes": ("uint8", "int8", "int32"),
}
CACHES = (Caches(), Caches(1024, 8192, 65536), Caches(4096, 32768, 1 << 18))


@dataclasses.dataclass(frozen=True)
class Draw:
    """A product: extents, which of them are symbolic, batches (0: none), which operands lie the
    other way, types, and whether a bias and a transposition follow."""

    m: int
    n: int
    k: int
    symbolic: str
    batch: int
    turned: tuple[bool, bool]
    kind: str
    follows: int


DRAWS = st.builds(
    Draw,
    *[st.sampled_from(SIZES)] * 3,
    st.sampled_from(("", "", "m", "n", "k", "mn", "mnk")),
    st.sampled_from((0, 0, 1, 3)),
    st.tuples(st.booleans(), st.booleans()),
    st.sampled_from((*KINDS, "floats")),
    st.integers(0, 2),
)


def program(d: Draw) -> TensorProgram:
    """The product as tensor expressions."""
    sizes = {"m": d.m, "n": d.n, "k": d.k}
    m, n, k = (T.dim(c, min=1) if c in d.symbolic else sizes[c] for c in "mnk")
    batch = (d.batch,) if d.batch else ()
    left, right, sums = KINDS[d.kind]
    a = te.placeholder((*batch, *((k, m) if d.turned[0] else (m, k))), left, "A")
    b = te.placeholder((*batch, *((n, k) if d.turned[1] else (k, n))), right, "B")
    bias, x = te.placeholder((n,), sums, "bias"), te.reduce_axis(k, "x")
    convert = T.int32 if d.kind == "bytes" else (lambda value: value)

    def product(*at):
        *p, i, j = at
        one = a[(*p, x, i) if d.turned[0] else (*p, i, x)]
        other = b[(*p, j, x) if d.turned[1] else (*p, x, j)]
        return te.sum(convert(one) * convert(other), axis=x)

    made = [te.compute((*batch, m, n), product, "C")]
    if d.follows:
        made.append(te.compute((*batch, m, n), lambda *i: made[0][i] + bias[i[-1]], "D"))
    if d.follows > 1:
        swap = te.compute((*batch, n, m), lambda *i: made[1][(*i[:-2], i[-1], i[-2])], "E")
        made.append(swap)
    inputs = [a, b, bias] if d.follows else [a, b]
    return te.program(inputs, made[-1], "product", attrs={"contract": True})


def check(d: Draw, caches: Caches, cores: int) -> None:
    """What the scheduled program gives is exact: all numbers are small and whole."""
    target = dataclasses.replace(Target.named("host"), cores=cores, caches=caches)
    fallbacks: list[Fallback] = []
    scheduled = default_schedule(program(d), target, fallbacks=fallbacks).program
    assert not fallbacks
    verify(scheduled)
    rng = np.random.default_rng(d.m + d.n + d.k)
    batch = (d.batch,) if d.batch else ()
    left, right, sums = (np.dtype(t) for t in KINDS[d.kind])
    low, high = (0, 256) if d.kind == "bytes" else (-4, 5)
    a = rng.integers(low, high, (*batch, d.m, d.k)).astype(left)
    b = rng.integers(-4, 5, (*batch, d.k, d.n)).astype(right)
    bias = rng.integers(-4, 5, d.n).astype(sums)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    if d.follows:
        expected = expected + bias
    if d.follows > 1:
        expected = np.swapaxes(expected, -1, -2)
    passed = [
        np.ascontiguousarray(np.swapaxes(x, -1, -2)) if turned else x
        for x, turned in zip((a, b), d.turned, strict=True)
    ]
    out = np.full(expected.shape, 77, sums)
    exe = build(scheduled, target, threads=cores, cache=False)
    exe(*passed, *([bias] if d.follows else []), out)
    np.testing.assert_array_equal(out, expected)


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(DRAWS, st.sampled_from(CACHES), st.sampled_from((1, 2)))
def test_random_products(d: Draw, caches: Caches, cores: int) -> None:
    check(d, caches, cores)


@pytest.mark.slow
@settings(deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
@given(DRAWS, st.sampled_from(CACHES), st.sampled_from((1, 2)))
def test_many_random_products(d: Draw, caches: Caches, cores: int) -> None:
    check(d, caches, cores)
