"""Files that are damaged, contradict themselves, or ask for too much: whole error texts."""

import time

import onnx
import pytest
from onnx import TensorProto, helper

from frontend.onnx.running import parse
from tensorsmith.errors import (
    ShapeError,
    TensorsmithError,
    UnsupportedOpError,
    UntrustedModelError,
)
from tensorsmith.frontend.onnx import Limits, from_onnx

FLOAT = TensorProto.FLOAT


def error_of(model, kind=UntrustedModelError, **options):
    """The text of the error that reading a model ends with, soon."""
    start = time.process_time()
    with pytest.raises(kind) as caught:
        from_onnx(model, **options)
    assert time.process_time() - start < 2
    return str(caught.value)


def info(name, shape=(2,)):
    return helper.make_tensor_value_info(name, FLOAT, shape)


def model_of(nodes, inputs=("x",), outputs=("y",), initializers=(), **graph):
    made = helper.make_graph(
        list(nodes),
        "g",
        [info(i) if isinstance(i, str) else i for i in inputs],
        [info(o) for o in outputs],
        initializer=list(initializers),
        **graph,
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def tensor(name="w", dims=(2,), raw=b"\0" * 8):
    made = TensorProto(name=name, data_type=FLOAT, raw_data=raw)
    made.dims.extend(dims)
    return made


def with_weight(weight):
    return model_of([helper.make_node("Add", ["x", "w"], ["y"])], initializers=[weight])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            b"<html><body>404</body></html>",
            (
                "onnx: not an ONNX model, or only a part of one\n"
                "  given: 29 bytes that start with b'<html><body>404<'\n"
                "  because: they do not parse as a protobuf message of type ModelProto"
            ),
        ),
        (
            b"",
            (
                "onnx: the model has no graph\n"
                "  because: the file is empty, cut off, or holds something else"
            ),
        ),
    ],
)
def test_no_model_at_all(data, said):
    assert error_of(data) == said


def test_truncated_anywhere():
    data = parse("g (float[2] x) => (float[2] y) { z = Neg(x) y = Neg(z) }").SerializeToString()
    for length in range(len(data)):
        try:
            from_onnx(data[:length])
        except TensorsmithError:
            continue


def test_a_file_that_is_not_there(tmp_path):
    said = error_of(tmp_path / "none.onnx")
    assert said == (
        f"{tmp_path / 'none.onnx'}: the model cannot be read\n  because: No such file or directory"
    )


def test_a_file_names_itself_in_errors(tmp_path):
    path = tmp_path / "bad.onnx"
    onnx.save(model_of([helper.make_node("Neg", ["q"], ["y"])]), path)
    assert error_of(path).startswith("bad.onnx: Neg (node 0): the input 'q' is not defined")


def test_larger_than_the_limit():
    data = with_weight(tensor()).SerializeToString()
    assert error_of(data, limits=Limits(model_bytes=64)) == (
        "onnx: the model is larger than 0 MiB, weights apart\n"
        "  try: keep the weights in a file beside it (external data), or give larger `limits`"
    )


def test_format_of_the_future():
    model = model_of([helper.make_node("Neg", ["x"], ["y"])])
    model.ir_version = 99
    assert error_of(model, UnsupportedOpError) == (
        "onnx: the file's format has version 99\n"
        "  because: versions 1 to 14 are known\n"
        "  try: export it again for an older version of ONNX"
    )


def test_element_count_that_overflows():
    assert error_of(with_weight(tensor(dims=(2**32, 2**32), raw=b"\0" * 16))) == (
        "onnx: initializer 'w' holds 16 bytes and needs 73786976294838206464\n"
        "  given: shape [4294967296, 4294967296], elements of type float32"
    )


def test_negative_extent():
    assert error_of(with_weight(tensor(dims=(-2,)))) == (
        "onnx: initializer 'w' has a negative extent\n  given: shape [-2]"
    )


def test_data_of_another_length():
    assert error_of(with_weight(tensor(raw=b"\0" * 7))) == (
        "onnx: initializer 'w' holds 7 bytes and needs 8\n"
        "  given: shape [2], elements of type float32"
    )


