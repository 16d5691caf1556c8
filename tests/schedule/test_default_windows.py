"""Default schedules of windows over images whose channels lie side by side."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.codegen import build
from tensorsmith.evaluate import interpret
from tensorsmith.ir import LoopKind, TensorProgram
from tensorsmith.ir.rewrite import statements
from tensorsmith.ops.convolution import blocked_conv, conv
from tensorsmith.ops.pooling import average_pool, max_pool
from tensorsmith.schedule import default_schedule
from tensorsmith.target import Target
from tensorsmith.verify import verify

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@dataclasses.dataclass(frozen=True)
class Case:
    """Windows of one kind over one image."""

    kind: str
    blocks: int
    lanes: int
    image: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    spread: int
    pads: int
    symbolic: bool
    follow: str

    def shape(self) -> tuple[int, ...]:
        return (1, self.blocks, *self.image, self.lanes)

    def program(self) -> TensorProgram:
        """The windows, and what follows them."""
        image = (T.dim("h"), T.dim("w")) if self.symbolic else self.image
        x = te.placeholder((1, self.blocks, *image, self.lanes), name="x")
        given = [x]
        attrs = {"strides": self.strides, "pads": (self.pads,) * 4}
        if self.kind == "conv":
            m = self.blocks * self.lanes
            w = te.placeholder((m, 1, *self.kernel), name="w")
            given.append(w)
            attrs["dilations"] = (self.spread,) * 2
            made = blocked_conv(x, w, block=self.lanes, groups=m, **attrs)
        elif self.kind == "max":
            made = max_pool(x, kernel=self.kernel, blocked=True, **attrs)
        else:
            made = average_pool(x, kernel=self.kernel, blocked=True, count_pads=True, **attrs)
        if self.follow == "residual":
            r = te.placeholder(made.shape, name="r")
            given.append(r)
            made = te.compute(made.shape, lambda *i: T.max(made[i] + r[i], T.float32(0)), "out")
        elif self.follow == "plain":
            n, co, y, x_, ci = made.shape
            made = te.compute(
                (n, co, ci, y, x_), lambda a, b, c, d, e: made[a, b, d, e, c] + T.float32(1), "out"
            )
        return te.program(given, made, "windows", attrs={"contract": True})

    def counts(self) -> tuple[int, ...]:
        gap = self.spread if self.kind == "conv" else 1
        return tuple(
            max(0, (n + 2 * self.pads - (k - 1) * gap - 1) // s + 1)
            for n, k, s in zip(self.image, self.kernel, self.strides, strict=True)
        )

    def arrays(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Whole numbers, so that sums are exact."""
        shapes = [self.shape()]
        if self.kind == "conv":
            shapes.append((self.blocks * self.lanes, 1, *self.kernel))
        if self.follow == "residual":
            shapes.append((1, self.blocks, *self.counts(), self.lanes))
        return [rng.integers(-5, 6, s).astype(np.float32) for s in shapes]

    def reference(self, arrays: list[np.ndarray]) -> np.ndarray:
        """By NumPy, position by position of the windows."""
        fill = -np.inf if self.kind == "max" else 0.0
        p, gap, (sy, sx) = self.pads, self.spread if self.kind == "conv" else 1, self.strides
        x = np.pad(arrays[0], ((0, 0), (0, 0), (p, p), (p, p), (0, 0)), constant_values=fill)
        oy, ox = self.counts()
        total = np.full((1, self.blocks, oy, ox, self.lanes), fill, np.float32)
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                rows = slice(i * gap, i * gap + max(oy - 1, -1) * sy + 1, sy)
                columns = slice(j * gap, j * gap + max(ox - 1, -1) * sx + 1, sx)
                part = x[:, :, rows, columns][:, :, :oy, :ox]
                if self.kind == "conv":
                    w = arrays[1].reshape(self.blocks, self.lanes, *self.kernel)
                    part = part * w[:, None, None, :, i, j]
                total = np.maximum(total, part) if self.kind == "max" else total + part
        if self.kind == "mean":
            total = total / np.float32(self.kernel[0] * self.kernel[1])
        if self.follow == "residual":
            total = np.maximum(total + arrays[-1], 0)
        return total.transpose(0, 1, 4, 2, 3) + 1 if self.follow == "plain" else total


