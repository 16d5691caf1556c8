"""IREE and Apache TVM as contestants: models compiled for the sizes of the inputs."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from work import Run, Work


class Iree:
    """IREE, through its ONNX importer, for the processor it runs on."""

    modules = ("iree.compiler", "iree.runtime")
    packages = ("iree-base-compiler", "iree-base-runtime")

    def prepare(self, work: Work, threads: int) -> Run:
        import iree.runtime as rt

        code, entry = iree_code(work.with_fixed_sizes())
        rt.flags.parse_flags(f"--task_topology_group_count={threads}")
        config = rt.Config("local-task")
        module = rt.VmModule.copy_buffer(config.vm_instance, code)
        context = rt.SystemContext(vm_modules=[config.default_vm_modules[0], module], config=config)
        function = context.modules[module.name][entry]
        given = [rt.asdevicearray(config.device, i) for i in work.inputs.values()]

        def run() -> list[Any]:
            found = function(*given)
            several = found if isinstance(found, tuple) else [found]
            return [a.to_host() for a in several]

        return run


def iree_code(model: bytes) -> tuple[bytes, str]:
    """A model compiled by IREE, and the name of its function.

    The code is the same for any number of threads, so it is kept in the folder of temporary files.
    """
    import iree.compiler
    import onnx

    named = onnx.load_from_string(model)
    named.graph.name = "main"  # the importer calls the function after it
    kept = Path(tempfile.gettempdir()) / f"iree-{hashlib.sha256(model).hexdigest()}"
    if kept.exists():
        return kept.read_bytes(), named.graph.name
    with tempfile.TemporaryDirectory() as folder:
        source, imported = Path(folder) / "model.onnx", Path(folder) / "model.mlir"
        onnx.save(named, source)
        command = [sys.executable, "-m", "iree.compiler.tools.import_onnx", str(source)]
        subprocess.run(  # noqa: S603 - its importer, on a file of ours
            [*command, "-o", str(imported), "--opset-version", "17"],
            check=True,
            capture_output=True,
        )
        code = iree.compiler.compile_file(
            str(imported),
            input_type="onnx",
            target_backends=["llvm-cpu"],
            extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"],
        )
    kept.write_bytes(code)
    return code, named.graph.name


class Tvm:
    """Apache TVM: Relax with its default pipeline, no tuning."""

    modules = ("tvm",)
    packages = ("apache-tvm",)

    def prepare(self, work: Work, threads: int) -> Run:
        os.environ["TVM_NUM_THREADS"] = str(threads)
        import onnx
        import tvm
        from llvmlite import binding as llvm
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx

        model = onnx.load_from_string(work.with_fixed_sizes())
        module = from_onnx(model, keep_params_in_input=False)
        target = tvm.target.Target({"kind": "llvm", "mcpu": llvm.get_host_cpu_name()})
        machine = relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())
        main = machine["main"]
        given = [tvm.runtime.tensor(i) for i in work.inputs.values()]

        def run() -> list[Any]:
            found = main(*given)
            several = [found] if hasattr(found, "numpy") else list(found)
            return [a.numpy() for a in several]

        return run
