"""The figures of a benchmark as a Markdown table.

python bench/report.py bench/results/networks.json
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any


def rows(document: dict[str, Any]) -> list[str]:
    """The lines of the table: medians in milliseconds, and our ratio to the best peer."""
    results = document["results"]
    peers = [name for name in results[0]["peers"] if name != "tensorsmith"]
    lines = [
        f"| model | threads | tensorsmith | {' | '.join(peers)} | ours / best peer |",
        f"| --- | ---: | ---: |{' ---: |' * len(peers)} ---: |",
    ]
    ratios = []
    for row in results:
        medians = {n: f["median_us"] / 1e3 for n, f in row["peers"].items() if "median_us" in f}
        cells = [_cell(medians.get(name)) for name in ("tensorsmith", *peers)]
        best = min((m for n, m in medians.items() if n != "tensorsmith"), default=None)
        ratio = None
        if best is not None and "tensorsmith" in medians:
            ratio = medians["tensorsmith"] / best
            ratios.append(ratio)
        cells.append("-" if ratio is None else f"{ratio:.2f}")
        lines.append(f"| {row['case']} | {row['threads']} | {' | '.join(cells)} |")
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        lines.append(f"\nGeometric mean of ours over the best peer's: {mean:.2f}.")
    machine = document["machine"]
    lines.append(
        f"{machine['processor']} ({machine['llvm_cpu']}, {machine['cores']} cores),"
        f" {machine['date']}."
    )
    return lines


def _cell(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:.2f}"


def main() -> None:
    """Print the table of a file of figures."""
    for path in sys.argv[1:]:
        print("\n".join(rows(json.loads(Path(path).read_text(encoding="utf-8")))))


if __name__ == "__main__":
    main()
