"""A process that schedules and compiles kernels for another one.

Run as a program it reads requests from its input and writes answers to its output, a line of JSON
each: a program's text in, code out. `tensorsmith.compiler.kernel_pool` starts it.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import IO, Any

Json = dict[str, Any]


def request(name: str, script: str, constants: list[int], target: Json, key: str) -> Json:
    """What to ask for: the kernel of `script`."""
    return {
        "name": name,
        "script": script,
        "constants": constants,
        "target": target,
        "key": key,
    }


def answer(asked: Json) -> Json:
    """The kernel that is asked for, or an error's text."""
    from tensorsmith.compiler.kernel_code import make_kernel
    from tensorsmith.errors import TensorsmithError
    from tensorsmith.script import parse_program
    from tensorsmith.target import Caches, Target

    given = dict(asked["target"])
    target = Target(
        given["triple"],
        given["cpu"],
        frozenset(given["features"]),
        Caches(**given["caches"]),
        given["cores"],
    )
    try:
        program = parse_program(asked["script"])
        made = make_kernel(program, asked["constants"], target, asked["key"])
    except TensorsmithError as error:
        return {"error": str(error)}
    objects = [made.rest.code, *([] if made.before is None else [made.before.code])]
    return {
        "kernel": made.to_json(),
        "objects": [
            {
                "code": base64.b64encode(part.code).decode(),
                "programs": [s.to_json() for s in part.signatures],
                "kernel": None if part.kernel is None else part.kernel.to_json(),
            }
            for part in objects
        ],
    }


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answer until there is nothing more to read."""
    for line in requests:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[1])
    serve(sys.stdin, sys.stdout)
