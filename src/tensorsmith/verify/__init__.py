"""The verifier: every rule of well-formedness, in one place.

`RULES` lists the rules; each has an error class of its own in `tensorsmith.verify.errors`, whose
docstring explains it.
"""

from __future__ import annotations

from tensorsmith.ir.module import Function, IRModule, TensorProgram
from tensorsmith.verify.calls import call_cycles
from tensorsmith.verify.errors import VerifyError
from tensorsmith.verify.graphs import check_graph
from tensorsmith.verify.rules import RULES, Rule
from tensorsmith.verify.walk import check_program


def problems(x: IRModule | Function) -> list[VerifyError]:
    """Every rule that `x` breaks, in order of the text; [] if it is well-formed.

    A program by itself may call functions that are unknown here: they are external.
    """
    module = x if isinstance(x, IRModule) else IRModule({x.name: x})
    found: list[VerifyError] = []
    for function in module.functions.values():
        if isinstance(function, TensorProgram):
            found += check_program(function, module)
        else:
            found += check_graph(function, module)
    return [*found, *call_cycles(module)]


def verify(x: IRModule | Function) -> None:
    """Return if `x` is well-formed; else raise the first problem, which lists the others."""
    found = problems(x)
    if found:
        raise found[0].with_others(found[1:])


__all__ = ["RULES", "Rule", "VerifyError", "problems", "verify"]
