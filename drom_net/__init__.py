"""Online multi-task learning across sites that keep their own data.

In scripts and notebooks: `fit`, `run`, `load`, `check`, `MultiTaskClassifier`, `RiverClassifier` (docs/python.md).
"""

from __future__ import annotations

__version__ = "0.1.0"

_MODULES = {
    "fit": "drom_net.api.running",
    "run": "drom_net.api.running",
    "load": "drom_net.api.running",
    "check": "drom_net.api.running",
    "Run": "drom_net.api.results",
    "Site": "drom_net.api.results",
    "MultiTaskClassifier": "drom_net.api.estimator",
    "RiverClassifier": "drom_net.api.river",
    "DromNetError": "drom_net.core.errors",
}
"""Where each name is. A node process imports this package, and none of these (PEP 562)."""
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
