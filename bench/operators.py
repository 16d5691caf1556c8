"""Operators against every peer that is installed, in one run.

Each is an ONNX model of a few nodes, compiled as any model is. Each peer runs in a process of its
own and takes turns with the others. Outputs are compared with an exact reference before a time
counts. Prints a table of medians, and writes all figures with the machine they are from.
"""

from __future__ import annotations

import functools
from typing import Any

import measure
from cases import Operator, all_cases
from peers import OURS, PEERS
from work import Expected, Work

from tensorsmith.codegen.limits import Limits
from tensorsmith.target import Target

QUICK = (
    *("matmul_512x512x512", "linear_128x768x3072", "gemv_4096x4096", "int8_gemv_4096x4096"),
    *("q4_gemv_4096x4096", "conv3x3_64_64_56", "dwconv3x3_144_56", "attention_12x128x64"),
    *("softmax_1536x128", "layer_norm_128x768", "gelu_4096x1024"),
)

operators = functools.cache(all_cases)


def work(case: str) -> Work:
    """What peers get."""
    return operators()[case].work()


def expected(case: str) -> Expected:
    """The exact result."""
    return operators()[case].expected()


def facts(case: str, ours: dict[str, Any], limit: Limits) -> dict[str, Any]:
    """Operations and bytes, and our share of what the machine can do."""
    operator = operators()[case]
    share = None
    if "median_us" in ours:
        bound = bound_seconds(operator, limit)
        share = None if bound is None else bound / (ours["median_us"] * 1e-6)
    return {
        "group": operator.group,
        "flops": operator.flops,
        "bytes": operator.bytes,
        "share": share,
    }


def bound_seconds(operator: Operator, limit: Limits) -> float | None:
    """The least time that the machine's peaks allow; None for products of integers that are not
    bound by memory, since the peak is one of floats."""
    memory = operator.bytes / (bandwidth_gbs(operator.bytes, limit) * 1e9)
    if operator.floats:
        return max(operator.flops / (limit.gflops * 1e9), memory)
    return memory if operator.flops < 8 * operator.bytes else None


def bandwidth_gbs(size: float, limit: Limits) -> float:
    """The rate at which so many bytes, touched again and again, can be read. Data beyond eight
    second-level caches counts as memory, since others share the cache after that."""
    caches = Target.host().caches
    second = caches.l2 * limit.threads
    levels = {"L1": caches.l1 * limit.threads, "L2": second, "L3": min(caches.l3, 8 * second)}
    fits = [level for level, at_most in levels.items() if size <= at_most]
    return limit.read_gbs[fits[0] if fits else "memory"]


SUITE = measure.Suite(
    name="operators",
    cases=list(operators()),
    quick=QUICK,
    peers=[n for n in PEERS if not n.startswith(OURS)],
    expected=expected,
    facts=facts,
    dynamic=lambda _: False,
)

if __name__ == "__main__":
    measure.main(SUITE)
