"""Inputs of a model, checked in the user's words.

Compiled code checks its arguments itself, so this is not part of a call that goes well: it runs
when one was refused, to say why, or to find what can be had with a copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensorsmith.errors import DTypeError, EvaluationError, ShapeError, TensorsmithError
from tensorsmith.runtime.dtypes import STRING, is_torch, map_types, name_of, numpy_dtype
from tensorsmith.runtime.extents import names_in, text_of, value_of
from tensorsmith.runtime.manifest import DimensionInfo, Manifest, TensorInfo
from tensorsmith.runtime.maps import tensor_of_maps

_SHOWN: Final = 40


def in_order(
    infos: Sequence[TensorInfo], args: Sequence[object], named: Mapping[str, object]
) -> tuple[object, ...]:
    """All inputs by position. Raises ShapeError for a wrong number, or a wrong or missing name."""
    names = [info.name for info in infos]
    if len(args) > len(names):
        raise ShapeError(
            f"the model takes {_count(len(names), 'input')}, and got {len(args)}",
            given=", ".join(names) or None,
        )
    free = names[len(args) :]
    for name in named:
        if name in names and name not in free:
            raise ShapeError(f"input {name!r} is given twice, by position and by name")
        if name not in names:
            raise ShapeError(
                f"the model has no input {name!r}", try_=f"one of {', '.join(map(repr, names))}"
            )
    if missing := [name for name in free if name not in named]:
        listed = ", ".join(map(repr, missing))
        verb = "is" if len(missing) == 1 else "are"
        raise ShapeError(
            f"input{'' if len(missing) == 1 else 's'} {listed} {verb} not given",
            given=f"the model takes {', '.join(names)}",
        )
    return (*args, *(named[name] for name in free))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def checked(
    infos: Sequence[TensorInfo], facts: Sequence[DimensionInfo], args: Sequence[object]
) -> tuple[list[Any], int]:
    """The inputs as compiled code can take them, and how many of them had to be copied.

    Raises DTypeError or ShapeError, with the names of inputs and dimensions, for what does not fit.
    """
    tensors, copies = [], 0
    for info, x in zip(infos, args, strict=True):
        tensor = _tensor(info, x)
        _check_type(info, tensor)
        _check_rank(info, tensor)
        if not _is_dense(tensor):
            tensor, copies = _dense(tensor), copies + 1
        tensors.append(tensor)
    _check_shapes(infos, facts, [tuple(t.shape) for t in tensors])
    return tensors, copies


def _tensor(info: TensorInfo, x: Any) -> Any:
    """The input as an array or a torch tensor, without a copy. Raises DTypeError if it is none."""
    if map_types(info.dtype) is not None:
        return tensor_of_maps(x, info.dtype, f"input {info.name!r}")
    if isinstance(x, np.generic):
        return np.asarray(x)
    if isinstance(x, np.ndarray):
        return np.asarray(x)
    if is_torch(x):
        return _plain_torch(info, x)
    if info.dtype == STRING and isinstance(x, (str, list, tuple)):
        return np.asarray(x, object)
    if hasattr(x, "__dlpack__"):
        try:
            return np.from_dlpack(x)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise DTypeError(
                f"input {info.name!r} is a {type(x).__name__} that cannot be shared",
                because=str(error).splitlines()[0] if str(error) else None,
            ) from None
    raise DTypeError(
        f"input {info.name!r} is a {type(x).__name__}, not a tensor",
        given=repr(x)[:_SHOWN] if isinstance(x, (bool, int, float, str)) else None,
        try_=f'np.asarray({info.name}, "{info.dtype}")',
    )


def _plain_torch(info: TensorInfo, x: Any) -> Any:
    """A torch tensor that has its elements in main memory, and no gradient."""
    if x.device.type != "cpu":
        raise DTypeError(f"input {info.name!r} is on {x.device}", try_=f"{info.name}.cpu()")
    if str(x.layout) != "torch.strided":
        raise DTypeError(f"input {info.name!r} is sparse", try_=f"{info.name}.to_dense()")
    x = x.detach() if x.requires_grad else x
    return x.resolve_conj().resolve_neg() if x.is_conj() or x.is_neg() else x


def _check_type(info: TensorInfo, x: Any) -> None:
    given = name_of(x)
    if is_torch(x):
        fits, cast = given == info.dtype, f"{info.name}.to(torch.{info.dtype})"
    else:
        fits = x.dtype == numpy_dtype(info.dtype)
        fits = fits or (info.dtype == STRING and x.dtype.kind in "OUT")
        cast = f'{info.name}.astype("{info.dtype}")'
    if not fits:
        shown = "of objects" if given == "object" else given
        what = f"input {info.name!r} is {shown}, and the model takes {info.dtype}"
        raise DTypeError(what, try_=cast)


def _check_rank(info: TensorInfo, x: Any) -> None:
    if len(x.shape) != len(info.extents):
        raise ShapeError(
            f"input {info.name!r} has rank {len(x.shape)}, and the model takes rank"
            f" {len(info.extents)}",
            given=f"shape {tuple(x.shape)} for {info}",
        )


def _is_dense(x: Any) -> bool:
    return bool(x.is_contiguous() if is_torch(x) else x.flags.c_contiguous and x.flags.aligned)


def _dense(x: Any) -> Any:
    return x.contiguous() if is_torch(x) else np.array(x, order="C")


def _check_shapes(
    infos: Sequence[TensorInfo], facts: Sequence[DimensionInfo], shapes: list[tuple[int, ...]]
) -> None:
    known: dict[str, tuple[int, str, int]] = {}  # value, and the input and axis that told it
    for info, shape in zip(infos, shapes, strict=True):
        for axis, (wanted, got) in enumerate(zip(info.extents, shape, strict=True)):
            if isinstance(wanted, int) and wanted != got:
                raise ShapeError(
                    f"input {info.name!r} axis {axis} is {got}, and the model takes {wanted}",
                    given=f"shape {shape} for {info}",
                )
            if isinstance(wanted, str):
                value, name, other = known.setdefault(wanted, (got, info.name, axis))
                if value != got:
                    raise ShapeError(
                        f"input {info.name!r} axis {axis} is {got}, and axis {other} of {name!r}"
                        f" is {value}: both are {wanted!r}"
                    )
    values = {name: value for name, (value, _, _) in known.items()}
    for fact in facts:
        if fact.name in known:
            _check_fact(fact, *known[fact.name])
    for info, shape in zip(infos, shapes, strict=True):
        _check_arithmetic(info, shape, values)


def _check_fact(fact: DimensionInfo, value: int, name: str, axis: int) -> None:
    if fact.low is not None and value < fact.low:
        what = f"at least {fact.low}"
    elif fact.high is not None and value > fact.high:
        what = f"at most {fact.high}"
    elif value % fact.multiple_of:
        what = f"a multiple of {fact.multiple_of}"
    else:
        return
    raise ShapeError(f"input {name!r} axis {axis} is {value}, and {fact.name!r} must be {what}")


def _check_arithmetic(info: TensorInfo, shape: tuple[int, ...], values: Mapping[str, int]) -> None:
    """Check the extents that are more than a number or a name."""
    for axis, (wanted, got) in enumerate(zip(info.extents, shape, strict=True)):
        if not isinstance(wanted, tuple) or not names_in(wanted) <= values.keys():
            continue
        try:
            value = value_of(wanted, values)
        except EvaluationError as error:
            raise ShapeError(f"input {info.name!r} axis {axis}: {error.what}") from None
        if value != got:
            known = ", ".join(f"{n} = {values[n]}" for n in sorted(names_in(wanted)))
            raise ShapeError(
                f"input {info.name!r} axis {axis} is {got}, and {text_of(wanted)} is {value}",
                given=known,
            )


def check_outputs(
    manifest: Manifest, shapes: Sequence[tuple[int, ...]], error: BaseException
) -> None:
    """Say why outputs cannot be made for inputs of these shapes, if that is what went wrong.

    error: what was raised. Raises ShapeError for an extent below 0, EvaluationError for no memory.
    """
    if isinstance(error, TensorsmithError):
        return
    values: dict[str, int] = {}
    for info, shape in zip(manifest.inputs, shapes, strict=True):
        names = zip(info.extents, shape, strict=True)
        values.update((name, size) for name, size in names if isinstance(name, str))
    for info in manifest.outputs:
        for axis, extent in enumerate(info.extents):
            if not names_in(extent) <= values.keys():
                continue
            size = value_of(extent, values)
            if size < 0:
                given = ", ".join(f"{n} = {values[n]}" for n in sorted(names_in(extent)))
                raise ShapeError(
                    f"axis {axis} of the output {info.name!r} would be {text_of(extent)} = {size}",
                    given=given,
                ) from None
    if isinstance(error, (MemoryError, ValueError)):
        sizes = ", ".join(f"{n} = {size}" for n, size in values.items())
        raise EvaluationError("there is no memory for the outputs", given=sizes or None) from error
