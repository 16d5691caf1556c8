"""The thread pool that runs parallel loops: LLVM IR, compiled when first used.

``i32 ts_parallel(context, body, env, begin, end)`` calls ``body(context, env, b, e)`` for pieces of
the range until it is done, on the context's threads, the caller among them; it gives the first
error code that is not 0. Each thread has an equal part of the range, the same in each loop of one
length, so that it finds in its cache what it wrote in the loop before. It takes pieces of its part
one by one, and then pieces of the others', so a thread that the system takes away stalls nothing
but its own piece, and one that wakes up when the loop is over is not waited for.
Waiting is a short spin, then a futex, on both sides: a fork and join costs about a microsecond, and
an idle pool uses no processor. One loop runs on threads at a time in a process: a second one that
comes meanwhile runs on its caller alone, so that threads never outnumber processors.
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
import weakref
from collections.abc import Callable
from typing import Final

from tensorsmith.runtime.jit import link_ir
from tensorsmith.runtime.memory_ir import CONTEXT_WORDS, FUNCTIONS, SLOTS_AT, memory_ir
from tensorsmith.runtime.timing_ir import timing_ir

SPINS: Final = 2000
"""Pauses before a thread goes to sleep: about 40 microseconds."""
PIECES: Final = 8
"""Pieces that the part of a thread is cut into, if it has so many iterations."""

# Byte offsets in a pool. What different threads write lies in different cache lines.
_GENERATION, _HELPING, _SLEEPERS, _STARTED, _JOB, _WAITING, _OPEN = 0, 64, 128, 192, 256, 384, 448
_PARTS: Final = 512
"""Of each thread, a cache line apart: where the next piece of its part begins, where it ends."""
_BODY, _ENV, _STEP, _ERROR, _THREADS, _CONTEXT = range(_JOB, _JOB + 48, 8)
MOST_THREADS: Final = 256
POOL_BYTES: Final = _PARTS + 64 * MOST_THREADS

_FUTEX: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
_PAUSE: Final = {"x86_64": "pause", "aarch64": "yield"}


def pool_ir(machine: str) -> str:
    """The LLVM IR of the pool on Linux, for the architecture that ``uname -m`` calls `machine`."""
    pause = _PAUSE.get(machine, "nop")
    return (
        _TEMPLATE.replace("$PAUSE", f'call void asm sideeffect "{pause}", "~{{memory}}"()')
        .replace("$FUTEX", str(_FUTEX[machine]))
        .replace("$SPINS", str(SPINS))
        .replace("$PIECES", str(PIECES))
        .replace("$HELPING", str(_HELPING))
        .replace("$OPEN", str(_OPEN))
        .replace("$SLEEPERS", str(_SLEEPERS))
        .replace("$STARTED", str(_STARTED))
        .replace("$WAITING", str(_WAITING))
        .replace("$PARTS", str(_PARTS))
        .replace("$BODY", str(_BODY))
        .replace("$ENV", str(_ENV))
        .replace("$STEP", str(_STEP))
        .replace("$ERROR", str(_ERROR))
        .replace("$THREADS", str(_THREADS))
        .replace("$CONTEXT", str(_CONTEXT))
    )


_TEMPLATE: Final = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i64 @syscall(i64, ...)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

@ts_busy = global i32 0, align 64

; Sleep on a word, or wake sleepers: 128 and 129 are the private forms of wait and wake.
define internal i64 @futex(ptr %word, i32 %what, i32 %value) nounwind {
  %r = call i64 (i64, ...) @syscall(
    i64 $FUTEX, ptr %word, i32 %what, i32 %value, ptr null, ptr null, i32 0)
  ret i64 %r
}

; Where the part of a thread is noted.
define internal ptr @part(ptr %pool, i32 %thread) nounwind alwaysinline {
  %wide = zext i32 %thread to i64
  %lines = shl i64 %wide, 6
  %at = add i64 %lines, $PARTS
  %p = getelementptr i8, ptr %pool, i64 %at
  ret ptr %p
}

; Take pieces of the pool's loop until none is left: of one's own part first, then of the others'.
define internal void @work(ptr %pool, i32 %me) nounwind {
entry:
  %bodyp = getelementptr i8, ptr %pool, i64 $BODY
  %body = load ptr, ptr %bodyp
  %envp = getelementptr i8, ptr %pool, i64 $ENV
  %env = load ptr, ptr %envp
  %stepp = getelementptr i8, ptr %pool, i64 $STEP
  %step = load i64, ptr %stepp
  %contextp = getelementptr i8, ptr %pool, i64 $CONTEXT
  %context = load ptr, ptr %contextp
  %threadsp = getelementptr i8, ptr %pool, i64 $THREADS
  %threads = load i32, ptr %threadsp
  br label %choose
choose:
  %k = phi i32 [ 0, %entry ], [ %k1, %emptied ]
  %sum = add i32 %me, %k
  %over = icmp uge i32 %sum, %threads
  %less = sub i32 %sum, %threads
  %whose = select i1 %over, i32 %less, i32 %sum
  %nextp = call ptr @part(ptr %pool, i32 %whose)
  %endp = getelementptr i8, ptr %nextp, i64 8
  %end = load i64, ptr %endp
  br label %take
take:
  %seen = load atomic i64, ptr %nextp monotonic, align 8
  %left = icmp slt i64 %seen, %end
  br i1 %left, label %try, label %emptied
try:
  %b = atomicrmw add ptr %nextp, i64 %step seq_cst
  %some = icmp slt i64 %b, %end
  br i1 %some, label %run, label %emptied
run:
  %far = add i64 %b, %step
  %e = call i64 @llvm.smin.i64(i64 %far, i64 %end)
  %code = call i32 %body(ptr %context, ptr %env, i64 %b, i64 %e)
  %fine = icmp eq i32 %code, 0
  br i1 %fine, label %take, label %fail
emptied:
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, %threads
  br i1 %more, label %choose, label %done
fail:
  %errorp = getelementptr i8, ptr %pool, i64 $ERROR
  %swap = cmpxchg ptr %errorp, i32 0, i32 %code seq_cst seq_cst
  br label %stop
stop:
  %s = phi i32 [ 0, %fail ], [ %s1, %stop ]
  %stopp = call ptr @part(ptr %pool, i32 %s)
  %lastp = getelementptr i8, ptr %stopp, i64 8
  %last = load i64, ptr %lastp
  store atomic i64 %last, ptr %stopp seq_cst, align 8
  %s1 = add i32 %s, 1
  %others = icmp ult i32 %s1, %threads
  br i1 %others, label %stop, label %done
done:
  ret void
}

; Give each thread an equal part of a loop.
define internal void @divide(ptr %pool, i32 %threads, i64 %begin, i64 %count) nounwind {
entry:
  %wide = zext i32 %threads to i64
  %each = sdiv i64 %count, %wide
  %over = srem i64 %count, %wide
  br label %next
next:
  %k = phi i32 [ 0, %entry ], [ %k1, %next ]
  %from = phi i64 [ %begin, %entry ], [ %to, %next ]
  %at = zext i32 %k to i64
  %longer = icmp slt i64 %at, %over
  %one = zext i1 %longer to i64
  %size = add i64 %each, %one
  %to = add i64 %from, %size
  %partp = call ptr @part(ptr %pool, i32 %k)
  %endp = getelementptr i8, ptr %partp, i64 8
  store i64 %to, ptr %endp
  store atomic i64 %from, ptr %partp monotonic, align 8
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, %threads
  br i1 %more, label %next, label %done
done:
  ret void
}

; A worker: wait for a loop, say that it helps, help if the loop is still open, say that it is done,
; wait again. Who closes a loop then waits for those who help: either they are seen, or they see
; that it is closed.
define internal ptr @worker(ptr %pool) nounwind {
entry:
  %helpingp = getelementptr i8, ptr %pool, i64 $HELPING
  %openp = getelementptr i8, ptr %pool, i64 $OPEN
  %sleepersp = getelementptr i8, ptr %pool, i64 $SLEEPERS
  %waitingp = getelementptr i8, ptr %pool, i64 $WAITING
  %startedp = getelementptr i8, ptr %pool, i64 $STARTED
  %before = atomicrmw add ptr %startedp, i32 1 seq_cst
  %me = add i32 %before, 1
  br label %wait
wait:
  %seen = phi i32 [ 0, %entry ], [ %now, %finished ]
  br label %spin
spin:
  %i = phi i32 [ 0, %wait ], [ %i1, %again ]
  %g = load atomic i32, ptr %pool acquire, align 4
  %new = icmp ne i32 %g, %seen
  br i1 %new, label %go, label %again
again:
  $PAUSE
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, $SPINS
  br i1 %more, label %spin, label %sleep
sleep:
  %s0 = atomicrmw add ptr %sleepersp, i32 1 seq_cst
  br label %doze
doze:
  %g1 = load atomic i32, ptr %pool seq_cst, align 4
  %woken = icmp ne i32 %g1, %seen
  br i1 %woken, label %awake, label %futex
futex:
  %r = call i64 @futex(ptr %pool, i32 128, i32 %seen)
  br label %doze
awake:
  %s1 = atomicrmw sub ptr %sleepersp, i32 1 seq_cst
  br label %go
go:
  %now = load atomic i32, ptr %pool seq_cst, align 4
  %h0 = atomicrmw add ptr %helpingp, i32 1 seq_cst
  %open = load atomic i32, ptr %openp seq_cst, align 4
  %is_open = icmp ne i32 %open, 0
  br i1 %is_open, label %help, label %helped
help:
  call void @work(ptr %pool, i32 %me)
  br label %helped
helped:
  %p0 = atomicrmw sub ptr %helpingp, i32 1 seq_cst
  %last = icmp eq i32 %p0, 1
  br i1 %last, label %tell, label %finished
tell:
  %w = load atomic i32, ptr %waitingp seq_cst, align 4
  %asleep = icmp ne i32 %w, 0
  br i1 %asleep, label %wake, label %finished
wake:
  %r2 = call i64 @futex(ptr %helpingp, i32 129, i32 1)
  br label %finished
finished:
  br label %wait
}

; Start the workers of a zeroed pool. Gives 0, or the error of pthread_create.
define i32 @ts_pool_start(ptr %pool, i32 %threads) nounwind {
entry:
  %id = alloca i64
  %threadsp = getelementptr i8, ptr %pool, i64 $THREADS
  br label %head
head:
  %i = phi i32 [ 1, %entry ], [ %i1, %started ]
  store i32 %i, ptr %threadsp
  %more = icmp slt i32 %i, %threads
  br i1 %more, label %start, label %done
start:
  %code = call i32 @pthread_create(ptr %id, ptr null, ptr @worker, ptr %pool)
  %fine = icmp eq i32 %code, 0
  br i1 %fine, label %started, label %fail
started:
  %thread = load i64, ptr %id
  %detached = call i32 @pthread_detach(i64 %thread)
  %i1 = add i32 %i, 1
  br label %head
fail:
  ret i32 %code
done:
  ret i32 0
}

define void @ts_after_fork() nounwind {
  store atomic i32 0, ptr @ts_busy seq_cst, align 4
  ret void
}

define internal i32 @run(ptr %context, ptr %body, ptr %env, i64 %begin, i64 %end) nounwind {
entry:
  %count = sub i64 %end, %begin
  %none = icmp slt i64 %count, 1
  br i1 %none, label %empty, label %some
empty:
  ret i32 0
some:
  %pool = load ptr, ptr %context
  %alone = icmp eq ptr %pool, null
  %single = icmp eq i64 %count, 1
  %serial = or i1 %alone, %single
  br i1 %serial, label %here, label %try
try:
  %lock = cmpxchg ptr @ts_busy, i32 0, i32 1 seq_cst seq_cst
  %free = extractvalue { i32, i1 } %lock, 1
  br i1 %free, label %fork, label %here
here:
  %code = call i32 %body(ptr %context, ptr %env, i64 %begin, i64 %end)
  ret i32 %code
fork:
  %helpingp = getelementptr i8, ptr %pool, i64 $HELPING
  %openp = getelementptr i8, ptr %pool, i64 $OPEN
  %sleepersp = getelementptr i8, ptr %pool, i64 $SLEEPERS
  %waitingp = getelementptr i8, ptr %pool, i64 $WAITING
  %bodyp = getelementptr i8, ptr %pool, i64 $BODY
  store ptr %body, ptr %bodyp
  %envp = getelementptr i8, ptr %pool, i64 $ENV
  store ptr %env, ptr %envp
  %contextp = getelementptr i8, ptr %pool, i64 $CONTEXT
  store ptr %context, ptr %contextp
  %errorp = getelementptr i8, ptr %pool, i64 $ERROR
  store atomic i32 0, ptr %errorp seq_cst, align 4
  %threadsp = getelementptr i8, ptr %pool, i64 $THREADS
  %threads = load i32, ptr %threadsp
  call void @divide(ptr %pool, i32 %threads, i64 %begin, i64 %count)
  %wide = zext i32 %threads to i64
  %pieces = mul i64 %wide, $PIECES
  %share = sdiv i64 %count, %pieces
  %step = call i64 @llvm.smax.i64(i64 %share, i64 1)
  %stepp = getelementptr i8, ptr %pool, i64 $STEP
  store i64 %step, ptr %stepp
  store atomic i32 1, ptr %openp seq_cst, align 4
  %g = atomicrmw add ptr %pool, i32 1 seq_cst
  %sleeping = load atomic i32, ptr %sleepersp seq_cst, align 4
  %any = icmp ne i32 %sleeping, 0
  br i1 %any, label %rouse, label %help
rouse:
  %r = call i64 @futex(ptr %pool, i32 129, i32 2147483647)
  br label %help
help:
  call void @work(ptr %pool, i32 0)
  store atomic i32 0, ptr %openp seq_cst, align 4
  br label %spin
spin:
  %i = phi i32 [ 0, %help ], [ %i1, %again ]
  %p = load atomic i32, ptr %helpingp seq_cst, align 4
  %over = icmp eq i32 %p, 0
  br i1 %over, label %joined, label %again
again:
  $PAUSE
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, $SPINS
  br i1 %more, label %spin, label %sleep
sleep:
  store atomic i32 1, ptr %waitingp seq_cst, align 4
  br label %doze
doze:
  %p1 = load atomic i32, ptr %helpingp seq_cst, align 4
  %over1 = icmp eq i32 %p1, 0
  br i1 %over1, label %awake, label %futex
futex:
  %r1 = call i64 @futex(ptr %helpingp, i32 128, i32 %p1)
  br label %doze
awake:
  store atomic i32 0, ptr %waitingp seq_cst, align 4
  br label %joined
joined:
  %error = load atomic i32, ptr %errorp seq_cst, align 4
  store atomic i32 0, ptr @ts_busy seq_cst, align 4
  ret i32 %error
}
"""


