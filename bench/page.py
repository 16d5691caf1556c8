"""One page of HTML with all figures, readable without a network: tables and plots are inside."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator, Mapping

import plots
import tables
from tables import Document, Table

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --dim: #5c6673; --line: #dfe3e8; --back: #fff;
  --good: #1d7f59; --good-back: #e3f4ec; --bad: #b4471f; --bad-back: #fbe9e1; --head: #f4f6f8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --dim: #9aa4b1; --line: #333b46;
  --back: #161b22; --good: #6fd3a8; --good-back: #16352a; --bad: #f0a184; --bad-back: #40241a;
  --head: #1f2630; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
  margin: 0 auto; max-width: 76rem; padding: 1.5rem; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; } h2 { margin: 2.5rem 0 .5rem; font-size: 1.3rem;
  border-bottom: 2px solid var(--line); padding-bottom: .2rem; } h3 { margin: 1.6rem 0 .4rem; }
p, li { color: var(--dim); max-width: 60rem; } nav a { margin-right: 1rem; color: inherit; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { padding: .22rem .7rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { background: var(--head); position: sticky; top: 0; } .text { text-align: left; }
tr:hover td { background: var(--head); }
td.good { color: var(--good); background: var(--good-back); font-weight: 600; }
td.bad { color: var(--bad); background: var(--bad-back); font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(28rem, 1fr)); gap: 1rem; }
.plots img { width: 100%; background: #fff; border: 1px solid var(--line); border-radius: 6px; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0; padding: 0; }
.tile { border: 1px solid var(--line); border-radius: 8px; padding: .5rem 1rem; }
.tile b { display: block; font-size: 1.5rem; } .tile span { color: var(--dim); font-size: .85rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .9rem; }
dt { color: var(--dim); } dd { margin: 0; }
code { font-size: .85rem; }
""".strip()


INTRODUCTION = (
    "Medians in milliseconds, of peers that take turns in one run; outputs are compared before a"
    " time counts. Ratios are our time over a peer's: below 1 ours is faster. A cell says more when"
    " pointed at."
)


def html_page(documents: Mapping[str, Document]) -> str:
    """The page."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Tensorsmith: benchmarks</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>\n{STYLE}\n</style></head><body>",
        "<h1>Tensorsmith against its peers</h1>",
        f"<p>{INTRODUCTION}</p>",
        f"<nav>{' '.join(_links(documents))}</nav>",
    ]
    for name, document in documents.items():
        parts += _section(name, document)
    return "\n".join([*parts, "</body></html>", ""])


def _links(documents: Mapping[str, Document]) -> Iterator[str]:
    for name in documents:
        yield f'<a href="#{name}">{html.escape(tables.SUITES.get(name, name))}</a>'


def _section(name: str, document: Document) -> Iterator[str]:
    yield f'<h2 id="{name}">{html.escape(tables.SUITES.get(name, name))}</h2>'
    yield from _tiles(document)
    yield '<div class="plots">'
    for file, figure in plots.all_plots({name: document}):
        data = base64.b64encode(plots.png(figure)).decode()
        yield f'<img alt="{file}" src="data:image/png;base64,{data}">'
    yield "</div>"
    yield from _titled("Latency in milliseconds", tables.latency_table(document))
    yield from _titled("Geometric means of our time over the peers'", tables.means_table(document))
    yield from _titled("The same by group", tables.group_table(document))
    yield from _titled("Seconds to the first result", tables.compile_table(document))
    yield from _titled("What open sizes cost", tables.dynamic_table(document))
    if failed := tables.failures(document):
        yield "<h3>What peers could not run</h3><ul>"
        yield from (f"<li>{html.escape(line)}</li>" for line in failed)
        yield "</ul>"
    yield from _origin(document)


def _titled(heading: str, table: Table | None) -> Iterator[str]:
    if table is not None:
        yield f'<h3>{html.escape(heading)}</h3><div class="scroll">{table.html()}</div>'


def _tiles(document: Document) -> Iterator[str]:
    """The means over the best peer, large."""
    yield '<div class="tiles">'
    for threads in tables.thread_counts(document):
        rows = [r for r in document["results"] if r["threads"] == threads]
        ratios = [q for r in rows if (q := tables.ratio(r, tables.best_peer(r))) is not None]
        if ratios:
            faster = sum(q <= 1 for q in ratios)
            yield (
                f'<div class="tile"><b>{tables.geometric_mean(ratios):.2f}</b><span>mean of ours /'
                f" best peer, {threads} thread{'s' if threads > 1 else ''};"
                f" faster in {faster} of {len(ratios)}</span></div>"
            )
    yield "</div>"


def _origin(document: Document) -> Iterator[str]:
    """The machine, its limits, versions, the command."""
    facts = {k: str(v) for k, v in document["machine"].items() if not isinstance(v, dict)}
    caches = document["machine"].get("caches", {})
    facts["caches"] = ", ".join(f"{k} {v // 1024} KiB" for k, v in caches.items())
    for threads, limit in document["limits"].items():
        rates = ", ".join(f"{k} {v:.0f} GB/s" for k, v in limit["read_gbs"].items())
        facts[f"limits, threads: {threads}"] = f"{limit['gflops']:.0f} GFLOP/s; reading {rates}"
    facts |= document.get("versions", {})
    facts["command"] = document.get("command", "")
    yield "<h3>Measured on</h3><dl>"
    for key, value in facts.items():
        yield f"<dt>{html.escape(key)}</dt><dd>{html.escape(value)}</dd>"
    yield "</dl>"
