"""Truth: one evaluator of programs over many domains of values."""

from tensorsmith.evaluate.domain import Body, Domain
from tensorsmith.evaluate.interpreter import interpret
from tensorsmith.evaluate.numpy_domain import Memory, NumPyDomain
from tensorsmith.evaluate.walker import Walker, evaluate

__all__ = ["Body", "Domain", "Memory", "NumPyDomain", "Walker", "evaluate", "interpret"]
