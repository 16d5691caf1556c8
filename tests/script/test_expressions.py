"""Expressions and index maps from text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import index_exprs, scopes
from tensorsmith.errors import ScriptError, TensorsmithError
from tensorsmith.ir import IndexMap, Var, const
from tensorsmith.schedule.trace import show_index_map
from tensorsmith.script import parse_expr, parse_index_map

n = Var("n", low=1)


@given(st.data())
def test_an_expression_reads_back_as_itself(data):
    scope = data.draw(scopes())
    names = {r.var.name: r.var for r in scope}
    e = data.draw(index_exprs(scope))
    assert parse_expr(repr(e), names) is e


@given(st.data())
def test_an_index_map_reads_back_as_itself(data):
    scope = data.draw(scopes())
    inputs = tuple(r.var for r in scope)
    outputs = tuple(data.draw(st.lists(index_exprs(scope), min_size=1, max_size=3)))
    read = parse_index_map(show_index_map(IndexMap(inputs, outputs)))
    assert [v.name for v in read.inputs] == [v.name for v in inputs]
    assert read(*inputs) == outputs


def test_names_stand_for_what_is_given():
    assert parse_expr("n * 2 + 1", {"n": n}) is n * 2 + 1
    assert parse_expr("5") is const(5)
    outer = parse_index_map("lambda i: (i + n,)", {"n": n})
    assert outer(3) == (const(3) + n,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the text must be one expression"),
        ("x = 1", "the text must be one expression"),
        ("1; 2", "the text must be one expression"),
        ("n +", "Python cannot read this"),
        ("m", "'m' is not defined"),
        ("'n'", "is not an expression"),
        ("T.parse_expr('1')", "T.parse_expr cannot be called inside of a script function"),
        ("__import__('os')", "'__import__' is not defined"),
        ("n.__class__", "n has no '__class__' in a parsed text"),
    ],
)
def test_what_is_no_expression_is_refused(text, said):
    with pytest.raises(ScriptError) as caught:
        parse_expr(text, {"n": n})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5", "'5' is not an index map"),
        ("lambda i: i", "an index map gives a tuple of indices"),
        ("lambda *i: i", "a lambda of a script takes plain arguments without defaults"),
        ("lambda i: (i + j,)", "'j' is not defined"),
        ("lambda i: (1.5,)", "1.5"),
    ],
)
def test_what_is_no_index_map_is_refused(text, said):
    with pytest.raises(TensorsmithError) as caught:
        parse_index_map(text)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["-" * 20_000 + "1", "(" * 500 + "1" + ")" * 500, "\0"])
def test_texts_that_python_cannot_take_are_refused(text):
    with pytest.raises(ScriptError):
        parse_expr(text)
