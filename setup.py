"""The fields of the metadata that pyproject.toml cannot state: version, and the README as a package index shows it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent


def version() -> str:
    """As the package says it; where it is built, its own dependencies are missing."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "drom_net/__init__.py").read_text(encoding="utf-8"), re.M)
    assert found is not None
    return found[1]


def long_description() -> str:
    """README.md, whose links into the checkout lead into the repository here, at the tag of this version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def lead(link: re.Match[str]) -> str:
        path = f"README.md{link[3]}" if link[3].startswith("#") else link[3]
        return f"{link[1]}{link[2]}({project['urls']['Repository']}/{'raw' if link[1] else 'blob'}/v{version()}/{path})"

    return re.sub(r"(!?)(\[[^]]*\])\((?!\w+:)(\S+?)\)", lead, (ROOT / "README.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    from setuptools import setup

    setup(version=version(), long_description=long_description(), long_description_content_type="text/markdown")
