"""Programs and modules as text: the script form, which parses back to an equal module.

`print_program` and `print_module` are exact and canonical: equal modules of equal names give the
same bytes, and ``print(parse(print(m))) == print(m)``. `print_expr`, `print_region` and
`print_stmt` are for people: a part of a program, of which the variables are defined elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from tensorsmith.errors import IRError
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.expr import Expr, Var, free_vars
from tensorsmith.ir.expr_text import Texts, shortened
from tensorsmith.ir.graph import GraphFunction
from tensorsmith.ir.module import Function, IRModule, Param, TensorProgram
from tensorsmith.ir.names import RESERVED, Names, is_plain_name
from tensorsmith.ir.stmt import Stmt
from tensorsmith.ir.stmt_text import INDENT, StmtPrinter
from tensorsmith.ir.term_text import (
    attr_exprs,
    attrs_text,
    buffer_exprs,
    buffer_text,
    facts_text,
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


def print_program(program: TensorProgram) -> str:
    """A program by itself: the import, its dimensions, the function. Ends with a line break.

    Raises IRError if statements are nested deeper than Python's syntax takes.
    """
    printer = _ProgramPrinter(_python_names([program.name]), depth=0)
    printer.function(program)
    declared = ["", *printer.declarations] if printer.declarations else []
    return _text([*_header([program]), *declared, "", "", *printer.lines])


def print_function(function: Function) -> str:
    """A function of either kind by itself, as `print_program` for a program."""
    if isinstance(function, GraphFunction):
        raise IRError("graph functions have no text")
    return print_program(function)


def print_module(module: IRModule) -> str:
    """A module as a class of programs. Ends with a line break.

    Raises IRError if statements are nested deeper than Python's syntax takes.
    """
    texts = Texts(Names(), attr_exprs(module.attrs))
    attrs = f"(attrs={attrs_text(module.attrs, texts)})" if module.attrs else ""
    aliases = ["", *texts.alias_lines()] if texts.aliases else []
    if module.graphs:
        raise IRError("graph functions have no text")
    lines = [*_header(module.programs.values()), *aliases, "", ""]
    lines.extend([f"@T.module{attrs}", "class Module:"])
    python_names = _python_names(module.functions)
    declared: dict[str, Var] = {}
    for at, function in enumerate(module.programs.values()):
        printer = _ProgramPrinter(python_names, depth=1, declared=declared)
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


def _header(programs: Iterable[TensorProgram]) -> list[str]:
    """The imports. Types that use a scalar parameter must not be evaluated by Python."""
    return [_POSTPONED, "", IMPORT] if any(map(_uses_scalars, programs)) else [IMPORT]


def _signature_exprs(program: TensorProgram) -> tuple[Expr, ...]:
    layouts = (b.layout.outputs for b in program.buffers if b.layout is not None)
    return (
        *(e for b in program.buffers for e in buffer_exprs(b)),
        *(e for outputs in layouts for e in outputs),
        *attr_exprs(program.attrs),
    )


def _uses_scalars(program: TensorProgram) -> bool:
    scalars = {p for p in program.params if isinstance(p, Var)}
    return not scalars.isdisjoint(free_vars(*_signature_exprs(program)))


def _header_dims(program: TensorProgram) -> list[Var]:
    """The variables that are declared before the function, in order of first use."""
    local = {p for p in program.params if isinstance(p, Var)}
    local.update(v for b in program.buffers if b.layout is not None for v in b.layout.inputs)
    return [v for v in free_vars(*_signature_exprs(program)) if v not in local]


class _ProgramPrinter:
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

    def function(self, program: TensorProgram) -> None:
        """Print `program`."""
        for param in program.params:
            self.names.of(param)
        self.names.reserve(self._python_names.values())
        for dim in _header_dims(program):
            self._declare(dim)
        # What uses a parameter cannot be named before the function.
        in_place = _uses_scalars(program)
        types = [] if in_place else [e for b in program.buffers for e in buffer_exprs(b)]
        texts = Texts(self.names, (*types, *attr_exprs(program.attrs)))
        indent = INDENT * self._printer.depth
        self.declarations.extend(indent + line for line in texts.alias_lines())
        self._printer.emit(f"@T.program{self._options(program, texts)}")
        type_text = partial(inline_text, self.names) if in_place else texts.of
        self._signature(program, type_text)
        self._printer.body(program.body)

    def _declare(self, dim: Var) -> None:
        name = self.names.of(dim)
        if self._declared.get(name) is dim:
            return
        self._declared[name] = dim
        indent = INDENT * self._printer.depth
        self.declarations.append(f'{indent}{name} = T.dim("{name}"{_dim_facts(dim)})')

    def _options(self, program: TensorProgram, texts: Texts) -> str:
        options = []
        if self._python_names[program.name] != program.name:
            options.append(f"name={string_text(program.name)}")
        if program.attrs:
            options.append(f"attrs={attrs_text(program.attrs, texts)}")
        return f"({', '.join(options)})" if options else ""

    def _signature(self, program: TensorProgram, type_text: Callable[[Expr], str]) -> None:
        emit = self._printer.emit
        name = self._python_names[program.name]
        params = [self._param(param, type_text) for param in program.params]
        line = f"def {name}({', '.join(params)}):"
        if len(line) + len(INDENT) * self._printer.depth <= _COLUMNS:
            emit(line)
            return
        emit(f"def {name}(")
        for param in params:
            emit(f"{INDENT}{param},")
        emit("):")

    def _param(self, param: Param, type_text: Callable[[Expr], str]) -> str:
        name = self.names.of(param)
        if isinstance(param, Buffer):
            return f"{name}: T.Buffer({buffer_text(self.names, param, type_text)})"
        facts = facts_text(param)
        if facts:
            return f'{name}: T.Scalar("{param.dtype.name}"{facts})'
        return f"{name}: T.{param.dtype.name}"


def _dim_facts(dim: Var) -> str:
    facts = facts_text(dim)
    return facts if dim.low is not None else f", min=None{facts}"
