"""The kernels over other domains than NumPy's: exact arithmetic modulo a prime, and costs."""

import pytest

from kernels import ALL
from tensorsmith.arith import simplify
from tensorsmith.evaluate import cost, equivalent
from tensorsmith.ir import const, free_vars, substitute

BY_NAME = {kernel.name: kernel for kernel in ALL}
SIZES = {"n": 5, "m": 7, "k": 11, "b": 3, "c": 4, "o": 2, "h": 9, "w": 6, "p": 8, "q": 10}


@pytest.mark.parametrize("kernel", ALL, ids=str)
def test_forms_are_equal_modulo_a_prime(kernel):
    sizes = {name: choices[-1] for name, choices in kernel.sizes.items()}
    assert equivalent(kernel.script, kernel.te, dims=sizes, trials=2)


@pytest.mark.parametrize(
    ("name", "flops"),
    [
        ("matmul", lambda n, m, k: 2 * n * m * k),
        ("batched_matmul", lambda b, n, m, k: 2 * b * n * m * k),
        ("conv2d_padded", lambda n, c, o, h, w: 2 * n * o * h * w * c * 9),
        ("depthwise_conv2d", lambda n, c, h, w: 2 * n * c * (h - 2) * (w - 2) * 9),
        ("max_pool2d", lambda n, c, h, w: n * c * (h // 2) * (w // 2) * 4),
        ("softmax", lambda n, m: 5 * n * m),
        ("cumulative_sum", lambda n, m: n * m),
        ("gather", lambda n, m, k: 0),
        ("im2col", lambda n, p, h: 0),
    ],
)
@pytest.mark.parametrize("form", ["script", "te"])
def test_floating_point_operations(name, flops, form):
    assert value_of(cost(getattr(BY_NAME[name], form)).flops, SIZES) == flops(
        **{v: SIZES[v] for v in flops.__code__.co_varnames}
    )


@pytest.mark.parametrize("form", ["script", "te"])
def test_moving_data_touches_each_element_once(form):
    moved = cost(getattr(BY_NAME["transpose"], form))
    total = 4 * SIZES["n"] * SIZES["p"] * SIZES["q"]
    assert value_of(moved.bytes_read, SIZES) == total
    assert value_of(moved.bytes_written, SIZES) == total


def value_of(e, sizes):
    """The value of a cost, its dimensions replaced by name."""
    values = {v: const(sizes[v.name]) for v in free_vars(e)}
    return simplify(substitute(e, values)).value
