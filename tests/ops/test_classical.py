"""Trees, support vectors, scores and look-ups against ONNX and plain Python."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute, onnx_reference, random
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder

ML = "ai.onnx.ml"


def random_trees(rng, features, targets, trees, depth):
    """Tables of trees: nodes, thresholds, roots, and the targets and weights of leaves."""
    nodes, thresholds, roots, aims, weights = [], [], [], [], []

    def grow(level):
        number = len(nodes)
        nodes.append(None)
        thresholds.append(rng.standard_normal())
        if level == 0 or rng.random() < 0.2:
            count = int(rng.integers(1, 3))
            nodes[number] = (0, 0, 0, 0, 0, len(aims), count)
            aims.extend(rng.integers(0, targets, count))
            weights.extend(rng.standard_normal(count))
        else:
            feature, mode, missing = rng.integers(0, (features, 6, 2))
            nodes[number] = (feature, mode, grow(level - 1), grow(level - 1), missing, -1, 0)
        return number

    roots.extend(grow(depth) for _ in range(trees))
    return (
        np.array(nodes, np.int64),
        np.array(thresholds, np.float32),
        np.array(roots, np.int64),
        np.array(aims, np.int64),
        np.array(weights, np.float32),
    )


def walked(x, tables, targets, aggregate):
    nodes, thresholds, roots, aims, weights = tables
    compare = [np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal]
    found = [[[] for _ in range(targets)] for _ in x]
    for r, row in enumerate(x):
        for root in roots:
            node = root
            while nodes[node, 5] < 0:
                value = row[nodes[node, 0]]
                holds = compare[nodes[node, 1]](value, thresholds[node])
                holds = holds or (np.isnan(value) and nodes[node, 4])
                node = nodes[node, 2 if holds else 3]
            for e in range(nodes[node, 5], nodes[node, 5:].sum()):
                found[r][aims[e]].append(weights[e])
    combine = {
        "sum": sum,
        "average": lambda w: sum(w) / len(roots),
        "min": lambda w: min(w, default=0),
        "max": lambda w: max(w, default=0),
    }[aggregate]
    return np.array([[combine(w) for w in row] for row in found], np.float32)


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("aggregate", ["sum", "average", "min", "max"])
def test_tree_ensemble(aggregate, native):
    rng = np.random.default_rng(0)
    tables = random_trees(rng, features=4, targets=3, trees=5, depth=4)
    x = random(rng, (7, 4))
    x[2, 1] = x[5, 3] = np.nan
    got = compute("tree_ensemble", x, *tables, targets=3, aggregate=aggregate, native=native)
    np.testing.assert_allclose(got, walked(x, tables, 3, aggregate), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["none", "logistic", "softmax", "softmax_zero", "probit"])
def test_scores(kind):
    x = random(np.random.default_rng(1), (3, 4))
    x[0, 1] = x[1, :] = 0
    x = 1 / (1 + np.exp(-x)) if kind == "probit" else x
    got = compute("score_transform", x, kind=kind)
    expected = onnx_reference(
        "LinearClassifier", x, outputs=2, opset=1, domain=ML, post_transform=kind.upper(),
        coefficients=np.eye(4).reshape(-1), intercepts=np.zeros(4), classlabels_ints=[0, 1, 2, 3],
    )[1]  # fmt: skip
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("norm", ["max", "l1", "l2"])
def test_normalizer(norm):
    x = random(np.random.default_rng(2), (4, 5))
    x[1] = 0
    expected = onnx_reference("Normalizer", x, opset=1, domain=ML, norm=norm.upper())
    np.testing.assert_allclose(compute("normalizer", x, norm=norm), expected, rtol=1e-6)


def test_lookup():
    x = np.array([[3, 1], [np.nan, 7]], np.float32)
    keys = np.array([1, 3, np.nan, 3], np.float32)
    values, default = np.array([10, 30, 99, 31]), np.array([-1])
    assert compute("lookup", x, keys, values, default).tolist() == [[30, 10], [99, -1]]
    got = compute("lookup", np.array([2, 5]), np.array([5, 2]), np.float32([1, 2]), np.float32(0))
    assert got.tolist() == [2, 1]


@pytest.mark.parametrize("kind", ["linear", "poly", "rbf", "sigmoid"])
def test_svm(kind):
    rng = np.random.default_rng(3)
    x, vectors, weights = random(rng, (4, 3)), random(rng, (5, 3)), random(rng, 5)
    got = compute("svm_kernel", x, vectors, kind=kind, gamma=0.3, constant=0.5, degree=2.0)
    expected = onnx_reference(
        "SVMRegressor", x, opset=1, domain=ML, kernel_type=kind.upper(), n_supports=5, rho=[0.0],
        kernel_params=[0.3, 0.5, 2.0], support_vectors=vectors.reshape(-1), coefficients=weights,
    )  # fmt: skip
    np.testing.assert_allclose(got @ weights, expected[:, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("native", WAYS)
def test_pairwise_probabilities(native):
    rng = np.random.default_rng(4)
    pairs = rng.uniform(0.1, 0.9, (3, 4, 4)).astype(np.float32)
    for i in range(4):
        for j in range(i):
            pairs[:, i, j] = 1 - pairs[:, j, i]
    got = compute("pairwise_probabilities", pairs, native=native)
    for found, r in zip(got, pairs, strict=True):
        system = np.ones((5, 5))
        system[:4, :4] = -r * r.T
        system[range(4), range(4)] = (r**2).sum(0) - np.diag(r) ** 2
        system[4, 4] = 0
        exact = np.linalg.solve(system, [0, 0, 0, 0, 1])[:4]
        np.testing.assert_allclose(found, exact, rtol=0, atol=0.005)


def test_operands_that_do_not_fit():
    x = placeholder((2, 3))
    with pytest.raises(ShapeError):
        OPERATORS["svm_kernel"]([x, placeholder((2, 4))], {})
    with pytest.raises(ShapeError):
        OPERATORS["score_transform"]([x], {"kind": "square"})
    with pytest.raises(DTypeError):
        OPERATORS["lookup"]([x, placeholder((2,), "int64"), x, x], {})
    with pytest.raises(ShapeError):
        OPERATORS["tree_ensemble"]([x, x, x, x], {"targets": 1})
