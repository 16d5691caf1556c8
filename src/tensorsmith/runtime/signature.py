"""What can be known of a compiled program without its code: parameters, and its errors."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a compiled program.

    dtype: by name. is_buffer: a tensor, else a scalar. is_written: whether calls write to it.
    """

    name: str
    dtype: str
    is_buffer: bool
    is_written: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """What an error code means: a message, and whether it is about the arguments, or their type."""

    text: str
    where: str | None = None
    is_argument: bool = False
    is_type: bool = False


NO_MEMORY: Final = -2
"""What ``ts_hold`` and ``ts_append`` return where there is no memory."""
KERNEL_SHIFT: Final = 16
"""An error code of a kernel has the kernel's number in the bits from here on."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A program that a host calls, and that is linked to it.

    name: what the host calls it, and its errors. symbol: what its code defines; equal kernels share
    it. types: of its arguments by LLVM's names, context and all. failures: as of a `Signature`.
    """

    name: str
    symbol: str
    types: tuple[str, ...]
    failures: tuple[Failure, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The kernel as what JSON knows."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Kernel:
        """The kernel that `to_json` made `data` of. Raises KeyError or TypeError for other."""
        failures = tuple(Failure(**f) for f in data["failures"])
        types = tuple(map(str, data["types"]))
        return Kernel(str(data["name"]), str(data["symbol"]), types, failures)


@dataclass(frozen=True, slots=True)
class Signature:
    """A compiled program's name, its parameters, and what its error codes mean.

    Code k is ``failures[k - 1]``, or if the kernel number is not 0, that failure of the kernel
    ``kernels[number - 1]``.
    """

    name: str
    parameters: tuple[Parameter, ...]
    failures: tuple[Failure, ...]
    kernels: tuple[Kernel, ...] = ()

    def failure(self, code: int) -> Failure | None:
        """What an error code means; None if it is none of the program's."""
        if code == NO_MEMORY:
            return Failure("no memory for values whose size is known late")
        number, local = code >> KERNEL_SHIFT, code & ((1 << KERNEL_SHIFT) - 1)
        if not 0 <= number <= len(self.kernels):
            return None
        kernel = self.kernels[number - 1] if number else None
        known = self.failures if kernel is None else kernel.failures
        if not 0 < local <= len(known):
            return None
        found = known[local - 1]
        if kernel is None:
            return found
        return replace(found, text=f"{kernel.name}: {found.text}", is_argument=False)

    def to_json(self) -> dict[str, Any]:
        """The signature as what JSON knows."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Signature:
        """The signature that `to_json` made `data` of. Raises KeyError or TypeError for other."""
        return Signature(
            str(data["name"]),
            tuple(_parameter(**p) for p in data["parameters"]),
            tuple(Failure(**f) for f in data["failures"]),
            tuple(Kernel.from_json(k) for k in data["kernels"]),
        )


def _parameter(name: object, dtype: object, **flags: object) -> Parameter:
    """A parameter of checked fields. Raises TypeError for other types."""
    if not isinstance(name, str) or not isinstance(dtype, str):
        raise TypeError(f"{name!r}: {dtype!r} is no parameter")
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise TypeError(f"{name!r} has flags that are none")
    return Parameter(name, dtype, bool(flags["is_buffer"]), bool(flags["is_written"]))
