"""Models: calls, outputs, threads, memory."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from runtime.models import AFFINE, HEADER, affine, compress, expected, model_of
from tensorsmith.errors import EvaluationError
from tensorsmith.runtime.model import Model
from tensorsmith.script import parse_module

torch = pytest.importorskip("torch")


def inputs(n: int, m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.random((n, m), np.float32), random.random((n, m), np.float32)


@pytest.mark.parametrize(("n", "m"), [(0, 1), (1, 1), (3, 7), (64, 33), (1, 997)])
def test_calls_by_position_and_by_name(n: int, m: int) -> None:
    model = affine(threads=2)
    ids, mask = inputs(n, m)
    wanted = expected(ids, mask)
    for got in (
        model(ids, mask),
        model(mask=mask, ids=ids),
        model(ids, mask=mask),
        tuple(model.run(ids, mask).values()),
    ):
        for x, y in zip(got, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6)
    assert list(model.run(ids, mask)) == ["total", "scaled"]
    assert model.copies == 0


def test_what_it_says_of_itself() -> None:
    model = affine(threads=1)
    assert [str(t) for t in model.inputs] == [
        "ids: float32[n, sequence_length]",
        "mask: float32[n, sequence_length]",
    ]
    assert model.outputs[1].shape == ("n", "sequence_length * 2")
    assert repr(model) == (
        "<model main(ids: float32[n, sequence_length], mask: float32[n, sequence_length]) ->"
        " (total: float32[n, sequence_length], scaled: float32[n, sequence_length * 2]),"
        " 1 threads>"
    )


def test_inputs_that_are_not_dense_are_copied() -> None:
    model = affine()
    ids, mask = inputs(6, 8)
    wanted = expected(ids[::2], mask[::2])
    for x, y in zip(model(ids[::2], mask[::2]), wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)
    assert model.copies == 2
    model(np.asfortranarray(ids), mask)
    assert model.copies == 3


def test_read_only_inputs_and_scalars_of_numpy() -> None:
    model = affine()
    ids, mask = inputs(3, 4)
    ids.flags.writeable = False
    np.testing.assert_allclose(model(ids, mask)[0], ids + 2 * mask, rtol=1e-6)
    text = HEADER + (
        '@T.program(attrs={"host": True})\n'
        'def main(x: T.Buffer((), "float32"), y: T.Buffer((), "float32")):\n'
        "    y[()] = x[()] * 2.0\n"
    )
    module = parse_module(text)
    double = model_of(module, module.program("main").params[1:])
    assert double(np.float32(4)) == 8
    assert double(np.array(4, np.float32)).shape == ()


def test_tensors_of_torch_in_and_out() -> None:
    ids, mask = inputs(3, 5)
    wanted = expected(ids, mask)
    got = affine()(torch.from_numpy(ids), mask)
    assert isinstance(got[0], np.ndarray)
    model = affine(outputs="torch")
    for x, y in zip(model(torch.from_numpy(ids), torch.from_numpy(mask)), wanted, strict=True):
        assert isinstance(x, torch.Tensor)
        np.testing.assert_allclose(x.numpy(), y, rtol=1e-6)
    with_gradient = torch.from_numpy(ids.copy()).requires_grad_()
    np.testing.assert_allclose(model(with_gradient, mask)[1].numpy(), wanted[1], rtol=1e-6)


def test_results_whose_size_only_the_program_knows() -> None:
    for outputs in ("numpy", "torch"):
        model = compress(outputs=outputs)
        for n in (0, 1, 13, 1000):
            x = np.random.default_rng(n).integers(-5, 5, n)
            kept, doubled = (np.asarray(r) for r in model(x))
            (places,) = np.nonzero(x > 0)
            np.testing.assert_array_equal(kept, np.stack([x[places], places], axis=1))
            np.testing.assert_array_equal(doubled, 2 * x)


def test_results_of_many_threads_are_their_own() -> None:
    model, other = compress(threads=2), affine(threads=2)
    ids, mask = inputs(50, 60)
    wanted = other(ids, mask)
    wrong: list[int] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(60):
            x = random.integers(-5, 5, int(random.integers(0, 300)))
            kept, _ = model(x)
            rows = int(random.integers(0, 50))
            got = other(ids[:rows], mask[:rows])
            same = all(np.array_equal(a, b[:rows]) for a, b in zip(got, wanted, strict=True))
            if not same or not np.array_equal(kept[:, 0], x[x > 0]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def resident_bytes() -> int:
    """Memory of this process, as Linux counts it."""
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_memory_stays_flat_over_random_shapes() -> None:
    model, other = affine(threads=2), compress()
    random = np.random.default_rng(1)

    def call() -> None:
        n, m = random.integers(1, 200, 2)
        model(*inputs(int(n), int(m)))
        other(random.integers(-5, 5, int(n) * 50))

    for _ in range(100):
        call()
    gc.collect()
    before = resident_bytes()
    for _ in range(500):
        call()
    gc.collect()
    assert resident_bytes() - before < 8 << 20
    assert model.context.kept_bytes < 2 * 200 * 200 * 4
    model.trim()
    assert model.context.kept_bytes == 0


def test_an_idle_model_uses_no_processor() -> None:
    model = affine(threads=2)
    model(*inputs(200, 200))
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.4)
    assert time.process_time() - before < 0.04


def test_what_fails_inside() -> None:
    text = AFFINE.replace(
        '    T.call("add", ids, mask, t)\n',
        '    T.call("add", ids, mask, t)\n    assert m < 5, "sequences are short"\n',
    )
    module = parse_module(text)
    weights = np.zeros(64, np.uint8)
    model = model_of(module, module.program("main").params[2:4], weights)
    model(*inputs(2, 4))
    with pytest.raises(EvaluationError) as raised:
        model(*inputs(2, 5))
    assert raised.value.what == "main: sequences are short"


def test_a_result_that_cannot_be_taken_is_an_error() -> None:
    model = compress()
    function = model._returns.function
    assert function(12345, 0, 0, 0, 0) == -1
    token = model._returns.open({})
    assert function(token, 7, 0, 1, ctypes.addressof(ctypes.c_int64(3))) == -1
    with pytest.raises(EvaluationError, match=r"handed over a result 7 of shape \(3,\)"):
        model._returns.close(token)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_models_that_end_leave_nothing(tmp_path: Path) -> None:
    affine(threads=2).save(tmp_path / "model.tsm")
    ids, mask = inputs(300, 300)
    wanted = affine(threads=2)(ids, mask)

    def live() -> None:
        model = Model.load(tmp_path / "model.tsm", threads=2)
        model.profile(ids, mask, repeats=1)
        function = model.programs["main"].positional
        np.testing.assert_array_equal(model(ids, mask)[0], wanted[0])
        weights = model.weights
        del model
        outputs = [np.empty_like(x) for x in wanted]
        function(ids, mask, *outputs, weights)  # holds on to its code and memory
        np.testing.assert_array_equal(outputs[1], wanted[1])

    for _ in range(5):
        live()
    gc.collect()
    before = resident_bytes(), mappings()
    for _ in range(30):
        live()
    gc.collect()
    assert resident_bytes() - before[0] < 4 << 20
    assert mappings() - before[1] < 15


def mappings() -> int:
    """How many pieces of address space this process has."""
    return len(Path("/proc/self/maps").read_text(encoding="ascii").splitlines())


def test_programs_hold_on_to_what_they_call() -> None:
    model = compress()
    function, returns = model.programs["main"].positional, model._returns
    token = returns.open({0: model.manifest.outputs[0]})
    del model
    gc.collect()
    function(np.array([4, -1, 2], np.int64), np.empty(3, np.int64), token)
    assert returns.close(token)[0].tolist() == [[4, 0], [2, 2]]
    only = compress().programs["main"].positional
    gc.collect()
    with pytest.raises(EvaluationError, match="main failed with code -1"):
        only(np.array([4], np.int64), np.empty(1, np.int64), 99)
