"""The cache of compiled code: what its keys depend on, and that nothing breaks it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tensorsmith import knobs, te
from tensorsmith import script as T
from tensorsmith.codegen import build, compilation
from tensorsmith.codegen.units import Unit
from tensorsmith.errors import EvaluationError, ShapeError, TensorsmithError
from tensorsmith.ir import IRModule, TensorProgram
from tensorsmith.runtime import object_cache as caches
from tensorsmith.runtime.object_cache import ObjectCache, key_of
from tensorsmith.target import Target


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TENSORSMITH_CACHE_DIR", str(tmp_path / "code"))
    monkeypatch.delenv("TENSORSMITH_CACHE", raising=False)
    return tmp_path / "code"


@pytest.fixture
def compiled(monkeypatch) -> list[str]:
    """The names of the programs that were compiled, not found."""
    names: list[str] = []
    original = compilation.compile_all

    def record(jobs, processors):
        jobs = list(jobs)
        names.extend(job.name for job in jobs)
        return original(jobs, processors)

    monkeypatch.setattr(compilation, "compile_all", record)
    return names


def added(amount: float = 1.0, name: str = "added", **attrs: object) -> TensorProgram:
    a = te.placeholder((8,), name="A")
    program = te.program([a], te.compute((8,), lambda i: a[i] + amount, "B"), name)
    return replace(program, attrs={**program.attrs, **attrs}) if attrs else program


def check(exe, amount: float = 1.0, name: str = "added") -> None:
    b = np.zeros(8, np.float32)
    exe[name](np.arange(8, dtype=np.float32), b)
    np.testing.assert_array_equal(b, np.arange(8, dtype=np.float32) + amount)


def entries(folder: Path) -> list[Path]:
    """The files of programs, without those of the runtime's own code."""
    return [p for p in sorted(folder.glob("*.zip")) if manifest(p)["kind"] == "programs"]


def manifest(path: Path) -> dict:
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("manifest.json"))


def test_a_second_build_finds_the_first(folder, compiled) -> None:
    check(build(added(), threads=1))
    check(build(added(), threads=1))
    assert compiled == ["added"]
    assert len(entries(folder)) == 1


def test_an_entry_is_a_zip_that_says_what_it_is(folder) -> None:
    build(added(), threads=1)
    (path,) = entries(folder)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["manifest.json", "code.o"]
        code = archive.read("code.o")
    told = manifest(path)
    assert path.stem == told["key"]
    assert told["programs"][0]["name"] == "added"
    assert told["target"]["triple"] == Target.host().triple
    assert told["code_sha256"] == hashlib.sha256(code).hexdigest()


def test_errors_are_kept_with_the_code(folder, compiled) -> None:
    @T.program
    def positive(x: T.int32, C: T.Buffer((1,), "int32")):
        assert x > 0, "x must be positive"
        C[0] = x

    texts = []
    for _ in range(2):
        exe = build(positive, threads=1)
        with pytest.raises(EvaluationError) as caught:
            exe(0, np.zeros(1, np.int32))
        texts.append(str(caught.value))
        with pytest.raises(ShapeError, match="'C' must have rank 1"):
            exe(1, np.zeros((1, 1), np.int32))
    assert texts[0] == texts[1]
    assert "test_cache.py" in texts[0]
    assert compiled == ["positive"]


def test_what_the_key_depends_on(monkeypatch) -> None:
    host = Target.host()

    def key(program: TensorProgram, target: Target = host) -> str:
        return compilation.cache_key(Unit(IRModule.of(program)), target)

    keys = [
        key(added()),
        key(added(2.0)),
        key(added(name="other")),
        key(added(contract=True)),
        key(added(), replace(host, cpu="generic")),
        key(added(), replace(host, features=host.features - {"avx2"})),
        key(added(), replace(host, triple="aarch64-unknown-linux-gnu")),
    ]
    assert key(added()) == keys[0]
    assert key(added(), replace(host, cores=64)) == keys[0]
    for changed in (("0.0.0", "LLVM", "source"), (*compilation.compiler()[:2], "edited")):
        with monkeypatch.context() as patch:
            patch.setattr(compilation, "compiler", lambda told=changed: told)
            keys.append(key(added()))
    assert len(set(keys)) == len(keys)


def test_the_place_of_an_assertion_counts() -> None:
    text = (
        "from tensorsmith import script as T\n\n\n@T.program\ndef f(x: T.int32):\n"
        '    assert x > 0, "positive"\n'
    )
    host = Target.host()
    keys = {
        compilation.cache_key(Unit(IRModule.of(T.parse_program(text, name))), host)
        for name in ("a", "b")
    }
    assert len(keys) == 2


def test_parts_of_a_key_do_not_run_into_each_other() -> None:
    assert (
        len({key_of(["ab", "c"]), key_of(["a", "bc"]), key_of(["abc"]), key_of(["abc", ""])}) == 4
    )


def test_programs_of_a_module_are_kept_one_by_one(folder, compiled) -> None:
    build(IRModule.of(added(1.0, "one"), added(2.0, "two")), threads=1)
    exe = build(IRModule.of(added(3.0, "three"), added(2.0, "two")), threads=1)
    assert compiled == ["one", "two", "three"]
    check(exe, 3.0, "three")
    check(exe, 2.0, "two")
    assert list(exe.programs) == ["three", "two"]


def test_switched_off(folder, compiled, monkeypatch) -> None:
    check(build(added(), threads=1, cache=False))
    check(build(added(), threads=1, check_bounds=True))
    monkeypatch.setenv("TENSORSMITH_CACHE", "0")
    check(build(added(), threads=1))
    assert compiled == ["added"] * 3
    assert not folder.exists() or entries(folder) == []


