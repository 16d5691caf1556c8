"""Loops that run to and fro: backwards in every other iteration of the loop around them.

What is larger than a cache and is read in the same order again and again is never there when it is
needed: the last of it has driven out the first. Read backwards, it begins with what came last. Each
piece of a parallel loop turns by itself, so a thread goes on with the same part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorsmith.codegen.lower.annotations import TO_AND_FRO
from tensorsmith.ir import For, LoopKind, equal

if TYPE_CHECKING:
    from tensorsmith.codegen.llvm.function import Function


def turned(function: Function, s: For, variable: str, ends: tuple[str, str]) -> str:
    """The register of the variable of a loop that counts with `variable` from the first of `ends`
    to before the second: another one if the loop is annotated so. Only a parallel loop may run in
    any order."""
    asked = s.kind is LoopKind.PARALLEL and s.attrs.get(TO_AND_FRO)
    if not asked or not function.repeated:
        return variable
    text = function.text
    backwards, _ = function.expressions.value(equal(function.repeated[-1] % 2, 1))
    both = text.value(f"add i64 {ends[0]}, {ends[1]}")
    last = text.value(f"sub i64 {both}, 1")
    other = text.value(f"sub i64 {last}, {variable}")
    return text.value(f"select i1 {backwards}, i64 {other}, i64 {variable}")
