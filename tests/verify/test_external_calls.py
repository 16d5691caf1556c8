"""A block around an external call says what the call does, and must speak of all it passes."""

import pytest

from tensorsmith import script as T
from tensorsmith.ir import Block, Buffer, Invoke, Region, TensorProgram
from tensorsmith.verify import verify
from tensorsmith.verify.errors import RegionError

A = Buffer("A", (8,), "float32")
B = Buffer("B", (8,), "float32")


def calling(reads, writes):
    call = Invoke("blas", (A.region(), Region(B, ((0, 4),))))
    return TensorProgram("f", (A, B), Block("call", (), call, reads=reads, writes=writes))


@pytest.mark.parametrize(
    ("reads", "writes"),
    [
        ((A.region(),), (B.region(),)),
        ((A.region(), B.region()), (B.region(),)),
        ((A.region(), B.region()), ()),
        (None, None),
        (None, (B.region(),)),
    ],
)
def test_what_is_passed_is_read_or_written(reads, writes):
    verify(calling(reads, writes))


def test_what_is_passed_and_not_stated_is_reported():
    with pytest.raises(RegionError) as caught:
        verify(calling((Region(A, ((0, 4),)),), (B.region(),)))
    assert str(caught.value) == (
        "in 'f': block 'call' passes more of 'A' than it states\n"
        "  given: it passes A[0:8], and states A[0:4]\n"
        "  because: an external function does what the block around it says\n"
        "  try: T.reads(A[0:8]), T.writes(A[0:8]), or both"
    )


def test_what_is_loaded_beside_the_call_is_still_checked():
    with pytest.raises(RegionError, match="reads more of 'B' than it states"):

        @T.program
        def f(X: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            with T.block("call"):
                T.reads(X[0:8])
                T.writes(B[0:8])
                T.call("blas", X, B)
                B[0] = B[1]
