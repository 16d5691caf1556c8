"""Random programs of the kind that graphs are made of: products, reductions, maps, broadcasts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.ir import TensorProgram

SIZES = (0, 1, 2, 3, 5, 8, 12, 16, 17, 20, 33)
MOST_ELEMENTS = 600


@dataclass
class Kernel:
    """A program under construction. sizes: what each symbolic dimension is in the test."""

    draw: st.DrawFn
    inputs: list = field(default_factory=list)
    tensors: list = field(default_factory=list)
    sizes: dict = field(default_factory=dict)
    count: int = 0

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def extent(self):
        """An extent, symbolic now and then."""
        size = self.draw(st.sampled_from(SIZES))
        if self.draw(st.integers(0, 3)):
            return size
        least = 0 if size == 0 else self.draw(st.sampled_from((0, 1)))
        dim = T.dim(f"d{len(self.sizes)}", min=least)
        self.sizes[dim] = size
        return dim

    def size(self, extent) -> int:
        return self.sizes[extent] if extent in self.sizes else int(te_value(extent))

    def elements(self, shape) -> int:
        return int(np.prod([self.size(e) for e in shape], dtype=np.int64))

    def placeholder(self, shape, dtype: str = "float32"):
        tensor = te.placeholder(tuple(shape), dtype, name=f"in{len(self.inputs)}")
        self.inputs.append(tensor)
        return tensor

    def pick(self):
        """A tensor that is there; a new input where there is none."""
        if not self.tensors:
            rank = self.draw(st.sampled_from((1, 2, 2, 3, 3)))
            self.tensors.append(self.placeholder([self.extent() for _ in range(rank)]))
        return self.draw(st.sampled_from(self.tensors))

    def step(self) -> None:
        """One more tensor."""
        kind = self.draw(st.sampled_from(["map", "join", "reduce", "turn", *["product"] * 4]))
        made = getattr(self, kind)(self.pick())
        if made is not None:
            self.tensors.append(made)

    def map(self, a):
        """A function of each element, cheap or dear."""
        f = self.draw(
            st.sampled_from(
                [
                    lambda x: x * T.float32(2),
                    lambda x: T.max(x, T.float32(0)),
                    lambda x: x + T.float32(1),
                    lambda x: T.select(x > 0, x, -x),
                    lambda x: T.floor(x * T.float32(0.5)),
                ]
            )
        )
        return te.compute(a.shape, lambda *i: f(a[i]), self.name())

    def join(self, a):
        """Two tensors, the second one broadcast along some axes."""
        kept = [self.draw(st.booleans()) for _ in a.shape]
        first = self.draw(st.integers(0, len(a.shape)))
        axes = [d for d in range(first, len(a.shape)) if kept[d]]
        same = [t for t in self.tensors if t.shape == a.shape]
        if same and self.draw(st.booleans()):
            other = self.draw(st.sampled_from(same))
            return te.compute(a.shape, lambda *i: a[i] - other[i], self.name())
        other = self.placeholder([a.shape[d] for d in axes] or [1])
        at = (lambda i: tuple(i[d] for d in axes)) if axes else (lambda _: (0,))
        return te.compute(a.shape, lambda *i: a[i] + other[at(i)], self.name())

    def reduce(self, a):
        """A sum or maximum over some axes."""
        axes = [d for d in range(len(a.shape)) if self.draw(st.booleans())]
        kept = [d for d in range(len(a.shape)) if d not in axes]
        if not axes or not kept:
            return None
        ks = {d: te.reduce_axis(a.shape[d], f"r{self.count}_{d}") for d in axes}
        fold = self.draw(st.sampled_from([te.sum, te.max]))

        def body(*i):
            at = dict(zip(kept, i, strict=True))
            return fold(
                a[tuple(at.get(d, ks.get(d)) for d in range(len(a.shape)))], axis=[*ks.values()]
            )

        return te.compute([a.shape[d] for d in kept], body, self.name())

    def product(self, a):
        """A contraction with a new operand: any axes kept, batched or summed over."""
        roles = [self.draw(st.sampled_from("mmkkb")) for _ in a.shape]
        if "k" not in roles:
            roles[self.draw(st.integers(0, len(roles) - 1))] = "k"
        own = [self.extent() for _ in range(self.draw(st.sampled_from((1, 1, 1, 2, 0))))]
        shared = [d for d, r in enumerate(roles) if r in "kb"]
        shape = [a.shape[d] for d in shared] + own
        out = [a.shape[d] for d, r in enumerate(roles) if r != "k"] + own
        total = self.elements([*out, *(a.shape[d] for d, r in enumerate(roles) if r == "k")])
        if not out or total > 40 * MOST_ELEMENTS or self.elements(shape) > 4 * MOST_ELEMENTS:
            return None
        order = self.draw(st.permutations(range(len(shape))))
        places = self.draw(st.permutations(range(len(out))))
        b = self.placeholder([shape[d] for d in order])
        ks = {
            d: te.reduce_axis(a.shape[d], f"r{self.count}_{d}") for d in shared if roles[d] == "k"
        }

        def body(*moved):
            i = [None] * len(out)
            for d, place in enumerate(places):
                i[place] = moved[d]
            kept = dict(zip([d for d, r in enumerate(roles) if r != "k"], i, strict=False))
            at = {**kept, **ks}
            left = a[tuple(at[d] for d in range(len(roles)))]
            whole = [*(at[d] for d in shared), *i[len(kept) :]]
            return te.sum(left * b[tuple(whole[d] for d in order)], axis=[*ks.values()])

        return te.compute([out[place] for place in places], body, self.name())

    def turn(self, a):
        """The axes in another order."""
        order = self.draw(st.permutations(range(len(a.shape))))

        def body(*i):
            at = [None] * len(order)
            for d, place in enumerate(order):
                at[place] = i[d]
            return a[tuple(at)]

        return te.compute([a.shape[d] for d in order], body, self.name())


def te_value(extent) -> int:
    return extent if isinstance(extent, int) else extent.value


@st.composite
def kernels(draw: st.DrawFn) -> tuple[TensorProgram, list[np.ndarray], int]:
    """A program, its arguments with room for the results, and how many of these there are."""
    k = Kernel(draw)
    k.pick()
    for _ in range(draw(st.integers(1, 6))):
        k.step()
    made = [t for t in k.tensors if t not in k.inputs]
    while not made:
        made = [k.map(k.pick())]
    outputs = [made[-1]]
    if len(made) > 1 and draw(st.booleans()):
        outputs.append(draw(st.sampled_from(made[:-1])))
    program = te.program(k.inputs, outputs, "kernel", attrs={"contract": True})
    rng = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    args = [rng.integers(-2, 3, [k.size(e) for e in t.shape]).astype(np.float32) for t in k.inputs]
    results = [np.full([k.size(e) for e in t.shape], 99, np.float32) for t in outputs]
    return program, [*args, *results], len(results)
