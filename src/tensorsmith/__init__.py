"""Tensorsmith: a tensor-program compiler.

>>> import tensorsmith
>>> exe = tensorsmith.compile("model.onnx", threads=2)  # doctest: +SKIP
>>> exe(x)  # doctest: +SKIP

`compile` makes an `Executable` of a model; `load` reads one that was saved; `from_onnx` gives the
module that a model is, for whoever wants to look at it or change it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from tensorsmith._version import __version__

if TYPE_CHECKING:
    from tensorsmith.compiler.compile import compile
    from tensorsmith.frontend.onnx import from_onnx
    from tensorsmith.runtime.model import Model as Executable

    load = Executable.load

__all__ = ["Executable", "__version__", "compile", "from_onnx", "load"]


_HOMES: Final = {
    "compile": ("tensorsmith.compiler", "compile"),
    "from_onnx": ("tensorsmith.frontend.onnx", "from_onnx"),
    "Executable": ("tensorsmith.runtime.model", "Model"),
}


def __getattr__(name: str) -> Any:
    """What is imported when it is first asked for, so that `import tensorsmith` is quick and a
    saved model runs without the compiler."""
    if name == "load":
        found = __getattr__("Executable").load
    elif name in _HOMES:
        module, attribute = _HOMES[name]
        found = getattr(importlib.import_module(module), attribute)
    else:
        raise AttributeError(f"module 'tensorsmith' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
