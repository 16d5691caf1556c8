"""Plots of figures: our latency over the peers', and kernels under the machine's roofs."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import tables
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from tables import Document

DOTS_PER_INCH = 130
GOOD, BAD, NEUTRAL = "#2a9d6f", "#d9603b", "#555555"
PEER_STYLES = {
    "onnxruntime": ("o", "#1f5fa8"),
    "openvino": ("s", "#7a3fb0"),
    "torch": ("^", "#c2185b"),
    "torch-compile": ("v", "#e08aa8"),
    "iree": ("D", "#8a6d1d"),
    "tvm": ("P", "#00838f"),
    "numpy": ("X", "#4d4d4d"),
}
OTHER_STYLES = (("<", "#5d4037"), (">", "#607d8b"), ("h", "#9e9d24"), ("p", "#ad1457"))
KINDS = {
    "convolution": ("conv", "#1f5fa8"),
    "attention": ("attention", "#c2185b"),
    "matrix product": ("matmul|gemm|linear|gemv", "#d9603b"),
    "recurrence": ("lstm|gru|rnn|scan", "#7a3fb0"),
    "normalisation, softmax, sums": ("norm|softmax|reduce|sum|mean", "#2a9d6f"),
    "pooling": ("pool", "#b8860b"),
    "others": ("", "#607d8b"),
}
"""What kernels do, by the first pattern that is in their names; and its colour."""
FARTHEST = 16.0
"""Ratios beyond this, or below its inverse, stand at the edge of the plot."""
RATIO_TICKS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16)

mpl.rcParams.update(
    {
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
    }
)


def peer_styles(names: list[str]) -> dict[str, tuple[str, str]]:
    """A marker and a colour for each peer."""
    unknown = [n for n in names if n not in PEER_STYLES]
    others = {n: OTHER_STYLES[k % len(OTHER_STYLES)] for k, n in enumerate(unknown)}
    return {n: PEER_STYLES.get(n) or others[n] for n in names}


# --- Latency ----------------------------------------------------------------------------------


def latency_plot(document: Document, threads: int, heading: str) -> Figure:
    """A bar a case: our time over the best peer's, on a log scale; a mark for each peer."""
    rows = [r for r in document["results"] if r["threads"] == threads]
    rows = [r for r in rows if tables.ratio(r, tables.best_peer(r)) is not None]
    figure = Figure(figsize=(9, 1.7 + 0.27 * max(len(rows), 4)), layout="constrained")
    axes = figure.subplots()
    bars = [tables.ratio(r, tables.best_peer(r)) or 1.0 for r in rows]
    places = range(len(rows))
    for place, value in zip(places, bars, strict=True):
        shown = _within(value)
        axes.barh(place, shown - 1, left=1, height=0.62, color=GOOD if value <= 1 else BAD)
        axes.annotate(
            f"{value:.2f}",
            (max(shown, 1.0), place),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=GOOD if value <= 1 else BAD,
            fontweight="bold",
            zorder=5,
            bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.8},
        )
    _mark_peers(axes, rows, document)
    axes.axvline(1.0, color="black", linewidth=1.2, zorder=4)
    axes.set_yticks(list(places), [tables.title(r) for r in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    _ratio_axis(axes)
    mean = tables.geometric_mean(bars) if bars else 1.0
    note = f"bar: the best peer, geometric mean {mean:.2f}; marks: each peer, at the edge if beyond"
    title = (
        f"{heading}, {_threads(threads)}: our latency over the peers' (left of 1: ours is faster)"
    )
    _headed(figure, axes, title, note)
    return figure


def _mark_peers(axes: Any, rows: list[dict[str, Any]], document: Document) -> None:
    for name, (marker, colour) in peer_styles(tables.rivals(document)).items():
        found = [(q, k) for k, r in enumerate(rows) if (q := tables.ratio(r, name)) is not None]
        if found:
            values, places = zip(*found, strict=True)
            axes.scatter(
                *([_within(v) for v in values], places),
                marker=marker,
                s=22,
                color=colour,
                label=name,
                zorder=3,
                edgecolors="white",
                linewidths=0.6,
            )
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.6 / max(len(rows), 4)), ncols=8, frameon=False
    )


