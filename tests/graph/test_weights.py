"""Constants as one piece of memory, made there or copied to it."""

import numpy as np

from tensorsmith.graph.weights import ALIGN, Arena, Weights


def bytes_at(memory, place, like):
    return memory[place : place + like.nbytes].view(like.dtype).reshape(like.shape)


def test_what_is_made_in_the_arena_is_not_copied():
    arena = Arena(1 << 16)
    a = arena.empty((3, 5), np.dtype(np.float32))
    b = arena.empty((7,), np.dtype(np.int8))
    a[:], b[:] = np.arange(15).reshape(3, 5), np.arange(7)
    elsewhere = np.arange(9, dtype=np.int64)
    weights = Weights(arena)
    places = [weights.add(x) for x in (elsewhere, b, a, a.copy())]
    assert places[3] == places[2]
    assert all(p % ALIGN == 0 for p in places)
    memory = weights.to_array()
    assert np.shares_memory(memory, a)
    assert memory.size == weights.size
    for place, x in zip(places, (elsewhere, b, a), strict=False):
        np.testing.assert_array_equal(bytes_at(memory, place, x), x)
    np.testing.assert_array_equal(np.concatenate(list(weights.pieces())), memory)


def test_an_arena_without_room():
    arena = Arena(64)
    a = arena.empty((4,), np.dtype(np.float32))
    b = arena.empty((100,), np.dtype(np.float32))
    a[:], b[:] = 1, 2
    weights = Weights(arena)
    places = [weights.add(x) for x in (a, b)]
    memory = weights.to_array()
    for place, x in zip(places, (a, b), strict=True):
        np.testing.assert_array_equal(bytes_at(memory, place, x), x)


def test_bytes_between_constants_are_zero():
    held = np.full(1000, 255, np.uint8)
    arena = Arena(held.size)
    arena.memory[:] = 255
    arena.empty((3,), np.dtype(np.uint8))[:] = 1
    weights = Weights(arena)
    weights.add(np.full(5, 2, np.uint8))
    memory = weights.to_array()
    assert memory.tolist() == [1] * 3 + [0] * 61 + [2] * 5 + [0] * 59
