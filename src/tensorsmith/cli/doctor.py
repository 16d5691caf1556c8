"""``tensorsmith doctor``: what this machine offers, and whether compiling and running works."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import typer

import tensorsmith
from tensorsmith import knobs
from tensorsmith.cli.display import out, print_json, size_text, working
from tensorsmith.errors import TensorsmithError
from tensorsmith.target import Target

if TYPE_CHECKING:
    from tensorsmith.ir import TensorProgram

PACKAGES: Final = ("numpy", "llvmlite", "onnx", "ml_dtypes", "onnxruntime", "torch")
SHOWN_FEATURES: Final = (
    *("sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vnni", "avx512bf16"),
    *("avxvnni", "amx-int8", "amx-bf16", "neon", "dotprod", "fullfp16", "sve"),
)
GOOD: Final = "ok"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. problem: what is wrong and what to do about it; None if all is well."""

    name: str
    problem: str | None
    seconds: float


def doctor(
    *,
    limits: Annotated[bool, typer.Option(help="Measure the machine's peak rates, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what this machine offers, and test that compiling and running works.

    Prints a block to paste into a report. Fails if a test does.
    """
    with working("testing", quiet=as_json):
        facts = _facts()
        findings = [_try(name, check) for name, check in _CHECKS.items()]
        if limits:
            from tensorsmith.codegen.limits import measure

            facts["limits"] = [asdict(measure(t)) for t in sorted({1, Target.host().cores})]
    if as_json:
        print_json({**facts, "checks": [asdict(f) for f in findings]})
    else:
        _print(facts, findings)
    if failed := [f for f in findings if f.problem]:
        raise TensorsmithError(f"{len(failed)} of {len(findings)} tests failed")


def _facts() -> dict[str, Any]:
    from tensorsmith.runtime.jit import llvm_version

    host = Target.host()
    return {
        "tensorsmith": tensorsmith.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.platform(),
        "llvm": llvm_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "target": host.triple,
        "processor": host.cpu,
        "features": [f for f in SHOWN_FEATURES if f in host.features],
        "vector_bytes": host.vector_bytes,
        "threads": {"usable": host.cores, "processors": os.cpu_count()},
        "caches": {level: getattr(host.caches, level) for level in ("l1", "l2", "l3")},
        "cache_folder": str(knobs.cache_folder()) if knobs.cache_is_on() else "switched off",
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _try(name: str, check: Callable[[], str | None]) -> Finding:
    begin = time.perf_counter()
    try:
        problem = check()
    except (TensorsmithError, OSError) as error:
        problem = str(error)
    return Finding(name, problem, time.perf_counter() - begin)


# --- Tests ------------------------------------------------------------------------------------


def _matmul(size: int) -> TensorProgram:
    from tensorsmith import te

    a, b = (te.placeholder((size, size), name=n) for n in "AB")
    k = te.reduce_axis(size, "k")
    product = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    return te.program([a, b], product, "self_test")


def _compiles(threads: int) -> str | None:
    from tensorsmith.codegen import build
    from tensorsmith.schedule import default

    size = 96
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (size, size)).astype(np.float32) for _ in "ab")
    c = np.empty((size, size), np.float32)
    build(default(_matmul(size)), threads=threads, cache=False)(a, b, c)
    if np.array_equal(c, a @ b):  # small integers: exact in any order
        return None
    return "a product of matrices came out wrong; please report it with the block above"


def _cache_works() -> str | None:
    if not knobs.cache_is_on():
        return None
    folder = knobs.cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(b"0" * 65536)
    except OSError as error:
        reason = error.strerror or str(error)
        return f"{folder} cannot be written ({reason}): set TENSORSMITH_CACHE_DIR to another folder"
    return None


def _reads_onnx() -> str | None:
    import onnx

    return None if onnx.defs.onnx_opset_version() >= 7 else "the onnx package is too old"


_CHECKS: Final[dict[str, Callable[[], str | None]]] = {
    "compiles and runs on 1 thread": lambda: _compiles(1),
    "compiles and runs on all threads": lambda: _compiles(Target.host().cores),
    "keeps compiled code": _cache_works,
    "reads ONNX": _reads_onnx,
}


# --- Text -------------------------------------------------------------------------------------


def _print(facts: dict[str, Any], findings: list[Finding]) -> None:
    console = out()
    packages = ", ".join(f"{n} {v}" for n, v in facts["packages"].items() if v and n != "llvmlite")
    missing = ", ".join(n for n, v in facts["packages"].items() if not v)
    caches = ", ".join(f"{n.upper()} {size_text(v)}" for n, v in facts["caches"].items())
    usable, present = facts["threads"]["usable"], facts["threads"]["processors"]
    lines = {
        "tensorsmith": facts["tensorsmith"],
        "python": facts["python"],
        "system": facts["system"],
        "packages": f"{packages}, {facts['llvm']}",
        "not installed": missing or "nothing of what is optional",
        "target": f"{facts['target']}, {facts['processor']}",
        "features": f"{' '.join(facts['features'])} ({8 * facts['vector_bytes']}-bit vectors)",
        "threads": f"{usable} usable of {present} (affinity and control group heeded)",
        "caches": caches,
        "compiled code": facts["cache_folder"],
    }
    for name, text in lines.items():
        console.print(f"{name:14} {text}")
    for limit in facts.get("limits", ()):
        reads = ", ".join(f"{level} {rate:.0f}" for level, rate in limit["read_gbs"].items())
        console.print(
            f"{limit['threads']} thread{'s' if limit['threads'] > 1 else ' '}      "
            f"{limit['gflops']:.0f} GFLOP/s in f32, reads {reads} GB/s"
        )
    console.print()
    for finding in findings:
        verdict = finding.problem or GOOD
        console.print(f"{finding.name:34} {verdict}  ({1e3 * finding.seconds:.0f} ms)")
