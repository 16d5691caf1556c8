"""Tensor intrinsics: what an instruction of the hardware computes, and how to say it.

An intrinsic is a pair of tensor programs with the same parameters. `tensorize` finds the first in a
program, and puts the second in its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tensorsmith.ir import Buffer, TensorProgram
from tensorsmith.schedule.errors import ScheduleError


@dataclass(frozen=True, slots=True, eq=False)
class TensorIntrinsic:
    """An intrinsic, by name.

    description: what it computes: loops around stores, in blocks or not. Its buffers say where it
        takes its operands from: strides that are variables take any, and strides that are left out
        ask for a dense row-major tile. Extents that are variables take any that their facts allow.
    implementation: how: a body that takes the place of what was matched, in terms of the same
        parameters in the same order. It may call external symbols, inside of blocks that state what
        is read and written.
    features: what a target must have for it, such as 'avx2'.

    Raises ScheduleError if the parameters of the two differ in number, rank or element type.
    """

    name: str
    description: TensorProgram
    implementation: TensorProgram
    features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        a, b = self.description.params, self.implementation.params
        if list(map(_signature, a)) != list(map(_signature, b)):
            raise ScheduleError(
                f"intrinsic {self.name!r}: the description and the implementation have different"
                " parameters",
                given=f"({', '.join(map(_signature, a))}) and ({', '.join(map(_signature, b))})",
            )


def _signature(param: object) -> str:
    if isinstance(param, Buffer):
        return f"{param.dtype}[{', '.join(':' * param.rank)}]"
    return str(getattr(param, "dtype", param))


_registered: Final[dict[str, TensorIntrinsic]] = {}


def register_intrinsic(intrinsic: TensorIntrinsic, *, override: bool = False) -> TensorIntrinsic:
    """Let `tensorize` find an intrinsic by its name; gives it back.

    override: replace one of the same name; otherwise that is a ScheduleError.
    """
    if not override and intrinsic.name in intrinsic_names():
        raise ScheduleError(
            f"there is an intrinsic {intrinsic.name!r} already",
            try_="override=True, or another name",
        )
    _registered[intrinsic.name] = intrinsic
    return intrinsic


def get_intrinsic(name: str) -> TensorIntrinsic:
    """The intrinsic called `name`: one that was registered, else one that is shipped.

    Raises ScheduleError, with the names there are.
    """
    from tensorsmith.schedule.intrinsics import SHIPPED

    found = _registered.get(name) or SHIPPED.get(name)
    if found is None:
        raise ScheduleError(
            f"there is no intrinsic {name!r}",
            try_=f"one of {', '.join(intrinsic_names())}, or register_intrinsic",
        )
    return found


def intrinsic_names(features: Iterable[str] | None = None) -> list[str]:
    """The names of all intrinsics, sorted; of those alone that need no more than `features`."""
    from tensorsmith.schedule.intrinsics import SHIPPED

    known = {**SHIPPED, **_registered}
    if features is None:
        return sorted(known)
    has = set(features)
    return sorted(n for n, i in known.items() if has.issuperset(i.features))
