"""Clocks around the kernels of a host, without another host.

A host calls its kernels through the linker, by name. To time them, the same object file is linked a
second time, to functions that read the clock, call the kernel, and write down both times. They are
made of LLVM IR when they are first needed; the model that is not profiled pays nothing.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tensorsmith.errors import EvaluationError
from tensorsmith.runtime.jit import link_ir_once
from tensorsmith.runtime.signature import Kernel

MOST_EVENTS: Final = 1 << 16
"""Calls of kernels of one call of the model whose times are kept."""

_HEAD: Final = """
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() nounwind {
  %time = alloca [2 x i64]
  %code = call i32 @clock_gettime(i32 $CLOCK, ptr %time)
  %seconds = load i64, ptr %time
  %restp = getelementptr i8, ptr %time, i64 8
  %rest = load i64, ptr %restp
  %scaled = mul i64 %seconds, 1000000000
  %all = add i64 %scaled, %rest
  ret i64 %all
}

define internal void @note(i64 %kernel, i64 %started) nounwind {
entry:
  %stopped = call i64 @now()
  %log = inttoptr i64 $LOG to ptr
  %at = atomicrmw add ptr %log, i64 1 seq_cst
  %fits = icmp slt i64 %at, $MOST
  br i1 %fits, label %write, label %done
write:
  %first = mul i64 %at, 24
  %offset = add i64 %first, 8
  %event = getelementptr i8, ptr %log, i64 %offset
  store i64 %kernel, ptr %event
  %startp = getelementptr i8, ptr %event, i64 8
  store i64 %started, ptr %startp
  %stopp = getelementptr i8, ptr %event, i64 16
  store i64 %stopped, ptr %stopp
  br label %done
done:
  ret void
}
"""

_KERNEL: Final = """
define i32 @timed$NUMBER($PARAMETERS) nounwind {
  %started = call i64 @now()
  %kernel = inttoptr i64 $ADDRESS to ptr
  %code = call i32 %kernel($PARAMETERS)
  call void @note(i64 $NUMBER, i64 %started)
  ret i32 %code
}
"""


class TimedKernels:
    """Kernels with clocks. addresses: by name, for the host to be linked to.

    One call of the model at a time writes to the log; `take` reads it.
    """

    def __init__(self, kernels: Sequence[Kernel], addresses: Mapping[str, int]) -> None:
        if not hasattr(time, "CLOCK_MONOTONIC"):
            raise EvaluationError("profiling needs a system with a monotonic clock")
        self._log = (ctypes.c_int64 * (1 + 3 * MOST_EVENTS))()
        names = [f"timed{number}" for number in range(len(kernels))]
        ir = "".join(self._ir(kernels, addresses))
        self._code = link_ir_once(ir, names) if kernels else {}
        self.addresses = {k.name: self._code[n] for k, n in zip(kernels, names, strict=True)}

    def _ir(self, kernels: Sequence[Kernel], addresses: Mapping[str, int]) -> Iterator[str]:
        log = ctypes.addressof(self._log)
        head = _HEAD.replace("$CLOCK", str(time.CLOCK_MONOTONIC)).replace("$LOG", str(log))
        yield head.replace("$MOST", str(MOST_EVENTS))
        for number, kernel in enumerate(kernels):
            parameters = ", ".join(f"{type_} %p{at}" for at, type_ in enumerate(kernel.types))
            yield (
                _KERNEL.replace("$NUMBER", str(number))
                .replace("$PARAMETERS", parameters)
                .replace("$ADDRESS", str(addresses[kernel.symbol]))
            )

    def take(self) -> list[tuple[int, int, int]]:
        """Number of the kernel, start and stop in nanoseconds, of each call since the last `take`.

        Raises EvaluationError if there were too many.
        """
        count = self._log[0]
        self._log[0] = 0
        if count > MOST_EVENTS:
            raise EvaluationError(
                f"the model calls kernels {count} times, and a profile keeps {MOST_EVENTS}"
            )
        words = self._log[1 : 1 + 3 * count]
        return list(zip(words[::3], words[1::3], words[2::3], strict=True))
