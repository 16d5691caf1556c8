"""What this machine can do at most: multiply-adds per second, and bytes per second at each level.

Measured with loops of LLVM IR written out here, so that no compiler's choices are in the figures.
"""

from __future__ import annotations

import ctypes
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from tensorsmith.runtime.jit import link_ir
from tensorsmith.target import Target

CHAINS: Final = 16
"""Independent chains of multiply-adds: more than latency times throughput of any machine seen."""
ROUNDS: Final = 9
STREAMS: Final = (1, 4)
"""In how many places at a time memory is read; the faster way counts. One place alone waits for a
far memory, which fetches ahead for each."""


@dataclass(frozen=True)
class Limits:
    """Peaks of `threads` threads together.

    gflops: single-precision floating-point operations, in 1e9 a second; a multiply-add counts two.
    read_gbs: bytes read, in 1e9 a second, by level: 'L1', 'L2', 'L3', 'memory'.
    copy_gbs: bytes read and written by a copy out of cache, together.
    """

    threads: int
    gflops: float
    read_gbs: dict[str, float]
    copy_gbs: float


def _peak_ir(lanes: int) -> str:
    v = f"<{lanes} x float>"
    lines = [f"declare {v} @llvm.fma.v{lanes}f32({v}, {v}, {v})"]
    lines.append("define void @peak(i64 %n, ptr %out) #0 {\nentry:")
    lines.append(f"  %x = load {v}, ptr %out, align 4\n  br label %loop\nloop:")
    lines.append("  %i = phi i64 [ 0, %entry ], [ %next, %loop ]")
    chains = range(CHAINS)
    lines += [f"  %a{k} = phi {v} [ %x, %entry ], [ %b{k}, %loop ]" for k in chains]
    fma = f"call {v} @llvm.fma.v{lanes}f32"
    lines += [f"  %b{k} = {fma}({v} %a{k}, {v} %x, {v} %x)" for k in chains]
    lines.append("  %next = add i64 %i, 1\n  %more = icmp slt i64 %next, %n")
    lines.append("  br i1 %more, label %loop, label %done\ndone:")
    total = "%b0"
    for k in range(1, CHAINS):
        lines.append(f"  %s{k} = fadd {v} {total}, %b{k}")
        total = f"%s{k}"
    lines.append(f"  store {v} {total}, ptr %out, align 4\n  ret void\n}}")
    return "\n".join(lines)


def _read_ir(lanes: int, streams: int) -> str:
    """A loop that reads `n` elements, many `times`, in so many places at a time."""
    v, unroll = f"<{lanes} x float>", 8
    together = unroll // streams
    read = [f"define void @read_{streams}(ptr %a, i64 %n, i64 %times, ptr %out) #0 {{\nentry:"]
    read.append(f"  %part = sdiv i64 %n, {streams}\n  br label %again\nagain:")
    read.append("  %c = phi i64 [ 0, %entry ], [ %c1, %end ]")
    zero, sums = "zeroinitializer", range(unroll)
    read += [f"  %r{k} = phi {v} [ {zero}, %entry ], [ %t{k}, %end ]" for k in sums]
    read.append("  br label %loop\nloop:\n  %i = phi i64 [ 0, %again ], [ %next, %loop ]")
    read += [f"  %s{k} = phi {v} [ %r{k}, %again ], [ %t{k}, %loop ]" for k in sums]
    for k in range(unroll):
        read.append(f"  %m{k} = mul i64 %part, {k // together}\n  %h{k} = add i64 %m{k}, %i")
        read.append(f"  %j{k} = add i64 %h{k}, {k % together * lanes}")
        read.append(f"  %p{k} = getelementptr float, ptr %a, i64 %j{k}")
        read.append(f"  %v{k} = load {v}, ptr %p{k}, align 4\n  %t{k} = fadd {v} %s{k}, %v{k}")
    read.append(f"  %next = add i64 %i, {lanes * together}\n  %more = icmp slt i64 %next, %part")
    read.append("  br i1 %more, label %loop, label %end\nend:")
    read.append("  %c1 = add i64 %c, 1\n  %rest = icmp slt i64 %c1, %times")
    read.append("  br i1 %rest, label %again, label %done\ndone:")
    for k in range(unroll):
        read.append(f"  %o{k} = getelementptr {v}, ptr %out, i64 {k}")
        read.append(f"  store {v} %t{k}, ptr %o{k}, align 4")
    return "\n".join([*read, "  ret void\n}"])


