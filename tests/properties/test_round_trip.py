"""The text of a module parses back to an equal module, which has the same text."""

from hypothesis import strategies as st

from strategies import index_exprs, modules, programs, scalar_exprs, scalar_variables, scopes
from strategies.cases import fast_and_slow
from strategies.rewriting import renamed
from tensorsmith.ir import (
    Alloc,
    Bind,
    Buffer,
    For,
    IRModule,
    Max,
    Store,
    TensorProgram,
    Var,
    const,
    seq,
)
from tensorsmith.ir.structural import diff
from tensorsmith.script import parse_module, parse_program


def comes_back(module: IRModule) -> None:
    text = module.script()
    back = parse_module(text)
    assert diff(module, back) is None
    assert back.script() == text


def modules_come_back(data):
    comes_back(data.draw(modules(exact=data.draw(st.booleans()))))


test_modules_come_back, test_modules_come_back_slow = fast_and_slow(modules_come_back, fast=150)


def programs_come_back(data):
    program = data.draw(programs())
    text = program.script()
    back = parse_program(text)
    assert diff(program, back) is None
    assert back.script() == text
    compile(text, "printed", "exec")  # it is Python


test_programs_come_back, test_programs_come_back_slow = fast_and_slow(programs_come_back, fast=100)


def text_of_equal_programs_differs_in_names_only(data):
    program = data.draw(programs())
    other = parse_program(renamed(program).script())
    assert diff(program, other) is None


(
    test_text_of_equal_programs_differs_in_names_only,
    test_text_of_equal_programs_differs_in_names_only_slow,
) = fast_and_slow(text_of_equal_programs_differs_in_names_only, fast=50)


def element_expressions_come_back(data):
    """Of every dtype, with special constants, shared parts and any nesting of operators."""
    variables = data.draw(scalar_variables())
    e = data.draw(scalar_exprs(variables))
    out = Buffer("out", (1,), e.dtype)
    bound = Var("x", e.dtype)
    body = seq(Bind(bound, e), Store(out, (const(0),), e), Store(out, (const(0),), bound))
    comes_back(IRModule.of(TensorProgram("f", (*variables, out), body)))


test_element_expressions_come_back, test_element_expressions_come_back_slow = fast_and_slow(
    element_expressions_come_back
)


def index_expressions_come_back(data):
    """As subscripts, extents and starts, over dimensions with every kind of facts."""
    scope = data.draw(scopes())
    e = data.draw(index_exprs(scope))
    dims = [r.var for r in scope if r.extent is None]
    sizes = Buffer("sizes", [*dims, 1], "int8")
    stmt = Store(sizes, (const(0),) * sizes.rank, const(1, "int8"))
    local = Buffer("local", (Max(e, const(1)),), "float32", align=64)
    out = seq(Alloc(local), Store(local, (e % 7,), const(1.0, "float32")), stmt)
    for r in reversed([r for r in scope if r.extent is not None]):
        out = For(r.var, r.extent, out, start=r.start)
    comes_back(IRModule.of(TensorProgram("f", (sizes,), out)))


test_index_expressions_come_back, test_index_expressions_come_back_slow = fast_and_slow(
    index_expressions_come_back
)
