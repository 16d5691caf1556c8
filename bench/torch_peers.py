"""PyTorch as a contestant: eager, and compiled by Inductor.

Operators are PyTorch's own. Whole models come out of ONNX through `onnx2pytorch`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from work import Run, Work


class Torch:
    """PyTorch, eager."""

    modules = ("torch",)
    packages = ("torch",)

    def prepare(self, work: Work, threads: int) -> Run:
        import torch

        torch.set_num_threads(threads)
        function = self.compiled(module(work))
        tensors = [torch.from_numpy(i) for i in work.inputs.values()]

        def run() -> list[Any]:
            with torch.no_grad():
                found = function(*tensors)
            several = found if isinstance(found, tuple | list) else [found]
            return [t.numpy() for t in several]

        return run

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function as it is run."""
        return function


class TorchCompile(Torch):
    """PyTorch with Inductor, for fixed shapes and with constant weights."""

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Compiled by the first call."""
        import torch
        import torch._inductor.config

        torch.compiler.reset()
        torch._inductor.config.freezing = True  # noqa: SLF001  # its documented place
        return torch.compile(function, dynamic=False)


def module(work: Work) -> Callable[..., Any]:
    """The work as a function of tensors."""
    if work.torch is not None:
        made = work.torch()
        return made.eval() if hasattr(made, "eval") else made
    import onnx
    import torch

    # The converter imports torchvision, which does not load where it was built for another PyTorch
    # than is here, for want of these operators; no model of ours has them.
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            signature = "(Tensor boxes, Tensor scores, float at) -> Tensor"
            torch.library.define(f"torchvision::{name}", signature)
    from onnx2pytorch import ConvertModel

    model = onnx.load_from_string(work.with_fixed_sizes())
    made: Callable[..., Any] = ConvertModel(model).eval()
    return made
