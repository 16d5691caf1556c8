"""Compiled models: called with inputs, they give outputs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypedDict, Unpack

import numpy as np

from tensorsmith.errors import ArtifactError, DTypeError, ShapeError
from tensorsmith.runtime import artifact, stages
from tensorsmith.runtime import inputs as checks
from tensorsmith.runtime.dtypes import is_torch
from tensorsmith.runtime.executable import (
    CompiledProgram,
    ObjectCode,
    address_of,
    link_kernels,
    link_programs,
)
from tensorsmith.runtime.manifest import (
    DimensionStage,
    Manifest,
    NativeStage,
    PythonStage,
    TensorInfo,
)
from tensorsmith.runtime.maps import shown
from tensorsmith.runtime.model_profile import ModelProfile, Profiler
from tensorsmith.runtime.results import Allocator, Returns, allocator
from tensorsmith.runtime.stages import Functions, NativeRun, Values
from tensorsmith.runtime.thread_pool import Context, symbols
from tensorsmith.runtime.weights import aligned
from tensorsmith.target.target import usable_cores

Array: TypeAlias = "np.ndarray[Any, Any]"
Call: TypeAlias = "Callable[[Sequence[Any]], list[Any]]"
_RETRIED: Final = (
    *(DTypeError, ShapeError),
    *(AttributeError, IndexError, KeyError, MemoryError, OverflowError, TypeError, ValueError),
)
"""What a call with inputs that do not fit may raise, before they are looked at closely."""


class ModelOptions(TypedDict, total=False):
    """How a model is run. See `Model`."""

    threads: int | None
    outputs: str
    functions: Functions | None
    externs: Mapping[str, object] | None


class Model:
    """A compiled model: ``model(x, y)``, or with inputs by name.

    Inputs are NumPy arrays, torch tensors, or anything with ``__dlpack__`` in main memory. Those
    that lie dense in memory are used where they are, and never written; others are copied
    (`copies` counts them). The result is a tensor, or a tuple where the model has several outputs;
    it is always new memory. Any number of Python threads may call one model at the same time; the
    GIL is released while native code runs. Raises ShapeError or DTypeError for inputs that do not
    fit, EvaluationError for what goes wrong inside.

    objects: the machine code, as `tensorsmith.codegen.compile_module` gives it.
    weights: all constants, bytes at a multiple of 64; used where they lie and never written.
    threads: on how many threads parallel loops run; None for all processors of this process.
    outputs: what results are: 'numpy' arrays, 'torch' tensors, or 'dlpack': objects of every
        element type that any library takes by ``from_dlpack``.
    functions: Python functions that the model calls, by name, besides those on strings.
    externs: functions of C that the model calls, by name, as for `tensorsmith.codegen.build`.
    """

    def __init__(
        self,
        objects: Iterable[ObjectCode],
        manifest: Manifest,
        weights: Array | None = None,
        **options: Unpack[ModelOptions],
    ) -> None:
        threads = options.get("threads")
        if threads is not None and threads < 1:
            raise ShapeError(f"threads must be at least 1, not {threads}")
        self.manifest = manifest
        self.threads = usable_cores() if threads is None else threads
        self.context = Context(self.threads)
        self.copies = 0
        self.weights = aligned(np.zeros(0, np.uint8) if weights is None else weights)
        self.objects = tuple(objects)
        self.functions: Functions = {**stages.FUNCTIONS, **(options.get("functions") or {})}
        self._allocate = allocator(options.get("outputs", "numpy"))
        is_finished = type(self._allocate).finished is Allocator.finished
        self._finished = None if is_finished else self._allocate.finished
        self._returns = Returns(self._allocate)
        self._externs = {"ts_return": self._returns.function, **(options.get("externs") or {})}
        self.imports = {name: address_of(f) for name, f in self._externs.items()} | symbols()
        self.kernels = link_kernels(self.objects, self.imports)
        self.programs: Mapping[str, CompiledProgram] = link_programs(
            self.objects, self.imports, self.kernels, self.context, self._externs
        )
        self._run = self.caller({n: p.positional for n, p in self.programs.items()})
        self._profiler: Profiler | None = None
        self._lock = threading.Lock()

    # --- What it takes and gives --------------------------------------------------------------

    @property
    def name(self) -> str:
        """The model's name."""
        return self.manifest.name

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """What it takes: names, element types, shapes."""
        return self.manifest.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """What it gives, in order."""
        return self.manifest.outputs

    def __repr__(self) -> str:
        takes, gives = (", ".join(map(str, infos)) for infos in (self.inputs, self.outputs))
        return f"<model {self.name}({takes}) -> ({gives}), {self.threads} threads>"

    # --- Files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, for `load`. Raises ArtifactError if it cannot be written."""
        artifact.save(path, artifact.Contents(self.manifest, self.objects, self.weights))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        verify_weights: bool = True,
        **options: Unpack[ModelOptions],
    ) -> Model:
        """The model that was saved to a file, which holds machine code: load what you trust.

        The weights stay in the file, mapped into memory, so it must not be changed meanwhile; to
        save another one over it is fine. Needs nothing of the compiler.
        verify_weights: whether they are compared with their hash, which reads all of them.
        Raises ArtifactError for a file that is no saved model, is damaged, has another format, or
        was compiled for another machine.
        """
        found = artifact.load(path, verify_weights=verify_weights)
        try:
            return cls(found.objects, found.manifest, found.weights, **options)
        except OSError as error:
            raise ArtifactError(
                f"{path} is damaged: its code does not link", because=str(error).splitlines()[0]
            ) from None

    # --- Calls --------------------------------------------------------------------------------

    def __call__(self, *args: Any, **named: Any) -> Any:
        if named or self._finished is not None:
            results = self._results(args, named)
        else:
            try:
                results = self._run(args)
            except _RETRIED as error:
                results = self._again(args, error)
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, *args: Any, **named: Any) -> dict[str, Any]:
        """The outputs by name."""
        results = self._results(args, named)
        return {info.name: x for info, x in zip(self.outputs, results, strict=True)}

    def trim(self) -> None:
        """Free the memory that calls leave to later ones. Calls may run meanwhile."""
        self.context.trim()

    def _results(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        args = checks.in_order(self.manifest.inputs, args, named) if named else args
        try:
            results = self._run(args)
        except _RETRIED as error:
            results = self._again(args, error)
        return results if self._finished is None else list(map(self._finished, results))

    def _again(self, args: tuple[Any, ...], error: BaseException) -> list[Any]:
        """Say what was wrong with the inputs; if it can be helped by a copy, call again."""
        args = tuple(checks.in_order(self.manifest.inputs, args, {}))
        tensors, copies = checks.checked(self.manifest.inputs, self.manifest.dimensions, args)
        if not copies and all(a is b for a, b in zip(tensors, args, strict=True)):
            checks.check_outputs(self.manifest, [tuple(t.shape) for t in tensors], error)
            raise error
        self.copies += copies
        return self._run(tuple(tensors))

    def profile(self, *args: Any, repeats: int = 10, warmup: int = 1, **named: Any) -> ModelProfile:
        """How long calls with these inputs take, and each kernel in them.

        The model runs `warmup` times without and `repeats` times with clocks. Prints as a table;
        `ModelProfile.write_trace` writes the last call for ui.perfetto.dev. Raises as a call does.
        """
        if named or len(args) != len(self.manifest.inputs):
            args = checks.in_order(self.manifest.inputs, args, named)
        with self._lock:
            if self._profiler is None:
                self._profiler = Profiler(self)
        return self._profiler.profile(self, args, repeats, warmup)

    # --- Stages -------------------------------------------------------------------------------

    def caller(self, calls: Mapping[str, Callable[..., None]]) -> Call:
        """What a call does, with these programs: for one native stage, just that."""
        runs = [
            NativeRun(stage, calls[stage.program], self.weights, self._allocate, self._returns)
            if isinstance(stage, NativeStage)
            else None
            for stage in self.manifest.stages
        ]
        run = runs[0] if len(runs) == 1 else None
        if run is None or run.stage.scalars or run.stage.inputs != self.inputs:
            return lambda args: self._staged(args, runs)
        stage = run.stage
        names = [t.name for t in (*stage.outputs, *(t for _, t in stage.returned))]
        order = [names.index(t.name) for t in self.outputs]
        if order == list(range(len(names))):
            return run
        return lambda args: list(map(run(args).__getitem__, order))

    def _staged(self, args: Sequence[Any], runs: Sequence[NativeRun | None]) -> list[Any]:
        """A call in several stages, which pass values by name."""
        infos, facts = self.manifest.inputs, self.manifest.dimensions
        tensors, copies = checks.checked(infos, facts, args)
        self.copies += copies
        values = Values()
        for info, x in zip(infos, tensors, strict=True):
            values.keep(info, x)
        for stage, run in zip(self.manifest.stages, runs, strict=True):
            if run is not None:
                values.run_native(run)
            elif isinstance(stage, PythonStage):
                values.run_python(stage, self.functions)
            else:
                assert isinstance(stage, DimensionStage)
                values.read_dimensions(stage)
        return [shown(_apart(values[t.name], tensors), t.dtype) for t in self.outputs]


def _apart(x: Any, tensors: Sequence[Any]) -> Any:
    """A result that is no input: a copy, if it is one."""
    if not any(x is t for t in tensors):
        return x
    return x.clone() if is_torch(x) else x.copy()


__all__ = ["Model", "TensorInfo", "aligned"]
