"""Tensor programs, and modules that hold them and graph functions.

A module maps names to functions of both kinds, in one map: a graph function calls a program by
name, and a pass can lower one of its operators and leave the neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from tensorsmith.errors import IRError, Span
from tensorsmith.ir.buffer import Buffer
from tensorsmith.ir.expr import Var, free_vars
from tensorsmith.ir.graph import GraphFunction
from tensorsmith.ir.stmt import NO_ATTRS, Attrs, Stmt, no_attrs

Param: TypeAlias = "Buffer | Var"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TensorProgram:
    """A function over buffers and scalars, which writes its results into its parameters.

    params: in the order of the call. Parameter buffers do not overlap in memory.
    attrs: such as ``fast_math=True``; see the reference page on attributes.
    """

    name: str
    params: tuple[Param, ...]
    body: Stmt
    attrs: Attrs = field(default_factory=no_attrs)
    span: Span | None = field(default=None, kw_only=True)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The parameters that are buffers."""
        return tuple(p for p in self.params if isinstance(p, Buffer))

    @property
    def dims(self) -> tuple[Var, ...]:
        """The symbolic dimensions, in order of first use.

        Variables of the parameters' shapes, strides and offsets that are not themselves
        parameters. A call binds them from the shapes.
        """
        exprs = [e for b in self.buffers for e in (*b.shape, *(b.strides or ()), b.offset)]
        scalars = {p for p in self.params if isinstance(p, Var)}
        return tuple(v for v in free_vars(*exprs) if v not in scalars)

    def script(self) -> str:
        """The program in script form."""
        from tensorsmith.ir.printer import print_function

        return print_function(self)

    def show(self) -> None:
        """Print the script form, in colours where a terminal and pygments allow."""
        from tensorsmith.ir.highlight import show

        show(self.script())

    def _repr_html_(self) -> str:
        from tensorsmith.ir.highlight import for_notebook

        return for_notebook(self.script())

    def __repr__(self) -> str:
        return self.script()


Function: TypeAlias = TensorProgram | GraphFunction


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IRModule:
    """Named functions. Immutable: `with_function` makes a new module.

    programs, graphs: those of the functions that are tensor programs, and graph functions.
    """

    functions: Mapping[str, Function]
    attrs: Attrs = field(default_factory=no_attrs)
    programs: Mapping[str, TensorProgram] = field(init=False)
    graphs: Mapping[str, GraphFunction] = field(init=False)

    def __post_init__(self) -> None:
        for name, function in self.functions.items():
            if function.name != name:
                raise IRError(
                    f"the module calls a function {name!r} that calls itself {function.name!r}"
                )
        programs = {n: f for n, f in self.functions.items() if isinstance(f, TensorProgram)}
        graphs = {n: f for n, f in self.functions.items() if isinstance(f, GraphFunction)}
        object.__setattr__(self, "functions", MappingProxyType(dict(self.functions)))
        object.__setattr__(self, "programs", MappingProxyType(programs))
        object.__setattr__(self, "graphs", MappingProxyType(graphs))

    @classmethod
    def of(cls, *functions: Function, attrs: Attrs = NO_ATTRS) -> IRModule:
        """The module of these functions, by their own names."""
        names = [f.name for f in functions]
        if twice := sorted({n for n in names if names.count(n) > 1}):
            raise IRError(f"two functions of the module are called {', '.join(map(repr, twice))}")
        return cls({f.name: f for f in functions}, attrs)

    @classmethod
    def holding(cls, what: IRModule | Function) -> IRModule:
        """`what` itself if it is a module, else the module of this one function.

        Raises IRError for anything else.
        """
        if isinstance(what, IRModule):
            return what
        if isinstance(what, (TensorProgram, GraphFunction)):
            return cls.of(what)
        raise IRError(
            f"{type(what).__name__!r} is neither a module nor a function of one",
            try_="an IRModule, or a program from T.program or te.program",
        )

    def __getitem__(self, name: str) -> Function:
        """The function called `name`. Raises IRError, with the names there are."""
        try:
            return self.functions[name]
        except KeyError:
            known = ", ".join(map(repr, self.functions)) or "none"
            raise IRError(f"the module has no function {name!r}", try_=f"one of {known}") from None

    def program(self, name: str) -> TensorProgram:
        """The tensor program called `name`. Raises IRError, with the names there are."""
        if name in self.programs:
            return self.programs[name]
        known = ", ".join(map(repr, self.programs)) or "none"
        kind = " is a graph function" if name in self.functions else " is not in the module"
        raise IRError(f"{name!r}{kind}, and a program is needed", try_=f"one of {known}")

    def graph(self, name: str) -> GraphFunction:
        """The graph function called `name`. Raises IRError, with the names there are."""
        if name in self.graphs:
            return self.graphs[name]
        known = ", ".join(map(repr, self.graphs)) or "none"
        kind = " is a tensor program" if name in self.functions else " is not in the module"
        raise IRError(f"{name!r}{kind}, and a graph function is needed", try_=f"one of {known}")

    def with_function(self, function: Function) -> IRModule:
        """This module with `function` added, or put in place of the one of its name."""
        return replace(self, functions={**self.functions, function.name: function})

    def script(self) -> str:
        """The module in script form: valid Python, which parses back to an equal module."""
        from tensorsmith.ir.printer import print_module

        return print_module(self)

    def show(self) -> None:
        """Print the script form, in colours where a terminal and pygments allow."""
        from tensorsmith.ir.highlight import show

        show(self.script())

    def _repr_html_(self) -> str:
        from tensorsmith.ir.highlight import for_notebook

        return for_notebook(self.script())

    def __repr__(self) -> str:
        return self.script()
