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
from tensorsmith.ir.graph import GraphFunction
from tensorsmith.ir.module import Function, IRModule, TensorProgram
from tensorsmith.script.parser.environment import TEXT_BUILTINS, Environment
from tensorsmith.script.parser.expressions import Evaluator, ScriptFunction
from tensorsmith.script.parser.functions import parse_function
from tensorsmith.script.parser.graphs import Array, parse_graph_function
from tensorsmith.script.parser.source import SourceText
from tensorsmith.script.terms.attributes import attrs_of
from tensorsmith.script.terms.scalars import index_expr


def parse_module(
    text: str, name: str = "<string>", *, constants: Mapping[str, Array] = MappingProxyType({})
) -> IRModule:
    """The module that a text describes: a class with ``@T.module``, or functions by themselves.

    name: what errors call the text. The text is parsed, never run, and not verified.
    constants: the arrays that the text only names, as `ir.graph_text.constants_of` gives them.
    Raises ScriptError, DTypeError or ShapeError, at the place in the text.
    """
    parser = _TextParser(SourceText(name, text), constants)
    parser.top_level()
    if parser.modules and (parser.functions or len(parser.modules) > 1):
        raise ScriptError("the text has more than one module", where=name)
    return parser.modules[0] if parser.modules else IRModule.of(*parser.functions)


def parse_program(text: str, name: str = "<string>") -> TensorProgram:
    """The one program that a text describes. As `parse_module` otherwise."""
    programs = [f for f in _functions(text, name, {}) if isinstance(f, TensorProgram)]
    if len(programs) != 1:
        raise ScriptError(
            f"the text has {len(programs)} programs, and one is needed",
            where=name,
            try_="parse_module" if programs else "@T.program on a function",
        )
    return programs[0]


def parse_graph(
    text: str, name: str = "<string>", *, constants: Mapping[str, Array] = MappingProxyType({})
) -> GraphFunction:
    """The one graph function that a text describes. As `parse_module` otherwise."""
    graphs = [f for f in _functions(text, name, constants) if isinstance(f, GraphFunction)]
    if len(graphs) != 1:
        raise ScriptError(
            f"the text has {len(graphs)} graph functions, and one is needed",
            where=name,
            try_="parse_module" if graphs else "@T.graph on a function",
        )
    return graphs[0]


def _functions(text: str, name: str, constants: Mapping[str, Array]) -> list[Function]:
    parser = _TextParser(SourceText(name, text), constants)
    parser.top_level()
    return [*parser.functions, *(f for m in parser.modules for f in m.functions.values())]


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

    def __init__(self, source: SourceText, constants: Mapping[str, Array]) -> None:
        self._source = source
        self._known: Mapping[str, object] = {"T": script, **TEXT_BUILTINS}
        self._environment = Environment([self._known])
        self._evaluator = Evaluator(source, self._environment, trusted=False)
        self._constants = constants
        self.functions: list[Function] = []
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
        attrs = attrs_of(self._options(node, ("module",), ("attrs",))[1].get("attrs"))
        around, self.functions = self.functions, []
        with self._environment.scope():
            for each in node.body:
                with self._source.place(each):
                    self._declaration(each)
        self.modules.append(IRModule.of(*self.functions, attrs=attrs))
        self.functions = around

    def _declaration(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef):
            self._function(node)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            value = self._evaluator.evaluate(node.value)
            self._evaluator.assign_static(node.targets[0], value)
        elif not isinstance(node, ast.Pass) and not _is_docstring(node):
            raise ScriptError("only dimensions and functions can stand outside of a function")

    def _function(self, node: ast.FunctionDef) -> None:
        kind, options = self._options(node, ("program", "graph"), ("name", "attrs"))
        name = options.get("name")
        if name is not None and not isinstance(name, str):
            raise ScriptError(f"the name of a {kind} is a string, not {name!r}")
        outer = [self._environment.visible(), self._known]
        attrs = attrs_of(options.get("attrs"))
        if kind == "program":
            function: Function = parse_function(
                self._source, node, outer, name=name, attrs=attrs, trusted=False
            )
        else:
            function = parse_graph_function(
                self._source,
                node,
                outer,
                name=name,
                attrs=attrs,
                trusted=False,
                constants=self._constants,
            )
        self.functions.append(function)

    def _options(
        self, node: ast.FunctionDef | ast.ClassDef, kinds: tuple[str, ...], known: tuple[str, ...]
    ) -> tuple[str, dict[str, Any]]:
        """Which of T's decorators the one decorator is, and its options."""
        what = node.decorator_list[0] if len(node.decorator_list) == 1 else None
        call = what.func if isinstance(what, ast.Call) else what
        decorator = None if call is None else self._evaluator.evaluate(call)
        kind = next((k for k in kinds if getattr(script, k) is decorator), None)
        if kind is None:
            wanted = " or ".join(f"@T.{k}" for k in kinds)
            raise ScriptError(f"{node.name!r} needs the decorator {wanted}, and no other")
        if not isinstance(what, ast.Call):
            return kind, {}
        if what.args or not {k.arg for k in what.keywords} <= set(known):
            raise ScriptError(f"T.{kind} takes the options {' and '.join(known)}")
        return kind, {str(k.arg): self._evaluator.evaluate(k.value) for k in what.keywords}


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
