"""Annotations that lowering and code generation give a meaning to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorsmith.ir import For, LoopKind, Stmt, Var, const
from tensorsmith.ir.stmt import Attrs, AttrValue

PREFETCH: Final = "prefetch"
"""Of a loop: fetch what it loads so many iterations later into the cache."""
PREFETCH_NEXT: Final = "prefetch_next"
"""Of a loop: fetch what its next iteration loads again and again while this one runs."""
TO_AND_FRO: Final = "to_and_fro"
"""Of a parallel loop: run each piece of it backwards in every other iteration of the serial loop
around it."""
NONTEMPORAL: Final = "nontemporal"
"""Of a loop or block: store past the caches, where the alignment is known to allow it."""
OF_BLOCKS: Final = frozenset((NONTEMPORAL, "double_buffer"))
"""Those of blocks, which go on with a loop that runs once."""


def with_annotations(s: Stmt, attrs: Attrs) -> Stmt:
    """The statement that a block has become, with those of its annotations that have a meaning."""
    kept: Mapping[str, AttrValue] = {k: v for k, v in attrs.items() if k in OF_BLOCKS and v}
    if not kept:
        return s
    return For(Var("once"), const(1), s, kind=LoopKind.SERIAL, attrs=kept, span=s.span)


def is_kept(loop: For) -> bool:
    """Whether a loop that runs once must stay for its annotations."""
    return any(k in OF_BLOCKS and v for k, v in loop.attrs.items())
