"""Classic kernels, each in script form, as tensor expressions, and in NumPy.

``ALL`` lists them. A test of a pass, a schedule or a code generator runs over this list.
"""

from kernels import (
    attention,
    convolution,
    lookup,
    matmul,
    movement,
    normalization,
    order,
    pooling,
    stencil,
)
from kernels.kernel import Expected, Kernel

ALL: tuple[Kernel, ...] = (
    *matmul.KERNELS,
    *convolution.KERNELS,
    *pooling.KERNELS,
    *normalization.KERNELS,
    *attention.KERNELS,
    *order.KERNELS,
    *lookup.KERNELS,
    *movement.KERNELS,
    *stencil.KERNELS,
)

__all__ = ["ALL", "Expected", "Kernel"]
