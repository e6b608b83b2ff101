"""One seed, and from it any number of independent streams of random numbers, each with a name."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *name: str | int) -> np.random.Generator:
    """The random numbers that belong to `name`, the same on every machine and in every process.

    Args:
        seed: The run's seed, or a data set's own.
        name: What they are for, such as ``("shuffle", 3)``.
    """
    words = "\x1f".join(str(part) for part in (seed, *name))
    entropy = int.from_bytes(hashlib.sha256(words.encode()).digest(), "little")
    return np.random.Generator(np.random.PCG64(entropy))
