"""How long a model's calls take, and each kernel in them."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tensorsmith.errors import EvaluationError
from tensorsmith.runtime import inputs as checks
from tensorsmith.runtime.executable import link_host
from tensorsmith.runtime.extents import Extent, names_in, value_of
from tensorsmith.runtime.manifest import KernelInfo
from tensorsmith.runtime.signature import Kernel
from tensorsmith.runtime.timed_kernels import TimedKernels
from tensorsmith.runtime.trace import Span, write_trace

if TYPE_CHECKING:
    from tensorsmith.runtime.model import Model

_WIDEST: Final = 60


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """The times of one kernel.

    calls: how often it ran in a call of the model. seconds: what those took together, for each call
    of the model. sources: the model's nodes that it computes. flops, bytes_moved: of all its runs
    in a call of the model; None where the compiler does not say.
    """

    name: str
    calls: int
    seconds: tuple[float, ...]
    sources: tuple[str, ...] = ()
    flops: int | None = None
    bytes_moved: int | None = None

    @property
    def median(self) -> float:
        """The median of the seconds in a call of the model."""
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        """The least of them."""
        return min(self.seconds)


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """The times of a model's calls.

    seconds: of each call, as Python sees it. kernels: in the order in which they first ran.
    spans: of the last call, for a trace.
    """

    name: str
    threads: int
    seconds: tuple[float, ...]
    kernels: tuple[KernelTimes, ...]
    spans: tuple[Span, ...]

    @property
    def median(self) -> float:
        """The median of the calls' seconds."""
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        """The least of the calls' seconds."""
        return min(self.seconds)

    @property
    def between(self) -> float:
        """The median of the seconds of a call that no kernel took."""
        inside = [sum(k.seconds[at] for k in self.kernels) for at in range(len(self.seconds))]
        outside = [max(0.0, a - b) for a, b in zip(self.seconds, inside, strict=True)]
        return statistics.median(outside)

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the last call as a trace that ui.perfetto.dev and Chrome show."""
        write_trace(path, self.spans, {0: "calls", 1: "kernels"}, process=self.name)

    def __str__(self) -> str:
        whole = max(self.median, 1e-12)
        head = f"{self.name}: {len(self.seconds)} calls on {self.threads} threads"
        rows = [(head, "", self.best, self.median)]
        slowest_first = sorted(self.kernels, key=lambda k: -k.median)
        rows += [(f"  {_shown(k)}", f"{k.calls}", k.best, k.median) for k in slowest_first]
        rows.append(("  between kernels", "", self.between, self.between))
        width = max(len(what) for what, *_ in rows)
        lines = [f"{'':<{width}} {'calls':>6} {'least us':>12} {'median us':>12} {'share':>7}"]
        lines += [
            f"{what:<{width}} {calls:>6} {least * 1e6:>12.1f} {median * 1e6:>12.1f}"
            f" {median / whole:>7.1%}"
            for what, calls, least, median in rows
        ]
        return "\n".join(lines)


def _shown(kernel: KernelTimes) -> str:
    sources = ", ".join(kernel.sources)
    text = f"{kernel.name} ({sources})" if sources else kernel.name
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."


class Profiler:
    """A second linking of a model's hosts, to kernels with clocks. Made on the first profile."""

    def __init__(self, model: Model) -> None:
        self._lock = threading.Lock()
        self._kernels: list[Kernel] = []
        hosts = [part for part in model.objects if part.kernel is None]
        for part in hosts:
            known = {k.name for k in self._kernels}
            called = {k.name: k for s in part.signatures for k in s.kernels}
            self._kernels += [k for name, k in called.items() if name not in known]
        self._timed = TimedKernels(self._kernels, model.kernels)
        calls = {}
        for part in hosts:
            addresses, kept = self._timed.addresses, (self._timed, model.kernels)
            linked = link_host(part, model.imports, addresses, model.context, kept)
            calls.update({name: program.positional for name, program in linked.items()})
        self._call = model.caller(calls)

    def profile(
        self, model: Model, args: tuple[Any, ...], repeats: int, warmup: int
    ) -> ModelProfile:
        """Call the model `warmup` times without and `repeats` times with a clock."""
        if repeats < 1 or warmup < 0:
            raise EvaluationError(
                f"a profile of {repeats} calls after {warmup} is none", try_="repeats=10, warmup=1"
            )
        tensors, _ = checks.checked(model.manifest.inputs, model.manifest.dimensions, args)
        given = tuple(tensors)
        with self._lock:
            self._timed.take()
            for _ in range(warmup):
                self._call(given)
                self._timed.take()
            runs = [self._run(given) for _ in range(repeats)]
        infos = {k.name: k for k in model.manifest.kernels}
        times = self._times([events for _, _, events in runs], infos, dimensions(model, given))
        start, stop, events = runs[-1]
        spans = [Span(model.name, start, stop, 0, "model")]
        for number, begin, end in events:
            info = infos.get(self._kernels[number].name, KernelInfo(self._kernels[number].name))
            spans.append(Span(info.name, begin, end, 1, "kernel", {"sources": list(info.sources)}))
        seconds = tuple((stop - start) / 1e9 for start, stop, _ in runs)
        return ModelProfile(model.name, model.threads, seconds, tuple(times), tuple(spans))

    def _run(self, args: tuple[Any, ...]) -> tuple[int, int, list[tuple[int, int, int]]]:
        start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self._call(args)
        stop = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        return start, stop, self._timed.take()

    def _times(
        self,
        runs: Sequence[list[tuple[int, int, int]]],
        infos: Mapping[str, KernelInfo],
        dims: Mapping[str, int],
    ) -> Iterator[KernelTimes]:
        order = dict.fromkeys(number for events in runs for number, _, _ in events)
        for number in order:
            name = self._kernels[number].name
            info = infos.get(name, KernelInfo(name))
            spent = [sum(e - s for n, s, e in events if n == number) / 1e9 for events in runs]
            calls = sum(n == number for n, _, _ in runs[-1])
            yield KernelTimes(
                name,
                calls,
                tuple(spent),
                info.sources,
                _count(info.flops, dims, calls),
                _count(info.bytes, dims, calls),
            )


def dimensions(model: Model, args: Sequence[Any]) -> dict[str, int]:
    """The values of the dimensions that inputs tell."""
    found: dict[str, int] = {}
    for info, x in zip(model.manifest.inputs, args, strict=True):
        for extent, size in zip(info.extents, x.shape, strict=True):
            if isinstance(extent, str):
                found.setdefault(extent, int(size))
    return found


def _count(extent: Extent | None, dims: Mapping[str, int], calls: int) -> int | None:
    if extent is None or not names_in(extent) <= dims.keys():
        return None
    return value_of(extent, dims) * calls
