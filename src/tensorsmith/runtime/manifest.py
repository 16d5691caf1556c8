"""What is to be known of a compiled model besides its code and weights.

All of it is data: the compiler writes it, an artifact holds it as JSON, and the runtime runs by
it. A model runs in *stages*. Most have one: a native program, called with the inputs, memory for
the outputs, and the weights. Where a model calls Python functions (on strings, or the user's own),
there are native programs with calls between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tensorsmith.runtime.dtypes import STRING, numpy_dtype
from tensorsmith.runtime.extents import Extent, checked, text_of

Json: TypeAlias = "dict[str, Any]"
Attribute: TypeAlias = "bool | int | float | str | tuple[Any, ...]"
NO_ATTRIBUTES: Final[Mapping[str, Attribute]] = {}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor that a model takes, gives, or passes between its stages.

    name: unique among the values of the model. dtype: by name; 'string' for strings, 'map(...)' for
    maps.
    extents: of its shape.
    """

    name: str
    dtype: str
    extents: tuple[Extent, ...]

    @property
    def shape(self) -> tuple[int | str, ...]:
        """The shape: numbers, and the texts of what is known when the model runs."""
        return tuple(e if isinstance(e, int) else text_of(e) for e in self.extents)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"

    def to_json(self) -> Json:
        """As what JSON knows."""
        return {"name": self.name, "dtype": self.dtype, "shape": self.extents}

    @staticmethod
    def from_json(data: Json) -> TensorInfo:
        """What `to_json` made `data` of. Raises KeyError, TypeError or ValueError for other."""
        extents = tuple(checked(e) for e in _list(data["shape"]))
        numpy_dtype(_string(data["dtype"]))
        return TensorInfo(_string(data["name"]), _string(data["dtype"]), extents)


@dataclass(frozen=True, slots=True)
class DimensionInfo:
    """What must hold of a dimension: ``low <= d <= high``, and a multiple."""

    name: str
    low: int | None = None
    high: int | None = None
    multiple_of: int = 1

    def to_json(self) -> Json:
        """As what JSON knows."""
        return {
            "name": self.name,
            "low": self.low,
            "high": self.high,
            "multiple_of": self.multiple_of,
        }

    @staticmethod
    def from_json(data: Json) -> DimensionInfo:
        """What `to_json` made `data` of. Raises KeyError, TypeError or ValueError for other."""
        low, high = (None if data[k] is None else int(data[k]) for k in ("low", "high"))
        step = int(data["multiple_of"])
        if step < 1:
            raise ValueError("no multiple")
        return DimensionInfo(_string(data["name"]), low, high, step)


