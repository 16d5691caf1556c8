"""Figures of bench/results as Markdown, as plots, and as one page of HTML.

python bench/report.py                        # print all tables
python bench/report.py bench/results/operators.json
python bench/report.py --update               # the tables and plots that the docs show
python bench/report.py --html report.html     # one file, with its plots inside
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import tables
from machine import ROOT
from tables import SUITES, Document

RESULTS = ROOT / "bench" / "results"
SHOWN_IN = ("README.md", "docs/reference/benchmarks.md")
"""Pages with marked places for tables."""
FIGURES = ROOT / "docs" / "reference" / "figures"
BLOCK = re.compile(r"(<!-- figures: (\w+) (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)


def load(paths: Sequence[Path] = ()) -> dict[str, Document]:
    """The documents of suites by name: of these files, or of all that a whole run wrote."""
    paths = paths or [p for name in SUITES if (p := RESULTS / f"{name}.json").exists()]
    found = [(p, json.loads(p.read_text(encoding="utf-8"))) for p in paths]
    return {document.get("suite", path.stem): document for path, document in found}


# --- Markdown ---------------------------------------------------------------------------------


def highlights(document: Document) -> str:
    """One row a model, by the first choice of its sizes; means over all; the machine."""
    first = [r for r in document["results"] if r["case"].partition("@")[2] in ("", "0")]
    return "\n\n".join(
        [
            f"Medians in milliseconds on {_fewest_threads(document)}:",
            tables.summary_table({**document, "results": first}).markdown(),
            f"Geometric means of our time over the peers', of all {_cases(document)} cases:",
            tables.means_table(document).markdown(),
            _wrapped(tables.provenance(document)),
        ]
    )


def latency(document: Document) -> str:
    """All peers on all thread counts, the means, and where they are from."""
    return "\n\n".join(
        [
            tables.latency_table(document).markdown(),
            "Geometric means of our time over the peers':",
            tables.means_table(document).markdown(),
            *([] if (groups := tables.group_table(document)) is None else [groups.markdown()]),
            _wrapped(tables.provenance(document)),
        ]
    )


def compile_times(document: Document) -> str:
    """Seconds from a model's file to its first result."""
    return tables.compile_table(document).markdown()


def dynamic_cost(document: Document) -> str:
    """What open sizes cost."""
    table = tables.dynamic_table(document)
    return "Not measured: `--dynamic-cost` does." if table is None else table.markdown()


def failures(document: Document) -> str:
    """What peers could not run, and why."""
    found = tables.failures(document)
    return "\n".join(f"- {_plain(line)}" for line in found) if found else "None."


VIEWS: Mapping[str, Callable[[Document], str]] = {
    "highlights": highlights,
    "latency": latency,
    "compile": compile_times,
    "dynamic": dynamic_cost,
    "failures": failures,
}


def updated(page: str, documents: Mapping[str, Document]) -> str:
    """A page with its marked places as the figures have it.

    A place is between `<!-- figures: SUITE VIEW -->` and `<!-- end of figures -->`. One of a suite
    without figures keeps what it has.
    """

    def block(match: re.Match[str]) -> str:
        begin, suite, view, end = match.groups()
        if suite not in documents:
            return match[0]
        return f"{begin}\n{VIEWS[view](documents[suite])}\n\n{end}"

    return BLOCK.sub(block, page)


def markdown(documents: Mapping[str, Document]) -> str:
    """All tables."""
    parts = []
    for name, document in documents.items():
        parts += [f"## {SUITES.get(name, name)}", latency(document)]
        parts += ["### Seconds to compile", compile_times(document)]
        if tables.dynamic_table(document) is not None:
            parts += ["### What open sizes cost", dynamic_cost(document)]
        parts += ["### What peers could not run", failures(document)]
    return "\n\n".join(parts)


def _fewest_threads(document: Document) -> str:
    fewest = tables.thread_counts(document)[0]
    return f"{fewest} thread{'s' if fewest > 1 else ''}"


def _cases(document: Document) -> int:
    return len({r["case"] for r in document["results"]})


def _plain(text: str) -> str:
    """Without what Markdown would take for markup, on one short line."""
    return f"{re.sub(r'[<>|*`]', ' ', text)[:200]}"


def _wrapped(text: str, width: int = 110) -> str:
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def main() -> None:
    """Print, or write what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, help="figures; all of bench/results if none")
    parser.add_argument("--update", action="store_true", help="rewrite what the docs show")
    parser.add_argument("--html", type=Path, help="write a page with plots to this file")
    parser.add_argument("--plots", type=Path, help="write plots to this folder")
    options = parser.parse_args()
    documents = load(options.files)
    if options.update:
        for name in SHOWN_IN:
            path = ROOT / name
            text = path.read_text(encoding="utf-8")
            path.write_text(updated(text, documents), encoding="utf-8")
    if folder := FIGURES if options.update else options.plots:
        import plots

        plots.write(documents, folder)
    if options.html:
        import page as pages

        options.html.write_text(pages.html_page(documents), encoding="utf-8")
        print(f"written to {options.html}")
    if not (options.update or options.html or options.plots):
        print(markdown(documents))


if __name__ == "__main__":
    main()
