"""Maps as inputs and results, against ONNX Runtime."""

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import tensorsmith
from frontend.onnx.running import reference, run
from tensorsmith.errors import DTypeError, EvaluationError, ShapeError
from tensorsmith.frontend.onnx import from_onnx

F, D, I64, S = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.STRING
ML = "ai.onnx.ml"
rng = np.random.default_rng(0)


def map_type(key, value):
    return helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, []))


def list_type(key):
    return helper.make_sequence_type_proto(map_type(key, F))


def tensor_type(kind, *shape):
    return helper.make_tensor_type_proto(kind, shape or None)


def model(nodes, inputs, outputs):
    values = [[helper.make_value_info(*i) for i in given.items()] for given in (inputs, outputs)]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 3)]
    graph = helper.make_graph(nodes, "g", *values)
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def of_map(op, key, value, result, **attrs):
    node = helper.make_node(op, ["x"], ["y"], domain=ML, **attrs)
    return model([node], {"x": map_type(key, value)}, {"y": tensor_type(result)})


def zipped(*shape, **labels):
    node = helper.make_node("ZipMap", ["x"], ["y"], domain=ML, **labels)
    key = S if "classlabels_strings" in labels else I64
    return model([node], {"x": tensor_type(F, *shape)}, {"y": list_type(key)})


def theirs(made, *inputs):
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [v.name for v in made.graph.input]
    return session.run(None, dict(zip(names, inputs, strict=True)))


def ours(made, *inputs):
    """By the interpreter, and compiled: both have to agree."""
    exe = tensorsmith.compile(made)
    found = list(exe.run(*inputs).values())
    for a, b in zip(found, run(made, *inputs), strict=True):
        np.testing.assert_array_equal(a, b)
    return found


def check(made, *inputs):
    for a, b in zip(ours(made, *inputs), theirs(made, *inputs), strict=True):
        assert type(a) is type(b)
        if isinstance(b, list):
            assert a == b
            assert all(type(v) is float for row in a for v in row.values())
        else:
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "labels",
    [{"classlabels_strings": ["b", "a", "c"]}, {"classlabels_int64s": [7, -2, 3]}],
)
@pytest.mark.parametrize("shape", [("n", 3), (3,)])
def test_rows_as_maps(labels, shape):
    x = rng.random((4, 3) if len(shape) == 2 else 3, np.float32)
    check(zipped(*shape, **labels), x)


def test_of_a_label_twice_the_last_counts():
    check(zipped("n", 3, classlabels_int64s=[1, 1, 2]), rng.random((2, 3), np.float32))


def test_a_list_of_no_maps():
    exe = tensorsmith.compile(zipped("n", 2, classlabels_int64s=[1, 2]), min_extent=0)
    assert exe(np.zeros((0, 2), np.float32)) == []


CLASSIFIERS = {
    "LinearClassifier": {
        "coefficients": rng.standard_normal(9).tolist(),
        "intercepts": [0.1, 0.2, -0.3],
        "post_transform": "SOFTMAX",
    },
    "TreeEnsembleClassifier": {
        "nodes_treeids": [0] * 5,
        "nodes_nodeids": list(range(5)),
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_featureids": [0, 0, 1, 0, 0],
        "nodes_values": [0.1, 0.0, -0.2, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 3, 0, 0],
        "nodes_falsenodeids": [2, 0, 4, 0, 0],
        "class_treeids": [0, 0, 0],
        "class_nodeids": [1, 3, 4],
        "class_ids": [0, 1, 2],
        "class_weights": [0.75, 0.5, 1.0],
    },
}


@pytest.mark.parametrize("op", CLASSIFIERS)
@pytest.mark.parametrize("named", [False, True])
def test_a_classifier_with_its_map(op, named, tmp_path):
    """What scikit-learn's classifiers are exported as: scaled, classified, normalised, zipped."""
    labels = (
        {"classlabels_strings": ["x", "y", "z"]} if named else {"classlabels_int64s": [4, 5, 9]}
    )
    of_classes = labels
    if op == "LinearClassifier" and not named:
        of_classes = {"classlabels_ints": labels["classlabels_int64s"]}
    nodes = [
        helper.make_node("Scaler", ["x"], ["s"], domain=ML, offset=[0.1] * 3, scale=[2.0] * 3),
        helper.make_node(op, ["s"], ["label", "p"], domain=ML, **CLASSIFIERS[op], **of_classes),
        helper.make_node("Normalizer", ["p"], ["q"], domain=ML, norm="L1"),
        helper.make_node("ZipMap", ["q"], ["probabilities"], domain=ML, **labels),
    ]
    kind = S if named else I64
    outputs = {"label": tensor_type(kind, "n"), "probabilities": list_type(kind)}
    made = model(nodes, {"x": tensor_type(F, "n", 3)}, outputs)
    exe = tensorsmith.compile(made)
    exe.save(tmp_path / "m")
    for run_ in (exe, tensorsmith.load(tmp_path / "m")):
        for rows in (1, 6):
            x = rng.standard_normal((rows, 3)).astype(np.float32)
            got, expected = run_.run(x), theirs(made, x)
            np.testing.assert_array_equal(got["label"], expected[0])
            for a, b in zip(got["probabilities"], expected[1], strict=True):
                assert a == pytest.approx(b, rel=1e-5)
                assert a.keys() == b.keys()


