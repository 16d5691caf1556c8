"""``tensorsmith explain``: what the compiler made of a model, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorsmith.cli.display import out, print_json, shorter, table, working
from tensorsmith.cli.models import Json, ModelPath, TargetName, is_compiled
from tensorsmith.errors import TensorsmithError

if TYPE_CHECKING:
    from tensorsmith.compiler import Compilation, Event
    from tensorsmith.graph.layouts import LayoutReport
    from tensorsmith.graph.report import FusionReport
    from tensorsmith.ir import GraphFunction
    from tensorsmith.ir.graph import Binding

READ = "read"
"""What `--after` calls the module before all passes."""


def explain(
    model: ModelPath,
    *,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="PASS",
            help=f"Print the module as it is after a pass ('{READ}': before all of them).",
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Print a kernel, its schedule and its nodes."),
    ] = None,
    boundaries: Annotated[
        bool, typer.Option("--boundaries", help="Say of each value between kernels why it is one.")
    ] = False,
    target: TargetName = "native",
    as_json: Json = False,
) -> None:
    """Say which nodes were computed at compile time, which became one kernel, which did not and
    why, which rules failed, and how many images lie in blocks of channels."""
    from tensorsmith.compiler import lower_model
    from tensorsmith.frontend.onnx import from_onnx
    from tensorsmith.graph.layouts import layout_report
    from tensorsmith.graph.report import fusion_report

    if is_compiled(model):
        raise TensorsmithError(f"{model} is compiled: what led there is gone", try_="the ONNX file")
    events: list[Event] = []
    with working(f"compiling {model.name}", quiet=as_json):
        module = from_onnx(model)
        if after is not None:
            _print_after(module.script(), after, module)
            return
        made = lower_model(module, target, observe=events.append)
    if kernel is not None:
        _print_kernel(made, kernel)
        return
    graph = _before_grouping(made, events)
    report = fusion_report(graph)
    facts = _facts(made, events, report, layout_report(graph))
    facts["siblings"] = _siblings(made, events)
    if as_json:
        print_json(facts)
        return
    _print(made, facts, report if boundaries else None)


def _print_after(text: str, wanted: str, module: Any) -> None:
    """Print the module after the pass `wanted`."""
    from tensorsmith.compiler import PIPELINE

    names = [READ]
    for apply in PIPELINE:
        if wanted == names[-1]:
            break
        module = apply(module)
        text = module.script()
        names.append(getattr(apply, "__name__", repr(apply)))
    if wanted != names[-1]:
        raise TensorsmithError(f"there is no pass {wanted!r}", try_=f"one of {', '.join(names)}")
    out().print(text, markup=False)


def _print_kernel(made: Compilation, name: str) -> None:
    if name not in made.kernels:
        raise TensorsmithError(
            f"there is no kernel {name!r}", try_=f"one of {', '.join(made.kernels)}"
        )
    code = made.kernels[name]
    for node in _sources(made.lowered).get(name, ()):
        out().print(f"# {node}", markup=False)
    out().print(made.programs[name].script(), markup=False)
    if code.failure:
        out().print(f"# no rule could schedule it: {code.failure}", markup=False)
    else:
        out().print(f"# scheduled by\n{code.trace}", markup=False)


def _before_grouping(made: Compilation, events: list[Event]) -> GraphFunction:
    """The function as it is when operators are grouped."""
    simple = [e.after for e in events if e.name != "legalize"]
    return simple[-1].graph(made.graph.name) if simple else made.graph


def _siblings(made: Compilation, events: list[Event]) -> list[list[str]]:
    """The nodes of the products that became one."""
    from tensorsmith.graph.siblings import siblings

    before = [e.before for e in events if e.name == "join_siblings"]
    families = [f for m in before for f in siblings(m.graph(made.graph.name))]
    return [[s for member in f.members for s in member.sources] for f in families]


def _bindings(bindings: tuple[Binding, ...]) -> Iterator[Binding]:
    from tensorsmith.ir.graph import bodies

    for binding in bindings:
        yield binding
        for body in bodies(binding):
            yield from _bindings(body.bindings)


def _sources(graph: GraphFunction) -> dict[str, list[str]]:
    """The model's nodes in each kernel."""
    from tensorsmith.ir.graph import CallProgram

    found: dict[str, dict[str, None]] = {}
    for binding in _bindings(graph.body):
        if isinstance(binding, CallProgram):
            found.setdefault(binding.callee, {}).update(dict.fromkeys(binding.sources))
    return {name: list(nodes) for name, nodes in found.items()}


def _facts(
    made: Compilation, events: list[Event], report: FusionReport, layouts: LayoutReport
) -> dict[str, Any]:
    """All that there is to say, as what JSON knows."""
    from tensorsmith.ir.graph import Apply, CallProgram, Constant

    before = [b for b in _bindings(made.graph.body) if isinstance(b, Apply)]
    left = {s for nodes in _sources(made.lowered).values() for s in nodes}
    gone = dict.fromkeys(s for b in before for s in b.sources if s not in left)
    calls = [b for b in _bindings(made.lowered.body) if isinstance(b, CallProgram)]
    count = {name: sum(c.callee == name for c in calls) for name in made.kernels}
    return {
        "seconds": {**{e.name: e.seconds for e in events}, **made.seconds},
        "operators": len(before),
        "computed_at_compile_time": list(gone),
        "constants": sum(isinstance(b, Constant) for b in _bindings(made.lowered.body)),
        "kernels": [
            {
                "name": name,
                "calls": count[name],
                "nodes": nodes,
                "failure": made.kernels[name].failure,
            }
            for name, nodes in _sources(made.lowered).items()
        ],
        "boundaries": [
            {"value": b.value.name, "user": b.user, "reason": b.reason} for b in report.boundaries
        ],
        "layouts": asdict(layouts),
        "peak_bytes": repr(made.host.plan.peak),
    }


def _print(made: Compilation, facts: dict[str, Any], report: FusionReport | None) -> None:
    console = out()
    times = ", ".join(f"{name} {1e3 * s:.0f} ms" for name, s in facts["seconds"].items())
    console.print(f"passes: {times}", markup=False)
    gone = facts["computed_at_compile_time"]
    console.print(
        f"{facts['operators']} operators; {len(gone)} nodes were computed at compile time or are"
        " part of others"
    )
    rows = [
        (k["name"], k["calls"], "failed" if k["failure"] else "default", shorter(k["nodes"]))
        for k in facts["kernels"]
    ]
    table(("kernel", "calls", "schedule", "fused nodes"), rows, f"{len(rows)} kernels")
    for k in facts["kernels"]:
        if k["failure"]:
            console.print(f"{k['name']} has no schedule: {k['failure']}", markup=False)
    for nodes in facts["siblings"]:
        console.print(f"one product for {', '.join(nodes)}", markup=False)
    blocks = facts["layouts"]
    if blocks["convolutions"]:
        console.print(
            f"{blocks['convolutions']} convolutions make blocks of channels; {blocks['divided']}"
            f" images are put in blocks, {blocks['put_back']} back"
        )
    console.print(f"memory for values: {facts['peak_bytes']} bytes", markup=False)
    if report is None:
        reasons = [b["reason"] for b in facts["boundaries"]]
        console.print(f"{len(reasons)} values lie between kernels (--boundaries shows them):")
        for reason in dict.fromkeys(sorted(reasons, key=lambda r: -reasons.count(r))):
            console.print(f"  {reasons.count(reason):4} {reason}", markup=False)
        return
    for b in report.boundaries:
        console.print(f"  {b.value.name} -> {b.user}: {b.reason}", markup=False)
