"""The kernels of a model, compiled side by side.

Scheduling and lowering are Python, and LLVM runs under one lock in a process; so with several
processors, other processes take part. This one works, too, and alone if there is little to do.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from tensorsmith.compiler import worker
from tensorsmith.compiler.kernel_code import (
    KernelCode,
    keep_kernel,
    kept_kernel,
    kernel_key,
    make_kernel,
)
from tensorsmith.ir import TensorProgram
from tensorsmith.runtime.executable import ObjectCode
from tensorsmith.runtime.object_cache import object_cache
from tensorsmith.runtime.signature import Kernel, Signature
from tensorsmith.target import Target

WORTH_A_WORKER: Final = 5
"""Kernels to compile from which on another process, which takes a second to start, pays."""


@dataclass(frozen=True, slots=True)
class Task:
    """A kernel to make. constants: the operands that are constant, by place."""

    program: TensorProgram
    constants: tuple[int, ...]
    key: str


def make_kernels(
    programs: Iterable[TensorProgram],
    constants: Mapping[str, set[int]],
    target: Target,
    *,
    cache: bool = True,
    check_bounds: bool = False,
) -> dict[str, KernelCode]:
    """The compiled kernel of each program, by name; equal ones are made once.

    constants: for programs by name, the operands that are the same in every call.
    Raises CodegenError for what no code can be made for.
    """
    store = object_cache() if cache and not check_bounds else None
    keys: dict[str, str] = {}
    tasks: dict[str, Task] = {}
    for p in programs:
        known = tuple(sorted(constants.get(p.name, ())))
        keys[p.name] = key = kernel_key(p, known, target)
        tasks.setdefault(key, Task(p, known, key))
    found = {key: kept_kernel(store, key) for key in tasks}
    missing = [task for key, task in tasks.items() if found[key] is None]
    for made in _made(missing, target, check_bounds=check_bounds):
        keep_kernel(store, made, target)
        found[made.key] = made
    done = {key: made for key, made in found.items() if made is not None}
    return {name: done[key] for name, key in keys.items()}


def _made(tasks: list[Task], target: Target, *, check_bounds: bool) -> Iterator[KernelCode]:
    """The kernels, as they are done."""
    pending = deque(tasks)
    done: deque[KernelCode] = deque()
    helpers: list[threading.Thread] = []
    count = 0 if check_bounds else min(target.cores - 1, len(tasks) // WORTH_A_WORKER)
    for _ in range(count):
        helper = threading.Thread(target=_help, args=(pending, done, target), daemon=True)
        helper.start()
        helpers.append(helper)
    while True:
        while done:
            yield done.popleft()
        try:
            task = pending.popleft()
        except IndexError:
            break
        yield make_kernel(task.program, task.constants, target, task.key, check_bounds=check_bounds)
    for helper in helpers:
        helper.join()
    for task in pending:  # what a helper gave back
        yield make_kernel(task.program, task.constants, target, task.key)
    yield from done


def _help(pending: deque[Task], done: deque[KernelCode], target: Target) -> None:
    """Have a process of its own take tasks until none is left. One that it cannot do goes back:
    where it is done then, its error is raised."""
    described = {**asdict(target), "features": sorted(target.features)}
    try:
        process = subprocess.Popen(  # noqa: S603 - this Python, a file of our own
            [sys.executable, "-P", worker.__file__, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    except OSError:
        return
    failed: list[Task] = []
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        while pending:
            try:
                task = pending.pop()
            except IndexError:
                break
            script = task.program.script()
            name = task.program.name
            asked = worker.request(name, script, list(task.constants), described, task.key)
            try:
                process.stdin.write(json.dumps(asked) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:
                line = ""
            answered = json.loads(line) if line else {"error": "it ended"}
            if "error" in answered:
                failed.append(task)
                if not line:
                    break
                continue
            done.append(_received(answered))
    pending.extend(failed)


def _received(answered: dict[str, Any]) -> KernelCode:
    objects = [
        ObjectCode(
            base64.b64decode(part["code"]),
            tuple(Signature.from_json(s) for s in part["programs"]),
            None if part["kernel"] is None else Kernel.from_json(part["kernel"]),
        )
        for part in answered["objects"]
    ]
    return KernelCode.from_json(
        answered["kernel"], objects[0], objects[1] if len(objects) > 1 else None
    )
