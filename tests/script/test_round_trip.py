"""``parse(print(m))`` is ``m``, and prints as the same bytes."""

from __future__ import annotations

from hypothesis import strategies as st

from strategies import modules, programs
from strategies.cases import fast_and_slow
from strategies.wild_programs import wild_modules
from tensorsmith import ir
from tensorsmith.ir.structural import diff
from tensorsmith.script import parse_module, parse_program


def check_module(module: ir.IRModule) -> None:
    text = module.script()
    parsed = parse_module(text)
    assert diff(module, parsed) is None, text
    assert parsed.script() == text


def check_program(program: ir.TensorProgram) -> None:
    text = program.script()
    parsed = parse_program(text)
    assert diff(program, parsed) is None, text
    assert parsed.script() == text
    check_module(ir.IRModule.of(program))


def wild(data: st.DataObject) -> None:
    check_module(data.draw(wild_modules()))


def sensible(data: st.DataObject) -> None:
    check_program(data.draw(programs(exact=False)))


def several(data: st.DataObject) -> None:
    check_module(data.draw(modules()))


test_wild_modules, test_many_wild_modules = fast_and_slow(wild, fast=40)
test_programs, test_many_programs = fast_and_slow(sensible, fast=40)
test_modules, test_many_modules = fast_and_slow(several, fast=20)
