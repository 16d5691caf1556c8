"""Truth: one evaluator of programs over many domains of values."""

from tensorsmith.evaluate.cost import Cost, Traffic, cost
from tensorsmith.evaluate.cost_domain import CostDomain
from tensorsmith.evaluate.domain import Body, Domain
from tensorsmith.evaluate.equivalence import equivalent
from tensorsmith.evaluate.float_ranges import FloatRange
from tensorsmith.evaluate.interpreter import interpret
from tensorsmith.evaluate.interval import IntervalDomain, value_bounds
from tensorsmith.evaluate.memory import Memory
from tensorsmith.evaluate.numpy_domain import NumPyDomain
from tensorsmith.evaluate.prime_field import PrimeFieldDomain
from tensorsmith.evaluate.walker import Walker, evaluate

__all__ = [
    "Body",
    "Cost",
    "CostDomain",
    "Domain",
    "FloatRange",
    "IntervalDomain",
    "Memory",
    "NumPyDomain",
    "PrimeFieldDomain",
    "Traffic",
    "Walker",
    "cost",
    "equivalent",
    "evaluate",
    "interpret",
    "value_bounds",
]
