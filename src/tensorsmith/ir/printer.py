"""Functions and modules as text: the script form, which parses back to an equal module.

`print_function` and `print_module` are exact and canonical: equal modules of equal names give the
same bytes, and ``print(parse(print(m))) == print(m)``. `print_expr`, `print_region` and
`print_stmt` are for people: a part of a program, of which the variables are defined elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.expr import Expr, Var, free_vars
from tensorsmith.ir.expr_text import Texts, shortened
from tensorsmith.ir.graph import GraphFunction, Value
from tensorsmith.ir.graph_text import (
    GraphPrinter,
    bound_variables,
    dim_text,
    type_exprs,
    variable_type,
)
from tensorsmith.ir.module import Function, IRModule, Param
from tensorsmith.ir.names import RESERVED, Names, is_plain_name
from tensorsmith.ir.stmt import Stmt
from tensorsmith.ir.stmt_text import INDENT, StmtPrinter
from tensorsmith.ir.term_text import (
    attr_exprs,
    attrs_text,
    buffer_text,
    inline_text,
    region_text,
    string_text,
)

IMPORT: Final = "from tensorsmith import script as T"
_POSTPONED: Final = "from __future__ import annotations"
_COLUMNS: Final = 100


def print_expr(e: Expr) -> str:
    """`e` on one line; parts of a large expression show as ``...``."""
    return shortened(Names(), e)


def print_region(region: Region) -> str:
    """`region` on one line, as ``A[i, 0:128]``."""
    names = Names()
    return region_text(names, region, lambda e: shortened(names, e))


def print_stmt(stmt: Stmt) -> str:
    """The lines of a statement; what it does not define itself has the name of its own."""
    printer = StmtPrinter(Names(), elide=True)
    printer.sequence(stmt)
    return "\n".join(printer.lines)


def print_function(function: Function) -> str:
    """A function by itself: the import, its dimensions, the function. Ends with a line break.

    Raises IRError if statements are nested deeper than Python's syntax takes.
    """
    printer = _FunctionPrinter(_python_names([function.name]), depth=0)
    printer.function(function)
    declared = ["", *printer.declarations] if printer.declarations else []
    return _text([*_header([function]), *declared, "", "", *printer.lines])


def print_module(module: IRModule) -> str:
    """A module as a class of functions. Ends with a line break.

    Raises IRError if statements are nested deeper than Python's syntax takes.
    """
    texts = Texts(Names(), attr_exprs(module.attrs))
    attrs = f"(attrs={attrs_text(module.attrs, texts)})" if module.attrs else ""
    aliases = ["", *texts.alias_lines()] if texts.aliases else []
    lines = [*_header(module.functions.values()), *aliases, "", ""]
    lines.extend([f"@T.module{attrs}", "class Module:"])
    python_names = _python_names(module.functions)
    declared: dict[str, Var] = {}
    for at, function in enumerate(module.functions.values()):
        printer = _FunctionPrinter(python_names, depth=1, declared=declared)
        printer.function(function)
        lines.extend([""] if at else [])
        lines.extend(printer.declarations)
        lines.extend(["", *printer.lines] if printer.declarations else printer.lines)
    if not module.functions:
        lines.append(f"{INDENT}pass")
    return _text(lines)


def _python_names(functions: Iterable[str]) -> dict[str, str]:
    """A distinct Python name for each function; its own where that is one."""
    functions = list(functions)
    python_names = {f: f for f in functions if is_plain_name(f) and f not in RESERVED}
    names = Names({*RESERVED, *python_names})
    return {f: python_names.get(f) or names.fresh(f) for f in functions}


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _header(functions: Iterable[Function]) -> list[str]:
    """The imports. Types that use a scalar parameter must not be evaluated by Python."""
    return [_POSTPONED, "", IMPORT] if any(map(_uses_scalars, functions)) else [IMPORT]


def _values(function: Function) -> tuple[Value, ...]:
    return tuple(p for p in function.params if not isinstance(p, Var))


def _signature_variables(function: Function) -> dict[Var, None]:
    """The variables in the types of the parameters and in attributes, in order of first use."""
    in_types = (v for p in _values(function) for v in bound_variables(p))
    return dict.fromkeys([*in_types, *free_vars(*attr_exprs(function.attrs))])


def _uses_scalars(function: Function) -> bool:
    scalars = {p for p in function.params if isinstance(p, Var)}
    return not scalars.isdisjoint(_signature_variables(function))


class _FunctionPrinter:
    """The lines of one function, and of the declarations before it.

    python_names: the Python names of the functions of the module.
    declared: what the names that were declared before in the same class mean.
    """

    def __init__(
        self, python_names: dict[str, str], depth: int, declared: dict[str, Var] | None = None
    ) -> None:
        self.names = Names()
        self._python_names = python_names
        self.declarations: list[str] = []
        self._declared: dict[str, Var] = {} if declared is None else declared
        self._printer = StmtPrinter(self.names)
        self._printer.depth = depth

    @property
    def lines(self) -> list[str]:
        """The function."""
        return self._printer.lines

    def function(self, function: Function) -> None:
        """Print `function`."""
        for param in function.params:
            self.names.of(param)
        self.names.reserve(self._python_names.values())
        dims = [v for v in _signature_variables(function) if v not in function.params]
        for dim in dims:
            self._declare(dim)
        graph = GraphPrinter(self._printer, dims)
        # What uses a parameter cannot be named before the function.
        in_place = _uses_scalars(function)
        exprs = [] if in_place else [e for p in _values(function) for e in type_exprs(p)]
        texts = Texts(self.names, (*exprs, *attr_exprs(function.attrs)))
        indent = INDENT * self._printer.depth
        self.declarations.extend(indent + line for line in texts.alias_lines())
        kind = "graph" if isinstance(function, GraphFunction) else "program"
        self._printer.emit(f"@T.{kind}{self._options(function, texts)}")
        type_text = partial(inline_text, self.names) if in_place else texts.of
        if isinstance(function, GraphFunction):
            types = [graph.type_text(param, type_text) for param in function.params]
            self._signature(function, types)
            graph.function(function)
        else:
            self._signature(function, [self._param(param, type_text) for param in function.params])
            self._printer.body(function.body)

    def _declare(self, dim: Var) -> None:
        name = self.names.of(dim)
        if self._declared.get(name) is dim:
            return
        self._declared[name] = dim
        self.declarations.append(INDENT * self._printer.depth + dim_text(name, dim))

    def _options(self, function: Function, texts: Texts) -> str:
        options = []
        if self._python_names[function.name] != function.name:
            options.append(f"name={string_text(function.name)}")
        if function.attrs:
            options.append(f"attrs={attrs_text(function.attrs, texts)}")
        return f"({', '.join(options)})" if options else ""

    def _param(self, param: Param, type_text: Callable[[Expr], str]) -> str:
        if isinstance(param, Buffer):
            return f"T.Buffer({buffer_text(self.names, param, type_text)})"
        return variable_type(param)

    def _signature(self, function: Function, types: list[str]) -> None:
        emit = self._printer.emit
        name = self._python_names[function.name]
        named = zip(function.params, types, strict=True)
        params = [f"{self.names.of(param)}: {type_}" for param, type_ in named]
        line = f"def {name}({', '.join(params)}):"
        if len(line) + len(INDENT) * self._printer.depth <= _COLUMNS:
            emit(line)
            return
        emit(f"def {name}(")
        for param in params:
            emit(f"{INDENT}{param},")
        emit("):")
