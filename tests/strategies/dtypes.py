"""Strategies for element types."""

from __future__ import annotations

from hypothesis import strategies as st

from tensorsmith.ir import DType, Kind, dtype
from tensorsmith.ir.dtype import SCALAR_TYPES

INTS = tuple(t for t in SCALAR_TYPES if t.flag & Kind.BITS)
FLOATS = tuple(t for t in SCALAR_TYPES if t.flag & Kind.FLOAT)
STORAGE = tuple(t for t in SCALAR_TYPES if t.flag & Kind.STORAGE)
WHOLE_BYTE_INTS = tuple(t for t in INTS if t.bits >= 8)

int_dtypes = st.sampled_from(INTS)
"""Every fixed-width integer."""
float_dtypes = st.sampled_from(FLOATS)
"""Every float with arithmetic."""
buffer_dtypes = st.sampled_from(
    tuple(map(dtype, ("float32", "int32", "int8", "uint8", "float64", "int64", "bool", "float16")))
)
"""Those that tensor programs mostly hold."""


def scalar_dtypes(kinds: Kind = Kind.ANY) -> st.SearchStrategy[DType]:
    """A scalar type of one of `kinds`; ``index`` among them."""
    return st.sampled_from([t for t in SCALAR_TYPES if t.flag & kinds])
