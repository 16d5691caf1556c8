"""What the compiler knows of a machine: its instruction set, registers, caches and cores."""

from __future__ import annotations

import functools
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tensorsmith.errors import TargetError
from tensorsmith.target.tile_registers import TILE_FEATURES, may_use_tiles

KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Caches:
    """Bytes of data cache: of the first and second level for one core, of the last one shared."""

    l1: int = 32 * KIB
    l2: int = 512 * KIB
    l3: int = 8 * KIB * KIB


@dataclass(frozen=True, slots=True)
class Target:
    """A machine to compile for.

    triple: as LLVM writes it, 'x86_64-unknown-linux-gnu'.
    cpu: LLVM's name of the processor, 'znver2'; '' for the plainest of its kind.
    features: what the instruction set has, by LLVM's names, such as 'avx2' and 'fma'.
    cores: processors that this process may use.
    """

    triple: str
    cpu: str = ""
    features: frozenset[str] = frozenset()
    caches: Caches = Caches()
    cores: int = 1

    @property
    def arch(self) -> str:
        """The architecture: 'x86_64', 'aarch64', 'riscv64', 'wasm32', ..."""
        return self.triple.partition("-")[0]

    @property
    def is_x86(self) -> bool:
        """Whether it is of the x86 family."""
        return self.arch in ("x86_64", "i686")

    @property
    def vector_bytes(self) -> int:
        """Bytes of the widest vector register worth using."""
        if self.is_x86:
            return 64 if "avx512f" in self.features else 32 if "avx" in self.features else 16
        return 16

    @property
    def vector_registers(self) -> int:
        """How many vector registers there are."""
        if self.is_x86:
            return 32 if "avx512f" in self.features else 16
        return 32 if self.arch in ("aarch64", "riscv64") else 16

    @property
    def has_fma(self) -> bool:
        """Whether it multiplies and adds with one rounding, at full speed."""
        return "fma" in self.features or self.arch in ("aarch64", "riscv64")

    @property
    def has_scalef(self) -> bool:
        """Whether it multiplies vectors of any width by powers of two in one instruction."""
        return self.is_x86 and {"avx512f", "avx512vl"} <= self.features

    @property
    def index_bits(self) -> int:
        """The width of ``index``: that of a pointer."""
        return 32 if self.arch in ("wasm32", "i686", "arm", "armv7", "thumb", "riscv32") else 64

    @property
    def abi(self) -> str:
        """The calling convention by LLVM's name, where the usual one is not what systems use."""
        if self.arch in ("riscv64", "riscv32"):
            base = "lp64" if self.arch == "riscv64" else "ilp32"
            return base + ("d" if "d" in self.features else "f" if "f" in self.features else "")
        return ""

    def lanes(self, dtype_bytes: int) -> int:
        """How many elements of this size one vector register holds."""
        return max(1, self.vector_bytes // dtype_bytes)

    def llvm_features(self) -> str:
        """The features as LLVM's target machine takes them.

        A processor's name stands for features, of which a virtual machine may have fewer: what this
        machine lacks is said, so that no code uses it.
        """
        signs = [f"+{f}" for f in sorted(self.features)]
        host = _host()
        if self.cpu and (self.cpu, self.features) == (host.cpu, host.features):
            signs += [f"-{f}" for f in sorted(_host_lacks())]
        return ",".join(signs)

    @staticmethod
    def host() -> Target:
        """This machine, with all that its processor has; found out once."""
        return _host()

    @staticmethod
    def named(name: str) -> Target:
        """A target by name: 'host', an x86-64 level ('x86-64-v3'), or one of `NAMED`.

        Raises TargetError, with the names there are.
        """
        if name in ("host", "native"):
            return _host()
        try:
            return NAMED[name]
        except KeyError:
            known = ", ".join(("host", *NAMED))
            raise TargetError(f"{name!r} is not a target", try_=f"one of {known}") from None

    @staticmethod
    def of(target: Target | str) -> Target:
        """`target` itself, or the one of that name: see `named`."""
        return target if isinstance(target, Target) else Target.named(target)


@functools.cache
def _host() -> Target:
    import llvmlite.binding as llvm

    return Target(
        triple=llvm.get_process_triple(),
        cpu=llvm.get_host_cpu_name(),
        features=frozenset(name for name, usable in _host_flags().items() if usable),
        caches=_host_caches(),
        cores=usable_cores(),
    )


@functools.cache
def _host_lacks() -> frozenset[str]:
    """The features that LLVM knows of, and this machine has not."""
    return frozenset(name for name, usable in _host_flags().items() if not usable)


def _host_flags() -> dict[str, bool]:
    """The features that LLVM knows of, and whether this process may use each."""
    import llvmlite.binding as llvm

    flags: dict[str, bool] = dict(llvm.get_host_cpu_features())
    tiles = [name for name, present in flags.items() if present and name.startswith(TILE_FEATURES)]
    if tiles and not may_use_tiles():
        flags |= dict.fromkeys(tiles, False)
    return flags


def usable_cores() -> int:
    """The processors this process may use: those it is bound to, or the share of them that its
    control group allows, whichever is less."""
    if hasattr(os, "sched_getaffinity"):
        bound = len(os.sched_getaffinity(0))
    else:
        bound = os.cpu_count() or 1
    quota = _group_quota()
    return bound if quota is None else max(1, min(bound, quota))


def _group_quota() -> int | None:
    """Whole processors that the control group (version 2, or 1) allows; None for no limit."""
    unified = _read("/sys/fs/cgroup/cpu.max").split()
    if len(unified) == 2 and unified[0].isdigit():
        return -(-int(unified[0]) // int(unified[1]))
    quota = _read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").strip()
    period = _read("/sys/fs/cgroup/cpu/cpu.cfs_period_us").strip()
    if quota.isdigit() and period.isdigit() and int(period) > 0:
        return -(-int(quota) // int(period))
    return None


def _host_caches() -> Caches:
    """The data caches as Linux tells them; typical ones elsewhere."""
    sizes: dict[int, int] = {}
    root = Path("/sys/devices/system/cpu/cpu0/cache")
    for index in sorted(root.glob("index*")) if platform.system() == "Linux" else ():
        if _read(index / "type").strip() in ("Data", "Unified"):
            level, size = _read(index / "level").strip(), _read(index / "size").strip()
            if level.isdigit() and size.endswith("K") and size[:-1].isdigit():
                sizes[int(level)] = int(size[:-1]) * KIB
    usual = Caches()
    return Caches(
        sizes.get(1, usual.l1), sizes.get(2, usual.l2), sizes.get(3, sizes.get(2, usual.l3))
    )


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


_LINUX: Final = "x86_64-unknown-linux-gnu"
_V2: Final = frozenset(("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16"))
_V3: Final = _V2 | {"avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"}
_V4: Final = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_TILES: Final = frozenset(("avx512vnni", "avxvnni", "amx-tile", "amx-int8"))
NAMED: Final[dict[str, Target]] = {
    "x86-64": Target(_LINUX, "x86-64"),
    "x86-64-v2": Target(_LINUX, "x86-64-v2", _V2),
    "x86-64-v3": Target(_LINUX, "x86-64-v3", _V3),
    "x86-64-v4": Target(_LINUX, "x86-64-v4", _V4),
    "sapphirerapids": Target(
        _LINUX,
        "sapphirerapids",
        _V4 | _TILES | {"avx512vnni", "avxvnni"},
        Caches(48 * KIB, 2048 * KIB),
    ),
    "aarch64": Target("aarch64-unknown-linux-gnu", "generic", frozenset(("neon",))),
    "cortex-a72": Target("aarch64-unknown-linux-gnu", "cortex-a72", frozenset(("neon",))),
    "neoverse-n1": Target(
        "aarch64-unknown-linux-gnu", "neoverse-n1", frozenset(("neon", "dotprod", "fullfp16"))
    ),
    "armv7": Target("armv7-unknown-linux-gnueabihf", "generic", frozenset(("neon", "vfp4"))),
    "riscv64": Target("riscv64-unknown-linux-gnu", "generic-rv64", frozenset(("m", "a", "f", "d"))),
    "wasm32": Target("wasm32-unknown-unknown", "generic", frozenset(("simd128",))),
}
"""Targets with a name, besides the host."""
