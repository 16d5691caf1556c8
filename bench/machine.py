"""What figures are from: the machine, and the versions of what was measured."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def machine() -> dict[str, Any]:
    """The processor, the system and the day."""
    from tensorsmith.target import Target

    host = Target.host()
    return {
        "processor": processor(),
        "llvm_cpu": host.cpu,
        "vector_bits": 8 * host.vector_bytes,
        "cores": host.cores,
        "caches": asdict(host.caches),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
    }


def processor() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [x.partition(":")[2].strip() for x in lines if x.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def revision() -> str:
    """The version of ours, with the commit and whether files differ from it, as far as is known."""
    version = importlib.metadata.version("tensorsmith")
    git = shutil.which("git")
    if git is None:
        return version
    command = [git, "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(  # noqa: S603 - git, on this repository
        command, capture_output=True, text=True, check=False
    )
    return f"{version} ({done.stdout.strip()})" if done.returncode == 0 else version


def command_line() -> str:
    """The command that runs."""
    script = Path(sys.argv[0]).resolve()
    shown = script.relative_to(ROOT) if script.is_relative_to(ROOT) else script.name
    return shlex.join(["python", str(shown), *sys.argv[1:]])
