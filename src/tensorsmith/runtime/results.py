"""Memory for results: NumPy's or torch's, and results of a size that only the program knows."""

from __future__ import annotations

import ctypes
import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from tensorsmith.errors import DTypeError, EvaluationError
from tensorsmith.runtime.dlpack_export import Tensor
from tensorsmith.runtime.dtypes import numpy_dtype, torch_dtype, torch_module
from tensorsmith.runtime.manifest import TensorInfo

Make: TypeAlias = "Callable[[], Any]"


class Allocator(ABC):
    """What makes the tensors that results are in."""

    @abstractmethod
    def maker(self, dtype: str, shape: tuple[int, ...]) -> Make:
        """A function that makes tensors of a type and shape, as fast as can be.

        Raises DTypeError if there are no such tensors.
        """

    @abstractmethod
    def address(self, tensor: Any) -> int:
        """Where the elements of a tensor lie."""

    def finished(self, tensor: Any) -> Any:
        """The result that a tensor becomes, once it is filled."""
        return tensor


class NumPyAllocator(Allocator):
    """Results are NumPy arrays."""

    def maker(self, dtype: str, shape: tuple[int, ...]) -> Make:
        return functools.partial(np.empty, shape, numpy_dtype(dtype))

    def address(self, tensor: Any) -> int:
        return int(tensor.ctypes.data)


class DLPackAllocator(NumPyAllocator):
    """Results are objects with ``__dlpack__``, of every element type."""

    def finished(self, tensor: Any) -> Any:
        return Tensor(tensor)


class TorchAllocator(Allocator):
    """Results are torch's tensors, in main memory."""

    def maker(self, dtype: str, shape: tuple[int, ...]) -> Make:
        return functools.partial(torch_module().empty, shape, dtype=torch_dtype(dtype))

    def address(self, tensor: Any) -> int:
        return int(tensor.data_ptr())


ALLOCATORS: Final[Mapping[str, type[Allocator]]] = {
    "numpy": NumPyAllocator,
    "torch": TorchAllocator,
    "dlpack": DLPackAllocator,
}


def allocator(outputs: str) -> Allocator:
    """What makes results of that kind. Raises DTypeError for a kind that there is not."""
    if outputs not in ALLOCATORS:
        raise DTypeError(
            f"outputs={outputs!r} is no kind of tensors",
            try_=f"one of {', '.join(map(repr, ALLOCATORS))}",
        )
    return ALLOCATORS[outputs]()


CALLBACK: Final = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_void_p,
)
"""``ts_return`` in C: token, number, the elements, how many extents, and the extents."""
REFUSED: Final = -1
"""What it returns where the result could not be taken."""


@dataclass(slots=True)
class _Call:
    """A call that is under way: what it may hand over, what it did, and what went wrong."""

    infos: Mapping[int, TensorInfo]
    taken: dict[int, Any] = field(default_factory=dict)
    error: BaseException | None = None


class Returns:
    """Takes results that programs hand over, each for the call whose token it comes with.

    Any number of calls may be under way at once. `function` must live as long as the code that
    calls it. The memory that the program has for a result ends with the call, so its elements are
    copied, into a new tensor of the allocator's.
    """

    def __init__(self, allocate: Allocator) -> None:
        self._allocate = allocate
        self._calls: dict[int, _Call] = {}
        self._tokens = itertools.count(1)
        self.function = CALLBACK(self._take)

    def open(self, infos: Mapping[int, TensorInfo]) -> int:
        """The token of a new call, which may hand over these results."""
        token = next(self._tokens)
        self._calls[token] = _Call(infos)
        return token

    def close(self, token: int) -> Mapping[int, Any]:
        """End a call: the results that it handed over. Raises what went wrong with one."""
        call = self._calls.pop(token)
        if call.error is not None:
            raise call.error
        return call.taken

    def _take(self, token: int, number: int, data: int, rank: int, extents: int) -> int:
        call = self._calls.get(token)
        if call is None:
            return REFUSED
        try:
            call.taken[number] = self._copied(call.infos, number, data, _extents(rank, extents))
        except BaseException as error:  # noqa: BLE001 (C cannot pass it on; `close` raises it)
            call.error = error
            return REFUSED
        return 0

    def _copied(
        self, infos: Mapping[int, TensorInfo], number: int, data: int, shape: tuple[int, ...]
    ) -> Any:
        info = infos.get(number)
        if info is None or len(shape) != len(info.extents) or min(shape, default=0) < 0:
            raise EvaluationError(f"a program handed over a result {number} of shape {shape}")
        made = self._allocate.maker(info.dtype, shape)()
        count = int(np.prod(shape, dtype=object)) * numpy_dtype(info.dtype).itemsize
        if count:
            ctypes.memmove(self._allocate.address(made), data, count)
        return made


def _extents(rank: int, address: int) -> tuple[int, ...]:
    return tuple((ctypes.c_int64 * rank).from_address(address)) if rank else ()


def address_of(returns: Returns) -> int:
    """Where the function of `returns` is."""
    return ctypes.cast(returns.function, ctypes.c_void_p).value or 0
