"""Simplification, bounds, congruences, proofs, and the algebra of index maps."""

from tensorsmith.arith.analyzer import Analyzer, conjuncts, disjuncts
from tensorsmith.arith.congruence import Congruence
from tensorsmith.arith.interval import Interval
from tensorsmith.ir.expr import Expr


def simplify(e: Expr) -> Expr:
    """`e` in canonical form, knowing of its variables what stands on them. See `Analyzer`."""
    return Analyzer().simplify(e)


__all__ = ["Analyzer", "Congruence", "Interval", "conjuncts", "disjuncts", "simplify"]
