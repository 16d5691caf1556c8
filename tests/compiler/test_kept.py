"""Whole models kept on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tensorsmith.compiler import compile, lowering
from tensorsmith.runtime.model import Model


def scaled(by: float = 2.0) -> onnx.ModelProto:
    """A model that multiplies n numbers."""
    weight = numpy_helper.from_array(np.full(4, by, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        "scaled",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("TENSORSMITH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.model"))


def check(model: Model, by: float = 2.0, n: int = 3) -> None:
    x = np.arange(4 * n, dtype=np.float32).reshape(n, 4)
    np.testing.assert_array_equal(model(x), x * np.float32(by))


def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everything fail that compiles a module."""

    def fail(*_: object, **__: object) -> Model:
        raise AssertionError("compiled")

    monkeypatch.setattr(lowering, "compile_module", fail)


@pytest.mark.parametrize("form", ["path", "bytes", "proto"])
def test_a_model_is_compiled_once(
    form: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(scaled(), path)
    model = {"path": path, "bytes": path.read_bytes(), "proto": scaled()}[form]
    check(compile(model, threads=1))
    assert len(kept(folder)) == 1
    without_compiler(monkeypatch)
    again = compile(model, threads=2)
    assert again.threads == 2
    check(again)


def test_what_was_asked_for_tells_models_apart(folder: Path) -> None:
    check(compile(scaled(), threads=1))
    check(compile(scaled(3.0), threads=1), 3.0)
    check(compile(scaled(), threads=1, sizes={"n": 5}), n=5)
    check(compile(scaled(), threads=1, check_bounds=True))
    assert len(kept(folder)) == 4


def test_without_a_cache_nothing_is_kept(folder: Path) -> None:
    check(compile(scaled(), cache=False))
    assert not kept(folder)


def test_a_damaged_model_is_compiled_again(folder: Path) -> None:
    check(compile(scaled(), threads=1))
    (path,) = kept(folder)
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:-200] + bytes(100) + whole[-100:]):
        path.write_bytes(damaged)
        check(compile(scaled(), threads=1))
        assert len(path.read_bytes()) == len(whole)


def test_weights_in_other_files_are_read_each_time(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    for by in (2.0, 3.0):
        outside = scaled(by)
        onnx.save(outside, path, save_as_external_data=True, location="w.bin", size_threshold=0)
        check(compile(path, threads=1), by)
    assert not kept(folder)


def test_a_model_that_would_fill_the_cache_is_not_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORSMITH_CACHE_MIB", "0")
    check(compile(scaled(), threads=1))
    assert not kept(folder)


def test_a_model_in_use_may_be_removed(folder: Path) -> None:
    check(compile(scaled(), threads=1))
    model = compile(scaled(), threads=1)
    kept(folder)[0].unlink()
    check(model)


def test_a_file_that_changes_meanwhile_is_not_kept(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(scaled(), path)
    compiled = lowering.compile_module

    def late(*args: object, **options: object) -> Model:
        onnx.save(scaled(3.0), path)
        return compiled(*args, **options)

    monkeypatch.setattr(lowering, "compile_module", late)
    check(compile(path, threads=1))
    assert not kept(folder)
    monkeypatch.undo()
    monkeypatch.setenv("TENSORSMITH_CACHE_DIR", str(folder))
    check(compile(path, threads=1), 3.0)
