"""Models that leave something open which decides the code: compiled when they are called.

Such as the rank of an input, the length of a sequence, or a size that chooses between sides of an
`If` whose results differ in rank. Each call goes to code for what its inputs say; that is made when
such a call comes for the first time, and kept.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias

import numpy as np

from tensorsmith.errors import ArtifactError, TensorsmithError
from tensorsmith.frontend.onnx.inputs import extent_of, is_open
from tensorsmith.frontend.onnx.limits import DEFAULT_LIMITS
from tensorsmith.frontend.onnx.load import Source, load
from tensorsmith.frontend.onnx.node import OpenValueError
from tensorsmith.frontend.onnx.specialise import Specialised, flat_arguments, nested_results
from tensorsmith.frontend.onnx.types import element_type
from tensorsmith.ir import IRModule
from tensorsmith.runtime import inputs as checks
from tensorsmith.runtime.manifest import TensorInfo
from tensorsmith.runtime.model import Model
from tensorsmith.runtime.model_profile import ModelProfile
from tensorsmith.target.target import usable_cores

Make: TypeAlias = "Callable[[IRModule], Model]"


class OpenModel(Model):
    """A model by the same interface, which is compiled for what its calls have in common.

    specialised: the model, and what is open in it. make: compiles one of its modules.
    Sequences are lists of arrays; an optional that holds nothing is None.
    """

    def __init__(self, specialised: Specialised, make: Make, threads: int | None) -> None:
        self.specialised = specialised
        self.threads = usable_cores() if threads is None else threads
        self._make = make
        self._models: dict[int, tuple[IRModule, Model]] = {}
        self._making = threading.Lock()

    @property
    def name(self) -> str:
        """The model's name."""
        return self.specialised.model.graph.name or "main"

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """What it takes. What has no rank, or is no tensor, is shown without a shape."""
        return tuple(map(_info, self.specialised.inputs))

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """What it gives, in order, as far as the model says."""
        return tuple(map(_info, self.specialised.model.graph.output))

    def __repr__(self) -> str:
        return f"<model {self.name}, compiled for each kind of call, {self.threads} threads>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        results = list(self.run(*args, **named).values())
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, *args: Any, **named: Any) -> dict[str, Any]:
        """The outputs by name."""
        module, model, arrays = self._for_call(args, named)
        names = [o.name for o in self.specialised.model.graph.output]
        flat = list(model.run(*arrays).values())
        return dict(zip(names, nested_results(module, names, flat), strict=True))

    def profile(self, *args: Any, repeats: int = 10, warmup: int = 1, **named: Any) -> ModelProfile:
        """How long calls with these inputs take, and each kernel in them; see `Model.profile`."""
        _, model, arrays = self._for_call(args, named)
        return model.profile(*arrays, repeats=repeats, warmup=warmup)

    def trim(self) -> None:
        """Free the memory that calls leave to later ones."""
        for _, model in list(self._models.values()):
            model.trim()

    def save(self, path: str | os.PathLike[str]) -> NoReturn:
        """Raises ArtifactError: there is code only for calls that were made."""
        raise ArtifactError(
            f"{self.name} cannot be saved to {os.fspath(path)}",
            because="it leaves open what decides the code, and is compiled when it is called",
            try_="compile(model, input_types={...}), which says what is open",
        )

    def _for_call(
        self, args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[IRModule, Model, list[Any]]:
        """The module and the model for these inputs, and the inputs one by one."""
        if named or len(args) != len(self.specialised.inputs):
            args = checks.in_order(self.inputs, args, named)
        arguments = [_as_argument(a) for a in args]
        with self._making:
            module = self.specialised.module_for(arguments)
            if id(module) not in self._models:
                self._models[id(module)] = (module, self._make(module))
            model = self._models[id(module)][1]
        return module, model, flat_arguments(arguments)


def open_model(source: Source, error: TensorsmithError) -> Specialised | None:
    """The model to compile when it is called, if `error` is that it leaves something open."""
    model = load(source, DEFAULT_LIMITS).model
    if not (isinstance(error, OpenValueError) or is_open(model.graph)):
        return None
    return Specialised(model, source=source)


def _as_argument(x: Any) -> Any:
    if x is None or isinstance(x, (np.ndarray, np.generic)):
        return x
    if isinstance(x, (list, tuple)):
        return [_as_argument(e) for e in x]
    return np.from_dlpack(x) if hasattr(x, "__dlpack__") else np.asarray(x)


def _info(value: Any) -> TensorInfo:
    tensor = value.type.tensor_type
    try:
        dtype = element_type(tensor.elem_type, value.name).name
    except TensorsmithError:  # a sequence, an optional, or strings
        dtype = "string"
    stated = map(extent_of, tensor.shape.dim)
    shape = [f"{value.name}_{k}" if e is None else e for k, e in enumerate(stated)]
    return TensorInfo(value.name, dtype, tuple(shape))