def test_fields_of_another_length():
    weight = TensorProto(name="w", data_type=FLOAT, dims=[3])
    weight.float_data.extend([1.0, 2.0])
    assert error_of(with_weight(weight)) == (
        "onnx: initializer 'w' holds 2 values and needs 3\n"
        "  given: shape [3], elements of type float32"
    )


def test_unknown_element_type():
    weight = tensor()
    weight.data_type = 77
    assert error_of(with_weight(weight)) == (
        "onnx: initializer 'w' has an element type of number 77, which ONNX does not define"
    )


def test_too_many_dimensions():
    assert error_of(with_weight(tensor(dims=(1,) * 65, raw=b"\0" * 4))) == (
        "onnx: initializer 'w' has 65 dimensions\n  because: 64 are enough"
    )


def test_negative_extent_of_an_input():
    model = model_of([helper.make_node("Neg", ["x"], ["y"])], inputs=[info("x", (2, -5))])
    assert error_of(model) == ("onnx: the input 'x' has an impossible shape\n  given: [2, -5]")


def test_nodes_in_a_circle():
    nodes = [helper.make_node("Neg", ["b"], ["a"]), helper.make_node("Neg", ["a"], ["b"])]
    assert error_of(model_of(nodes, outputs=["a"])) == (
        "onnx: Neg (node 0): the input 'b' is not defined\n"
        "  because: Neg (node 1) gives it, which is not before this node: the nodes are not in"
        " order, or go in a circle"
    )


def test_a_value_defined_twice():
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"], "again")]
    assert error_of(model_of(nodes)) == (
        "onnx: the value 'y' is defined twice\n"
        "  given: the second time as output of Abs 'again' (node 1)\n"
        "  because: each name stands for one value"
    )


def test_an_input_that_nothing_gives():
    assert error_of(model_of([helper.make_node("Neg", ["q"], ["y"])])) == (
        "onnx: Neg (node 0): the input 'q' is not defined\n"
        "  because: no node, input or initializer gives it"
    )


def test_an_output_that_nothing_gives():
    assert error_of(model_of([helper.make_node("Neg", ["x"], ["z"])])) == (
        "onnx: the output 'y' is not defined\n  because: no node, input or initializer gives it"
    )


def test_initializers_of_one_name():
    model = with_weight(tensor())
    model.graph.initializer.append(tensor())
    assert error_of(model) == "onnx: two initializers are called 'w'"


def test_wrong_number_of_operands():
    assert error_of(model_of([helper.make_node("Add", ["x"], ["y"])])) == (
        "onnx: Add (node 0): 1 inputs\n  because: Add has 2 inputs since opset 14"
    )


def test_attribute_of_another_kind():
    model = model_of([helper.make_node("LeakyRelu", ["x"], ["y"], alpha=2)])
    assert error_of(model) == (
        "onnx: LeakyRelu (node 0): the attribute 'alpha' must be float, not integer"
    )


def test_attribute_that_is_not_known():
    model = model_of([helper.make_node("Neg", ["x"], ["y"], speed=2)])
    assert error_of(model, UnsupportedOpError) == (
        "onnx: Neg (node 0): the attribute 'speed' is not known here\n"
        "  because: Neg has no such attribute in opset 18, or its converter does not heed it"
    )


