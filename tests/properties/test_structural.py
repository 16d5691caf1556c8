"""Structural equality and hashes see through names, and see everything else."""

from strategies import index_exprs, modules, programs, scopes
from strategies.cases import fast_and_slow
from strategies.rewriting import changed, renamed
from tensorsmith.ir import Var, substitute
from tensorsmith.ir.structural import diff, structural_equal, structural_hash


def renaming_changes_nothing(data):
    module = data.draw(modules())
    other = renamed(module)
    assert diff(module, other) is None
    assert structural_hash(module) == structural_hash(other)


test_renaming_changes_nothing, test_renaming_changes_nothing_slow = fast_and_slow(
    renaming_changes_nothing
)


def one_change_is_found_at_its_place(data):
    program = data.draw(programs())
    other, path = data.draw(changed(program))
    other = renamed(other)
    found = diff(program, other)
    assert found is not None
    assert found.path.startswith(path)
    assert diff(other, program) is not None
    assert structural_hash(program) != structural_hash(other)


test_one_change_is_found_at_its_place, test_one_change_is_found_at_its_place_slow = fast_and_slow(
    one_change_is_found_at_its_place
)


def expressions_are_equal_up_to_free_variables_if_asked(data):
    scope = data.draw(scopes())
    e = data.draw(index_exprs(scope))
    other = substitute(e, {r.var: Var.renamed(r.var, "w") for r in scope})
    assert structural_equal(e, other, map_free_vars=True)
    assert structural_equal(e, other) == (e is other)
    assert structural_hash(e) == structural_hash(other)


(
    test_expressions_are_equal_up_to_free_variables_if_asked,
    test_expressions_are_equal_up_to_free_variables_if_asked_slow,
) = fast_and_slow(expressions_are_equal_up_to_free_variables_if_asked)
