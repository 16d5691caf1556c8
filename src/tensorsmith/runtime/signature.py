"""What can be known of a compiled program without its code: parameters, and its errors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


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


@dataclass(frozen=True, slots=True)
class Signature:
    """A compiled program's name, its parameters, and what its error codes mean: code k is
    ``failures[k - 1]``."""

    name: str
    parameters: tuple[Parameter, ...]
    failures: tuple[Failure, ...]

    def to_json(self) -> dict[str, Any]:
        """The signature as what JSON knows."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Signature:
        """The signature that `to_json` made `data` of. Raises KeyError or TypeError for other."""
        return Signature(
            str(data["name"]),
            tuple(Parameter(**p) for p in data["parameters"]),
            tuple(Failure(**f) for f in data["failures"]),
        )
