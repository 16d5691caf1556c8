"""Classical models of ai.onnx.ml against ONNX Runtime."""

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from frontend.onnx.running import reference, run

F, I64, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
rng = np.random.default_rng(0)


def model(op, x, results, attrs, kind=F):
    node = helper.make_node(op, ["x"], list(results), domain="ai.onnx.ml", **attrs)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info(n, t, None) for n, t in results.items()],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def check(op, x, results, kind=F, rtol=1e-4, **attrs):
    made = model(op, x, results, attrs, kind)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    theirs = session.run(None, {"x": x})
    for a, b in zip(run(made, x), theirs, strict=True):
        assert a.shape == b.shape
        if b.dtype == object:
            np.testing.assert_array_equal(a, b)
        else:
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def test_scaler():
    check("Scaler", floats(5, 3), {"y": F}, offset=[1.0, 2.0, 3.0], scale=[0.5, 2.0, 1.0])


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm):
    check("Normalizer", np.abs(floats(5, 3)), {"y": F}, norm=norm)


def test_imputer():
    x = floats(5, 3)
    x[1, 2] = x[3, 0] = np.nan
    attrs = {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": float("nan")}
    check("Imputer", x, {"y": F}, **attrs)


def test_one_hot_encoder_of_numbers():
    check("OneHotEncoder", np.array([3, 1, 7]), {"y": F}, I64, cats_int64s=[1, 3, 5], zeros=1)


def test_one_hot_encoder_of_strings():
    x = np.array(["b", "z", "a"], object)
    check("OneHotEncoder", x, {"y": F}, S, cats_strings=["a", "b"], zeros=1)


def test_linear_regressor():
    attrs = {"coefficients": floats(6).tolist(), "intercepts": [0.5, -1.0], "targets": 2}
    check("LinearRegressor", floats(5, 3), {"y": F}, **attrs)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("named", [False, True])
def test_linear_classifier(transform, named):
    labels = {"classlabels_strings": ["a", "b", "c"]} if named else {"classlabels_ints": [4, 5, 9]}
    attrs = {"coefficients": floats(9).tolist(), "intercepts": [0.1, 0.2, -0.3]}
    results = {"label": S if named else I64, "scores": F}
    x = floats(6, 3)
    check("LinearClassifier", x, results, post_transform=transform, **attrs, **labels)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
def test_linear_classifier_of_two(transform):
    attrs = {"coefficients": floats(3).tolist(), "intercepts": [0.1], "classlabels_ints": [4, 9]}
    results = {"label": I64, "scores": F}
    check("LinearClassifier", floats(6, 3), results, post_transform=transform, **attrs)


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_svm_regressor(kernel):
    attrs = {
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.5, 2.0],
        "n_supports": 4,
        "coefficients": floats(4).tolist(),
        "support_vectors": floats(12).tolist(),
        "rho": [0.25],
    }
    check("SVMRegressor", floats(5, 3), {"y": F}, **attrs)


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("likely", [False, True])
def test_svm_classifier(classes, likely):
    per_class = [2, 3, 1, 2][:classes]
    total, pairs = sum(per_class), classes * (classes - 1) // 2
    attrs = {
        "kernel_type": "RBF",
        "kernel_params": [0.3, 0.0, 3.0],
        "vectors_per_class": per_class,
        "coefficients": floats((classes - 1) * total).tolist(),
        "support_vectors": floats(total * 3).tolist(),
        "rho": floats(pairs).tolist(),
        "classlabels_ints": [3, 5, 7, 9][:classes],
    }
    if likely:
        attrs |= {"prob_a": (-np.abs(floats(pairs))).tolist(), "prob_b": floats(pairs).tolist()}
    x = floats(20, 3)
    results = {"label": I64, "scores": F}
    if classes > 2:
        check("SVMClassifier", x, results, rtol=1e-3, **attrs)
        return
    made = model("SVMClassifier", x, results, attrs)  # of two, the runtime's labels are others
    for ours, theirs in zip(run(made, x), reference(made, x), strict=True):
        assert ours.shape == theirs.shape
        if not likely:
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


def forest(trees, depth, features):
    """Attributes of complete trees with random splits, and the (tree, node) pairs of leaves."""
    columns = {
        name: []
        for name in ("treeids", "nodeids", "modes", "featureids", "values", "true", "false")
    }
    leaves = []
    for tree in range(trees):
        count = 2 ** (depth + 1) - 1
        for at in range(count):
            is_leaf = at >= 2**depth - 1
            if is_leaf:
                leaves.append((tree, at))
            mode = "LEAF" if is_leaf else str(rng.choice(["BRANCH_LEQ", "BRANCH_GT", "BRANCH_LT"]))
            row = (
                *(tree, at, mode, int(rng.integers(features)), float(rng.standard_normal())),
                *((0, 0) if is_leaf else (2 * at + 1, 2 * at + 2)),
            )
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    names = {"true": "truenodeids", "false": "falsenodeids"}
    return {f"nodes_{names.get(n, n)}": c for n, c in columns.items()}, leaves


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_tree_regressor(aggregate):
    nodes, leaves = forest(3, 3, 4)
    attrs = {
        "target_treeids": [t for t, _ in leaves],
        "target_nodeids": [n for _, n in leaves],
        "target_ids": [0] * len(leaves),
        "target_weights": floats(len(leaves)).tolist(),
        "n_targets": 1,
        "aggregate_function": aggregate,
    }
    check("TreeEnsembleRegressor", floats(20, 4), {"y": F}, **nodes, **attrs)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX"])
@pytest.mark.parametrize("named", [False, True])
def test_tree_classifier(transform, named):
    nodes, leaves = forest(3, 3, 4)
    triples = [(t, n, c) for t, n in leaves for c in range(3)]
    attrs = {
        "class_treeids": [t for t, _, _ in triples],
        "class_nodeids": [n for _, n, _ in triples],
        "class_ids": [c for _, _, c in triples],
        "class_weights": rng.random(len(triples)).astype(np.float32).tolist(),
        "post_transform": transform,
    }
    attrs |= (
        {"classlabels_strings": ["a", "b", "c"]} if named else {"classlabels_int64s": [3, 5, 7]}
    )
    results = {"label": S if named else I64, "scores": F}
    check("TreeEnsembleClassifier", floats(20, 4), results, **nodes, **attrs)


@pytest.mark.parametrize(
    ("transform", "positive"), [("NONE", False), ("NONE", True), ("LOGISTIC", False)]
)
def test_tree_classifier_of_two(transform, positive):
    nodes, leaves = forest(2, 2, 4)
    weights = rng.random(len(leaves)) * 0.5 if positive else rng.standard_normal(len(leaves))
    attrs = {
        "class_treeids": [t for t, _ in leaves],
        "class_nodeids": [n for _, n in leaves],
        "class_ids": [0] * len(leaves),
        "class_weights": weights.astype(np.float32).tolist(),
        "post_transform": transform,
        "classlabels_int64s": [3, 5],
    }
    results = {"label": I64, "scores": F}
    check("TreeEnsembleClassifier", floats(20, 4), results, **nodes, **attrs)
