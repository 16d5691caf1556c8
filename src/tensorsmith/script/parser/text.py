"""Programs, modules, expressions from text: parsed, never run. The text can use T and no more."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from tensorsmith import script
from tensorsmith.errors import ScriptError
from tensorsmith.ir.buffer import IndexMap
from tensorsmith.ir.expr import Expr, Var, as_expr
from tensorsmith.ir.module import IRModule, TensorProgram
from tensorsmith.script.parser.environment import TEXT_BUILTINS, Environment
from tensorsmith.script.parser.expressions import Evaluator, ScriptFunction
from tensorsmith.script.parser.functions import parse_function
from tensorsmith.script.parser.source import SourceText
from tensorsmith.script.terms.attributes import attrs_of
from tensorsmith.script.terms.scalars import index_expr


def parse_module(text: str, name: str = "<string>") -> IRModule:
    """The module that a text describes: a class with ``@T.module``, or functions by themselves.

    name: what errors call the text. The text is parsed, never run, and not verified.
    Raises ScriptError, DTypeError or ShapeError, at the place in the text.
    """
    parser = _TextParser(SourceText(name, text))
    parser.top_level()
    if parser.modules and (parser.programs or len(parser.modules) > 1):
        raise ScriptError("the text has more than one module", where=name)
    return parser.modules[0] if parser.modules else IRModule.of(*parser.programs)


def parse_program(text: str, name: str = "<string>") -> TensorProgram:
    """The one program that a text describes. As `parse_module` otherwise."""
    parser = _TextParser(SourceText(name, text))
    parser.top_level()
    programs = [*parser.programs, *(f for m in parser.modules for f in m.programs.values())]
    if len(programs) != 1:
        raise ScriptError(
            f"the text has {len(programs)} programs, and one is needed",
            where=name,
            try_="parse_module" if programs else "@T.program on a function",
        )
    return programs[0]


def parse_expr(
    text: str, names: Mapping[str, Expr] = MappingProxyType({}), name: str = "<string>"
) -> Expr:
    """The expression that a text describes, such as ``n // 4 + 1``, in terms of `names`.

    name: what errors call the text, which is parsed, never run. Raises ScriptError or DTypeError.

    >>> from tensorsmith.ir import Var
    >>> parse_expr("T.min(n, 8) // 2", {"n": Var("n")})
    T.min(n, 8) // 2
    """
    value, source, node = _parse_value(text, names, name)
    with source.place(node):
        if not isinstance(value, (Expr, int, float)):
            raise ScriptError(f"{text!r} is not an expression")
        return as_expr(value)


def parse_index_map(
    text: str, names: Mapping[str, Expr] = MappingProxyType({}), name: str = "<string>"
) -> IndexMap:
    """The index map that a text describes as a lambda. As `parse_expr` otherwise.

    >>> parse_index_map("lambda i, j: (i // 4, j, i % 4)")
    IndexMap((i, j) -> (i // 4, j, i % 4))
    """
    function, source, node = _parse_value(text, names, name)
    with source.place(node):
        if not isinstance(function, ScriptFunction):
            raise ScriptError(
                f"{text!r} is not an index map", try_="lambda i, j: (i // 4, j, i % 4)"
            )
        inputs = tuple(Var(p) for p in function.parameters)
        outputs = function(*inputs)
        if not isinstance(outputs, (tuple, list)):
            raise ScriptError("an index map gives a tuple of indices", given=text)
        return IndexMap(inputs, tuple(index_expr(o) for o in outputs))


def _parse_value(
    text: str, names: Mapping[str, Expr], name: str
) -> tuple[object, SourceText, ast.expr]:
    source = SourceText(name, text)
    statements = source.parse()
    if len(statements) != 1 or not isinstance(statements[0], ast.Expr):
        raise ScriptError("the text must be one expression", given=text[:60])
    node = statements[0].value
    known: Mapping[str, object] = {"T": script, **TEXT_BUILTINS}
    evaluator = Evaluator(source, Environment([names, known]), trusted=False)
    return evaluator.evaluate(node), source, node


class _TextParser:
    """What stands around functions in a text: imports, dimensions, classes."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._known: Mapping[str, object] = {"T": script, **TEXT_BUILTINS}
        self._environment = Environment([self._known])
        self._evaluator = Evaluator(source, self._environment, trusted=False)
        self.programs: list[TensorProgram] = []
        self.modules: list[IRModule] = []

    def top_level(self) -> None:
        """Parse the whole text."""
        for node in self._source.parse():
            with self._source.place(node):
                if isinstance(node, ast.ClassDef):
                    self._module(node)
                elif not _is_import(node):
                    self._declaration(node)

    def _module(self, node: ast.ClassDef) -> None:
        attrs = attrs_of(self._options(node, "module", ("attrs",)).get("attrs"))
        around, self.programs = self.programs, []
        with self._environment.scope():
            for each in node.body:
                with self._source.place(each):
                    self._declaration(each)
        self.modules.append(IRModule.of(*self.programs, attrs=attrs))
        self.programs = around

    def _declaration(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef):
            self._program(node)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            value = self._evaluator.evaluate(node.value)
            self._evaluator.assign_static(node.targets[0], value)
        elif not isinstance(node, ast.Pass) and not _is_docstring(node):
            raise ScriptError("only dimensions and programs can stand outside of a program")

    def _program(self, node: ast.FunctionDef) -> None:
        options = self._options(node, "program", ("name", "attrs"))
        name = options.get("name")
        if name is not None and not isinstance(name, str):
            raise ScriptError(f"the name of a program is a string, not {name!r}")
        program = parse_function(
            self._source,
            node,
            [self._environment.visible(), self._known],
            name=name,
            attrs=attrs_of(options.get("attrs")),
            trusted=False,
        )
        self.programs.append(program)

    def _options(
        self, node: ast.FunctionDef | ast.ClassDef, decorator: str, known: tuple[str, ...]
    ) -> dict[str, Any]:
        """The options in the one decorator, ``@T.program`` or ``@T.module``."""
        what = node.decorator_list[0] if len(node.decorator_list) == 1 else None
        call = what.func if isinstance(what, ast.Call) else what
        if call is None or self._evaluator.evaluate(call) is not getattr(script, decorator):
            raise ScriptError(f"{node.name!r} needs the decorator @T.{decorator}, and no other")
        if not isinstance(what, ast.Call):
            return {}
        if what.args or not {k.arg for k in what.keywords} <= set(known):
            raise ScriptError(f"T.{decorator} takes the options {' and '.join(known)}")
        return {str(k.arg): self._evaluator.evaluate(k.value) for k in what.keywords}


def _is_import(node: ast.stmt) -> bool:
    """Whether `node` imports T. Raises ScriptError if it imports something else."""
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return False
    if ast.unparse(node) not in _IMPORTS:
        raise ScriptError(
            "a parsed text imports nothing but T", try_="from tensorsmith import script as T"
        )
    return True


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


_IMPORTS: Final = frozenset(
    {"from tensorsmith import script as T", "from __future__ import annotations"}
)
