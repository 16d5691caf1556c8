"""Names in force at a point of a model."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorsmith.errors import UntrustedModelError
from tensorsmith.frontend.onnx.values import Read

if TYPE_CHECKING:
    from onnx import AttributeProto


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """The values, versions and attributes that a graph's nodes can name.

    where: how errors call the graph, '' for the model's own.
    opsets: version by domain; '' is ONNX's own.
    attributes: of the function that the nodes stand in.
    depth: how deep graphs and functions lie in each other here.
    """

    where: str
    values: ChainMap[str, Read | None]
    opsets: Mapping[str, int]
    attributes: Mapping[str, AttributeProto]
    depth: int = 0

    def inner(self, where: str) -> Scope:
        """The scope of a graph inside a node: sees all values here, and adds its own."""
        return Scope(where, self.values.new_child(), self.opsets, self.attributes, self.depth + 1)

    def __getitem__(self, name: str) -> Read | None:
        """The value of a name; None for '' or what is left out.

        Raises UntrustedModelError for a name that is not defined.
        """
        if not name:
            return None
        try:
            return self.values[name]
        except KeyError:
            raise UntrustedModelError(
                f"the input {name!r} is not defined", where=self.where or None
            ) from None
