"""The passes over a model, in order, and the one place that runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from tensorsmith.compiler.evaluate import evaluate_natively
from tensorsmith.graph.layouts import choose_layouts
from tensorsmith.graph.legalize import legalize
from tensorsmith.graph.move_up import move_up
from tensorsmith.graph.siblings import join_siblings
from tensorsmith.graph.simplify import simplify
from tensorsmith.graph.winograd import choose_minimal_filtering
from tensorsmith.ir import IRModule

Pass: TypeAlias = Callable[[IRModule], IRModule]
Observe: TypeAlias = "Callable[[Event], None]"


def simplify_operators(module: IRModule) -> IRModule:
    """Fold, rewrite, and leave out what is double or dead: see `tensorsmith.graph.simplify`."""
    return simplify(module, evaluate=evaluate_natively)


PIPELINE: Final[tuple[Pass, ...]] = (
    simplify_operators,
    move_up,
    join_siblings,
    choose_layouts,
    choose_minimal_filtering,
    legalize,
)
"""From what a reader gives to graph functions of calls and tensor programs."""
PLAIN_SUMS: Final = tuple(p for p in PIPELINE if p is not choose_minimal_filtering)
"""The same, with each element of a convolution as the sum of products that it is defined as."""


@dataclass(frozen=True, slots=True)
class Event:
    """What a pass did: for timing, verifying and dumping."""

    name: str
    before: IRModule
    after: IRModule
    seconds: float


def run(
    module: IRModule, pipeline: Sequence[Pass] = PIPELINE, observe: Observe | None = None
) -> IRModule:
    """The module after the passes, in order. `observe` is called after each."""
    for apply in pipeline:
        start = time.perf_counter()
        after = apply(module)
        if observe is not None:
            name = getattr(apply, "__name__", repr(apply))
            observe(Event(name, module, after, time.perf_counter() - start))
        module = after
    return module
