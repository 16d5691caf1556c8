"""Figures as tables: latencies, geometric means, compile times, what dynamic sizes cost."""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from peers import FIXED, OURS

Document = dict[str, Any]
Row = dict[str, Any]
NOTHING = "-"
SUITES = {
    "networks": "Whole models",
    "decoders": "Text generation",
    "operators": "Operators",
}
"""Headings of the suites, in the order of a report; one that has no figures is left out."""
SHOWN_IN_SUMMARY = ("onnxruntime", "openvino")


@dataclass(frozen=True)
class Table:
    """Cells as text, for a terminal, a page of Markdown or of HTML.

    texts: how many columns at the left are text; the others are numbers. ratios: the columns of
    ratios, which are good below 1. hints: what stands behind a cell, by row and column.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int = 1
    ratios: frozenset[int] = frozenset()
    hints: dict[tuple[int, int], str] = field(default_factory=dict)

    def markdown(self) -> str:
        """Lines with bars."""
        ruler = ["---" if k < self.texts else "---:" for k in range(len(self.columns))]
        lines = [self.columns, ruler, *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def text(self) -> str:
        """Aligned, for a terminal."""
        lines = [self.columns, *self.rows]
        widths = [max(len(line[k]) for line in lines) for k in range(len(self.columns))]
        return "\n".join(
            "  ".join(
                c.ljust(w) if k < self.texts else c.rjust(w)
                for k, (c, w) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def html(self) -> str:
        """An element with classes: `text`, `good` and `bad`."""
        head = "".join(self._cell("th", c, k, "") for k, c in enumerate(self.columns))
        body = [
            "".join(self._cell("td", c, k, self.hints.get((r, k), "")) for k, c in enumerate(row))
            for r, row in enumerate(self.rows)
        ]
        lines = "\n".join(f"<tr>{row}</tr>" for row in body)
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody>\n</table>"

    def _cell(self, tag: str, text: str, column: int, hint: str) -> str:
        classes = ["text"] if column < self.texts else []
        if tag == "td" and column in self.ratios and text != NOTHING:
            classes.append("good" if float(text) <= 1 else "bad")
        attributes = f' class="{" ".join(classes)}"' if classes else ""
        if hint:
            attributes += f' title="{html.escape(hint)}"'
        return f"<{tag}{attributes}>{html.escape(text)}</{tag}>"


# --- What rows say ----------------------------------------------------------------------------


def median_ms(row: Row, name: str) -> float | None:
    """A peer's time in a row; None if it has none."""
    figures = row["peers"].get(name, {})
    return figures["median_us"] / 1e3 if "median_us" in figures else None


def rivals(document: Document) -> list[str]:
    """The peers besides ours, in the order of the figures, that could do anything."""
    able = {n: None for r in document["results"] for n in r["peers"] if median_ms(r, n) is not None}
    order = {n: None for r in document["results"] for n in r["peers"]}
    return [n for n in order if n in able and n not in (OURS, FIXED)]


def best_peer(row: Row) -> str | None:
    """The fastest peer besides ours."""
    times = {n: median_ms(row, n) for n in row["peers"] if n not in (OURS, FIXED)}
    able = {n: t for n, t in times.items() if t is not None}
    return min(able, key=lambda n: able[n]) if able else None


def ratio(row: Row, name: str | None) -> float | None:
    """Our time over that of a peer; None where either has none."""
    ours, theirs = median_ms(row, OURS), None if name is None else median_ms(row, name)
    return None if ours is None or theirs is None else ours / theirs


def geometric_mean(values: Iterable[float]) -> float:
    """Of positive numbers."""
    return math.exp(statistics.fmean(map(math.log, values)))


def title(row: Row) -> str:
    """What a row's case is called."""
    return str(row.get("title", row["case"]))


def thread_counts(document: Document) -> list[int]:
    """In ascending order."""
    return sorted({r["threads"] for r in document["results"]})


# --- Tables -----------------------------------------------------------------------------------


def latency_table(document: Document) -> Table:
    """Every case: medians in milliseconds, our ratio to the best peer, our share of the limit."""
    names = [OURS, *rivals(document)]
    with_share = any(r.get("share") is not None for r in document["results"])
    columns = ["case", "threads", *names, "ours / best", *(["of limit"] if with_share else [])]
    rows, hints = [], {}
    for number, row in enumerate(document["results"]):
        cells = [title(row), str(row["threads"])]
        for name in names:
            figures = row["peers"].get(name, {})
            if "median_us" in figures:
                hint = f"p10 {figures['p10_us'] / 1e3:.3g} ms, p90 {figures['p90_us'] / 1e3:.3g} ms"
            else:
                hint = figures.get("verdict", "not measured")
            hints[number, len(cells)] = hint
            cells.append(milliseconds(median_ms(row, name)))
        cells.append(_ratio(ratio(row, best_peer(row))))
        if with_share:
            cells.append(_share(row.get("share")))
        rows.append(cells)
    return Table(columns, rows, 1, frozenset({2 + len(names)}), hints)


