"""All simplifications of operators together, again and again until nothing changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorsmith.graph.cse import eliminate_common_subexpressions
from tensorsmith.graph.dead_code import eliminate_dead_code
from tensorsmith.graph.facts import use_facts
from tensorsmith.graph.fold import Evaluate, fold_constants
from tensorsmith.graph.hoist import hoist_invariants
from tensorsmith.graph.quantized import QUANTIZED
from tensorsmith.graph.rewrite import Rule, rewrite
from tensorsmith.graph.rules import RULES
from tensorsmith.ir import IRModule
from tensorsmith.ops import OPERATORS
from tensorsmith.ops.operator import Operator

MOST_ROUNDS: Final = 12
"""Each round makes a function smaller, or a constant of an operator, or moves a transpose down."""


def simplify(
    module: IRModule,
    *,
    operators: Mapping[str, Operator] = OPERATORS,
    evaluate: Evaluate | None = None,
    rules: Sequence[Rule] = RULES,
) -> IRModule:
    """Fold, rewrite, and leave out what is double or dead, until nothing changes.

    evaluate: as for `fold_constants`. rules: those to rewrite by; with `EXACT` every bit is kept.
    Gives `module` itself if nothing changes.
    """
    module = eliminate_dead_code(module)
    quantized = [r for r in rules if r in QUANTIZED]  # before weights are folded to floats
    module = rewrite(module, quantized, operators=operators)
    for _ in range(MOST_ROUNDS):
        before = module
        module = fold_constants(module, operators=operators, evaluate=evaluate)
        module = use_facts(module)
        module = rewrite(module, rules, operators=operators)
        module = hoist_invariants(module)
        module = eliminate_common_subexpressions(module)
        module = eliminate_dead_code(module)
        if module is before:
            break
    return module
