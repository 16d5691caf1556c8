"""Tensor expressions: tensors defined by what each of their elements is.

`compute` takes an index function, whose result may be a reduction (`sum`, `argmax`, `reducer`,
...); `scan` a recurrence; `extern` what neither can say. `program` turns definitions into a tensor
program with one block each. Scalar functions (``exp``, ``select``, ...) are those of
`tensorsmith.script`.

>>> from tensorsmith import te
>>> A, B = te.placeholder((8, 16), name="A"), te.placeholder((16, 4), name="B")
>>> k = te.reduce_axis(16, "k")
>>> C = te.compute((8, 4), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")
>>> matmul = te.program([A, B], C, "matmul")
"""

from tensorsmith.te.compute import compute
from tensorsmith.te.extern import extern
from tensorsmith.te.program import program
from tensorsmith.te.reduce import (
    Reduce,
    ReduceAxis,
    ReduceMany,
    Reducer,
    all,
    any,
    argmax,
    argmin,
    max,
    min,
    prod,
    reduce_axis,
    reducer,
    sum,
)
from tensorsmith.te.scan import scan
from tensorsmith.te.tensor import Definition, Tensor, placeholder, var

__all__ = [
    "Definition",
    "Reduce",
    "ReduceAxis",
    "ReduceMany",
    "Reducer",
    "Tensor",
    "all",
    "any",
    "argmax",
    "argmin",
    "compute",
    "extern",
    "max",
    "min",
    "placeholder",
    "prod",
    "program",
    "reduce_axis",
    "reducer",
    "scan",
    "sum",
    "var",
]
