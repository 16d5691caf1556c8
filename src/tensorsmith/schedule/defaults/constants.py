"""Which buffers of a program are the same in every call."""

from __future__ import annotations

from typing import Final

from tensorsmith.ir import Load, Store, postorder
from tensorsmith.ir.rewrite import statements
from tensorsmith.schedule.schedule import Schedule
from tensorsmith.schedule.tree import blocks_in

CONSTANTS: Final = "constants"
"""The attribute of a program that names the parameters that are the same in every call."""


def constants_of(s: Schedule) -> frozenset[str]:
    """The names of the buffers that are the same in every call: parameters, and what is computed of
    them alone."""
    given = s.program.attrs.get(CONSTANTS, ())
    found = set(map(str, given)) if isinstance(given, tuple) else set()
    for block in blocks_in(s.program.body) if found else ():
        stores = [x for x in statements(block) if isinstance(x, Store)]
        made = {x.buffer.name for x in stores}
        loads = [e for x in stores for e in postorder(x.value) if isinstance(e, Load)]
        if loads and all(e.buffer.name in found or e.buffer.name in made for e in loads):
            found |= made
    return frozenset(found)
