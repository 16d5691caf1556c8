"""Iterations that are said not to meet do not, as running them shows."""

from collections import Counter

from hypothesis import strategies as st

from arith.touched import Run
from strategies.cases import fast_and_slow
from tensorsmith.arith import Analyzer
from tensorsmith.arith.accesses import collect_accesses
from tensorsmith.arith.privacy import reads_are_written, touch_apart
from tensorsmith.errors import ArithError
from tensorsmith.ir import (
    Block,
    Buffer,
    For,
    If,
    Iter,
    IterKind,
    Load,
    Store,
    Var,
    const,
    seq,
)

T = Buffer("T", (64, 64), "int32")
OTHER = Buffer("A", (64, 64), "int32")


@st.composite
def indices(draw, variables):
    """An index over the variables: a sum, a quotient, a remainder, a mirror image, a constant."""
    e = const(draw(st.integers(0, 3)))
    for v in draw(st.lists(st.sampled_from(variables), unique=True, max_size=2)):
        term = v
        match draw(st.integers(0, 4)):
            case 0:
                term = v // draw(st.sampled_from((2, 4)))
            case 1:
                term = v % draw(st.sampled_from((2, 4)))
            case 2:
                term = 9 - v
        e = e + term * draw(st.sampled_from((1, 1, 1, 2, 4, 8)))
    return e


@st.composite
def accesses(draw, variables):
    """A store to T of an element of T or of another buffer."""
    place = (draw(indices(variables)), draw(indices(variables)))
    source = T if draw(st.integers(0, 2)) == 0 else OTHER
    read = place if draw(st.booleans()) else (draw(indices(variables)), draw(indices(variables)))
    target = T if draw(st.integers(0, 3)) else OTHER
    return Store(target, place, Load(source, read))


@st.composite
def bodies(draw, variables, depth):
    kind = draw(st.integers(0, 7)) if depth else 0
    if kind <= 1:
        return draw(accesses(variables))
    if kind <= 3:
        parts = draw(st.lists(bodies(variables, depth - 1), min_size=2, max_size=3))
        return seq(*parts)
    if kind <= 5:
        loop = Var(draw(st.sampled_from("jkl")))
        extent = const(draw(st.sampled_from((1, 2, 4))))
        start = const(draw(st.sampled_from((0, 0, 0, 2))))
        return For(loop, extent, draw(bodies([*variables, loop], depth - 1)), start=start)
    if kind == 6:
        v = draw(st.sampled_from(variables))
        condition = draw(st.sampled_from((v < 3, v <= 0, const(1) <= v, Load(OTHER, (v, v)) < 5)))
        other = draw(bodies(variables, depth - 1)) if draw(st.booleans()) else None
        return If(condition, draw(bodies(variables, depth - 1)), other)
    loop, k = Var("r"), Var("vk")
    inside = [*variables, k]
    place = (draw(indices(variables)), draw(indices(variables)))
    init = Store(T, place, const(0, "int32"))
    body = Store(T, place, Load(T, place) + Load(OTHER, (draw(indices(inside)), const(0))))
    block = Block("reduce", (Iter(k, const(4), IterKind.REDUCE, loop),), body, init)
    return For(loop, const(4), block)


class Uncovered(Run):
    """Notes the reads of T of what was not written before."""

    found = False

    def value(self, e, env):
        if isinstance(e, Load) and e.buffer is T:
            place = tuple(int(self.value(i, env)) for i in e.indices)
            self.found = self.found or place not in self.writes.get(T, set())
        return super().value(e, env)


def iterations_do_not_meet(data):
    i = Var("i")
    loop = For(i, const(data.draw(st.sampled_from((2, 3, 4, 8)))), data.draw(bodies([i], 3)))
    touched = [a for a in collect_accesses(loop.body) if a.region.buffer is T]
    if not touched:
        return
    facts = Analyzer()
    facts.bind(i, loop.start, loop.extent)
    try:
        apart = touch_apart(loop, touched, facts)
        covered = reads_are_written(touched, loop.body, facts)
    except ArithError:  # some part never runs
        return
    if not apart and not covered:
        return
    runs = []
    for v in range(int(loop.extent.value)):
        run = Uncovered()
        run.run(loop.body, {i: v})
        assert not (covered and run.found), loop
        runs.append((run.reads.get(T, set()), run.writes.get(T, set())))
    if apart:
        users = Counter(place for reads, writes in runs for place in reads | writes)
        shared = {place for place, n in users.items() if n > 1}
        assert not shared & {place for _, writes in runs for place in writes}, loop


test_iterations_do_not_meet, test_iterations_do_not_meet_slow = fast_and_slow(
    iterations_do_not_meet, fast=100
)


def apart(indices):
    """Whether 8 iterations of a loop i around one of 16 j, at ``x = 16 i + j``, are said to touch
    different elements."""
    i, j = Var("i"), Var("j")
    store = Store(T, tuple(indices(i * 16 + j)), const(0, "int32"))
    loop = For(i, const(8), For(j, const(16), store))
    facts = Analyzer()
    facts.bind(i, loop.start, loop.extent)
    return touch_apart(loop, collect_accesses(loop.body), facts)


def test_parts_of_one_number_tell_it():
    assert apart(lambda x: ((x + 5) // 11, (x + 5) % 11))
    assert apart(lambda x: ((x + 5) % 11, (x + 5) // 11))
    assert apart(lambda x: (x // 11 % 13, x % 11))
    assert not apart(lambda x: (x // 11 % 3, x % 11))
    assert not apart(lambda x: (x // 11, x % 10))
    assert not apart(lambda x: (x // 12, x % 11))


def rows(extent, guard):
    """Whether 4 iterations of i around one of j, below `extent`, are said to touch different
    elements, at ``i * 34 + j``, where ``guard(i, j)``."""
    i, j = Var("i"), Var("j")
    store = Store(T, (i * 34 + j, const(0)), const(0, "int32"))
    loop = For(i, const(4), For(j, const(extent), If(guard(i, j), store)))
    facts = Analyzer()
    facts.bind(i, loop.start, loop.extent)
    return touch_apart(loop, collect_accesses(loop.body), facts)


def test_guards_keep_rows_apart():
    assert rows(36, lambda _, j: j < 34)
    assert rows(36, lambda _, j: j <= 33)
    assert not rows(36, lambda _, j: j < 35)
    assert not rows(36, lambda i, _: i < 34)
    assert not rows(36, lambda i, _: Load(OTHER, (i, i)) < 5)
