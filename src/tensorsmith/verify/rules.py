"""The rules of well-formedness, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tensorsmith.verify import errors


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its name, what it demands, and the error that says that it is broken.

    The docstring of the error is the rule's help page.
    """

    name: str
    demands: str
    error: type[errors.VerifyError]


RULES: Final[tuple[Rule, ...]] = (
    Rule("defined", "every variable and buffer is defined before its use", errors.UndefinedError),
    Rule("in-scope", "it is used inside the scope of its definition", errors.OutOfScopeError),
    Rule("defined-once", "it has one definition", errors.RedefinedError),
    Rule(
        "isolation",
        "a block uses its own and outer iterators, dimensions, parameters, and what it defines",
        errors.IsolationError,
    ),
    Rule("store-type", "a stored value has its buffer's element type", errors.StoreTypeError),
    Rule("condition-type", "conditions and predicates are bool", errors.ConditionTypeError),
    Rule("index-type", "ranges, subscripts and their variables are index", errors.IndexTypeError),
    Rule("bind-type", "a bound value has its variable's element type", errors.BindTypeError),
    Rule("rank", "a store has one subscript a dimension", errors.RankError),
    Rule("extent", "every dimension is provably positive, or at least 0", errors.ExtentError),
    Rule("view", "a view lies inside of bytes, aligned, or at an address", errors.ViewError),
    Rule("memory-scope", "the scope of a buffer is a dotted name", errors.MemoryScopeError),
    Rule(
        "loop-extent", "no loop has a negative extent, or is written with 0", errors.LoopExtentError
    ),
    Rule("thread-axis", "thread loops, and they alone, name an axis", errors.ThreadAxisError),
    Rule("bounds", "every access is provably inside its buffer", errors.BoundsError),
    Rule(
        "binding",
        "the loops take every point of a block's spatial and reduce iterators exactly once",
        errors.BindingError,
    ),
    Rule("region", "stated regions cover the accesses", errors.RegionError),
    Rule("init", "a reduction is initialised, by an init that can run first", errors.InitError),
    Rule(
        "reduction-write",
        "reduce iterators do not pick the element that a reduction writes",
        errors.ReductionWriteError,
    ),
    Rule("constant", "a constant's data has the type of its value", errors.ConstantTypeError),
    Rule("shape-view", "another view of a shape keeps the elements", errors.ShapeViewError),
    Rule("branch", "both sides of a branch give what it gives", errors.BranchTypeError),
    Rule("loop", "states keep their types from iteration to iteration", errors.LoopTypeError),
    Rule("attribute", "attributes have a text", errors.AttributeTypeError),
    Rule("no-recursion", "programs do not call each other in a cycle", errors.CallCycleError),
    Rule("signature", "a call fits the parameters of the called program", errors.SignatureError),
    Rule("nesting", "statements are nested at most 80 deep", errors.NestingError),
    Rule("function-name", "the name of a program is an identifier", errors.FunctionNameError),
)
"""Every rule that `verify` checks, in the order of the documentation."""
