"""Saved models: what was saved is loaded, mapped, without the compiler; anything else is told."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import pytest

from runtime.models import affine, compress, expected
from tensorsmith._version import __version__
from tensorsmith.errors import ArtifactError, TensorsmithError
from tensorsmith.runtime import artifact
from tensorsmith.runtime.model import Model
from tensorsmith.target import Target


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "affine.tsm"
    affine(threads=1).save(path)
    return path


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(saved, tmp_path / "model.tsm"))


def test_what_was_saved_is_loaded(saved: Path) -> None:
    random = np.random.default_rng(3)
    ids, mask = random.random((5, 11), np.float32), random.random((5, 11), np.float32)
    for model in (Model.load(saved), Model.load(saved, threads=2, verify_weights=False)):
        for x, y in zip(model(ids, mask), expected(ids, mask), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6)
        assert not model.weights.flags.writeable
        assert isinstance(model.weights.base, np.memmap)
        assert model.weights.ctypes.data % artifact.PAGE == 0
        assert model.manifest == affine(threads=1).manifest


def test_results_of_unknown_size_after_loading(tmp_path: Path) -> None:
    compress().save(tmp_path / "compress.tsm")
    kept, doubled = Model.load(tmp_path / "compress.tsm")(np.array([3, -1, 4], np.int64))
    assert kept.tolist() == [[3, 0], [4, 2]]
    assert doubled.tolist() == [6, -2, 8]


def test_the_same_model_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    affine(threads=2).save(tmp_path / "again.tsm")
    assert (tmp_path / "again.tsm").read_bytes() == saved.read_bytes()
    Model.load(saved).save(tmp_path / "loaded.tsm")
    assert (tmp_path / "loaded.tsm").read_bytes() == saved.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.tsm", "loaded.tsm"]


def test_ordinary_tools_open_it(saved: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert names[0] == "manifest.json"
        assert names[-1] == "weights.bin"
        head = json.loads(archive.read("manifest.json"))
    assert head["model"]["target"]["features"]
    assert head["parts"].keys() == set(names[1:])
    if unzip := shutil.which("unzip"):
        subprocess.run([unzip, "-tq", saved], check=True, capture_output=True)


def test_loading_needs_nothing_of_the_compiler(saved: Path) -> None:
    code = (
        "import sys\n"
        "import numpy as np\n"
        "from tensorsmith.runtime.model import Model\n"
        f"model = Model.load({str(saved)!r}, threads=1)\n"
        "x = np.ones((2, 3), np.float32)\n"
        "assert model(x, x)[0].tolist() == [[3, 3, 3]] * 2\n"
        "ours = {m.split('.')[1] for m in sys.modules if m.startswith('tensorsmith.')}\n"
        "print(*sorted(ours))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["_version", "errors", "knobs", "runtime", "target"]


# --- Files that are wrong -------------------------------------------------------------------------


def refused(path: Path) -> str:
    """The error of loading, with the path as PATH."""
    with pytest.raises(ArtifactError) as raised:
        Model.load(path)
    return str(raised.value).replace(str(path), "PATH")


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """The file with another manifest."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    head = json.loads(parts["manifest.json"])
    change(head)
    parts["manifest.json"] = json.dumps(head).encode()
    repacked(path, parts)


