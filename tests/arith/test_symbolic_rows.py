"""Quotients and remainders by symbolic sizes: positions in a row, windows over an image.

What the simplifier and the prover make of them is compared with all small sizes.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arith.enumeration import box, evaluate, where
from tensorsmith.arith import Analyzer
from tensorsmith.ir import Expr, Max, Min, Var, as_expr, select

N, C, H, W = DIMS = tuple(Var(name, low=1) for name in "NCHW")
v, t = Var("v"), Var("t")
OUT = (W - 1) // 2 + 1


def facts(**ranges: Expr) -> Analyzer:
    found = Analyzer()
    for name, extent in ranges.items():
        found.bind({"v": v, "t": t}[name], 0, extent)
    return found


PIXELS, IMAGES = facts(t=C * 9, v=H * W), facts(v=N * H * W, t=C * 9)
STRIDED = facts(v=((H - 1) // 2 + 1) * OUT, t=as_expr(9))
PROVED = {
    "a row": (PIXELS, v // W < H),
    "a window's row": (PIXELS, v // W * 2 + t // 3 % 3 < H * 2 + 1),
    "a window's column": (PIXELS, v % W * 2 + t % 3 < W * 2 + 1),
    "a window's place in an image": (
        PIXELS,
        (v // W * 2 + t // 3 % 3) * (W * 2 + 1) + v % W * 2 + t % 3 < (H * 2 + 1) * (W * 2 + 1),
    ),
    "a window's place in all channels": (
        PIXELS,
        (t // 9 * (H * 2 + 1) + v // W * 2 + t // 3 % 3) * (W * 2 + 1) + v % W * 2 + t % 3
        < C * (H * 2 + 1) * (W * 2 + 1),
    ),
    "a row of many images": (IMAGES, v // W % H * 2 + t // 3 % 3 < H * 2 + 1),
    "an image": (IMAGES, v // W // H < N),
    "a window with padding": (STRIDED, v // OUT * 2 + t // 3 % 3 - 1 < H + 1),
    "a column with padding": (STRIDED, v % OUT * 2 + t % 3 - 1 < W + 1),
    "a maximum": (PIXELS, Max(v // W - 1, as_expr(0)) < H),
    "a minimum": (PIXELS, Min(v // W * 2 + 2, H * 2 - 1) < H * 2),
    "a selection": (PIXELS, select(v % 2 < 1, v // W, H - 1) < H),
    "a row and what is left": (PIXELS, v // W * W <= v),
}


@pytest.mark.parametrize(("known", "claim"), PROVED.values(), ids=PROVED)
def test_it_is_proved(known: Analyzer, claim: Expr) -> None:
    assert known.prove(claim) is True


@pytest.mark.parametrize(("known", "claim"), PROVED.values(), ids=PROVED)
def test_one_more_is_not_proved(known: Analyzer, claim: Expr) -> None:
    """The bounds are the least, up to the rounding of odd sizes."""
    low, high = claim.args
    assert known.prove(low + W * (C + H) < high - W * (C + H) * 2) is not True


SIMPLER = {
    "a row": (PIXELS, v // W * W + v % W, v),
    "its parity": (PIXELS, v // W % 2 * W + v % W, v % (W * 2)),
    "a row of an image": (PIXELS, v // W % H, v // W),
    "an image": (IMAGES, v // W // H, v // (H * W)),
    "a row of many images": (IMAGES, v % (H * W) // W, v // W % H),
    "all digits": (
        facts(v=N * C * H * W),
        v // W // H // C * C * H * W + v // (H * W) % C * H * W + v // W % H * W + v % W,
        v,
    ),
}


@pytest.mark.parametrize(("known", "e", "simple"), SIMPLER.values(), ids=SIMPLER)
def test_it_becomes(known: Analyzer, e: Expr, simple: Expr) -> None:
    assert known.simplify(e) is known.simplify(simple)
    assert known.simplify(simple) is Analyzer().simplify(simple)


# --- At random -------------------------------------------------------------------------------

SIZES = st.sampled_from([W, H, W * 2, H * W, W + 1, as_expr(2), C * W, OUT])


@st.composite
def positions(draw: st.DrawFn, depth: int = 2) -> Expr:
    """Rows and columns of a position, their multiples and sums."""
    if depth == 0:
        return draw(st.sampled_from([v, v, t, W, H, v + t]))
    a = draw(positions(depth - 1))
    b = draw(positions(draw(st.integers(0, depth - 1))))
    d = draw(SIZES)
    made = [a // d, a % d, a // d * d, a * draw(st.integers(-2, 3)) + b, a // d * 2 + b % d]
    made += [a // d % draw(SIZES), (a * d + b % d) // d, Min(a, b), Max(a, b)]
    return draw(st.sampled_from(made))


EXTENTS = {"v": st.sampled_from([H * W, N * H * W, W, (H + 1) // 2 * W]), "t": SIZES}


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[Var, Expr], Expr, Expr]:
    ranges = {v: draw(EXTENTS["v"]), t: draw(EXTENTS["t"])}
    claim = draw(positions()) < draw(
        st.sampled_from([H, W, H * W, H * 2 + 1, N * H * W, C * W * 2])
    )
    return ranges, draw(positions()), claim


def check(ranges: dict[Var, Expr], e: Expr, claim: Expr) -> None:
    known = Analyzer()
    for var, extent in ranges.items():
        known.bind(var, 0, extent)
    simple, proved = known.simplify(e), known.prove(claim)
    assert known.simplify(simple) is simple
    points = box(dict.fromkeys(DIMS, (1, 3)) | {v: (0, 27), t: (0, 9)})
    for var, extent in ranges.items():
        points = where(points, var < extent)
    np.testing.assert_array_equal(evaluate(simple, points), evaluate(e, points))
    if proved is not None:
        assert (evaluate(claim, points) == proved).all()


@given(cases())
@settings(max_examples=60, deadline=None)
def test_all_small_sizes_agree(case) -> None:
    check(*case)


@pytest.mark.slow
@given(cases())
@settings(max_examples=3000, deadline=None)
def test_all_small_sizes_agree_many(case) -> None:
    check(*case)
