"""Times as a trace that Perfetto (ui.perfetto.dev) and Chrome show: the trace event format."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time, in nanoseconds of one clock.

    track: the line that it is drawn on. details: what is shown when it is chosen.
    """

    name: str
    start: int
    stop: int
    track: int = 0
    category: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


def trace_json(
    spans: Iterable[Span], tracks: Mapping[int, str] | None = None, process: str = "tensorsmith"
) -> str:
    """The trace, as text. tracks: names of the lines. Times count from the first span."""
    found = sorted(spans, key=lambda s: (s.start, -s.stop))
    first = found[0].start if found else 0
    events: list[dict[str, Any]] = [_metadata("process_name", 0, process)]
    events += [_metadata("thread_name", track, name) for track, name in (tracks or {}).items()]
    events += [
        {
            "name": s.name,
            "cat": s.category or "kernel",
            "ph": "X",
            "ts": (s.start - first) / 1000,
            "dur": (s.stop - s.start) / 1000,
            "pid": 1,
            "tid": s.track,
            "args": dict(s.details),
        }
        for s in found
    ]
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, indent=1)


def _metadata(what: str, track: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": 1, "tid": track, "args": {"name": name}}


def write_trace(
    path: str | os.PathLike[str],
    spans: Iterable[Span],
    tracks: Mapping[int, str] | None = None,
    process: str = "tensorsmith",
) -> None:
    """Write the trace to a file."""
    Path(path).write_text(trace_json(spans, tracks, process) + "\n", encoding="utf-8")
