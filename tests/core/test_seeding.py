"""Named streams of random numbers."""

from __future__ import annotations

import numpy as np

from drom_net.core.seeding import stream


def test_a_name_gives_the_same_numbers_always_and_everywhere() -> None:
    """These numbers are part of every digest: a change here breaks the promise of equal bits between versions."""
    assert stream(7, "shuffle", 3).integers(0, 2**63, 3).tolist() == [
        int(n) for n in np.random.Generator(np.random.PCG64(_entropy("7\x1fshuffle\x1f3"))).integers(0, 2**63, 3)
    ]
    assert stream(1, "power").standard_normal(2).tobytes() == stream(1, "power").standard_normal(2).tobytes()


def test_other_names_and_other_seeds_give_other_numbers() -> None:
    names = [(0, "power"), (1, "power"), (0, "shuffle"), (0, "shuffle", 0), (0, "shuffle", 1), (0, "shuffle", 10)]
    assert len({stream(*name).bytes(16) for name in names}) == len(names)


def test_streams_do_not_touch_each_other_or_the_global_one() -> None:
    state = np.random.get_state()[1].tobytes()  # type: ignore[union-attr]
    first, second = stream(0, "a"), stream(0, "b")
    expected = stream(0, "b").bytes(8)
    first.bytes(1000)
    assert second.bytes(8) == expected
    assert np.random.get_state()[1].tobytes() == state  # type: ignore[union-attr]


def _entropy(words: str) -> int:
    import hashlib

    return int.from_bytes(hashlib.sha256(words.encode()).digest(), "little")
