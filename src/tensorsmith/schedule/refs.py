"""References into a program that is being scheduled.

They name things by what stays when statements are rebuilt: a loop by its variable, a block by its
name, which is unique in a program under a schedule. So a reference stays valid as long as the thing
exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tensorsmith.ir.expr import Var


@dataclass(frozen=True, slots=True)
class BlockRef:
    """A block of the function `program`, by name."""

    program: str
    name: str

    def __repr__(self) -> str:
        return f"block {self.name!r}"


@dataclass(frozen=True, slots=True)
class LoopRef:
    """A loop of the function `program`, by its variable."""

    program: str
    var: Var

    def __repr__(self) -> str:
        return f"loop {self.var.name!r}"


STAY: Final = Var("stay")
"""Stands for no loop where a place for a block was chosen: it stays where it is."""


class Sampled(int):
    """A number that a sampling primitive chose: an int, of which a trace knows where it is from."""

    __slots__ = ()
