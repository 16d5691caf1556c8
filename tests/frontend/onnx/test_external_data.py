"""Weights in files beside the model: mapped where all is in order, refused where it is not."""

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tensorsmith.errors import UntrustedModelError
from tensorsmith.frontend.onnx import from_onnx
from tensorsmith.ir import Constant


def weight(**entries):
    made = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4])
    made.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        made.external_data.add(key=key, value=str(value))
    return made


def model_with(tensor):
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (4,)) for n in "xy")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], initializer=[tensor])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def error_of(folder, **entries):
    with pytest.raises(UntrustedModelError) as caught:
        from_onnx(model_with(weight(**entries)), folder=folder)
    return str(caught.value)


@pytest.fixture
def folder(tmp_path):
    values = np.arange(8, dtype=np.float32)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(values.tobytes())
    return tmp_path


def test_data_is_mapped_not_read(folder):
    path = folder / "model.onnx"
    path.write_bytes(model_with(weight(location="data/w.bin", offset=16)).SerializeToString())
    module = from_onnx(path)
    (constant,) = (b for b in module["main"].body if isinstance(b, Constant))
    np.testing.assert_array_equal(constant.data, [4, 5, 6, 7])
    assert not constant.data.flags.owndata
    assert not constant.data.flags.writeable


def test_what_onnx_itself_saves(tmp_path):
    rng = np.random.default_rng(0)
    held = onnx.numpy_helper.from_array(rng.standard_normal(4).astype(np.float32), "w")
    onnx.save(
        model_with(held),
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    module = from_onnx(tmp_path / "m.onnx")
    (constant,) = (b for b in module["main"].body if isinstance(b, Constant))
    np.testing.assert_array_equal(constant.data, onnx.numpy_helper.to_array(held))


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("../w.bin", "the path has parts that are empty, '.' or '..'"),
        ("data/../../w.bin", "the path has parts that are empty, '.' or '..'"),
        ("./data/w.bin", "the path has parts that are empty, '.' or '..'"),
        ("/etc/passwd", "the path is absolute"),
        ("C:/w.bin", "the path is absolute"),
        ("data\\w.bin", "the path holds a backslash"),
        ("data/w\0.bin", "the path is empty or holds a NUL character"),
        ("", "the path is empty or holds a NUL character"),
    ],
)
def test_paths_that_lead_elsewhere(folder, location, reason):
    assert error_of(folder, location=location) == (
        f"onnx: initializer 'w' names the file {location!r}\n"
        f"  because: {reason}\n"
        "  try: keep the weights beside the model, under a plain relative path"
    )


def test_a_model_without_a_place(folder):
    assert "the model was not read from a file, and no folder was given" in error_of(
        None, location="data/w.bin"
    )


def test_symbolic_links(folder):
    (folder / "link.bin").symlink_to(folder / "data" / "w.bin")
    assert error_of(folder, location="link.bin") == (
        "onnx: initializer 'w' names the file 'link.bin'\n"
        "  because: 'link.bin' is a symbolic link, which may lead anywhere\n"
        "  try: put a copy of the file in its place"
    )
    (folder / "there").symlink_to(folder / "data")
    assert "'there' is a symbolic link" in error_of(folder, location="there/w.bin")


def test_hard_links(folder):
    os.link(folder / "data" / "w.bin", folder / "hard.bin")
    assert error_of(folder, location="hard.bin") == (
        "onnx: initializer 'w' names the file 'hard.bin'\n"
        "  because: it is a hard link, which may be a name of any file\n"
        "  try: put a copy of the file in its place"
    )


def test_what_is_no_file(folder):
    os.mkfifo(folder / "pipe")
    assert "it is no ordinary file" in error_of(folder, location="pipe")
    assert "it is no ordinary file" in error_of(folder, location="data")
    assert error_of(folder, location="none.bin") == (
        "onnx: initializer 'w' names the file 'none.bin', which cannot be read\n"
        "  because: No such file or directory"
    )


def test_past_the_end(folder):
    assert error_of(folder, location="data/w.bin", offset=20) == (
        "onnx: initializer 'w' reaches past the end of 'data/w.bin'\n"
        "  given: offset 20, length 16, file of 32 bytes"
    )


@pytest.mark.parametrize("value", ["-4", "1e3", "0x10", "9" * 30, "four"])
def test_offsets_that_are_no_numbers(folder, value):
    said = error_of(folder, location="data/w.bin", offset=value)
    assert said == (
        "onnx: initializer 'w' has external data whose offset is no number of bytes\n"
        f"  given: {value!r}"
    )


def test_a_length_of_another_shape(folder):
    assert error_of(folder, location="data/w.bin", length=12) == (
        "onnx: initializer 'w' holds 12 bytes and needs 16\n"
        "  given: shape [4], elements of type float32"
    )


def test_unknown_keys(folder):
    assert error_of(folder, location="data/w.bin", colour="red") == (
        "onnx: initializer 'w' has external data with the unknown key 'colour'\n"
        "  try: one of location, offset, length, checksum"
    )


def test_no_location(folder):
    said = error_of(folder, offset=0)
    assert said == "onnx: initializer 'w' has external data without a location"
