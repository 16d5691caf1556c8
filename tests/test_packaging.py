"""The wheel: what is in it, what it depends on, and that it is built the same twice."""

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import tensorsmith

ROOT = Path(__file__).resolve().parent.parent
CORE_DEPENDENCIES = {"llvmlite", "ml-dtypes", "numpy", "onnx", "platformdirs", "typer"}


def build_wheel(folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1735689600"},
        capture_output=True,
        check=True,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


def test_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        inside = {n for n in archive.namelist() if ".dist-info/" not in n}
    sources = (ROOT / "src").rglob("*")
    expected = {
        p.relative_to(ROOT / "src").as_posix()
        for p in sources
        if p.is_file() and (p.suffix == ".py" or p.name == "py.typed")
    }
    assert inside == expected
    assert "tensorsmith/py.typed" in inside


def test_wheel_carries_the_licence(wheel):
    with zipfile.ZipFile(wheel) as archive:
        assert any(n.endswith("/licenses/LICENSE") for n in archive.namelist())
    assert "License-Expression: Apache-2.0" in metadata(wheel)


def test_wheel_has_the_version_of_the_package(wheel):
    assert f"\nVersion: {tensorsmith.__version__}\n" in metadata(wheel)


def test_core_depends_on_little(wheel):
    required = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", metadata(wheel), re.MULTILINE)
    assert {name.replace("_", "-") for name in required} == CORE_DEPENDENCIES


def test_wheel_is_reproducible(wheel, tmp_path):
    again = build_wheel(tmp_path)
    assert again.name == wheel.name
    assert (
        hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(wheel.read_bytes()).digest()
    )
