"""What the tests of exports share: `drom-net export` into a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from drom_net.cli import main


@pytest.fixture
def export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Path]:
    """A function of the format, the text of a cluster's file, and what the folder is called; returns the folder."""

    def run(format: str, text: str, name: str = "deploy") -> Path:
        file = tmp_path / f"{name}.yaml"
        file.write_text(text)
        code = main(["export", format, str(file), "-o", str(tmp_path / name)])
        assert code == 0, capsys.readouterr().err
        return tmp_path / name

    return run