class Context:
    """What compiled code runs in, and what its entries get as their last argument: on how many
    threads, and the memory that calls leave to later ones (see `tensorsmith.runtime.memory_ir`).

    recorder: the address of what `tensorsmith.runtime.profile` writes times of parallel loops to.
    The memory is freed with the context, or by `trim`.
    """

    def __init__(self, threads: int, recorder: int | None = None) -> None:
        self.threads = threads
        trim = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(symbols()["ts_trim"])
        self._memory = (ctypes.c_uint64 * CONTEXT_WORDS)(_pool(threads) or 0, recorder or 0)
        self._end = weakref.finalize(self, _free, trim, self._memory)
        self._end.atexit = False  # the system frees it all, and threads may still run

    @property
    def address(self) -> int:
        """Where the context lies in memory."""
        return ctypes.addressof(self._memory)

    @property
    def kept_bytes(self) -> int:
        """The bytes that calls left for later ones, about."""
        slots = list(self._memory)[SLOTS_AT // 8 :]
        return sum(size for size, at in zip(slots[::2], slots[1::2], strict=True) if at)

    def trim(self) -> None:
        """Free what calls left for later ones. Calls may run meanwhile."""
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(symbols()["ts_trim"])(self.address)


def _free(trim: Callable[[int], None], memory: ctypes.Array[ctypes.c_uint64]) -> None:
    trim(ctypes.addressof(memory))


_lock = threading.Lock()
_pools: dict[int, ctypes.Array[ctypes.c_char]] = {}


def _supported() -> bool:
    return platform.system() == "Linux" and platform.machine() in _FUTEX


def _aligned(memory: ctypes.Array[ctypes.c_char]) -> int:
    return -(-ctypes.addressof(memory) // 64) * 64


def _pool(threads: int) -> int | None:
    """The address of the running pool of so many threads; None for one thread, or where there is
    no pool for this system and loops run on the caller alone."""
    if threads <= 1 or not _supported():
        return None
    with _lock:
        memory = _pools.get(threads)
        if memory is None:
            memory = ctypes.create_string_buffer(POOL_BYTES + 64)
            _start(memory, threads)
            _pools[threads] = memory
        return _aligned(memory)


def _start(memory: ctypes.Array[ctypes.c_char], threads: int) -> None:
    start = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
    code = start(symbols()["ts_pool_start"])(_aligned(memory), min(threads, MOST_THREADS))
    if code:
        raise OSError(code, f"cannot start {threads} threads: {os.strerror(code)}")


_symbols: dict[str, int] = {}


def symbols() -> dict[str, int]:
    """The addresses of what compiled code and the runtime call, compiled on the first call."""
    if not _symbols:
        pool = pool_ir(platform.machine()) if _supported() else _SERIAL
        ir = pool + timing_ir() + memory_ir()
        names = ["ts_pool_start", "ts_after_fork"] if _supported() else []
        _symbols.update(link_ir(ir, ["ts_parallel", "ts_time", *names, *FUNCTIONS]))
        if _supported():
            os.register_at_fork(after_in_child=_after_fork)
    return _symbols


_SERIAL: Final = """
define internal i32 @run(ptr %context, ptr %body, ptr %env, i64 %begin, i64 %end) nounwind {
  %code = call i32 %body(ptr %context, ptr %env, i64 %begin, i64 %end)
  ret i32 %code
}
"""


def _after_fork() -> None:
    """A forked child has none of its parent's threads: start them anew."""
    ctypes.CFUNCTYPE(None)(_symbols["ts_after_fork"])()
    for threads, memory in _pools.items():
        ctypes.memset(ctypes.addressof(memory), 0, len(memory))
        _start(memory, threads)