def _ratio_axis(axes: Any) -> None:
    low, high = axes.get_xlim()
    axes.set_xscale("log")
    axes.set_xlim(max(min(low, 0.4), 0.9 / FARTHEST), min(max(high, 2.5), 1.25 * FARTHEST))
    axes.xaxis.set_major_locator(FixedLocator(RATIO_TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(_fraction))
    axes.grid(axis="x", color="#dddddd", linewidth=0.8)
    axes.tick_params(axis="y", length=0)


def _headed(figure: Figure, axes: Any, title: str, note: str) -> None:
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    axes.set_title(note, loc="left", fontsize=9, color=NEUTRAL)


def _fraction(value: float, _: object) -> str:
    return f"{value:g}" if value >= 1 else f"1/{1 / value:g}"


def _within(value: float) -> float:
    return min(max(value, 1 / FARTHEST), FARTHEST)


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


# --- Roofline ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """A kernel of ours: operations a byte and a second (in 1e9), and its time in a call."""

    kind: str
    intensity: float
    gflops: float
    us: float


def points(document: Document, threads: int) -> Iterator[Point]:
    """Our kernels whose costs are known."""
    for row in document["results"]:
        if row["threads"] != threads:
            continue
        for kernel in row.get("kernels", ()):
            flops, moved, us = kernel["flops"], kernel["bytes"], kernel["us"]
            if flops and moved and us:
                kind = next(
                    k for k, (words, _) in KINDS.items() if re.search(words, kernel["name"])
                )
                yield Point(kind, flops / moved, flops / us / 1e3, us)


def roofline_plot(document: Document, threads: int, heading: str) -> Figure | None:
    """Kernels by operations a byte and a second, under the measured roofs; None without any."""
    found = list(points(document, threads))
    limit = document["limits"].get(str(threads))
    if not found or limit is None:
        return None
    figure = Figure(figsize=(9, 5.6), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    intensities = [p.intensity for p in found]
    axes.set_xlim(min(0.06, *intensities) / 1.4, max(256.0, *intensities) * 1.4)
    axes.set_ylim(max(min(p.gflops for p in found) / 2, 0.01), 2 * limit["gflops"])
    most = max(p.us for p in found)
    for kind, (_, colour) in KINDS.items():
        chosen = [p for p in found if p.kind == kind]
        if chosen:
            axes.scatter(
                [p.intensity for p in chosen],
                [p.gflops for p in chosen],
                s=[12 + 150 * (p.us / most) ** 0.5 for p in chosen],
                color=colour,
                label=kind,
                alpha=0.65,
                edgecolors="white",
                linewidths=0.6,
                zorder=3,
            )
    axes.set_xlabel("operations for a byte of operands and results")
    axes.set_ylabel("GFLOP/s")
    axes.xaxis.set_major_formatter(FuncFormatter(_fraction))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.grid(color="#e5e5e5", linewidth=0.7)
    legend = figure.legend(loc="outside lower center", ncols=4, frameon=False)
    for handle in legend.legend_handles:
        handle.set_sizes([40])
    _headed(figure, axes, f"{heading}, {_threads(threads)}: our kernels", ROOFLINE_NOTE)
    _roofs(figure, axes, limit)
    return figure


ROOFLINE_NOTE = (
    "a dot: a kernel, larger the longer it takes; lines: what this machine can, measured"
)


def _roofs(figure: Figure, axes: Any, limit: dict[str, Any]) -> None:
    (low, high), (bottom, _), peak = axes.get_xlim(), axes.get_ylim(), limit["gflops"]
    axes.plot([low, high], [peak, peak], color="black", linewidth=1.4, zorder=2)
    label = {"textcoords": "offset points", "fontsize": 8, "color": "#444444", "zorder": 4}
    text = f"multiply-adds in float32, {peak:.0f} GFLOP/s"
    axes.annotate(text, (high, peak), (-4, 4), ha="right", **label)
    figure.draw_without_rendering()  # from here on places are known
    to_screen = axes.transData.transform
    rates = sorted(limit["read_gbs"].items(), key=lambda item: -item[1])
    for level, rate in rates:
        begin, end = max(low, bottom / rate), peak / rate
        axes.plot([begin, end], [begin * rate, peak], color="#888888", linewidth=1.0, zorder=2)
        (x0, y0), (x1, y1) = to_screen([(begin, begin * rate), (end, peak)])
        beside = any(q > rate and q < 1.5 * rate for _, q in rates)  # a line just above
        axes.annotate(
            f"{level}, {rate:.0f} GB/s",
            (begin, begin * rate),
            (20, 8) if beside else (5, 9),
            va="top" if beside else "bottom",
            rotation=math.degrees(math.atan2(y1 - y0, x1 - x0)),
            rotation_mode="anchor",
            **label,
        )


# --- Files ------------------------------------------------------------------------------------


def all_plots(documents: Mapping[str, Document]) -> Iterator[tuple[str, Figure]]:
    """Each with the name of its file."""
    for name, document in documents.items():
        heading = tables.SUITES.get(name, name)
        for threads in tables.thread_counts(document):
            yield f"{name}-latency-{threads}", latency_plot(document, threads, heading)
            made = roofline_plot(document, threads, heading)
            if made is not None:
                yield f"{name}-roofline-{threads}", made


def png(figure: Figure) -> bytes:
    """The same bytes for the same figure."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return stream.getvalue()


def write(documents: Mapping[str, Document], folder: Path) -> list[Path]:
    """All plots as PNG files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in all_plots(documents):
        path = folder / f"{name}.png"
        path.write_bytes(png(figure))
        written.append(path)
    return written
