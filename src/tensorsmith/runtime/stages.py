"""The stages of a model at work: calls of native programs, and of Python functions between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from tensorsmith.errors import EvaluationError, TensorsmithError
from tensorsmith.runtime import images, maps, strings
from tensorsmith.runtime.dtypes import is_torch, numpy_dtype
from tensorsmith.runtime.extents import Extent, closure, text_of, value_of
from tensorsmith.runtime.manifest import (
    DimensionInfo,
    DimensionStage,
    NativeStage,
    PythonStage,
    TensorInfo,
)
from tensorsmith.runtime.results import Allocator, Make, Returns
from tensorsmith.runtime.weights import aligned

Functions: TypeAlias = "Mapping[str, Callable[..., Any]]"
Dims: TypeAlias = "Sequence[int]"
MOST_SHAPES: Final = 256
"""Combinations of dimensions whose shapes are kept."""


class NativeRun:
    """Calls of a native stage: makes memory for the results, and calls the program.

    call: the program, with arguments by position. Gives the stage's results: its outputs, then what
    it returned, in the order of the stage.
    """

    __slots__ = ("_call", "_infos", "_makers", "_returns", "_sources", "_weights", "stage")

    def __init__(
        self,
        stage: NativeStage,
        call: Callable[..., None],
        weights: np.ndarray[Any, Any],
        allocate: Allocator,
        returns: Returns,
    ) -> None:
        self.stage = stage
        self._call = call
        self._weights = _weights(stage, weights)
        self._returns = returns
        self._infos = dict(stage.returned)
        self._sources, position = _sources(stage)
        self._makers = _Makers(stage.outputs, position, allocate)

    def __call__(self, args: Sequence[Any], scalars: Sequence[int] = ()) -> list[Any]:
        dims = [args[at].shape[axis] for at, axis in self._sources]
        dims += scalars
        results = [make() for make in self._makers[tuple(dims)]]
        if not self._infos:
            self._call(*args, *scalars, *results, *self._weights)
            return results
        return self._with_returns(args, scalars, results)

    def _with_returns(
        self, args: Sequence[Any], scalars: Sequence[int], results: list[Any]
    ) -> list[Any]:
        token = self._returns.open(self._infos)
        taken: Mapping[int, Any] = {}
        try:
            self._call(*args, *scalars, *results, *self._weights, token)
        finally:
            taken = self._returns.close(token)
        missing = [n for n in self._infos if n not in taken]
        if missing:
            raise EvaluationError(f"{self.stage.program} handed over no result {missing[0]}")
        return [*results, *(taken[number] for number in self._infos)]


def _weights(stage: NativeStage, weights: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
    """The argument for the weights, if the program takes one; it has at least one byte."""
    if stage.weights is None:
        return ()
    start, size = stage.weights
    if start + size > weights.size:
        raise EvaluationError(
            f"{stage.program} has weights to byte {start + size}, and there are {weights.size}"
        )
    return (weights[start : start + size] if size else aligned(np.zeros(1, np.uint8)),)


def shape_of(x: Any) -> np.ndarray[Any, Any]:
    """The shape of a tensor, as a tensor."""
    return np.array(x.shape, np.int64)


def copy_of(x: Any) -> np.ndarray[Any, Any]:
    """A copy of a tensor."""
    return np.array(x)


FUNCTIONS: Final[Functions] = {
    "runtime.shape": shape_of,
    "runtime.copy": copy_of,
    **images.FUNCTIONS,
    **maps.FUNCTIONS,
    **strings.FUNCTIONS,
}
"""What every model may call."""


def _sources(stage: NativeStage) -> tuple[list[tuple[int, int]], dict[str, int]]:
    """Which input and axis tells each dimension, and the position of each among the values."""
    sources: list[tuple[int, int]] = []
    position: dict[str, int] = {}
    for at, info in enumerate(stage.inputs):
        for axis, extent in enumerate(info.extents):
            if isinstance(extent, str) and extent not in position:
                position[extent] = len(sources)
                sources.append((at, axis))
    for name in stage.scalars:
        position.setdefault(name, len(position))
    return sources, position


class _Makers(dict[tuple[int, ...], tuple[Make, ...]]):
    """What makes all outputs for values of the dimensions; those of latest calls are kept."""

    def __init__(
        self, outputs: Sequence[TensorInfo], position: Mapping[str, int], allocate: Allocator
    ) -> None:
        super().__init__()
        self._allocate = allocate
        self._outputs = [(t.dtype, [_extent(t, e, position) for e in t.extents]) for t in outputs]

    def __missing__(self, dims: tuple[int, ...]) -> tuple[Make, ...]:
        makers = tuple(
            self._allocate.maker(dtype, tuple([extent(dims) for extent in extents]))
            for dtype, extents in self._outputs
        )
        if len(self) >= MOST_SHAPES:
            self.clear()
        self[dims] = makers
        return makers


def _extent(info: TensorInfo, extent: Extent, position: Mapping[str, int]) -> Callable[[Dims], int]:
    try:
        return closure(extent, position)
    except KeyError as error:
        raise EvaluationError(
            f"the extent {text_of(extent)} of {info.name!r} depends on {error}, which is not known"
            " when the model is called"
        ) from None


def call_python(
    stage: PythonStage, functions: Functions, values: Mapping[str, Any], dims: Mapping[str, int]
) -> list[Any]:
    """The results of a Python stage. Raises EvaluationError for a function that is not known, that
    fails, or that gives other results than the model expects."""
    function = functions.get(stage.function)
    if function is None:
        raise EvaluationError(
            f"the model calls the Python function {stage.function!r}, which is not known here",
            try_=f"functions={{{stage.function!r}: ...}}",
        )
    args = [_operand(o.value, o.extent, values, dims) for o in stage.operands]
    try:
        found = function(*args, **stage.attributes)
    except TensorsmithError:
        raise
    except Exception as error:
        raise EvaluationError(
            f"the Python function {stage.function!r} failed", because=f"{error!r}"
        ) from error
    results = list(found) if isinstance(found, tuple) else [found]
    if len(results) != len(stage.results):
        raise EvaluationError(
            f"the Python function {stage.function!r} gave {len(results)} results,"
            f" and the model takes {len(stage.results)}"
        )
    return [_result(stage, i, x) for i, x in zip(stage.results, results, strict=True)]


def _operand(
    value: str | None, extent: Extent | None, values: Mapping[str, Any], dims: Mapping[str, int]
) -> Any:
    if value is not None:
        x = values[value]
        return x.numpy() if is_torch(x) else x
    return None if extent is None else value_of(extent, dims)


def _result(stage: PythonStage, info: TensorInfo, x: object) -> Any:
    wanted = numpy_dtype(info.dtype)
    array = np.asarray(x, wanted if wanted.hasobject else None)
    if array.dtype != wanted or array.ndim != len(info.extents):
        raise EvaluationError(
            f"the Python function {stage.function!r} gave {array.dtype} of rank {array.ndim} for"
            f" {info.name!r}",
            because=f"the model expects {info}",
        )
    return np.ascontiguousarray(array).reshape(array.shape)


class Values(dict[str, Any]):
    """The values of a call in stages, by name, and the dimensions that are known so far."""

    def __init__(self) -> None:
        super().__init__()
        self.dims: dict[str, int] = {}

    def keep(self, info: TensorInfo, x: Any) -> None:
        """Keep a value, and learn what its shape tells. Raises EvaluationError where that is not
        what the model expects."""
        self[info.name] = x
        for axis, (extent, got) in enumerate(zip(info.extents, x.shape, strict=True)):
            wanted = self.dims.setdefault(extent, got) if isinstance(extent, str) else extent
            if isinstance(wanted, int) and wanted != got:
                raise EvaluationError(
                    f"axis {axis} of {info.name!r} is {got}, and {text_of(extent)} is {wanted}"
                )

    def run_native(self, run: NativeRun) -> None:
        """Run a native stage."""
        stage = run.stage
        args = [self[t.name] for t in stage.inputs]
        found = run(args, [self.dims[name] for name in stage.scalars])
        for info, x in zip((*stage.outputs, *(t for _, t in stage.returned)), found, strict=True):
            self.keep(info, x)

    def run_python(self, stage: PythonStage, functions: Functions) -> None:
        """Run a Python stage."""
        found = call_python(stage, functions, self, self.dims)
        for info, x in zip(stage.results, found, strict=True):
            self.keep(info, x)

    def read_dimensions(self, stage: DimensionStage) -> None:
        """Learn dimensions that are elements of values. Raises EvaluationError for what breaks a
        fact on one."""
        for info, value, index in stage.dimensions:
            number = int(self[value][index])
            if reason := broken(info, number):
                raise EvaluationError(f"{info.name!r} is {number}, and must be {reason}")
            self.dims[info.name] = number


def broken(info: DimensionInfo, value: int) -> str:
    """What a dimension must be that `value` is not; '' if it may be that."""
    if info.low is not None and value < info.low:
        return f"at least {info.low}"
    if info.high is not None and value > info.high:
        return f"at most {info.high}"
    return f"a multiple of {info.multiple_of}" if value % info.multiple_of else ""