def repacked(path: Path, parts: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


AGAIN = "  try: save the model again"


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert refused(path) == "PATH cannot be read\n  because: No such file or directory"
    for content in (b"", b"hello", bytes(5000)):
        path.write_bytes(content)
        assert refused(path) == "PATH is no saved model\n  because: it is no zip file"
    repacked(path, {"other.txt": b"text"})
    assert refused(path) == "PATH is no saved model\n  because: it lacks 'manifest.json'"
    repacked(path, {"manifest.json": b"{}"})
    assert refused(path) == "PATH is no saved model\n  because: its manifest says so"
    repacked(path, {"manifest.json": b"[" * 100_000})
    assert refused(path).startswith("PATH is damaged: its manifest is no JSON\n")


def test_files_that_are_cut_off(copy: Path) -> None:
    whole = copy.read_bytes()
    for size in (len(whole) - 1, len(whole) - 30, len(whole) // 2, 100, 5):
        copy.write_bytes(whole[:size])
        assert refused(copy).startswith(
            "PATH is damaged: it is cut off, or its directory is broken\n"
        )


def test_bits_that_are_flipped(copy: Path) -> None:
    """Any bit anywhere: the model is what it was, or there is an error of ours."""
    whole = copy.read_bytes()
    model = Model.load(copy)
    wanted = model.manifest, model.objects, model.weights.tobytes()
    random = np.random.default_rng(0)
    refusals = 0
    for at in random.integers(0, len(whole), 400):
        changed = bytearray(whole)
        changed[at] ^= 1 << int(random.integers(8))
        copy.write_bytes(changed)
        try:
            found = artifact.load(copy)
        except ArtifactError:
            refusals += 1
        else:
            assert (found.manifest, found.objects, found.weights.tobytes()) == wanted
    assert refusals > 200


def test_content_that_is_not_what_was_written(copy: Path) -> None:
    with zipfile.ZipFile(copy) as archive:
        places = {i.filename: i.header_offset for i in archive.infolist()}
    whole = bytearray(copy.read_bytes())
    for name in ("weights.bin", "code/0001.o"):
        offset = places[name]
        names, extra = struct.unpack_from("<2H", whole, offset + 26)
        changed = bytearray(whole)
        changed[offset + 30 + names + extra + 3] ^= 4
        copy.write_bytes(changed)
        assert refused(copy) == (
            f"PATH is damaged: the content of {name!r} is not what was written\n{AGAIN}"
        )


def test_another_format(copy: Path) -> None:
    rewritten(copy, lambda head: head.update(format=artifact.FORMAT + 1, tensorsmith="99.0"))
    assert refused(copy) == (
        f"PATH has format {artifact.FORMAT + 1}, and this version of Tensorsmith reads format"
        f" {artifact.FORMAT}\n"
        f"  given: written by Tensorsmith 99.0; this is {__version__}\n"
        "  try: compile the model again, or use the version that wrote the file"
    )


def test_another_machine(copy: Path) -> None:
    features = ["amx-bf16-of-tomorrow", "sse9"]
    rewritten(copy, lambda head: head["model"]["target"]["features"].extend(features))
    cpu = Target.host().cpu
    assert refused(copy) == (
        "PATH needs what this processor lacks: amx-bf16-of-tomorrow, sse9\n"
        f"  given: compiled for {cpu}; this is {cpu}\n"
        "  try: compile the model on this machine, or for a target that both are, such as"
        " 'x86-64-v3'"
    )
    rewritten(copy, lambda head: head["model"]["target"].update(triple="riscv64-unknown-linux-gnu"))
    assert refused(copy) == (
        f"PATH was compiled for riscv64-unknown-linux-gnu, and this is {Target.host().triple}\n"
        "  try: compile the model on a machine of this kind"
    )


def test_parts_that_are_missing_or_too_many(copy: Path, saved: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for name in ("weights.bin", "code/0000.o"):
        repacked(copy, {n: data for n, data in parts.items() if n != name})
        assert refused(copy) == f"PATH is damaged: it lacks {name!r}\n{AGAIN}"
    repacked(copy, {**parts, "extra.so": b""})
    assert refused(copy) == (
        f"PATH is damaged: it has a part 'extra.so' that the manifest does not know\n{AGAIN}"
    )
    repacked(copy, {**parts, "weights.bin": parts["weights.bin"] + b"\0"})
    assert refused(copy) == (
        f"PATH is damaged: 'weights.bin' has 65 bytes, and should have 64\n{AGAIN}"
    )
    with zipfile.ZipFile(copy, "w") as archive:
        archive.writestr("manifest.json", parts["manifest.json"])
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("manifest.json", b"{}")
    assert refused(copy) == f"PATH is damaged: it has 'manifest.json' twice\n{AGAIN}"


def test_bombs_are_not_opened(copy: Path) -> None:
    repacked(copy, {"manifest.json": bytes(50 << 20)}, zipfile.ZIP_DEFLATED)
    assert copy.stat().st_size < 100_000
    assert refused(copy) == (
        "PATH is damaged: 'manifest.json' is compressed or encrypted, which no part ever is\n"
        f"{AGAIN}"
    )


def test_sizes_past_the_end(copy: Path) -> None:
    with zipfile.ZipFile(copy) as archive:
        info = archive.getinfo("code/0000.o")
    whole = bytearray(copy.read_bytes())
    record = whole.index(struct.pack("<L", info.CRC), whole.index(b"PK\x01\x02"))
    struct.pack_into("<LL", whole, record + 4, 1 << 30, 1 << 30)  # in the directory
    copy.write_bytes(whole)
    assert refused(copy) == f"PATH is damaged: 'code/0000.o' does not fit into the file\n{AGAIN}"


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head["model"].pop("stages"),
        lambda head: head["model"]["inputs"][0].update(dtype="float99"),
        lambda head: head["model"]["outputs"][0].update(shape=[["exec", "n", 1]]),
        lambda head: head["model"]["stages"][0].update(kind="shell"),
        lambda head: head.update(objects=7),
        lambda head: head["objects"][0].update(programs=[{"name": "f"}]),
        lambda head: head["model"]["dimensions"][0].update(multiple_of=0),
    ],
)
def test_manifests_that_are_none(copy: Path, change: Callable[[dict[str, Any]], None]) -> None:
    rewritten(copy, change)
    assert refused(copy).startswith("PATH is damaged: its manifest is not what this format has\n")


def test_manifests_that_call_other_programs(copy: Path, saved: Path) -> None:
    rewritten(copy, lambda head: head["model"]["stages"][0].update(program="other"))
    assert refused(copy) == (
        f"PATH is damaged: its manifest calls 'other' otherwise than its code is\n{AGAIN}"
    )
    shutil.copy(saved, copy)
    rewritten(copy, lambda head: head["model"]["stages"][0]["inputs"].pop())
    assert refused(copy) == (
        f"PATH is damaged: its manifest calls 'main' otherwise than its code is\n{AGAIN}"
    )


def test_stages_that_do_not_fit_together(copy: Path, saved: Path) -> None:
    cases: dict[str, Callable[[dict[str, Any]], None]] = {
        "a stage takes 'ids', which nothing makes before": lambda m: m["inputs"][0].update(
            name="other"
        ),
        "nothing makes the output 'other'": lambda m: m["outputs"][0].update(name="other"),
        "two inputs have one name": lambda m: m["inputs"][0].update(name="mask"),
        "'main' has weights beyond the last one": lambda m: m["stages"][0].update(weights=[8, 64]),
        "'ids' is made twice": lambda m: m["stages"][0]["outputs"][0].update(name="ids"),
    }
    for reason, change in cases.items():
        shutil.copy(saved, copy)
        rewritten(copy, lambda head, change=change: change(head["model"]))  # type: ignore[misc]
        assert refused(copy) == (
            f"PATH is damaged: its stages do not fit together\n  because: {reason}\n{AGAIN}"
        )
    shutil.copy(saved, copy)
    rewritten(
        copy, lambda head: head["objects"][-1]["programs"][0]["kernels"][0].update(name="subtract")
    )
    assert refused(copy).startswith("PATH is damaged: its code does not link\n")


def places(data: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a piece of JSON."""
    if path:
        yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if _is_list(data) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def _is_list(data: object) -> TypeGuard[list[Any]]:
    return isinstance(data, list)


WRONG = (None, 0, -1, 2**70, 3.5, "", "n", "float64", [], {}, [1], ["add", "n", 1], True)


def test_manifests_with_anything_in_them(copy: Path, saved: Path) -> None:
    """Any change of a manifest: an error of ours on loading or in a call, or a result."""
    with zipfile.ZipFile(saved) as archive:
        head = json.loads(archive.read("manifest.json"))
    known = [p for p in places(head) if p[0] in ("model", "parts", "objects") and "types" not in p]
    random = np.random.default_rng(2)
    refusals = 0
    for _ in range(150):
        *way, last = known[random.integers(len(known))]
        value = WRONG[random.integers(len(WRONG))]

        def change(head: dict[str, Any], way: Any = way, last: Any = last, v: Any = value) -> None:
            place: Any = head
            for key in way:
                place = place[key]
            place[last] = v

        shutil.copy(saved, copy)
        rewritten(copy, change)
        try:
            Model.load(copy, threads=1)(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
        except TensorsmithError:
            refusals += 1
    assert refusals > 50


def test_folders_that_cannot_be_written(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as raised:
        Model.load(saved).save(tmp_path / "nowhere" / "model.tsm")
    assert str(raised.value) == (
        f"{tmp_path}/nowhere/model.tsm cannot be written\n  because: No such file or directory"
    )
