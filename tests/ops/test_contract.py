"""Products of matrices and Einstein sums against NumPy."""

import numpy as np
import pytest

from ops.evaluation import WAYS, compute, onnx_reference
from ops.oracles import FLOATS, INTEGERS, anything, assert_close, assert_same, is_float, small
from tensorsmith import schedule, te
from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.schedule.defaults.analysis import contraction
from tensorsmith.schedule.tree import blocks_in
from tensorsmith.te import placeholder

MATRICES = [
    ((3, 4), (4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((7,), (7,)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (7, 4, 5)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 3)),
    ((1, 1), (1, 1)),
    ((3, 0), (0, 2)),
    ((0, 3), (3, 2)),
]
EQUATIONS = {
    "ij,jk": [(2, 3), (3, 4)],
    "ij,jk->ki": [(2, 3), (3, 4)],
    "ii->i": [(3, 3)],
    "ii": [(3, 3)],
    "...ii->...i": [(2, 3, 3)],
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)],
    "i,i": [(4,), (4,)],
    "...ij,...jk->...ik": [(1, 2, 3), (5, 3, 4)],
    "ij,jk,kl->il": [(2, 3), (3, 4), (4, 5)],
    "ij,k->j": [(2, 3), (4,)],
    "ba": [(2, 3)],
    " b h q d , b h k d -> b h q k ": [(1, 2, 3, 4), (1, 2, 5, 4)],
    "i,j->ij": [(2,), (3,)],
    "ij->": [(2, 3)],
    "ij,ij->i": [(2, 3), (2, 3)],
    "i...,i...->...": [(2, 3), (2, 3)],
    "...,...": [(2, 3), (3,)],
    "iij,jk->ik": [(2, 2, 3), (3, 4)],
    "ab,bc,cd,da->": [(2, 3), (3, 2), (2, 5), (5, 2)],
    "Ab,bC->AC": [(2, 3), (3, 4)],
    "i,i,i->": [(0,), (0,), (0,)],
    ",ij->ij": [(), (2, 3)],
}
MODES = [
    pytest.param({}, id="interpreted"),
    pytest.param({"native": True}, id="native", marks=pytest.mark.slow),
]


def tolerance(dtype, terms):
    return {"ulps": 1 if dtype in ("float16", "bfloat16") else 2 * terms + 2}


def check_matmul(a, b, **mode):
    wide = a.astype(np.float64), b.astype(np.float64)
    scale = np.asarray(np.matmul(abs(wide[0]), abs(wide[1])))
    got = compute("matmul", a, b, **mode)
    assert_close(got, np.matmul(*wide), scale=scale, **tolerance(a.dtype.name, a.shape[-1]))


@pytest.mark.parametrize("shapes", MATRICES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_matmul(dtype, shapes):
    rng = np.random.default_rng(0)
    check_matmul(*(small(rng, s, dtype) for s in shapes))


@pytest.mark.parametrize("native", WAYS)
@pytest.mark.parametrize("shapes", [MATRICES[0], MATRICES[4], MATRICES[5], MATRICES[10]], ids=str)
def test_matmul_of_any_extents(shapes, native):
    rng = np.random.default_rng(1)
    check_matmul(*(small(rng, s, "float32") for s in shapes), symbolic=True, native=native)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_matmul_of_integers(dtype):
    rng = np.random.default_rng(2)
    a, b = anything(rng, (3, 5), dtype), anything(rng, (5, 2), dtype)
    with np.errstate(all="ignore"):
        assert_same(compute("matmul", a, b), np.matmul(a, b))


@pytest.mark.parametrize("name", ["matmul", "gemm", "einsum", "matmul_integer"])
def test_products_are_contractions(name):
    """The default schedules recognise the block that does the work."""
    types = ["uint8", "int8"] if name == "matmul_integer" else ["float16"] * 2
    tensors = [placeholder((8, 16), types[0], "a"), placeholder((16, 32), types[1], "b")]
    attrs = {"einsum": {"equation": "ij,jk->ik"}, "gemm": {"alpha": 2.0}}.get(name, {})
    program = te.program(tensors, OPERATORS[name](tensors, attrs))
    assert sum(contraction(b) is not None for b in blocks_in(program.body)) == 1
    schedule.default(program)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("addend", [None, (), (5,), (3, 1), (1, 5), (3, 5)])
def test_gemm(addend, trans_b, trans_a, mode):
    if mode and (addend not in (None, (5,)) or trans_a):
        return
    rng = np.random.default_rng(3)
    a, b = small(rng, (3, 4), "float32"), small(rng, (4, 5), "float32")
    c = None if addend is None else small(rng, addend, "float32")
    want = 0.5 * (a.astype(np.float64) @ b.astype(np.float64))
    want = want if c is None else want + 2.0 * c.astype(np.float64)
    a, b = (a.T if trans_a else a), (b.T if trans_b else b)
    attrs = {"trans_a": trans_a, "trans_b": trans_b, "alpha": 0.5, "beta": 2.0}
    assert_close(compute("gemm", a, b, c, **attrs, **mode), want, ulps=16, scale=1 + abs(want))


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "uint64"])
@pytest.mark.parametrize("factors", [(1.0, 1.0), (2.0, 0.5), (1.0, 0.0)])
def test_gemm_types(factors, dtype):
    rng = np.random.default_rng(4)
    a, b, c = (small(rng, s, dtype) for s in ((3, 4), (4, 5), (5,)))
    alpha, beta = factors
    wide = [x.astype(np.float64) for x in (a, b, c)]
    want = alpha * (wide[0] @ wide[1]) + beta * wide[2]
    got = compute("gemm", a, b, c, alpha=alpha, beta=beta)
    if is_float(dtype):
        scale = alpha * (abs(wide[0]) @ abs(wide[1])) + beta * abs(wide[2])
        assert_close(got, want, scale=scale, **tolerance(dtype, 4))
    else:
        assert_same(got, np.trunc(want).astype(dtype))