@pytest.mark.parametrize("to", ["TO_FLOAT", "TO_INT64", "TO_STRING"])
@pytest.mark.parametrize("form", ["DENSE", "SPARSE"])
def test_a_map_of_numbers_as_a_row(to, form):
    result = {"TO_FLOAT": F, "TO_INT64": I64, "TO_STRING": S}[to]
    made = of_map("CastMap", I64, F, result, cast_to=to, map_form=form, max_map=5)
    check(made, {3: 1.5, 1: -0.25, 0: 1e10})
    check(made, {2: 0.5, 7: 2.0} if form == "DENSE" else {2: 0.5})


def test_a_map_of_strings_as_a_row():
    made = of_map("CastMap", I64, S, F, cast_to="TO_FLOAT", map_form="DENSE")
    (row,) = ours(made, {3: "1.5", 1: "-0.25"})
    np.testing.assert_array_equal(row, np.array([[-0.25, 1.5]], np.float32))
    with pytest.raises(EvaluationError, match="a value of the map is no number"):
        tensorsmith.compile(made)({1: "one"})


def test_a_key_that_is_no_position():
    made = of_map("CastMap", I64, F, F, map_form="SPARSE", max_map=3)
    with pytest.raises(EvaluationError, match="the map has the key -3"):
        tensorsmith.compile(made)({-3: 1.0, 0: 2.0})


def test_values_of_a_vocabulary():
    check(of_map("DictVectorizer", I64, F, F, int64_vocabulary=[1, 2, 3]), {3: 1.5, 1: -0.25, 5: 7})


@pytest.mark.parametrize(
    ("key", "value", "given", "attrs", "expected"),
    [
        (S, I64, {"a": 1, "b": 2}, {"string_vocabulary": ["b", "a", "c"]}, [2, 1, 0]),
        (S, D, {"a": 0.1}, {"string_vocabulary": ["b", "a"]}, [0.0, 0.1]),
        (I64, S, {3: "x"}, {"int64_vocabulary": [1, 3]}, ["", "x"]),
    ],
)
def test_values_of_a_vocabulary_of_other_types(key, value, given, attrs, expected):
    made = of_map("DictVectorizer", key, value, value, **attrs)
    (row,) = ours(made, given)
    assert row.tolist() == [expected]
    if value != S:
        (same,) = reference(made, given)  # without the axis that the runtime has
        np.testing.assert_array_equal(row[0], same)


def test_categories_both_ways():
    table = {"cats_int64s": [5, 8], "cats_strings": ["five", "eight"]}
    there = helper.make_node("CategoryMapper", ["x"], ["y"], domain=ML, default_int64=-4, **table)
    back = helper.make_node("CategoryMapper", ["y"], ["z"], domain=ML, default_string="?", **table)
    outputs = {"y": tensor_type(I64, "n"), "z": tensor_type(S, "n")}
    made = model([there, back], {"x": tensor_type(S, "n")}, outputs)
    check(made, np.array(["eight", "six", "five"], object))


def test_what_is_no_map():
    exe = tensorsmith.compile(of_map("CastMap", I64, F, F))
    with pytest.raises(DTypeError) as caught:
        exe(np.zeros(3, np.float32))
    assert str(caught.value) == ("input 'x' is a ndarray, not a dict\n  try: a map(int64, float32)")
    with pytest.raises(DTypeError) as caught:
        exe({"a": 1.0})
    assert str(caught.value) == "a key of input 'x' is 'a'\n  because: the model takes int64"


def test_labels_that_do_not_fit():
    with pytest.raises(ShapeError, match="each column of a ZipMap has a label"):
        from_onnx(zipped("n", 3, classlabels_int64s=[1, 2]))
    exe = tensorsmith.compile(zipped("n", "c", classlabels_int64s=[1, 2]))
    with pytest.raises(EvaluationError, match="each column of a ZipMap has a label"):
        exe(np.zeros((2, 3), np.float32))


def test_maps_where_tensors_are_wanted():
    node = helper.make_node("Neg", ["x"], ["y"])
    with pytest.raises(DTypeError, match="must be a tensor of numbers"):
        from_onnx(model([node], {"x": map_type(S, F)}, {"y": map_type(S, F)}))
