"""Whether this process may use the tile registers of x86: Linux has each process ask for them."""

from __future__ import annotations

import ctypes
import functools
import platform
from typing import Final

TILE_FEATURES: Final = "amx-"
"""How LLVM's names of features begin that use tile registers."""
_ARCH_PRCTL: Final = 158
_ARCH_REQ_XCOMP_PERM: Final = 0x1023
_XFEATURE_XTILEDATA: Final = 18


@functools.cache
def may_use_tiles() -> bool:
    """Ask the kernel for the tile registers, once; whether it grants them.

    The grant is for all threads of the process, those that run already among them, and for
    processes that it forks. Kernels before 5.16, and other systems, grant none.
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    try:
        syscall = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return False
    syscall.restype = ctypes.c_long
    numbers = (_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA)
    return int(syscall(*map(ctypes.c_long, numbers))) == 0
