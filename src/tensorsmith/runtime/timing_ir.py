"""The LLVM IR that reads the clock: around a program's entry, and around its parallel loops.

``ts_parallel`` runs a loop as `tensorsmith.runtime.thread_pool` says. If the context has a recorder
(its second word; see `tensorsmith.runtime.profile`), it writes down which loop it was and how long
it took.
"""

from __future__ import annotations

import time

_CLOCK = """
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
"""

_NO_CLOCK = """
define internal i64 @now() nounwind {
  ret i64 0
}
"""

_TIMING = """
define i32 @ts_parallel(ptr %context, ptr %body, ptr %env, i64 %begin, i64 %end) nounwind {
entry:
  %recorderp = getelementptr i8, ptr %context, i64 8
  %recorder = load ptr, ptr %recorderp
  %silent = icmp eq ptr %recorder, null
  br i1 %silent, label %plain, label %timed
plain:
  %code = call i32 @run(ptr %context, ptr %body, ptr %env, i64 %begin, i64 %end)
  ret i32 %code
timed:
  %started = call i64 @now()
  %result = call i32 @run(ptr %context, ptr %body, ptr %env, i64 %begin, i64 %end)
  %stopped = call i64 @now()
  %spent = sub i64 %stopped, %started
  %at = atomicrmw add ptr %recorder, i64 1 seq_cst
  %mostp = getelementptr i8, ptr %recorder, i64 8
  %most = load i64, ptr %mostp
  %fits = icmp slt i64 %at, %most
  br i1 %fits, label %write, label %done
write:
  %pair = shl i64 %at, 1
  %word = add i64 %pair, 2
  %bodyp = getelementptr i64, ptr %recorder, i64 %word
  store ptr %body, ptr %bodyp
  %spentp = getelementptr i8, ptr %bodyp, i64 8
  store i64 %spent, ptr %spentp
  br label %done
done:
  ret i32 %result
}

define i32 @ts_time(ptr %entry, ptr %args, ptr %context, ptr %nanoseconds) nounwind {
  %started = call i64 @now()
  %code = call i32 %entry(ptr %args, ptr %context)
  %stopped = call i64 @now()
  %spent = sub i64 %stopped, %started
  store i64 %spent, ptr %nanoseconds
  ret i32 %code
}
"""


def timing_ir() -> str:
    """The IR; it calls ``run``, which runs a loop and is to be defined beside it."""
    clock = getattr(time, "CLOCK_MONOTONIC", None)
    return (_NO_CLOCK if clock is None else _CLOCK.replace("$CLOCK", str(clock))) + _TIMING
