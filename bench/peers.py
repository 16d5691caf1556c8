"""The contestants: who runs works, and how.

Each runs in a process of its own with its thread count set explicitly. Adding a peer is adding a
class to `PEERS`. Whoever cannot run a work says so by an exception, whose text the figures keep.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from typing import Any, Protocol

from compiler_peers import Iree, Tvm
from torch_peers import Torch, TorchCompile
from work import NoFormError, Run, Work

OURS = "tensorsmith"
FIXED = "tensorsmith-fixed"
"""Ours, compiled for the sizes of the inputs alone: what dynamic sizes cost is the difference."""


class Peer(Protocol):
    """Someone who can run works.

    modules: what must be importable for it to take part. packages: whose versions the figures name.
    """

    @property
    def modules(self) -> tuple[str, ...]: ...

    @property
    def packages(self) -> tuple[str, ...]: ...

    def prepare(self, work: Work, threads: int) -> Run:
        """A call that runs the work and gives its outputs in order."""


class Ours:
    """Tensorsmith, with default schedules and the sizes that the model leaves open."""

    modules = (OURS,)
    packages = (OURS,)

    def __init__(self, *, fixed: bool = False) -> None:
        self.fixed = fixed
        self.made: Any = None
        self.given: list[Any] = []

    def prepare(self, work: Work, threads: int) -> Run:
        import tensorsmith

        model = work.with_fixed_sizes() if self.fixed else work.model
        least = {} if self.fixed else dict.fromkeys(work.may_be_empty, 0)
        exe = self.made = tensorsmith.compile(model, threads=threads, min_extent=least or 1)
        given = self.given = [work.inputs[i.name] for i in exe.inputs]

        def run() -> list[Any]:
            found = exe(*given)
            return list(found) if isinstance(found, tuple) else [found]

        return run

    def profile(self, repeats: int) -> list[dict[str, Any]]:
        """The kernels of the model that was prepared last, slowest first."""
        if not hasattr(self.made, "profile"):
            return []
        found = self.made.profile(*self.given, repeats=repeats, warmup=1)
        slowest_first = sorted(found.kernels, key=lambda k: -k.median)
        return [
            {
                "name": k.name,
                "calls": k.calls,
                "us": k.median * 1e6,
                "flops": k.flops,
                "bytes": k.bytes_moved,
            }
            for k in slowest_first
        ]


class NumPy:
    """NumPy, with the BLAS it came with."""

    modules = ("threadpoolctl",)
    packages = ("numpy",)

    def prepare(self, work: Work, threads: int) -> Run:
        import threadpoolctl

        threadpoolctl.threadpool_limits(threads)
        function = work.numpy
        if function is None:
            raise NoFormError("no NumPy form of it")
        given = list(work.inputs.values())
        return lambda: [function(*given)]


class OnnxRuntime:
    """ONNX Runtime with its default optimisations."""

    modules = ("onnxruntime",)
    packages = ("onnxruntime",)

    def prepare(self, work: Work, threads: int) -> Run:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(
            work.model, options, providers=["CPUExecutionProvider"]
        )
        feeds = dict(work.inputs)
        return lambda: list(session.run(None, feeds))


class OpenVino:
    """OpenVINO's CPU plugin in its latency mode, in f32 where the model is: it rounds floats that
    meet weights of 8 bits to as many, unless it is told not to."""

    modules = ("openvino",)
    packages = ("openvino",)

    def prepare(self, work: Work, threads: int) -> Run:
        import openvino

        core = openvino.Core()
        options: dict[str, Any] = {
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        }
        if not work.may_round:
            options["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0
        compiled = core.compile_model(core.read_model(work.model), "CPU", options)
        request = compiled.create_infer_request()
        feeds = dict(work.inputs)

        def run() -> list[Any]:
            found = request.infer(feeds, share_inputs=True, share_outputs=True)
            return [found[o] for o in compiled.outputs]

        return run


PEERS: dict[str, Peer] = {
    OURS: Ours(),
    FIXED: Ours(fixed=True),
    "onnxruntime": OnnxRuntime(),
    "openvino": OpenVino(),
    "torch": Torch(),
    "torch-compile": TorchCompile(),
    "iree": Iree(),
    "tvm": Tvm(),
    "numpy": NumPy(),
}


def installed() -> list[str]:
    """The peers that can take part here."""
    return [n for n, p in PEERS.items() if all(map(_is_there, p.modules))]


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # what it is in
        return False


def versions(name: str) -> str:
    """The versions of a peer's packages, as one text."""
    packages = PEERS[name].packages
    first, *others = [importlib.metadata.version(p) for p in packages]
    if name == "numpy":
        others = [_blas()]
    else:
        others = [f"{p} {v}" for p, v in zip(packages[1:], others, strict=True)]
    return f"{first} ({', '.join(others)})" if others else first


def _blas() -> str:
    """The BLAS of NumPy, and which of its kernels it chose."""
    import threadpoolctl

    found = [i for i in threadpoolctl.threadpool_info() if i["user_api"] == "blas"]
    return ", ".join(
        f"{i['internal_api']} {i['version']} {i.get('architecture', '')}".strip() for i in found
    )


def clear_blas_overrides() -> None:
    """NumPy's BLAS must choose its own kernel: settings for older ones slow it down."""
    os.environ.pop("OPENBLAS_CORETYPE", None)
    os.environ.pop("OPENBLAS_L2_SIZE", None)
