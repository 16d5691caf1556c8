"""Traces in the trace event format."""

from __future__ import annotations

import json
from pathlib import Path

from tensorsmith.runtime.trace import Span, trace_json, write_trace


def test_times_count_from_the_first_span(tmp_path: Path) -> None:
    spans = [
        Span("inner", 1_002_000, 1_003_500, 1, "kernel", {"sources": ["Add_0"]}),
        Span("outer", 1_000_000, 1_010_000),
    ]
    write_trace(tmp_path / "trace.json", spans, {0: "calls"}, process="net")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [e["args"]["name"] for e in events if e["ph"] == "M"] == ["net", "calls"]
    outer, inner = (e for e in events if e["ph"] == "X")
    assert (outer["name"], outer["ts"], outer["dur"], outer["tid"]) == ("outer", 0, 10, 0)
    assert (inner["name"], inner["ts"], inner["dur"], inner["tid"]) == ("inner", 2, 1.5, 1)
    assert inner["args"] == {"sources": ["Add_0"]}


def test_a_trace_of_nothing() -> None:
    events = json.loads(trace_json([]))["traceEvents"]
    assert [e["ph"] for e in events] == ["M"]
