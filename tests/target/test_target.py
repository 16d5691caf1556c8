"""Descriptions of machines."""

import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from tensorsmith.errors import TargetError
from tensorsmith.target import Target
from tensorsmith.target.tile_registers import may_use_tiles


def test_host_is_found_once_and_complete() -> None:
    host = Target.host()
    assert host is Target.named("native")
    assert host.cpu
    assert host.cores >= 1
    assert 0 < host.caches.l1 <= host.caches.l2
    assert host.vector_bytes in (16, 32, 64)


def test_vector_width_follows_the_features() -> None:
    widths = [Target.named(n).vector_bytes for n in ("x86-64-v2", "x86-64-v3", "x86-64-v4")]
    assert widths == [16, 32, 64]
    assert Target.named("x86-64-v3").lanes(4) == 8
    assert Target.named("x86-64-v4").vector_registers == 32


def test_index_is_as_wide_as_a_pointer() -> None:
    assert Target.named("wasm32").index_bits == 32
    assert Target.named("aarch64").index_bits == 64


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(TargetError) as caught:
        Target.named("pentium")
    assert str(caught.value) == (
        "'pentium' is not a target\n"
        "  try: one of host, x86-64, x86-64-v2, x86-64-v3, x86-64-v4, sapphirerapids, aarch64,"
        " cortex-a72, neoverse-n1, armv7, riscv64, wasm32"
    )


def test_llvm_is_told_what_this_machine_lacks() -> None:
    flags = dict(llvm.get_host_cpu_features())
    if not may_use_tiles():
        flags = {f: has and not f.startswith("amx-") for f, has in flags.items()}
    told = Target.host().llvm_features().split(",")
    assert {f[1:] for f in told if f[0] == "+"} == {f for f, has in flags.items() if has}
    assert {f[1:] for f in told if f[0] == "-"} == {f for f, has in flags.items() if not has}
    assert "-" not in Target.named("x86-64-v3").llvm_features()


def _without_tiles() -> None:
    """What a process that may not use tile registers sees of its machine."""
    from unittest import mock

    with mock.patch("tensorsmith.target.target.may_use_tiles", return_value=False):
        target = Target.host()
    assert not any(f.startswith("amx-") for f in target.features)
    assert "+amx" not in target.llvm_features()


def test_tile_registers_are_no_feature_without_the_grant() -> None:
    code = f"from {__name__.rpartition('.')[2]} import _without_tiles; _without_tiles()"
    here = str(Path(__file__).parent)
    subprocess.run([sys.executable, "-c", code], cwd=here, check=True)


def test_the_grant_is_asked_for_with_the_host() -> None:
    """A process that knows the host may run code with tiles, if the machine has any."""
    tiles = {f for f, has in llvm.get_host_cpu_features().items() if has and f.startswith("amx-")}
    assert Target.host().features.intersection(tiles) == (tiles if may_use_tiles() else set())
