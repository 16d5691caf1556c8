"""Loops over the rows and columns of images of any size, made one, divide nothing when they run."""

from __future__ import annotations

import re

import pytest

from tensorsmith import te
from tensorsmith.codegen.llvm.module import print_llvm
from tensorsmith.ir import IRModule, TensorProgram, Var
from tensorsmith.schedule import Schedule
from tensorsmith.target import Target

N, H, W = (Var(name, low=1) for name in "NHW")


def pointwise(*, images_first: bool) -> TensorProgram:
    """A convolution with windows of 1 x 1, of which the loops over pixels are one."""
    x = te.placeholder((N, 16, H, W), name="X")
    weight = te.placeholder((8, 16), name="K")
    k = te.reduce_axis(16, "k")
    y = te.compute(
        (N, 8, H, W),
        lambda n, o, i, j: te.sum(weight[o, k] * x[n, k, i, j], axis=k),
        "Y",
    )
    s = Schedule(te.program([x, weight], y, "pointwise"))
    n, o, i, j, _ = s.get_loops(s.get_block("Y"))
    if images_first:
        s.reorder(o, n)
        s.fuse(n, i, j)
    else:
        s.fuse(i, j)
    return s.program


def divisions(program: TensorProgram) -> list[str]:
    text = print_llvm(IRModule.of(program), Target.named("x86-64-v3")).render()
    return re.findall(r"\b[su](?:div|rem)\b.*", text)


def test_the_place_of_a_pixel_is_its_number() -> None:
    assert divisions(pointwise(images_first=False)) == []


def test_the_pixels_of_many_images_divide_by_the_size_of_an_image_alone() -> None:
    found = divisions(pointwise(images_first=True))
    assert len({d.rpartition(",")[2] for d in found}) == 1


@pytest.mark.parametrize("factor", [4, 7])
def test_tiles_of_pixels_divide_to_be_counted_alone(factor: int) -> None:
    s = Schedule(pointwise(images_first=False))
    s.split(s.get_loops(s.get_block("Y"))[2], [None, factor])
    (count,) = divisions(s.program)
    assert count.endswith(f", {factor}")
