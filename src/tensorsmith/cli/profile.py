"""``tensorsmith profile``: where a model's time goes, kernel by kernel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tensorsmith.cli.display import out, print_json, shorter, table, working
from tensorsmith.cli.models import (
    Fills,
    Inputs,
    Json,
    ModelPath,
    Seed,
    Sizes,
    Threads,
    feeds,
    open_model,
)

if TYPE_CHECKING:
    from tensorsmith.codegen.limits import Limits
    from tensorsmith.runtime.model_profile import KernelTimes, ModelProfile

SHOWN_SHARE: Final = 0.002
"""Kernels that take less of the time are counted together."""


def profile(
    model: ModelPath,
    files: Inputs = [],  # noqa: B006 - typer reads it, nobody writes it
    extents: Sizes = [],  # noqa: B006
    fills: Fills = [],  # noqa: B006
    *,
    threads: Threads = None,
    repeats: Annotated[int, typer.Option(min=1, help="Calls to time.")] = 20,
    trace: Annotated[
        Path | None, typer.Option(help="Write the last call for ui.perfetto.dev to this file.")
    ] = None,
    limits: Annotated[
        bool, typer.Option(help="Measure the machine's peak rates, to compare with.")
    ] = True,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Time each kernel: its share, its source nodes, and how near it is to what the machine can.

    GFLOP/s and GB/s count the operations, as the model is written, and the bytes of operands and
    results once each.
    """
    from tensorsmith.codegen.limits import measure

    made = open_model(model, threads=threads, quiet=as_json)
    given = feeds(made, files, extents, fills, seed)
    with working("timing", quiet=as_json):
        limit = measure(made.threads) if limits else None
        found = made.profile(repeats=repeats, warmup=3, **given)
    if trace is not None:
        found.write_trace(trace)
    rows = [_row(k, found, limit) for k in sorted(found.kernels, key=lambda k: -k.median)]
    if as_json:
        peaks = None if limit is None else {"gflops": limit.gflops, "read_gbs": limit.read_gbs}
        print_json({"median_us": 1e6 * found.median, "limits": peaks, "kernels": rows})
        return
    columns = ("kernel", "calls", "us", "share", "GFLOP/s", "GB/s", "of limit", "nodes")
    title = f"{made.name}: {1e6 * found.median:.0f} us on {made.threads} threads"
    shown = [r for r in rows if r["share"] >= SHOWN_SHARE]
    table(columns, [tuple(_cell(name, v) for name, v in r.items()) for r in shown], title)
    if rest := rows[len(shown) :]:
        out().print(f"{len(rest)} more kernels take {sum(r['share'] for r in rest):.1%}")
    out().print(f"between kernels: {1e6 * found.between:.1f} us")


def _row(kernel: KernelTimes, whole: ModelProfile, limit: Limits | None) -> dict[str, Any]:
    seconds = max(kernel.median, 1e-9)
    gflops = None if kernel.flops is None else kernel.flops / seconds / 1e9
    gbs = None if kernel.bytes_moved is None else kernel.bytes_moved / seconds / 1e9
    share_of_limit = None
    if limit is not None and gflops is not None and gbs is not None:
        share_of_limit = max(gflops / limit.gflops, gbs / limit.read_gbs["memory"])
    return {
        "kernel": kernel.name,
        "calls": kernel.calls,
        "us": 1e6 * kernel.median,
        "share": kernel.median / max(whole.median, 1e-12),
        "GFLOP/s": gflops,
        "GB/s": gbs,
        "of limit": share_of_limit,
        "nodes": list(kernel.sources),
    }


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name in ("share", "of limit"):
        return f"{value:.1%}"
    if isinstance(value, list):
        return shorter(value, 60)
    return f"{value:.1f}" if isinstance(value, float) else str(value)