DAMAGE = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "cut at the end": lambda data: data[:-1],
    "not a zip": lambda data: b"something else" * 40,
    "a bit of the code": lambda data: flip(data, data.index(b"code.o") + 200),
    "a bit of the manifest": lambda data: flip(data, data.index(b"parameters")),
    "of another key": lambda data: data.replace(b'"key": "', b'"key": "0', 1),
}


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_written_anew(folder, compiled, damage) -> None:
    build(added(), threads=1)
    (path,) = entries(folder)
    whole = path.read_bytes()
    path.write_bytes(DAMAGE[damage](whole))
    check(build(added(), threads=1))
    assert compiled == ["added"] * 2
    assert path.read_bytes() == whole
    check(build(added(), threads=1))
    assert compiled == ["added"] * 2


def test_every_cut_of_an_entry_counts_as_missing(tmp_path) -> None:
    cache = ObjectCache(tmp_path, 2**20)
    cache.put("0" * 64, {"kind": "programs"}, bytes(range(50)))
    path = cache.path("0" * 64)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert cache.get("0" * 64) is None


def test_every_changed_byte_is_noticed_or_harmless(tmp_path) -> None:
    cache = ObjectCache(tmp_path, 2**20)
    code = bytes(range(50))
    cache.put("0" * 64, {"kind": "programs"}, code)
    path = cache.path("0" * 64)
    whole = path.read_bytes()
    for at in range(len(whole)):
        for bit in range(8):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
            found = cache.get("0" * 64)
            assert found is None or found.code == code


def test_a_manifest_of_another_form_counts_as_missing(folder, compiled) -> None:
    build(added(), threads=1)
    (path,) = entries(folder)
    told = manifest(path)
    for programs in (
        None,
        [{"name": "added"}],
        [{**told["programs"][0], "parameters": [{"x": 1}]}],
    ):
        ObjectCache(folder, 2**30).put(path.stem, {**told, "programs": programs}, b"code")
        check(build(added(), threads=1))
    assert len(compiled) == 4


@pytest.fixture
def unwarned(monkeypatch) -> None:
    monkeypatch.setattr(caches, "_warned", set())


def test_a_folder_that_cannot_be_made_warns_once(
    tmp_path, monkeypatch, compiled, caplog, unwarned
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TENSORSMITH_CACHE_DIR", str(tmp_path / "file" / "code"))
    with caplog.at_level(logging.WARNING):
        check(build(added(), threads=1))
        check(build(added(), threads=1))
    assert compiled == ["added"] * 2
    assert [r.getMessage() for r in caplog.records] == [
        (
            f"compiled code cannot be kept in {tmp_path / 'file' / 'code'} (Not a directory),"
            " so every process compiles anew; set TENSORSMITH_CACHE_DIR to a folder that can be"
            " written, or TENSORSMITH_CACHE=0"
        )
    ]


def test_a_full_disk_leaves_nothing_behind(folder, monkeypatch, caplog, unwarned) -> None:
    def fail(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    check(build(added(), threads=1))
    assert list(folder.iterdir()) == []
    assert "No space left on device" in caplog.text


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_the_folder_is_the_users_alone(folder) -> None:
    build(added(), threads=1)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_was_not_read_for_longest_goes_first(tmp_path) -> None:
    cache = ObjectCache(tmp_path, 20_000)
    for k in range(10):
        cache.put(f"{k:064}", {}, bytes(1000))
        os.utime(cache.path(f"{k:064}"), (1000 + k, 1000 + k))
    assert cache.get(f"{0:064}") is not None  # read: now it is the newest
    for k in range(10, 20):
        cache.put(f"{k:064}", {}, bytes(1000))
    left = {int(p.stem) for p in tmp_path.glob("*.zip")}
    assert 10_000 < sum(p.stat().st_size for p in tmp_path.iterdir()) <= 20_000
    assert {0, 19} <= left
    assert not {1, 2, 3} & left


def test_what_was_abandoned_is_removed(tmp_path) -> None:
    old, new = tmp_path / "a.1.1.tmp", tmp_path / "b.1.1.tmp"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    ObjectCache(tmp_path, 10_000).put("0" * 64, {}, b"code")
    assert (old.exists(), new.exists()) == (False, True)


def test_the_limit_is_a_number(monkeypatch) -> None:
    monkeypatch.setenv("TENSORSMITH_CACHE_MIB", "7")
    assert knobs.cache_limit_bytes() == 7 * 2**20
    monkeypatch.setenv("TENSORSMITH_CACHE_MIB", "much")
    with pytest.raises(TensorsmithError) as caught:
        knobs.cache_limit_bytes()
    assert str(caught.value) == (
        "TENSORSMITH_CACHE_MIB must be a whole number of mebibytes, not 'much'"
    )


def test_the_usual_folder_is_the_platforms(monkeypatch) -> None:
    monkeypatch.delenv("TENSORSMITH_CACHE_DIR", raising=False)
    assert "tensorsmith" in str(knobs.cache_folder())


MANY = """
import sys
import numpy as np
from tensorsmith import te
from tensorsmith.codegen import build
for k in range(12):
    a = te.placeholder((8,), name="A")
    program = te.program([a], te.compute((8,), lambda i: a[i] + float(k % 4), "B"), "added")
    b = np.zeros(8, np.float32)
    build(program, threads=1)(np.zeros(8, np.float32), b)
    assert (b == k % 4).all()
"""


def test_many_processes_at_once(folder) -> None:
    started = [subprocess.Popen([sys.executable, "-c", MANY]) for _ in range(4)]
    assert [p.wait() for p in started] == [0] * 4
    assert len(entries(folder)) == 4
    assert list(folder.glob("*.tmp")) == []
