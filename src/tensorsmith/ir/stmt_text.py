"""Statements as lines of the script form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from tensorsmith.errors import IRError
from tensorsmith.ir.buffer import Region
from tensorsmith.ir.dtype import DType
from tensorsmith.ir.expr import Expr, Var, free_vars
from tensorsmith.ir.expr_text import Texts, to_alias
from tensorsmith.ir.names import Names
from tensorsmith.ir.stmt import (
    TRUE,
    ZERO,
    Alloc,
    Assert,
    Bind,
    Block,
    For,
    If,
    Invoke,
    Iter,
    IterKind,
    LoopKind,
    Seq,
    Stmt,
    Store,
    View,
    While,
)
from tensorsmith.ir.term_text import (
    attr_exprs,
    attrs_text,
    buffer_exprs,
    buffer_text,
    is_whole,
    region_exprs,
    region_text,
    string_text,
)

INDENT: Final = "    "
MAX_DEPTH: Final = 99
"""Levels of indentation that Python's tokenizer takes."""

_REMAP_LETTERS: Final = {IterKind.SPATIAL: "S", IterKind.REDUCE: "R", IterKind.OPAQUE: "O"}


def flatten(stmt: Stmt) -> list[Stmt]:
    """The statements that `stmt` prints as, sequences opened."""
    if not isinstance(stmt, Seq):
        return [stmt]
    flat: list[Stmt] = []
    stack = list(reversed(stmt.stmts))
    while stack:
        top = stack.pop()
        if isinstance(top, Seq):
            stack.extend(reversed(top.stmts))
        else:
            flat.append(top)
    return flat


def _is_plain(loop: Stmt) -> bool:
    return (
        isinstance(loop, For)
        and loop.kind is LoopKind.SERIAL
        and loop.start is ZERO
        and not loop.attrs
    )


def grid_of(loop: For) -> list[For]:
    """`loop` and the loops perfectly nested in it that can share one header."""
    grid, outer = [loop], {loop.var}
    while _is_plain(grid[-1]):
        body = flatten(grid[-1].body)
        inner = body[0] if len(body) == 1 else None
        if not isinstance(inner, For) or not _is_plain(inner):
            break
        if outer.intersection(free_vars(inner.extent)):
            break
        grid.append(inner)
        outer.add(inner.var)
    return grid


