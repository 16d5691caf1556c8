"""What kernels compute from constants alone is computed once, when a model is compiled.

A schedule that packs a weight for the inner loop of a product does so before everything else (see
`tensorsmith.schedule.defaults`). Here that part becomes a program of its own. It runs now, and its
results are constants in place of the weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np

from tensorsmith.graph.dead_code import eliminate_dead_code
from tensorsmith.graph.weights import Arena
from tensorsmith.ir import (
    Alloc,
    Assert,
    Bind,
    Block,
    Buffer,
    Const,
    For,
    Invoke,
    IRModule,
    Load,
    Region,
    Seq,
    Stmt,
    Store,
    TensorProgram,
    Var,
    View,
    free_vars,
    postorder,
    seq,
)
from tensorsmith.ir.content import content_hash, forget_pages
from tensorsmith.ir.graph import (
    Alias,
    Binding,
    Body,
    Branch,
    CallProgram,
    Constant,
    GraphFunction,
    Loop,
)
from tensorsmith.ir.rewrite import expressions, statements

Array: TypeAlias = "np.ndarray[Any, Any]"
Run: TypeAlias = "Callable[[str, Sequence[Array]], None]"
CONSTANTS: Final = "constants"
"""The attribute of a program that names the parameters that are the same in every call."""


# --- Which operands are constant ----------------------------------------------------------------


def constant_operands(graphs: Iterable[GraphFunction]) -> dict[str, set[int]]:
    """For each program that is called the operands, by place, that are constant in all calls."""
    found: dict[str, set[int]] = {}
    for graph in graphs:
        known = known_arrays(graph)
        for call in _calls(graph.body):
            now = {n for n, o in enumerate(call.operands) if o in known}
            found[call.callee] = found.get(call.callee, now) & now
    return found


def known_arrays(graph: GraphFunction) -> dict[Any, Array]:
    """What the constants of a function hold, and their aliases."""
    known: dict[Any, Array] = {}
    for binding in _everything(graph.body):
        if isinstance(binding, Constant):
            known[binding.result] = binding.data
        elif isinstance(binding, Alias) and binding.operand in known:
            shape = [int(e.value) for e in binding.result.shape if isinstance(e, Const)]
            if len(shape) == binding.result.rank:
                known[binding.result] = np.ascontiguousarray(known[binding.operand]).reshape(shape)
    return known


def _calls(bindings: Sequence[Binding]) -> Iterator[CallProgram]:
    return (b for b in _everything(bindings) if isinstance(b, CallProgram))


def _everything(bindings: Sequence[Binding]) -> Iterator[Binding]:
    """The bindings and those inside of them, in order."""
    for binding in bindings:
        yield binding
        if isinstance(binding, Branch):
            yield from _everything(binding.then.bindings)
            yield from _everything(binding.orelse.bindings)
        elif isinstance(binding, Loop):
            yield from _everything(binding.body.bindings)


def marked(program: TensorProgram, places: Iterable[int]) -> TensorProgram:
    """The program with the attribute that says which of its parameters are constant."""
    names = tuple(program.params[n].name for n in sorted(places))
    return replace(program, attrs={**program.attrs, CONSTANTS: names}) if names else program


# --- Programs in two ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Divided:
    """A program in two: `before` computes from `constants`, by place among its parameters, what
    `rest` takes instead: `kept` of the old parameters, by place, with the results of `before` after
    the operands."""

    before: TensorProgram
    rest: TensorProgram
    constants: tuple[int, ...]
    kept: tuple[int, ...]


def divide(program: TensorProgram) -> tuple[TensorProgram, Divided | None]:
    """The program without the attribute, and in two if a part of it needs constants alone."""
    attrs = {k: v for k, v in program.attrs.items() if k != CONSTANTS}
    plain = replace(program, attrs=attrs)
    named = program.attrs.get(CONSTANTS, ())
    if not isinstance(named, tuple) or not named or not isinstance(program.body, Seq):
        return plain, None
    constants = {p for p in program.params if isinstance(p, Buffer) and p.name in named}
    first, others = _parted(program.body.stmts, constants)
    made = _made(first, others)
    if not made:
        return plain, None
    inner, outer = seq(*first), seq(*others)
    read_before, read_after = _touched(inner), _touched(outer)
    inputs = [p for p in program.params if p in constants and p in read_before]
    keeps = [p for p in program.params if p not in constants or p in read_after]
    results = [p for p in keeps if isinstance(p, Buffer) and p in _written(outer)]
    operands = [p for p in keeps if p not in results]
    before = TensorProgram(f"{program.name}_constants", (*inputs, *made), inner, attrs)
    rest = replace(plain, params=(*operands, *made, *results), body=outer)
    place = {p: n for n, p in enumerate(program.params)}
    return rest, Divided(
        before, rest, tuple(place[p] for p in inputs), tuple(place[p] for p in operands)
    )


def _parted(stmts: Sequence[Stmt], constants: set[Buffer]) -> tuple[list[Stmt], list[Stmt]]:
    """The statements that need constants alone, and the others. Allocations go with their use.

    A buffer that others write, too, such as a sum whose zeros alone are constant, is none of the
    first ones'.
    """
    own = {s.buffer for s in stmts if isinstance(s, Alloc) and _is_fixed(s.buffer)}
    while True:
        first, others = _parted_by(stmts, constants, own)
        shared = {b for s in first for b in _written(s)} & {b for s in others for b in _written(s)}
        if not shared:
            break
        own -= shared
    allocations = [s for s in stmts if isinstance(s, Alloc)]
    used = _touched(seq(*others)) if others else set()
    made = {b for s in first for b in _written(s)}
    before = [a for a in allocations if a.buffer in made and a.buffer not in used]
    after = [a for a in allocations if a.buffer not in made]
    return [*before, *first], [*after, *others]


def _parted_by(
    stmts: Sequence[Stmt], constants: set[Buffer], local: set[Buffer]
) -> tuple[list[Stmt], list[Stmt]]:
    """The statements that write `local` buffers by constants alone, and the others."""
    known, own = set(constants), set(local)
    first: list[Stmt] = []
    others: list[Stmt] = []
    for s in stmts:
        if isinstance(s, Alloc):
            continue
        touched, written = _touched(s), _written(s)
        is_first = (
            _is_plain(s) and touched - _inside(s) <= known | own and written <= own | _inside(s)
        )
        is_first = is_first and (touched - written - _inside(s)) <= known
        (first if is_first else others).append(s)
        if is_first:
            known |= written
        else:
            own -= written
    return first, others


def _made(first: Sequence[Stmt], others: Sequence[Stmt]) -> list[Buffer]:
    """What the first statements write and the others read."""
    written = dict.fromkeys(b for s in first for b in _written(s))
    used = _touched(seq(*others)) if others else set()
    return [b for b in written if b in used]


def _is_fixed(buffer: Buffer) -> bool:
    return buffer.layout is None and all(isinstance(e, Const) for e in buffer.shape)


def _is_plain(s: Stmt) -> bool:
    """Whether a statement depends on nothing but what it reads."""
    inside = list(statements(s))
    if any(isinstance(x, (Invoke, Assert, View)) for x in inside):
        return False
    bound: set[Var] = {x.var for x in inside if isinstance(x, (For, Bind))}
    bound |= {i.var for x in inside if isinstance(x, Block) for i in x.iters}
    return all(bound.issuperset(free_vars(*expressions(x))) for x in inside)


def _touched(s: Stmt) -> set[Buffer]:
    """The buffers that a statement reads or writes."""
    found: set[Buffer] = set()
    for x in statements(s):
        if isinstance(x, Store):
            found.add(x.buffer)
        if isinstance(x, Invoke):
            found.update(a.buffer for a in x.args if isinstance(a, Region))
        if isinstance(x, View) and isinstance(x.source, Buffer):
            found.add(x.source)
        found.update(e.buffer for e in postorder(*expressions(x)) if isinstance(e, Load))
    return found


def _written(s: Stmt) -> set[Buffer]:
    """The buffers that a statement may write."""
    found = {x.buffer for x in statements(s) if isinstance(x, Store)}
    for x in statements(s):
        if isinstance(x, Invoke):
            found.update(a.buffer for a in x.args if isinstance(a, Region))
    return found


def _inside(s: Stmt) -> set[Buffer]:
    """The buffers that a statement allocates."""
    return {x.buffer for x in statements(s) if isinstance(x, Alloc)}


# --- Running it now -----------------------------------------------------------------------------


@dataclass(slots=True)
class _Computed:
    """Calls of divided programs on their way: what their first parts compute is known."""

    divided: Mapping[str, Divided]
    known: Mapping[Any, Array]
    run: Run
    arena: Arena
    bindings: list[Binding] = field(default_factory=list)
    made: dict[tuple[str, ...], tuple[Buffer, ...]] = field(default_factory=dict)

    def body(self, bindings: Sequence[Binding]) -> tuple[Binding, ...]:
        return tuple(map(self.binding, bindings))

    def inner(self, body: Body) -> Body:
        return replace(body, bindings=self.body(body.bindings))

    def binding(self, b: Binding) -> Binding:
        if isinstance(b, Branch):
            return replace(b, then=self.inner(b.then), orelse=self.inner(b.orelse))
        if isinstance(b, Loop):
            return replace(b, body=self.inner(b.body))
        if not isinstance(b, CallProgram) or b.callee not in self.divided:
            return b
        parts = self.divided[b.callee]
        arrays = [self.known[b.operands[n]] for n in parts.constants]
        key = (b.callee, *map(content_hash, arrays))
        if key not in self.made:
            self.made[key] = self.compute(b.callee, arrays)
        kept = [b.operands[n] for n in parts.kept]
        return replace(b, operands=(*kept, *self.made[key]))

    def compute(self, name: str, arrays: Sequence[Array]) -> tuple[Buffer, ...]:
        """Constants that hold the results of a first part."""
        parts = self.divided[name]
        results: list[Array] = []
        values: list[Buffer] = []
        for param in parts.before.params[len(arrays) :]:
            assert isinstance(param, Buffer)
            assert param.dtype.numpy is not None
            shape = [int(e.value) for e in param.shape if isinstance(e, Const)]
            results.append(self.arena.empty(shape, np.dtype(param.dtype.numpy)))
            values.append(Buffer(param.name, param.shape, param.dtype))
        dense = [np.ascontiguousarray(a).reshape(a.shape) for a in arrays]
        self.run(name, [*dense, *results])
        for a in arrays:
            forget_pages(a)
        self.bindings.extend(Constant(v, a) for v, a in zip(values, results, strict=True))
        return tuple(values)


def compute_constants(
    module: IRModule, divided: Mapping[str, Divided], run: Run, arena: Arena
) -> IRModule:
    """Run the first parts of the divided programs on the constants that calls give them.

    Before: calls of whole programs. After: of their second parts, with new constants; constants
    that nothing uses any more are left out. run: calls the first part of a program, by the
    program's name, with the constants and memory for the results. arena: where they are made.
    """
    if not divided:
        return module
    graphs = {}
    for name, graph in module.graphs.items():
        computed = _Computed(divided, known_arrays(graph), run, arena)
        body = computed.body(graph.body)
        graphs[name] = replace(graph, body=(*computed.bindings, *body))
    programs = {name: replace(parts.rest, name=name) for name, parts in divided.items()}
    changed = replace(module, functions={**module.functions, **programs, **graphs})
    return eliminate_dead_code(changed)


__all__ = [
    "CONSTANTS",
    "Divided",
    "compute_constants",
    "constant_operands",
    "divide",
    "marked",
]