def means_table(document: Document) -> Table:
    """The geometric means of our time over the peers', by thread count."""
    counts = thread_counts(document)
    rows = []
    for name in [None, *rivals(document)]:
        cells = [name or "best of them"]
        for threads in counts:
            found = [
                q
                for r in document["results"]
                if r["threads"] == threads
                and (q := ratio(r, best_peer(r) if name is None else name)) is not None
            ]
            cells += [_ratio(geometric_mean(found)) if found else NOTHING, str(len(found))]
        rows.append(cells)
    columns = ["ours over"]
    for threads in counts:
        columns += [_threads(threads), "cases"]
    return Table(columns, rows, 1, frozenset(range(1, 2 * len(counts) + 1, 2)))


def group_table(document: Document) -> Table | None:
    """The geometric means of our time over the best peer's, by group; None for one group."""
    counts = thread_counts(document)
    groups = list(dict.fromkeys(r.get("group", "") for r in document["results"]))
    rows = []
    for group in groups:
        cells = [group]
        for threads in counts:
            found = [
                q
                for r in document["results"]
                if r["threads"] == threads and r.get("group", "") == group
                if (q := ratio(r, best_peer(r))) is not None
            ]
            cells += [_ratio(geometric_mean(found)) if found else NOTHING, str(len(found))]
        rows.append(cells)
    columns = ["ours over the best peer"]
    for threads in counts:
        columns += [_threads(threads), "cases"]
    ratios = frozenset(range(1, 2 * len(counts) + 1, 2))
    return Table(columns, rows, 1, ratios) if len(groups) > 1 else None


def summary_table(document: Document) -> Table:
    """One row a case: times on the fewest threads, and our ratios on all thread counts."""
    counts = thread_counts(document)
    names = [OURS, *(n for n in SHOWN_IN_SUMMARY if n in rivals(document))]
    by_case: dict[str, dict[int, Row]] = {}
    for row in document["results"]:
        by_case.setdefault(title(row), {})[row["threads"]] = row
    rows = []
    for case, found in by_case.items():
        first = found.get(counts[0])
        cells = [case]
        cells += [milliseconds(None if first is None else median_ms(first, n)) for n in names]
        for threads in counts:
            row = found.get(threads)
            cells.append(_ratio(None if row is None else ratio(row, best_peer(row))))
        rows.append(cells)
    columns = ["", *names, *(f"ours / best, {_threads(t)}" for t in counts)]
    ratios = range(1 + len(names), len(columns))
    return Table(columns, rows, 1, frozenset(ratios))


def compile_table(document: Document) -> Table:
    """Seconds from a model's file to its first result, on the first thread count."""
    threads = document["results"][0]["threads"]
    results = [r for r in document["results"] if r["threads"] == threads]
    cold = any("compile_cold_s" in r["peers"][OURS] for r in results)
    names = rivals(document)
    rows = []
    for row in results:
        ours = row["peers"][OURS]
        cells = [title(row)]
        cells += [_seconds(ours.get("compile_cold_s"))] if cold else []
        cells += [_seconds(ours.get("compile_s"))]
        cells += [_seconds(row["peers"].get(n, {}).get("compile_s")) for n in names]
        rows.append(cells)
    ours_columns = [f"{OURS}, cold", f"{OURS}, warm"] if cold else [OURS]
    return Table(["", *ours_columns, *names], rows)


def dynamic_table(document: Document) -> Table | None:
    """What sizes that are open cost: the same model compiled for these sizes. None if not known."""
    rows = []
    for row in document["results"]:
        cost = ratio(row, FIXED)
        if cost is not None:
            times = [milliseconds(median_ms(row, n)) for n in (OURS, FIXED)]
            rows.append([title(row), str(row["threads"]), *times, _ratio(cost)])
    columns = ["", "threads", "open", "fixed", "open / fixed"]
    return Table(columns, rows, 1, frozenset({4})) if rows else None


def failures(document: Document) -> list[str]:
    """Why peers have no time, each reason once with the cases it holds for."""
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for row in document["results"]:
        for name, figures in row["peers"].items():
            if "median_us" not in figures and not figures["verdict"].startswith("none: "):
                reasons.setdefault((name, figures["verdict"]), {})[title(row)] = None
    return [f"{name}, {', '.join(cases)}: {why}" for (name, why), cases in reasons.items()]


def provenance(document: Document) -> str:
    """The machine, the day, the versions and the command, in a few sentences."""
    machine = document["machine"]
    text = (
        f"{machine['processor']} ({machine['llvm_cpu']}, {machine['cores']} cores),"
        f" {machine['date']}"
    )
    if document.get("clock") == "cpu":
        text += ", the processor's time of each process, since the machine had other work"
    if document.get("versions"):
        text += "; " + ", ".join(f"{n} {v}" for n, v in document["versions"].items() if n != FIXED)
    return text + (f"; `{document['command']}`" if "command" in document else "") + "."


# --- Cells ------------------------------------------------------------------------------------


def milliseconds(value: float | None) -> str:
    """Three digits, or all before the point."""
    if value is None:
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def _ratio(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.0%}"


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"