class StmtPrinter:
    """Collects the lines of statements.

    elide: write ``...`` for what is nested deeper than Python takes, instead of raising IRError.
    """

    def __init__(self, names: Names, *, elide: bool = False) -> None:
        self.names = names
        self.lines: list[str] = []
        self.depth = 0
        self._elide = elide
        self._loops: dict[Var, For] = {}

    def emit(self, line: str) -> None:
        """Add a line at the present depth."""
        self.lines.append(INDENT * self.depth + line)

    def texts(self, *roots: Expr) -> Texts:
        """The texts of expressions of the next line, after the lines that name their parts."""
        texts = Texts(self.names, roots)
        for line in texts.alias_lines():
            self.emit(line)
        return texts

    def line(self, before: str, e: Expr, after: str = "", like: DType | None = None) -> None:
        """A line with one expression, where a bare constant would get the dtype `like`."""
        self.emit(f"{before}{self.texts(e).of(e, like)}{after}")

    @contextmanager
    def indented(self) -> Iterator[None]:
        """One level deeper, in a scope of names of its own."""
        self.depth += 1
        with self.names.scope():
            yield
        self.depth -= 1

    def body(self, stmt: Stmt) -> None:
        """A nested statement, indented."""
        with self.indented():
            self.sequence(stmt)

    def sequence(self, stmt: Stmt) -> None:
        """The lines of a statement, or ``pass``."""
        if self.depth > MAX_DEPTH:
            self._too_deep(stmt)
            return
        stmts = flatten(stmt)
        for each in stmts:
            self._PRINTERS[type(each)](self, each)
        if not stmts:
            self.emit("pass")

    def _too_deep(self, stmt: Stmt) -> None:
        if not self._elide:
            raise IRError(
                f"statements are nested more than {MAX_DEPTH} levels deep, and have no text",
                where=stmt.span,
                because="Python, whose syntax the text has, takes no more levels of indentation",
                try_="fewer nested loops and conditionals, or a program of their own for the inner",
            )
        self.emit("...")

    # Simple statements

    def _store(self, stmt: Store) -> None:
        texts = self.texts(*stmt.indices, stmt.value)
        indices = ", ".join(map(texts.of, stmt.indices)) or "()"
        value = texts.of(stmt.value, stmt.buffer.dtype)
        self.emit(f"{self.names.of(stmt.buffer)}[{indices}] = {value}")

    def _bind(self, stmt: Bind) -> None:
        texts = self.texts(stmt.value)
        value = texts.of(stmt.value)
        self.emit(f"{self.names.of(stmt.var)} = {value}")

    def _alloc(self, stmt: Alloc) -> None:
        texts = self.texts(*buffer_exprs(stmt.buffer))
        arguments = buffer_text(self.names, stmt.buffer, texts.of)
        self.emit(f"{self.names.of(stmt.buffer)} = T.alloc({arguments})")

    def _view(self, stmt: View) -> None:
        address = (stmt.source,) if isinstance(stmt.source, Expr) else ()
        texts = self.texts(*address, stmt.offset, *buffer_exprs(stmt.buffer))
        if isinstance(stmt.source, Expr):
            source = texts.of(stmt.source)
        else:
            source = self.names.of(stmt.source)
        arguments = buffer_text(self.names, stmt.buffer, texts.of)
        name = self.names.of(stmt.buffer)
        self.emit(f"{name} = T.view({source}, {texts.of(stmt.offset)}, {arguments})")

    def _assertion(self, stmt: Assert) -> None:
        self.line("assert ", stmt.condition, f", {string_text(stmt.message)}")

    def _invoke(self, stmt: Invoke) -> None:
        roots: list[Expr] = []
        for arg in stmt.args:
            roots.extend([arg] if isinstance(arg, Expr) else region_exprs(arg, points=False))
        texts = self.texts(*roots)
        args = (self._argument(arg, texts) for arg in stmt.args)
        self.emit(f"T.call({', '.join([string_text(stmt.callee), *args])})")

    def _argument(self, arg: Expr | Region, texts: Texts) -> str:
        if isinstance(arg, Expr):
            return texts.of(arg)
        if is_whole(arg):
            return self.names.of(arg.buffer)
        return region_text(self.names, arg, texts.of, points=False)

    # Control flow

    def _conditional(self, stmt: If) -> None:
        word = "if"
        while True:
            self.line(f"{word} ", stmt.condition, ":")
            self.body(stmt.then)
            if stmt.orelse is None:
                return
            rest = flatten(stmt.orelse)
            chained = rest[0] if len(rest) == 1 else None
            if not isinstance(chained, If) or to_alias([chained.condition]):
                break
            word, stmt = "elif", chained
        self.emit("else:")
        self.body(stmt.orelse)

    def _repeat(self, stmt: While) -> None:
        self.line("while ", stmt.condition, ":")
        self.body(stmt.body)

    def _loop(self, stmt: For) -> None:
        grid = grid_of(stmt)
        roots = [e for loop in grid for e in (loop.start, loop.extent, *attr_exprs(loop.attrs))]
        texts = self.texts(*roots)
        with self.names.scope():
            header = self._loop_header(grid, texts)
            names = ", ".join(self.names.of(loop.var) for loop in grid)
            self.emit(f"for {names} in {header}:")
            self._loops.update((loop.var, loop) for loop in grid)
            self.body(grid[-1].body)

    def _loop_header(self, grid: list[For], texts: Texts) -> str:
        if len(grid) > 1:
            return f"T.grid({', '.join(texts.of(loop.extent) for loop in grid)})"
        loop = grid[0]
        if _is_plain(loop):
            return f"range({texts.of(loop.extent)})"
        arguments = [] if loop.thread is None else [string_text(loop.thread)]
        arguments.append(texts.of(loop.extent))
        if loop.start is not ZERO:
            arguments.append(f"start={texts.of(loop.start)}")
        if loop.attrs:
            arguments.append(f"attrs={attrs_text(loop.attrs, texts)}")
        return f"T.{loop.kind.value}({', '.join(arguments)})"

    # Blocks

    def _block(self, stmt: Block) -> None:
        self.emit(f"with T.block({string_text(stmt.name)}):")
        with self.indented():
            before = len(self.lines)
            self._iterators(stmt.iters)
            if stmt.predicate is not TRUE:
                self.line("T.where(", stmt.predicate, ")")
            self._regions("reads", stmt.reads)
            self._regions("writes", stmt.writes)
            if stmt.attrs:
                texts = self.texts(*attr_exprs(stmt.attrs))
                self.emit(f"T.block_attrs({attrs_text(stmt.attrs, texts)})")
            if stmt.init is not None:
                self.emit("with T.init():")
                self.body(stmt.init)
            if flatten(stmt.body) or len(self.lines) == before:
                self.sequence(stmt.body)

    def _iterators(self, iters: tuple[Iter, ...]) -> None:
        if iters and all(map(self._is_remap, iters)):
            letters = "".join(_REMAP_LETTERS[it.kind] for it in iters)
            loops = ", ".join(self.texts(it.binding).of(it.binding) for it in iters)
            targets = ", ".join(self.names.of(it.var) for it in iters)
            self.emit(f'{targets} = T.remap("{letters}", {loops})')
            return
        for it in iters:
            texts = self.texts(it.extent, it.binding, it.start)
            start = "" if it.start is ZERO else f", start={texts.of(it.start)}"
            arguments = f"{texts.of(it.extent)}, {texts.of(it.binding)}{start}"
            self.emit(f"{self.names.of(it.var)} = T.{it.kind.value}({arguments})")

    def _is_remap(self, it: Iter) -> bool:
        loop = self._loops.get(it.binding) if isinstance(it.binding, Var) else None
        return (
            loop is not None
            and loop.extent is it.extent
            and loop.start is ZERO
            and it.start is ZERO
        )

    def _regions(self, function: str, regions: tuple[Region, ...] | None) -> None:
        if regions is None:
            return
        texts = self.texts(*(e for region in regions for e in region_exprs(region)))
        parts = (region_text(self.names, region, texts.of) for region in regions)
        self.emit(f"T.{function}({', '.join(parts)})")

    _PRINTERS: ClassVar[Mapping[type[Stmt], Callable[[StmtPrinter, Any], None]]] = {
        Store: _store,
        Bind: _bind,
        Alloc: _alloc,
        View: _view,
        Assert: _assertion,
        Invoke: _invoke,
        If: _conditional,
        While: _repeat,
        For: _loop,
        Block: _block,
    }
