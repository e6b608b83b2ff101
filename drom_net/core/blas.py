"""NumPy's BLAS: kept to one thread a process, and which kernel it computes with. Imports nothing of NumPy by itself."""

from __future__ import annotations

import functools
from typing import Any

ONE_THREAD = dict.fromkeys(
    (
        "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "BLIS_NUM_THREADS",
    ),
    "1",
)
"""Environment variables that must be set before NumPy is imported: threads times workers would fight for the cores,
and the number of threads may change the last bits."""


@functools.cache
def blas_kernel() -> str:
    """Which kernel NumPy's BLAS computes with (the last bits depend on it), or "unknown"."""
    import ctypes

    function = _openblas("get_corename")
    if function is None:
        return "unknown"
    function.restype = ctypes.c_char_p
    return str(function().decode())


def blas_threads() -> int | None:
    """With how many threads it computes in this process; None where that is unknown."""
    function = _openblas("get_num_threads")
    return None if function is None else int(function())


def set_blas_threads(count: int) -> None:
    """Have it compute with so many; nothing changes where that is unknown."""
    if (function := _openblas("set_num_threads")) is not None:
        function(count)


def _openblas(name: str) -> Any:
    """A function of the OpenBLAS that NumPy's wheels bring; None where there is another BLAS."""
    import ctypes

    try:
        from numpy.linalg import _umath_linalg

        return getattr(ctypes.CDLL(_umath_linalg.__file__), f"scipy_openblas_{name}64_")
    except (AttributeError, ImportError, OSError):
        return None