@dataclass(frozen=True, slots=True)
class NativeStage:
    """A call of a compiled program.

    Its arguments are: `inputs`, `scalars` (dimensions that no input's shape tells), memory for
    `outputs`, whose extents follow from the shapes of the inputs and the scalars; then its weights,
    if it has any; then a token, if there are `returned`: results whose extents only the program
    knows, which it hands over by ``ts_return``, by their numbers.
    weights: where they start among those of the model, and how many bytes they are.
    """

    program: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    returned: tuple[tuple[int, TensorInfo], ...] = ()
    scalars: tuple[str, ...] = ()
    weights: tuple[int, int] | None = None

    def to_json(self) -> Json:
        """As what JSON knows."""
        return {
            "kind": "native",
            "program": self.program,
            "inputs": [t.to_json() for t in self.inputs],
            "outputs": [t.to_json() for t in self.outputs],
            "returned": [[number, t.to_json()] for number, t in self.returned],
            "scalars": list(self.scalars),
            "weights": self.weights,
        }

    @staticmethod
    def from_json(data: Json) -> NativeStage:
        """What `to_json` made `data` of. Raises KeyError, TypeError or ValueError for other."""
        return NativeStage(
            _string(data["program"]),
            tuple(map(TensorInfo.from_json, _list(data["inputs"]))),
            tuple(map(TensorInfo.from_json, _list(data["outputs"]))),
            tuple((int(n), TensorInfo.from_json(t)) for n, t in _list(data["returned"])),
            tuple(map(_string, _list(data["scalars"]))),
            None if data["weights"] is None else _slice(data["weights"]),
        )


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a Python function: a value by name, an extent, or None for what is left out."""

    value: str | None = None
    extent: Extent | None = None


@dataclass(frozen=True, slots=True)
class PythonStage:
    """A call of a Python function, registered by name, with arrays and numbers.

    results: the names of the values that it gives, one array each.
    """

    function: str
    operands: tuple[Operand, ...]
    results: tuple[TensorInfo, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

    def to_json(self) -> Json:
        """As what JSON knows."""
        return {
            "kind": "python",
            "function": self.function,
            "operands": [{"value": o.value, "extent": o.extent} for o in self.operands],
            "results": [t.to_json() for t in self.results],
            "attributes": dict(self.attributes),
        }

    @staticmethod
    def from_json(data: Json) -> PythonStage:
        """What `to_json` made `data` of. Raises KeyError, TypeError or ValueError for other."""
        return PythonStage(
            _string(data["function"]),
            tuple(_operand(o) for o in _list(data["operands"])),
            tuple(map(TensorInfo.from_json, _list(data["results"]))),
            {_string(k): _attribute(v) for k, v in dict(data["attributes"]).items()},
        )


@dataclass(frozen=True, slots=True)
class DimensionStage:
    """Dimensions that are elements of values: `name` is the element of `value` at `index`."""

    dimensions: tuple[tuple[DimensionInfo, str, tuple[int, ...]], ...]

    def to_json(self) -> Json:
        """As what JSON knows."""
        found = [[d.to_json(), value, list(index)] for d, value, index in self.dimensions]
        return {"kind": "dimensions", "dimensions": found}

    @staticmethod
    def from_json(data: Json) -> DimensionStage:
        """What `to_json` made `data` of. Raises KeyError, TypeError or ValueError for other."""
        return DimensionStage(
            tuple(
                (DimensionInfo.from_json(d), _string(value), tuple(map(int, index)))
                for d, value, index in _list(data["dimensions"])
            )
        )


Stage: TypeAlias = "NativeStage | PythonStage | DimensionStage"
_STAGES: Final[Mapping[str, Callable[[Json], Stage]]] = {
    "native": NativeStage.from_json,
    "python": PythonStage.from_json,
    "dimensions": DimensionStage.from_json,
}


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """What profiles say of a kernel.

    sources: the model's nodes that it computes. flops, bytes: of a call, as extents over the
    model's dimensions; None where that is not known.
    """

    name: str
    sources: tuple[str, ...] = ()
    flops: Extent | None = None
    bytes: Extent | None = None

    def to_json(self) -> Json:
        """As what JSON knows."""
        return {
            "name": self.name,
            "sources": list(self.sources),
            "flops_expr": self.flops,
            "bytes_expr": self.bytes,
        }

    @staticmethod
    def from_json(data: Json) -> KernelInfo:
        """What `to_json` made `data` of. Raises KeyError, TypeError or ValueError for other."""
        both = [None if data[k] is None else checked(data[k]) for k in ("flops_expr", "bytes_expr")]
        return KernelInfo(_string(data["name"]), tuple(map(_string, data["sources"])), *both)


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine must be to run the code: its triple, and the features it must have."""

    triple: str
    cpu: str
    features: tuple[str, ...]

    def to_json(self) -> Json:
        """As what JSON knows."""
        return {"triple": self.triple, "cpu": self.cpu, "features": list(self.features)}

    @staticmethod
    def from_json(data: Json) -> Machine:
        """What `to_json` made `data` of. Raises KeyError, TypeError or ValueError for other."""
        features = tuple(map(_string, _list(data["features"])))
        return Machine(_string(data["triple"]), _string(data["cpu"]), features)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A model: what it takes and gives, and how it runs.

    dimensions: facts on those that inputs tell. versions: of what compiled it.
    """

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    stages: tuple[Stage, ...]
    machine: Machine
    dimensions: tuple[DimensionInfo, ...] = ()
    kernels: tuple[KernelInfo, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> Json:
        """As what JSON knows."""
        return {
            "name": self.name,
            "inputs": [t.to_json() for t in self.inputs],
            "outputs": [t.to_json() for t in self.outputs],
            "dimensions": [d.to_json() for d in self.dimensions],
            "stages": [s.to_json() for s in self.stages],
            "target": self.machine.to_json(),
            "kernels": [k.to_json() for k in self.kernels],
            "versions": dict(self.versions),
        }

    @staticmethod
    def from_json(data: Json) -> Manifest:
        """What `to_json` made `data` of. Raises KeyError, TypeError or ValueError for other."""
        return Manifest(
            _string(data["name"]),
            tuple(map(TensorInfo.from_json, _list(data["inputs"]))),
            tuple(map(TensorInfo.from_json, _list(data["outputs"]))),
            tuple(_STAGES[s["kind"]](s) for s in _list(data["stages"])),
            Machine.from_json(data["target"]),
            tuple(map(DimensionInfo.from_json, _list(data["dimensions"]))),
            tuple(map(KernelInfo.from_json, _list(data["kernels"]))),
            {_string(k): _string(v) for k, v in dict(data["versions"]).items()},
        )


def _operand(data: Json) -> Operand:
    value, extent = data["value"], data["extent"]
    return Operand(
        None if value is None else _string(value), None if extent is None else checked(extent)
    )


def _slice(data: object) -> tuple[int, int]:
    start, size = map(int, _list(data))
    if start < 0 or size < 0:
        raise ValueError("no slice")
    return start, size


def _attribute(data: object) -> Attribute:
    if isinstance(data, (bool, int, float, str)):
        return data
    return tuple(_attribute(part) for part in _list(data))


def _string(data: object) -> str:
    if not isinstance(data, str):
        raise TypeError(f"{data!r} is no text")
    return data


def _list(data: object) -> Sequence[Any]:
    if not isinstance(data, (list, tuple)):
        raise TypeError(f"{data!r} is no list")
    return data


__all__ = [
    "NO_ATTRIBUTES",
    "STRING",
    "DimensionInfo",
    "DimensionStage",
    "KernelInfo",
    "Machine",
    "Manifest",
    "NativeStage",
    "Operand",
    "PythonStage",
    "Stage",
    "TensorInfo",
]