def _copy_ir(lanes: int) -> str:
    v, unroll = f"<{lanes} x float>", 8
    copy = ["define void @copy(ptr %a, i64 %n, ptr %out) #0 {\nentry:\n  br label %loop\nloop:"]
    copy.append("  %i = phi i64 [ 0, %entry ], [ %next, %loop ]")
    for k in range(unroll):
        copy.append(f"  %j{k} = add i64 %i, {k * lanes}")
        copy.append(f"  %p{k} = getelementptr float, ptr %a, i64 %j{k}")
        copy.append(f"  %v{k} = load {v}, ptr %p{k}, align 4")
        copy.append(f"  %q{k} = getelementptr float, ptr %out, i64 %j{k}")
        copy.append(f"  store {v} %v{k}, ptr %q{k}, align 4")
    copy.append(f"  %next = add i64 %i, {lanes * unroll}\n  %more = icmp slt i64 %next, %n")
    copy.append("  br i1 %more, label %loop, label %done\ndone:\n  ret void\n}")
    return "\n".join(copy)


def measure(threads: int, target: Target | None = None) -> Limits:
    """Measure the limits of `threads` threads, about four seconds."""
    target = target or Target.host()
    lanes = target.vector_bytes // 4
    width = 8 * target.vector_bytes
    attributes = f'attributes #0 = {{ nounwind "prefer-vector-width"="{width}"'
    attributes += f' "min-legal-vector-width"="{width}" }}'
    reads = [_read_ir(lanes, s) for s in STREAMS]
    ir = "\n".join([_peak_ir(lanes), *reads, _copy_ir(lanes), attributes, ""])
    names = [f"read_{s}" for s in STREAMS]
    code = link_ir(ir, ["peak", *names, "copy"])
    peak = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(code["peak"])
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    reader_type = ctypes.CFUNCTYPE(None, pointer, number, number, pointer)
    copy = ctypes.CFUNCTYPE(None, pointer, number, pointer)(code["copy"])
    count = 400_000

    def flop(_: int) -> Callable[[], object]:
        out = np.zeros(lanes, np.float32)
        return lambda: peak(count, out.ctypes.data)

    def reader(name: str, elements: int, repeats: int) -> Callable[[int], Callable[[], object]]:
        read = reader_type(code[name])

        def make(_: int) -> Callable[[], object]:
            a, out = np.ones(elements, np.float32), np.empty(lanes * 8, np.float32)
            return lambda: read(a.ctypes.data, elements, repeats, out.ctypes.data)

        return make

    def copier(_: int) -> Callable[[], object]:
        a, out = np.ones(_MEMORY // 4, np.float32), np.zeros(_MEMORY // 4, np.float32)
        return lambda: copy(a.ctypes.data, a.size, out.ctypes.data)

    gflops = threads * count * CHAINS * lanes * 2 / _time(flop, threads) / 1e9
    caches = target.caches
    sizes = {
        "L1": caches.l1 // 2,
        "L2": caches.l2 // 2,
        "L3": min(caches.l3 // (2 * threads), 8 * caches.l2),
        "memory": _MEMORY,
    }
    rates = {}
    for level, size in sizes.items():
        elements = size // 4 // (8 * lanes) * 8 * lanes
        repeats = max(1, (256 << 20) // size)
        seconds = min(_time(reader(name, elements, repeats), threads) for name in names)
        rates[level] = threads * elements * 4 * repeats / seconds / 1e9
    copied = threads * 2 * _MEMORY / _time(copier, threads) / 1e9
    return Limits(threads, gflops, rates, copied)


_MEMORY: Final = 256 << 20


def _time(make: Callable[[int], Callable[[], object]], threads: int) -> float:
    """The median seconds that `threads` threads take for one call each, begun together."""
    runs = [make(t) for t in range(threads)]
    for run in runs:
        run()
    seconds = []
    if threads == 1:  # its own time, which others on the machine do not lengthen
        for _ in range(ROUNDS):
            begin = time.thread_time()
            runs[0]()
            seconds.append(time.thread_time() - begin)
        return statistics.median(seconds)
    for _ in range(ROUNDS):
        barrier = threading.Barrier(threads + 1)

        def work(run: Callable[[], object], barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            run()
            barrier.wait()

        workers = [threading.Thread(target=work, args=(run,)) for run in runs]
        for w in workers:
            w.start()
        barrier.wait()
        begin = time.perf_counter()
        barrier.wait()
        seconds.append(time.perf_counter() - begin)
        for w in workers:
            w.join()
    return statistics.median(seconds)
