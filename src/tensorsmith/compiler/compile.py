"""From a model to an executable. Imports the compiler only when there is something to compile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Unpack

from tensorsmith.compiler.kept import Kept
from tensorsmith.errors import TensorsmithError
from tensorsmith.runtime.model import Model, ModelOptions
from tensorsmith.target import Target

if TYPE_CHECKING:
    from tensorsmith.compiler.pipeline import Observe, Pass
    from tensorsmith.frontend.onnx.load import Source
    from tensorsmith.frontend.onnx.types import InputType, MinExtent
    from tensorsmith.ir import IRModule


def compile(  # noqa: PLR0913 - these are independent of each other
    model: Source | IRModule,
    *,
    target: Target | str = "native",
    entry: str = "main",
    sizes: Mapping[str, int] = MappingProxyType({}),
    input_types: Mapping[str, InputType] = MappingProxyType({}),
    min_extent: MinExtent = 1,
    winograd: bool = True,
    pipeline: Sequence[Pass] | None = None,
    observe: Observe | None = None,
    cache: bool = True,
    check_bounds: bool = False,
    **options: Unpack[ModelOptions],
) -> Model:
    """Compile a model for this machine.

    model: an ONNX model (a path, the bytes of a file, a `ModelProto`), or a module with the graph
        function `entry`.
    target: 'native', or the name of a kind of machine that this one can stand for.
    sizes: of dimensions by their names, for a model that is compiled for these alone.
    input_types: as for `tensorsmith.from_onnx`. A model that leaves open what decides the code,
        such as the rank of an input, is else compiled when it is called.
    min_extent: as for `tensorsmith.from_onnx`; ``{"past": 0}`` for a model whose dimension of this
        name may be empty, as the keys and values are that come before a text.
    winograd: whether convolutions of three by three taps may be computed by Winograd's minimal
        filtering where that is faster. Their results then differ from exact ones by some 1e-6 of
        the largest, about as much as those of the plain sums do.
    pipeline: the passes; `tensorsmith.compiler.PIPELINE` by default, less what is not allowed.
    observe: called after each pass, with an `Event`.
    cache: whether kernels, and whole models, are kept on disk and taken from there. A model whose
        weights lie in other files is not kept as a whole.
    check_bounds: as for `tensorsmith.codegen.build`.
    options: of `tensorsmith.runtime.Model`: `threads`, `outputs`, ...
    Raises what reading and building do, for models that are damaged, not supported or contradict
    themselves.
    """
    target = Target.of(target)
    usual = cache and pipeline is None and observe is None and not input_types
    usual = usual and winograd and min_extent == 1

    def place() -> Kept | None:
        return Kept.of(model, target, entry, sizes, check_bounds=check_bounds) if usual else None

    kept = place()
    found = kept and kept.load(options)
    if found:
        return found
    from tensorsmith.compiler.lowering import compile_module
    from tensorsmith.compiler.pipeline import PIPELINE, PLAIN_SUMS
    from tensorsmith.graph.specialize import specialize
    from tensorsmith.ir import IRModule

    passes = pipeline if pipeline is not None else PIPELINE if winograd else PLAIN_SUMS

    def make(module: IRModule) -> Model:
        return compile_module(
            specialize(module, sizes, entry=entry),
            target,
            entry,
            passes,
            observe,
            cache=cache,
            check_bounds=check_bounds,
            **options,
        )

    if isinstance(model, IRModule):
        return make(model)
    from tensorsmith.frontend.onnx import from_onnx

    outside: set[str] = set()
    try:
        module = from_onnx(model, input_types=input_types, min_extent=min_extent, outside=outside)
        made = make(module)
    except TensorsmithError as error:
        return _opened(model, error, make, input_types, options.get("threads"))
    if kept is not None and not outside and kept == place():  # the file may have been written anew
        kept.save(made)
    return made


def _opened(
    model: Source,
    error: TensorsmithError,
    make: Callable[[IRModule], Model],
    input_types: Mapping[str, InputType],
    threads: int | None,
) -> Model:
    """A model that is compiled when it is called, if `error` says that this is what it takes."""
    from tensorsmith.compiler.open_model import OpenModel, open_model

    opened = None if input_types else open_model(model, error)
    if opened is None:
        raise error
    return OpenModel(opened, make, threads)