def zero_points(rng, a, b, kind):
    """Zero points of the left and of the right operand."""
    shapes = {
        "none": (None, None),
        "left": ((), None),
        "one": ((), (1,)),
        "lines": ((a.shape[-2],), (b.shape[-1],)),
        "stacks": ((*a.shape[:-1], 1), (*b.shape[:-2], 1, b.shape[-1])),
    }[kind]
    return [
        None if s is None else anything(rng, s, x.dtype.name)
        for s, x in zip(shapes, (a, b), strict=True)
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["none", "left", "one", "lines", "stacks"])
@pytest.mark.parametrize("types", [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
def test_matmul_integer(types, kind, mode):
    rng = np.random.default_rng(5)
    for shapes in (((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 7), (2, 7, 5))):
        a, b = (anything(rng, s, t) for s, t in zip(shapes, types, strict=True))
        p, q = zero_points(rng, a, b, kind)
        left = a.astype(np.int32) - (0 if p is None else lines(p, a).astype(np.int32))
        right = b.astype(np.int32) - (0 if q is None else q.astype(np.int32))
        assert_same(compute("matmul_integer", a, b, p, q, **mode), left @ right)


def lines(zero, a):
    return zero[:, None] if zero.ndim == 1 and zero.size > 1 else zero


def test_matmul_integer_of_onnx():
    rng = np.random.default_rng(6)
    a, b = anything(rng, (4, 3), "uint8"), anything(rng, (3, 2), "uint8")
    p, q = np.array([12], np.uint8), np.array([0], np.uint8)
    assert_same(compute("matmul_integer", a, b, p, q), onnx_reference("MatMulInteger", a, b, p, q))


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation):
    rng = np.random.default_rng(7)
    xs = [small(rng, s, "float64") for s in EQUATIONS[equation]]
    want = np.einsum(equation, *xs)
    scale = np.einsum(equation, *(abs(x) for x in xs))
    assert_close(compute("einsum", *xs, equation=equation), want, ulps=64, scale=scale)


@pytest.mark.parametrize("equation", ["bij,bjk->bik", "ij,jk,kl->il", "iij,jk->ik", "ij->"])
def test_einsum_natively(equation):
    rng = np.random.default_rng(8)
    xs = [small(rng, s, "float32") for s in EQUATIONS[equation]]
    want = np.einsum(equation, *(x.astype(np.float64) for x in xs))
    scale = np.einsum(equation, *(abs(x) for x in xs))
    assert_close(compute("einsum", *xs, equation=equation, native=True), want, ulps=64, scale=scale)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float16", "bfloat16"])
def test_einsum_types(dtype):
    rng = np.random.default_rng(9)
    a, b = small(rng, (3, 4), dtype), small(rng, (4, 5), dtype)
    got = compute("einsum", a, b, equation="ij,jk")
    want = a.astype(np.float64) @ b.astype(np.float64)
    if is_float(dtype):
        assert_close(got, want, ulps=1, scale=abs(a).astype(float) @ abs(b).astype(float))
    else:
        assert_same(got, want.astype(dtype))


@pytest.mark.parametrize(
    ("shapes", "equation", "words"),
    [
        ([(2, 3)], "ij,jk->ik", "2 terms"),
        ([(2, 3)], "ijk->i", "rank 2"),
        ([(2, 3)], "i1->i", "no equation"),
        ([(2, 3)], "ij->ik", "no operand has"),
        ([(2, 3)], "ij->ii", "twice"),
        ([(2, 3), (4, 5)], "ij,jk->ik", "do not fit"),
        ([(2, 3)], "i->i", "rank 2"),
        ([], "->", "one operand"),
    ],
)
def test_wrong_equations(shapes, equation, words):
    with pytest.raises(ShapeError, match=words):
        OPERATORS["einsum"]([placeholder(s) for s in shapes], {"equation": equation})


@pytest.mark.parametrize(
    ("name", "shapes", "attrs"),
    [
        ("matmul", [(2, 3), (4, 5)], {}),
        ("matmul", [(), (3,)], {}),
        ("matmul", [(2, 2, 3), (3, 3, 4)], {}),
        ("matmul", [(2, 1), (3, 4)], {}),
        ("gemm", [(2, 3), (3, 4)], {"trans_a": True}),
        ("gemm", [(2, 3), (3, 4), (3,)], {}),
        ("gemm", [(2, 3), (3, 4), (1, 2, 4)], {}),
        ("gemm", [(3,), (3, 4)], {}),
    ],
)
def test_wrong_shapes(name, shapes, attrs):
    with pytest.raises(ShapeError):
        OPERATORS[name]([placeholder(s) for s in shapes], attrs)


def test_wrong_types():
    with pytest.raises(DTypeError):
        OPERATORS["matmul"]([placeholder((2, 2)), placeholder((2, 2), "float64")], {})
    with pytest.raises(DTypeError):
        OPERATORS["matmul_integer"]([placeholder((2, 2)), placeholder((2, 2))], {})
    tensors = [placeholder(s, "uint8") for s in ((2, 3), (3, 4), (3, 4))]
    with pytest.raises(ShapeError, match="zero points"):
        OPERATORS["matmul_integer"](tensors, {})
