"""Whether the stages of a model fit together: each takes what is there, all outputs come about."""

from __future__ import annotations

from collections.abc import Iterator

from tensorsmith.runtime.manifest import DimensionStage, Manifest, NativeStage, Stage


def check_flow(manifest: Manifest, weight_bytes: int) -> None:
    """Raise ValueError, which says what does not fit, if something does not.

    weight_bytes: how many there are.
    """
    known = {info.name for info in manifest.inputs}
    if len(known) < len(manifest.inputs):
        raise ValueError("two inputs have one name")
    for stage in manifest.stages:
        for name in _taken(stage):
            if name not in known:
                raise ValueError(f"a stage takes {name!r}, which nothing makes before")
        for name in _made(stage):
            if name in known:
                raise ValueError(f"{name!r} is made twice")
            known.add(name)
        if isinstance(stage, NativeStage) and sum(stage.weights or (0, 0)) > weight_bytes:
            raise ValueError(f"{stage.program!r} has weights beyond the last one")
    for info in manifest.outputs:
        if info.name not in known:
            raise ValueError(f"nothing makes the output {info.name!r}")


def _taken(stage: Stage) -> Iterator[str]:
    """The values that a stage takes."""
    if isinstance(stage, NativeStage):
        yield from (info.name for info in stage.inputs)
    elif isinstance(stage, DimensionStage):
        yield from (value for _, value, _ in stage.dimensions)
    else:
        yield from (o.value for o in stage.operands if o.value is not None)


def _made(stage: Stage) -> Iterator[str]:
    """The values that a stage makes."""
    if isinstance(stage, NativeStage):
        yield from (info.name for info in stage.outputs)
        yield from (info.name for _, info in stage.returned)
    elif not isinstance(stage, DimensionStage):
        yield from (info.name for info in stage.results)
