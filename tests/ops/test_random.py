"""Random numbers: their range, their moments, their independence of everything but the seed."""

import numpy as np
import pytest

from ops.evaluation import compute
from tensorsmith.errors import DTypeError

COUNT = 4000
FOUR_SIGMA = 4 / COUNT**0.5


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_uniform(dtype):
    x = compute("random_uniform", shape=(COUNT,), dtype=dtype, low=-1.0, high=3.0, native=True)
    assert x.dtype == dtype
    assert x.min() >= -1
    assert x.max() <= 3
    wide = x.astype(np.float64)
    assert abs(wide.mean() - 1) < 4 / 12**0.5 * FOUR_SIGMA
    assert abs(wide.var() - 16 / 12) < 16 / 180**0.5 * FOUR_SIGMA
    assert len(np.unique(x)) > (COUNT // 4 if dtype == "float16" else COUNT - 5)


def test_normal():
    x = compute("random_normal", shape=(COUNT,), mean=2.0, scale=3.0, native=True)
    z = (x - 2) / 3
    assert abs(z.mean()) < FOUR_SIGMA
    assert abs(z.var() - 1) < 2**0.5 * FOUR_SIGMA
    assert abs((z**3).mean()) < 15**0.5 * FOUR_SIGMA
    assert abs(np.corrcoef(z[1:], z[:-1])[0, 1]) < FOUR_SIGMA


def test_the_seed_decides():
    a, b = (compute("random_uniform", shape=(2, 5), seed=s) for s in (1, 2))
    assert not np.intersect1d(a, b).size
    np.testing.assert_array_equal(a, compute("random_uniform", shape=(2, 5), seed=1, native=True))


def test_bernoulli():
    chance = np.full((COUNT,), 0.3, np.float32)
    chance[:3] = 0
    chance[3:6] = 1
    got = compute("bernoulli", chance, dtype="int8", native=True)
    assert got[:6].tolist() == [0, 0, 0, 1, 1, 1]
    assert abs(got.mean() - 0.3) < 0.46 * FOUR_SIGMA
    assert compute("bernoulli", chance[:5], dtype="bool").dtype == bool


def test_multinomial():
    chances = np.array([[0.1, 0.2, 0.7], [1.0, 0.0, 0.0]], np.float32)
    with np.errstate(divide="ignore"):
        logits = np.log(chances) + 3
    got = compute("multinomial", logits, samples=COUNT, native=True)
    assert got.shape == (2, COUNT)
    frequencies = np.bincount(got[0], minlength=3) / COUNT
    np.testing.assert_allclose(frequencies, chances[0], rtol=0, atol=0.5 * FOUR_SIGMA)
    assert not got[1].any()


def test_dropout():
    x = np.ones((COUNT,), np.float32)
    y, kept = compute("dropout", x, ratio=0.25, native=True)
    assert abs(kept.mean() - 0.75) < 0.44 * FOUR_SIGMA
    np.testing.assert_allclose(y, kept / 0.75, rtol=1e-6)
    assert not compute("dropout", x[:9], ratio=1.0)[0].any()


def test_integers_are_refused():
    with pytest.raises(DTypeError):
        compute("random_uniform", shape=(2,), dtype="int32")
