"""What a call from Python costs: a compiled program that does next to nothing.

Prints microseconds a call, medians over alternating rounds, for NumPy arrays and torch tensors, by
the fast path and by the general one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from tensorsmith import script as T
from tensorsmith.codegen import build
from tensorsmith.ir import Buffer, Store, TensorProgram, const

ROUNDS = 41
CALLS = 500


def program(tensors: int) -> TensorProgram:
    """A program of so many tensors and two numbers, which writes one element."""
    buffers = tuple(Buffer(f"b{i}", (8, 8), "float32") for i in range(tensors))
    scalars = (T.dim("x", min=None), T.dim("y", min=None))
    body = Store(buffers[0], (const(0), const(0)), const(1.0, "float32"))
    return TensorProgram(f"touch_{tensors}", (*buffers, *scalars), body)


def microseconds(call: Callable[[], object]) -> float:
    """One round's time a call."""
    started = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - started) / CALLS / 1e3


def subjects() -> dict[str, Callable[[], object]]:
    """What is measured, by name."""
    found: dict[str, Callable[[], object]] = {}
    try:
        import torch
    except ImportError:
        torch = None
    for tensors in (1, 3, 10):
        compiled = build(program(tensors), threads=1)[f"touch_{tensors}"]
        arrays = [np.zeros((8, 8), np.float32) for _ in range(tensors)]
        general = compiled._general  # noqa: SLF001 (what the fast path spares)
        found[f"{tensors} NumPy arrays"] = lambda c=compiled, a=arrays: c(*a, 3, 4)
        found[f"{tensors} NumPy arrays, in general"] = lambda c=general, a=arrays: c(*a, 3, 4)
        if torch is not None:
            tensors_ = [torch.zeros(8, 8) for _ in range(tensors)]
            found[f"{tensors} torch tensors"] = lambda c=compiled, a=tensors_: c(*a, 3, 4)
    return found


def main() -> None:
    """Measure and print."""
    calls = subjects()
    measured = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            measured[name].append(microseconds(call))
    print(f"{'call with two numbers and':<32} {'median us':>10} {'least us':>10}")
    for name, times in measured.items():
        print(f"{name:<32} {statistics.median(times):>10.2f} {min(times):>10.2f}")


if __name__ == "__main__":
    main()
