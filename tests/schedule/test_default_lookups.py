"""What only tells where elements lie does not decide along which axis vectors run."""

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.ir import Var
from tensorsmith.schedule.defaults.analysis import fastest_axis
from tensorsmith.schedule.tree import blocks_in


def test_sums_of_rows_that_are_looked_up_run_along_the_rows():
    rows, columns, count = 100, 64, Var("count", low=1)
    table = te.placeholder((rows, columns), name="table")
    places = [te.placeholder((count,), "int64", name) for name in ("first", "second", "third")]
    k = te.reduce_axis(columns, "k")

    def row(i):
        return sum((T.index(p[i]) for p in places[1:]), T.index(places[0][i]))

    total = te.compute((count,), lambda i: te.sum(table[row(i) % rows, k], axis=k), "total")
    (block,) = blocks_in(te.program([table, *places], total, "look_up").body)
    axis = fastest_axis(block)
    assert axis is not None
    assert axis is block.iters[1].var
