"""Hypothesis strategies for what the compiler works on.

    scopes, values_in       variables with ranges, and values inside them
    index_exprs, conditions index expressions of the shapes that compilers make
    scalar_exprs            fixed-width integer, float and bool expressions
    shapes, arrays          NumPy data
    programs, arguments     whole tensor programs that pass `verify`, and data to run them on
    modules                 programs that call each other

`strategies.reference` evaluates one expression independently of the package's evaluator.
"""

from strategies.dtypes import buffer_dtypes, float_dtypes, int_dtypes, scalar_dtypes
from strategies.index_exprs import conditions, index_exprs
from strategies.programs import arguments, copied, dim_assignments, modules, programs
from strategies.reference import evaluate_expr, same_bits
from strategies.scalar_exprs import scalar_exprs, scalar_variables
from strategies.scopes import Range, Scope, dim_values, dims, scopes, values_in
from strategies.values import arrays, scalar_values, shapes

__all__ = [
    "Range",
    "Scope",
    "arguments",
    "arrays",
    "buffer_dtypes",
    "conditions",
    "copied",
    "dim_assignments",
    "dim_values",
    "dims",
    "evaluate_expr",
    "float_dtypes",
    "index_exprs",
    "int_dtypes",
    "modules",
    "programs",
    "same_bits",
    "scalar_dtypes",
    "scalar_exprs",
    "scalar_values",
    "scalar_variables",
    "scopes",
    "shapes",
    "values_in",
]
