"""Runs graph functions: lowered to a host program and kernels, by the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorsmith.arith import simplify
from tensorsmith.evaluate import interpret
from tensorsmith.graph.host import RETURN, make_host
from tensorsmith.graph.legalize import legalize
from tensorsmith.ir import Buffer, Const, GraphFunction, IRModule, Var, as_expr, substitute
from tensorsmith.verify import verify

Array = np.ndarray[Any, Any]


def lowered(graph: GraphFunction, operators: Any = None) -> tuple[IRModule, Any]:
    """The module of host and kernels, verified, and what belongs to the host."""
    options = {} if operators is None else {"operators": operators}
    module = legalize(IRModule.of(graph), **options)
    host = make_host(module.graph(graph.name), module.programs)
    made = IRModule.of(host.program, *module.programs.values())
    verify(made)
    return made, host


def run_lowered(graph: GraphFunction, *args: Array, operators: Any = None) -> tuple[Array, ...]:
    """The results of a function, computed by its host program."""
    module, host = lowered(graph, operators)
    return run_host(module, host, graph, args)


def run_host(
    module: IRModule, host: Any, graph: GraphFunction, args: Sequence[Array]
) -> tuple[Array, ...]:
    """The results of a host program for these arguments, in order."""
    dims = {
        e: as_expr(s)
        for p, a in zip(graph.params, args, strict=True)
        for e, s in zip(p.shape, a.shape, strict=True)
        if isinstance(e, Var)
    }
    results: dict[int, Array] = {}
    values: list[Any] = list(args)
    told = [n for n in range(len(graph.results)) if n not in host.returned]
    for param in host.program.params[len(args) :]:
        if param.name == "weights":
            values.append(host.weights.to_array())
        elif isinstance(param, Buffer):
            shape = [simplify(substitute(e, dims)) for e in param.shape]
            assert all(isinstance(e, Const) for e in shape)
            made = np.zeros([int(e.value) for e in shape], param.dtype.numpy)
            results[told[len(results)]] = made
            values.append(made)
        else:
            values.append(0)

    def give(token: int, number: int, region: Array, *extents: int) -> int:
        assert region.shape == tuple(int(e) for e in extents)
        results[int(number)] = np.array(region)
        return 0

    interpret(module, *values, entry=host.program.name, externs={RETURN: give})
    return tuple(results[n] for n in range(len(graph.results)))
