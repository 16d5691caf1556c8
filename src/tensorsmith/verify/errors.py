"""The errors of the verifier, one class a rule. Each docstring is the help page of its rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from tensorsmith.errors import DTypeError, IRError, ShapeError


class VerifyError(IRError):
    """A program breaks a rule of well-formedness.

    others: the further problems of the same program or module, listed after this one.
    """

    others: tuple[VerifyError, ...] = ()

    def with_others(self, others: Sequence[VerifyError]) -> Self:
        """This error, which lists `others` too."""
        self.others = tuple(others)
        return self

    def __str__(self) -> str:
        text = super().__str__()
        if not self.others:
            return text
        count = len(self.others)
        head = f"and {count} more problem{'s' if count > 1 else ''}:"
        return "\n".join([text, head, *map(str, self.others)])


# --- Scoping ---------------------------------------------------------------------------------


class UndefinedError(VerifyError, NameError):
    """A variable or buffer is used, and nothing defines it before.

    What may be used: parameters, the dimensions of their shapes, variables of the loops around,
    iterators of the blocks around, and bindings and allocations that stand before.
    """


class OutOfScopeError(VerifyError, NameError):
    """A variable or buffer is used after its scope has ended.

    Loop variables and iterators hold in their loop or block. Bindings and allocations hold to the
    end of the sequence that they stand in: what one branch of an `if` binds is unknown after it.
    """


class RedefinedError(VerifyError):
    """A variable or buffer is defined twice.

    With one definition each, code can move without capturing a name. When you build programs from
    the classes of `tensorsmith.ir`, make a new `Var` for each loop, iterator and binding.
    """


class IsolationError(VerifyError):
    """A block uses a loop variable or a binding from around it.

    Loops around a block may be split, merged and reordered. So the block must say in its
    iterators what it needs of them: ``vi = T.spatial(n, i)``, and then use ``vi``.
    """


# --- Element types and ranks -----------------------------------------------------------------


class StoreTypeError(VerifyError, DTypeError):
    """A stored value has another element type than its buffer. Casts are always written out."""


class ConditionTypeError(VerifyError, DTypeError):
    """The condition of an `if`, `while`, `assert` or block predicate is not a bool."""


class IndexTypeError(VerifyError, DTypeError):
    """A loop variable, an iterator, a range, or a subscript is not of type ``index``."""


class BindTypeError(VerifyError, DTypeError):
    """A variable is bound to a value of another element type."""


class RankError(VerifyError, ShapeError):
    """A buffer is stored to with more or fewer subscripts than it has dimensions."""


# --- Buffers and loops -----------------------------------------------------------------------


class ExtentError(VerifyError, ShapeError):
    """A dimension of a buffer cannot be proven positive, or at least 0.

    State what is known of a symbolic dimension: ``n = T.dim("n", min=1)``. An extent such as
    ``n - 3`` needs ``min=3``.
    """


class ViewError(VerifyError):
    """A view is of something that does not lie in one piece, or does not fit it.

    The source is a buffer without strides, layout or offset, or an address as an int64. The
    offset is an index of bytes, and a multiple of the element's size. Where the size of the source
    or the offset is not known before, both are checked when the program is interpreted.
    """


class MemoryScopeError(VerifyError):
    """The scope of a buffer is not a name, such as 'global', 'shared' or 'shared.dyn'."""


class LoopExtentError(VerifyError, ShapeError):
    """A loop or an iterator has a negative extent, or a loop was written with extent 0."""


class ThreadAxisError(VerifyError):
    """A thread loop names no hardware axis, or another loop names one."""


# --- Bounds ----------------------------------------------------------------------------------


class BoundsError(VerifyError, IndexError):
    """An access is not provably inside its buffer.

    Known are the ranges of loops and iterators, the conditions around the access (`if`, `while`,
    `select`, `and`, `or`), assertions before it, and the facts on dimensions. A subscript that
    depends on loaded data or on a scalar parameter is wrong only if it is always outside; else it
    is checked when the program is interpreted.
    """


# --- Blocks ----------------------------------------------------------------------------------


class BindingError(VerifyError):
    """The loops around a block do not take each point of its spatial and reduce iterators once.

    The bindings must be affine in the loops, with divisions and remainders that fit together, such
    as ``i * 4 + j`` or ``f // 8, f % 8``, and each must fill its iterator's range. Bind a loop that
    merely repeats the block to an opaque iterator; fused with others, it takes each point once for
    each of that iterator's values.
    """


class RegionError(VerifyError):
    """A region that a block states does not cover what the block accesses."""


class InitError(VerifyError):
    """A reduction starts from nothing, or its init cannot run before it.

    A block that accumulates over a reduce iterator needs an init, or a write to the same buffer
    before it. Where it shall add to what the caller passed, say so:
    ``T.block_attrs({"accumulate": True})``.
    The init runs once for each point of the spatial iterators, so it knows no reduce iterator, and
    cannot read what the block is about to compute.
    """


class ReductionWriteError(VerifyError):
    """A reduction block writes an element that its reduce iterators determine.

    Different values of a reduce iterator combine into one element, which the spatial iterators
    determine. An iterator that picks the element is spatial. Elements picked by loaded data
    (scatter, histogram) are fine if the buffer is initialised before the block.
    """


# --- Graph functions -------------------------------------------------------------------------


class ConstantTypeError(VerifyError, DTypeError):
    """The data of a constant is not of the shape and element type that its value has."""


class ShapeViewError(VerifyError, ShapeError):
    """A tensor cannot have the other shape that it is said to have.

    A match keeps the element type and the rank, and no extent may be known to differ. Another shape
    of the same memory keeps the element type and the number of elements.
    """


class BranchTypeError(VerifyError, TypeError):
    """The two sides of a branch do not give what the branch is said to give.

    Each side gives as many values, of the same types. An extent in which the sides differ is a
    variable of its own in the type of the result.
    """


class LoopTypeError(VerifyError, TypeError):
    """The states of a loop do not fit together, or its number of iterations is no integer.

    The values before the first iteration, the parameters of the body, what an iteration gives, and
    the results have the same types. An extent that changes from iteration to iteration is a
    variable of its own in the parameter and in the result.
    """


class AttributeTypeError(VerifyError, DTypeError):
    """An attribute is a value that has no text, as an array or an object."""


# --- Calls and modules -----------------------------------------------------------------------


class CallCycleError(VerifyError, RecursionError):
    """Programs of a module call each other in a cycle. Tensor programs do not recurse."""


class SignatureError(VerifyError, TypeError):
    """A call does not fit the parameters of the program that it calls."""


class NestingError(VerifyError, RecursionError):
    """Statements or bodies are nested deeper than what is written by hand or made by a schedule."""


class FunctionNameError(VerifyError):
    """The name of a program is not a Python identifier, which scripts and other programs call."""
