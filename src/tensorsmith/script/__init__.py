"""The script form: tensor programs written as Python functions, parsed and never run.

::

    from tensorsmith import script as T

    n = T.dim("n")

    @T.program
    def double(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        for i in range(n):
            B[i] = A[i] * 2.0

Everything that a script is written with is a name of this module, which is imported as ``T``.
"""

from __future__ import annotations

from tensorsmith.errors import DTypeError
from tensorsmith.ir.dtype import SCALAR_TYPES, DType
from tensorsmith.ir.dtype import dtype as _dtype
from tensorsmith.ir.expr import equal, not_equal, select
from tensorsmith.ir.intrinsic import INTRINSICS, Intrinsic
from tensorsmith.script.decorators import graph, module, program
from tensorsmith.script.parser.text import (
    parse_expr,
    parse_graph,
    parse_index_map,
    parse_module,
    parse_program,
)
from tensorsmith.script.terms.blocks import (
    block,
    block_attrs,
    init,
    opaque,
    reads,
    reduce,
    remap,
    spatial,
    where,
    writes,
)
from tensorsmith.script.terms.calls import alias, call, static
from tensorsmith.script.terms.graphs import OpaqueType as Opaque
from tensorsmith.script.terms.graphs import (
    apply,
    constant,
    extern,
    loop,
    match_shape,
    op,
    read,
    reshaped,
    source,
)
from tensorsmith.script.terms.loops import grid, parallel, serial, thread, unrolled, vectorized
from tensorsmith.script.terms.memory import BufferType as Buffer
from tensorsmith.script.terms.memory import BufferType as Tensor
from tensorsmith.script.terms.memory import ScalarType as Scalar
from tensorsmith.script.terms.memory import alloc, dim, dims, view
from tensorsmith.script.terms.scalars import (
    cast,
    const,
    max,
    min,
    neg,
    reinterpret,
    truncdiv,
    truncmod,
)


def __getattr__(name: str) -> DType | Intrinsic:
    """The intrinsics, and the element types: ``T.exp``, ``T.float32``, ``T.float32x8``."""
    if name in INTRINSICS:
        return INTRINSICS[name]
    try:
        return _dtype(name)
    except DTypeError:
        raise AttributeError(f"T has no {name!r}") from None


def __dir__() -> list[str]:
    return __all__


__all__ = [
    "Buffer",
    "Opaque",
    "Scalar",
    "Tensor",
    "alias",
    "alloc",
    "apply",
    "block",
    "block_attrs",
    "call",
    "cast",
    "const",
    "constant",
    "dim",
    "dims",
    "equal",
    "extern",
    "graph",
    "grid",
    "init",
    "loop",
    "match_shape",
    "max",
    "min",
    "module",
    "neg",
    "not_equal",
    "op",
    "opaque",
    "parallel",
    "parse_expr",
    "parse_graph",
    "parse_index_map",
    "parse_module",
    "parse_program",
    "program",
    "read",
    "reads",
    "reduce",
    "reinterpret",
    "remap",
    "reshaped",
    "select",
    "serial",
    "source",
    "spatial",
    "static",
    "thread",
    "truncdiv",
    "truncmod",
    "unrolled",
    "vectorized",
    "view",
    "where",
    "writes",
]
__all__ += [t.name for t in SCALAR_TYPES]
__all__ += list(INTRINSICS)
