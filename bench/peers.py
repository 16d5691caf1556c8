"""The contestants: who runs an operator, and how.

Each peer that is installed makes a callable out of a case; it runs in a process of its own with its
thread count set explicitly. Adding a peer is adding a class to `PEERS`.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Protocol

import numpy as np
from cases import Case

Run = Callable[[], np.ndarray]


class Peer(Protocol):
    """Someone who can run cases. `modules` must be importable for it to take part."""

    name: str
    modules: tuple[str, ...]

    def prepare(self, case: Case, inputs: list[np.ndarray], threads: int) -> Run | None:
        """A call that computes the case on `inputs` and gives the result; None if it cannot."""


class Ours:
    """Tensorsmith: the tensor expression with its default schedule."""

    name = "tensorsmith"
    modules: tuple[str, ...] = ()

    def prepare(self, case: Case, inputs: list[np.ndarray], threads: int) -> Run | None:
        from tensorsmith.codegen import build
        from tensorsmith.schedule import default
        from tensorsmith.target import Target

        program = default(case.program(), Target.host())
        exe = build(program, threads=threads)
        out = np.empty(case.output_shape, case.output_dtype)
        scalars = case.scalars

        def run() -> np.ndarray:
            exe(*inputs, *scalars, out)
            return out

        return run


class NumPy:
    """NumPy, with the BLAS it came with."""

    name = "numpy"
    modules = ("threadpoolctl",)

    def prepare(self, case: Case, inputs: list[np.ndarray], threads: int) -> Run | None:
        import threadpoolctl

        threadpoolctl.threadpool_limits(threads)
        function = case.numpy
        return None if function is None else lambda: function(*inputs)


class Torch:
    """PyTorch, eager."""

    name = "torch"
    modules = ("torch",)

    def prepare(self, case: Case, inputs: list[np.ndarray], threads: int) -> Run | None:
        import torch

        torch.set_num_threads(threads)
        function = case.torch
        if function is None:
            return None
        tensors = [torch.from_numpy(i) for i in inputs]

        def run() -> np.ndarray:
            with torch.inference_mode():
                return function(*tensors).numpy()

        return run


class OnnxRuntime:
    """ONNX Runtime, on a model of one or a few nodes."""

    name = "onnxruntime"
    modules = ("onnxruntime", "onnx")

    def prepare(self, case: Case, inputs: list[np.ndarray], threads: int) -> Run | None:
        import onnxruntime

        model = case.onnx_model(inputs)
        if model is None:
            return None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        feeds = {i.name: a for i, a in zip(session.get_inputs(), inputs, strict=True)}
        return lambda: session.run(None, feeds)[0]


PEERS: dict[str, Peer] = {p.name: p for p in (Ours(), NumPy(), Torch(), OnnxRuntime())}


def installed() -> list[str]:
    """The peers that can take part here."""
    return [
        name
        for name, p in PEERS.items()
        if all(importlib.util.find_spec(m) is not None for m in p.modules)
    ]


def clear_blas_overrides() -> None:
    """NumPy's BLAS must choose its own kernel: settings for older ones slow it down."""
    os.environ.pop("OPENBLAS_CORETYPE", None)
    os.environ.pop("OPENBLAS_L2_SIZE", None)
