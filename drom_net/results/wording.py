"""Figures as people read them."""

from __future__ import annotations


def percent(value: float | None, decimals: int = 2, *, unknown: str = "-") -> str:
    return unknown if value is None else f"{100 * value:.{decimals}f} %"


def number(value: float | None, spec: str = ".3f", *, unknown: str = "-") -> str:
    return unknown if value is None else format(value, spec)


def size(num_bytes: float) -> str:
    """A number of bytes: powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} TB"