def nested(depth):
    """Branches inside of each other, so many deep, two at each level."""
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, ())
    inner = helper.make_graph([helper.make_node("Neg", ["x"], ["o"])], "leaf", [], [info("o")])
    for level in range(depth):
        node = helper.make_node("If", ["c"], [f"o{level}"], then_branch=inner, else_branch=inner)
        inner = helper.make_graph([node], f"level{level}", [], [info(f"o{level}")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    graph = helper.make_graph([node], "g", [condition, info("x")], [info("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def test_deep_graphs():
    model = nested(3)
    assert error_of(model, limits=Limits(depth=2)) == (
        "onnx: graphs lie more than 2 deep in each other\n"
        "  try: give larger `limits` if you trust the model"
    )


def test_many_nodes():
    assert error_of(nested(5), limits=Limits(nodes=50)) == (
        "onnx: the model has more than 50 nodes\n  try: give larger `limits` if you trust the model"
    )


def test_time_is_linear_in_nested_graphs():
    times = []
    for depth in (6, 9):
        model = nested(depth)
        start = time.process_time()
        from_onnx(model)
        times.append(time.process_time() - start)
    assert times[1] < 30 * max(times[0], 0.05)  # eight times the nodes


def test_functions_that_call_each_other():
    model = parse(
        """g (float[2] x) => (float[2] y) { y = local.f(x) }
        <domain: "local", opset_import: ["" : 18, "local" : 1]>
        f (a) => (b) { b = local.f(a) }""",
        local=1,
    )
    said = error_of(model)
    assert "graphs and functions lie more than 64 deep in each other" in said


def test_functions_that_multiply():
    bodies = "\n".join(
        f"""<domain: "local", opset_import: ["" : 18, "local" : 1]>
        f{n} (a) => (b) {{ c = local.f{n + 1}(a) b = local.f{n + 1}(c) }}"""
        for n in range(40)
    )
    last = """<domain: "local", opset_import: ["" : 18]>
        f40 (a) => (b) { b = Neg(a) }"""
    model = parse(f"g (float[2] x) => (float[2] y) {{ y = local.f0(x) }} {bodies} {last}", local=1)
    said = error_of(model, limits=Limits(nodes=2000))
    assert "more than 2000 nodes, functions counted once a call" in said


def test_all_that_is_missing_is_named_once():
    nodes = [
        helper.make_node("Foo", ["x"], ["a"], "first", domain="acme.ops"),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Bar", ["b"], ["c"], domain="other"),
        helper.make_node("Scaler", ["c"], ["y"], "scale", domain="ai.onnx.ml"),
    ]
    model = model_of(nodes)
    for domain, version in (("acme.ops", 3), ("ai.onnx.ml", 99)):
        model.opset_import.append(helper.make_opsetid(domain, version))
    assert error_of(model, UnsupportedOpError) == (
        "onnx: 3 of 4 nodes have no conversion:\n"
        "    node 0 'first': acme.ops::Foo (opset 3)\n"
        "    node 2 '': other::Bar (domain without a version)\n"
        "    node 3 'scale': ai.onnx.ml::Scaler (opset 99)\n"
        "  because: neither a converter nor a function of the model or of ONNX defines them in that"
        " version\n"
        "  try: pass converters={(domain, operator): f} to from_onnx, add a function of that name"
        " to the model, or export it with an older opset"
    )


def test_converters_of_the_user():
    model = model_of([helper.make_node("Foo", ["x"], ["y"], domain="acme", scale=3.0)])
    model.opset_import.append(helper.make_opsetid("acme", 1))

    def foo(node):
        return node("mul", node.tensor(), node.builder.scalar(node.number("scale"), "float32"))

    module = from_onnx(model, converters={("acme", "Foo"): foo})
    assert "mul" in module.script()


def test_large_results_are_not_made_while_reading():
    model = parse(
        """g () => (float[n] y) {
            s = Constant<value_ints: ints = [1048576, 16384]>()
            one = Constant<value_float: float = 1.0>()
            big = Expand(one, s)
            zeros = ConstantOfShape(s)
            sum = Add(big, zeros)
            axes = Constant<value_ints: ints = [0]>()
            y = ReduceSum<keepdims = 0>(sum, axes)
        }"""
    )
    start = time.process_time()
    module = from_onnx(model)
    assert time.process_time() - start < 2
    assert repr(module["main"].results[0].shape) == "(16384,)"


def test_sparse_initializers_are_bounded():
    values = helper.make_tensor("w", FLOAT, [1], [1.0])
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [0])
    sparse = helper.make_sparse_tensor(values, indices, [2**40])
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], sparse_initializer=[sparse])
    assert error_of(model) == (
        "onnx: initializer 'w' is too large to be made dense\n  given: (1099511627776,)"
    )


def test_shapes_that_do_not_fit_name_the_node():
    model = model_of(
        [helper.make_node("Add", ["x", "z"], ["y"], "sum")], inputs=["x", info("z", (3,))]
    )
    said = error_of(model, ShapeError)
    assert said.startswith("onnx: Add 'sum' (node 0): ")


def test_impossible_extents_beside_zero():
    weight = TensorProto(name="w", data_type=FLOAT, dims=[0, 2**62])
    assert error_of(with_weight(weight)) == (
        "onnx: initializer 'w' has an impossible extent\n  given: shape [0, 4611686018427387904]"
    )
