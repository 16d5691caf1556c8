"""Copies of programs under other names, and copies that differ in one known place."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tensorsmith.ir import (
    Alloc,
    Assert,
    Bind,
    Block,
    Buffer,
    Expr,
    For,
    If,
    IndexMap,
    Invoke,
    IterKind,
    Kind,
    Load,
    LoopKind,
    Neg,
    Not,
    Region,
    Seq,
    Stmt,
    Store,
    TensorProgram,
    Var,
    While,
    transform,
)
from tensorsmith.ir.structural import statements


def renamed(term: Any) -> Any:
    """The same program, module or statement with every variable and buffer new, of another name."""
    return _Renaming().visit(term)


class _Renaming:
    """One renaming: what stands for each variable and buffer so far."""

    def __init__(self) -> None:
        self.new: dict[Var | Buffer, Any] = {}

    def visit(self, x: Any) -> Any:
        if isinstance(x, Expr):
            return transform(x, self._leaf)
        if isinstance(x, Buffer):
            return self._buffer(x)
        if isinstance(x, Region):
            return Region(self.visit(x.buffer), self.visit(x.ranges))
        if isinstance(x, tuple):
            return tuple(map(self.visit, x))
        if isinstance(x, Mapping):
            return {key: self.visit(value) for key, value in x.items()}
        if dataclasses.is_dataclass(x) and not isinstance(x, type):
            names = [f.name for f in dataclasses.fields(x) if f.init and f.name != "span"]
            return replace(x, **{name: self.visit(getattr(x, name)) for name in names})
        return x

    def _leaf(self, e: Expr) -> Expr | None:
        if isinstance(e, Var):
            if e not in self.new:
                self.new[e] = e.renamed(f"w{len(self.new)}")
            return self.new[e]
        return Load(self.visit(e.buffer), e.indices) if isinstance(e, Load) else None

    def _buffer(self, old: Buffer) -> Buffer:
        if old not in self.new:
            layout = old.layout and IndexMap(
                [self.visit(v) for v in old.layout.inputs], self.visit(old.layout.outputs)
            )
            self.new[old] = old.replace(
                name=f"W{len(self.new)}",
                shape=self.visit(old.shape),
                strides=self.visit(old.strides),
                offset=self.visit(old.offset),
                layout=layout,
            )
        return self.new[old]


# --- One change ------------------------------------------------------------------------------

Change = tuple[str, Callable[[], Any]]
"""Where a difference should be found, and the changed term."""


@st.composite
def changed(draw: st.DrawFn, program: TensorProgram) -> tuple[TensorProgram, str]:
    """A copy of `program` that differs in one place, and the path to that place."""
    choices = [
        (path + label, build)
        for path, stmt, put in _places(program.body, "body", lambda s: replace(program, body=s))
        for label, build in _changes(stmt, put)
    ]
    choices.append(("attrs", lambda: replace(program, attrs={**program.attrs, "other": 1})))
    path, build = draw(st.sampled_from(choices))
    return build(), path


def _places(
    stmt: Stmt, path: str, put: Callable[[Stmt], Any]
) -> Iterator[tuple[str, Stmt, Callable[[Stmt], Any]]]:
    """Every statement but sequences, its path, and what puts another in its place."""
    parts = statements(stmt)
    for k, part in enumerate(parts):

        def put_part(new: Stmt, k: int = k) -> Any:
            return put(Seq((*parts[:k], new, *parts[k + 1 :])))

        here = f"{path}[{k}]"
        yield here, part, put_part
        for name in ("init", "body", "then", "orelse"):
            inner = getattr(part, name, None)
            if inner is not None:

                def put_inner(new: Stmt, part=part, name=name, back=put_part) -> Any:
                    return back(replace(part, **{name: new}))

                yield from _places(inner, f"{here}.{name}", put_inner)


def _other(e: Expr) -> Expr:
    return Not(e) if e.dtype.flag & Kind.BOOL else Neg(e)


def _changes(stmt: Stmt, put: Callable[[Stmt], Any]) -> Iterator[Change]:
    """The changes of one statement's own fields."""

    def change(label: str, **fields: Any) -> Change:
        return label, lambda: put(replace(stmt, **fields))

    if isinstance(stmt, Store):
        yield change(".value", value=_other(stmt.value))
        for k, i in enumerate(stmt.indices):
            others = (*stmt.indices[:k], i + 1, *stmt.indices[k + 1 :])
            yield change(f".indices[{k}]", indices=others)
    elif isinstance(stmt, Bind):
        yield change(".value", value=_other(stmt.value))
    elif isinstance(stmt, (If, While)):
        yield change(".condition", condition=_other(stmt.condition))
    elif isinstance(stmt, Assert):
        yield change(".message", message=stmt.message + "?")
    elif isinstance(stmt, Alloc):
        yield change(".buffer.scope", buffer=stmt.buffer.replace(scope="shared"))
    elif isinstance(stmt, Invoke):
        yield change(".callee", callee=stmt.callee + "_")
    elif isinstance(stmt, For):
        unlike = LoopKind.UNROLLED if stmt.kind is LoopKind.SERIAL else LoopKind.SERIAL
        yield change(".kind", kind=unlike)
        yield change(".extent", extent=stmt.extent + 1)
        yield change(".start", start=stmt.start + 1)
    elif isinstance(stmt, Block):
        yield from _block_changes(stmt, put)


def _block_changes(block: Block, put: Callable[[Stmt], Any]) -> Iterator[Change]:
    yield ".predicate", lambda: put(replace(block, predicate=Not(block.predicate)))
    for k, it in enumerate(block.iters):
        kind = IterKind.OPAQUE if it.kind is IterKind.SPATIAL else IterKind.SPATIAL
        for name, value in (("kind", kind), ("binding", it.binding + 1), ("extent", it.extent * 2)):
            new = (*block.iters[:k], replace(it, **{name: value}), *block.iters[k + 1 :])
            yield f".iters[{k}].{name}", lambda new=new: put(replace(block, iters=new))
