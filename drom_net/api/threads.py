"""BLAS with one thread while something is learned in a process that has others."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from drom_net.core.blas import blas_threads, set_blas_threads

_LOCK = threading.Lock()
_BEFORE: list[int] = []
"""How many threads there were when each that is in `one_thread` came in."""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """BLAS computes with one thread, as in nodes: more may change the last bits. Other BLAS than that of NumPy's wheels
    stay as they are."""
    with _LOCK:
        _BEFORE.append(blas_threads() or 1)
        set_blas_threads(1)
    try:
        yield
    finally:
        with _LOCK:
            former = _BEFORE.pop(0) if len(_BEFORE) == 1 else _BEFORE.pop()
            if not _BEFORE:  # nobody else is in here
                set_blas_threads(former)