@st.composite
def cases(draw: st.DrawFn) -> Case:
    symbolic = draw(st.booleans())
    kernel = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    image = draw(st.tuples(st.integers(1, 24), st.integers(1, 40)))
    return Case(
        draw(st.sampled_from(("conv", "max", "mean"))),
        draw(st.integers(1, 3)),
        draw(st.sampled_from((4, 7, 8, 16, 24))),
        image,
        kernel,
        draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        draw(st.integers(1, 2)),
        draw(st.integers(0, min(kernel) // 2)),
        symbolic,
        draw(st.sampled_from(("", "residual", "plain"))),
    )


def check(case: Case, target: Target, *, native: bool, seed: int = 0) -> None:
    """The scheduled program gives what NumPy does."""
    schedule = default_schedule(case.program(), target)
    verify(schedule.program)
    arrays = case.arrays(np.random.default_rng(seed))
    expected = case.reference(arrays)
    out = np.full(expected.shape, np.nan, np.float32)
    if native:
        build(schedule.program, target, threads=2, cache=False)(*arrays, out)
    else:
        interpret(schedule.program, *arrays, out)
    np.testing.assert_allclose(out, expected, rtol=1e-6)


@settings(deadline=None, max_examples=8, suppress_health_check=SLOW)
@given(cases(), st.sampled_from((1, 2)))
def test_windows_of_all_kinds(case: Case, cores: int) -> None:
    check(case, dataclasses.replace(Target.host(), cores=cores), native=True)


@pytest.mark.slow
@settings(deadline=None, max_examples=500, suppress_health_check=SLOW)
@given(cases(), st.sampled_from((1, 2)))
def test_many_windows_of_all_kinds(case: Case, cores: int) -> None:
    check(case, dataclasses.replace(Target.host(), cores=cores), native=True)


SMALL = Case("conv", 2, 16, (5, 9), (3, 3), (1, 1), 1, 1, symbolic=False, follow="residual")


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize("kind", ["conv", "max"])
def test_every_target_has_its_vectors(name: str, kind: str) -> None:
    check(dataclasses.replace(SMALL, kind=kind), Target.named(name), native=False)


@pytest.mark.parametrize("image", [(1, 1), (2, 31), (7, 7), (13, 17)])
def test_one_program_for_all_images(image: tuple[int, int]) -> None:
    case = dataclasses.replace(SMALL, image=image, symbolic=True)
    check(case, Target.host(), native=True)


@settings(deadline=None, max_examples=8, suppress_health_check=SLOW)
@given(cases(), st.sampled_from((1, 2)))
def test_windows_along_the_fastest_axis(case: Case, cores: int) -> None:
    """The same image, one channel after the other."""
    target = dataclasses.replace(Target.host(), cores=cores)
    case = dataclasses.replace(case, follow="")
    channels = case.blocks * case.lanes
    image = (T.dim("h"), T.dim("w")) if case.symbolic else case.image
    x = te.placeholder((1, channels, *image), name="x")
    attrs = {"strides": case.strides, "pads": (case.pads,) * 4}
    given = [x]
    if case.kind == "conv":
        given.append(te.placeholder((channels, 1, *case.kernel), name="w"))
        made = conv(*given, groups=channels, dilations=(case.spread,) * 2, **attrs)
    elif case.kind == "max":
        made = max_pool(x, kernel=case.kernel, **attrs)
    else:
        made = average_pool(x, kernel=case.kernel, count_pads=True, **attrs)
    program = te.program(given, made, "windows", attrs={"contract": True})
    scheduled = default_schedule(program, target).program
    verify(scheduled)
    arrays = case.arrays(np.random.default_rng(1))
    expected = _plain(case.reference(arrays))
    out = np.full(expected.shape, np.nan, np.float32)
    build(scheduled, target, threads=2, cache=False)(_plain(arrays[0]), *arrays[1:], out)
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def _plain(blocked: np.ndarray) -> np.ndarray:
    n, blocks, h, w, lanes = blocked.shape
    return np.ascontiguousarray(blocked.transpose(0, 1, 4, 2, 3)).reshape(n, blocks * lanes, h, w)


def test_windows_side_by_side_share_what_they_load() -> None:
    case = dataclasses.replace(SMALL, image=(56, 56))
    notes: list = []
    program = default_schedule(case.program(), Target.named("x86-64-v4"), fallbacks=notes).program
    kinds = [x.kind for x in statements(program.body) if hasattr(x, "kind")]
    assert not notes
    assert kinds.count(LoopKind.UNROLLED) >= 4  # side by side: begun, summed (2), stored
    assert kinds.count(LoopKind.VECTORIZED) == 3
