"""Draws docs/pictures: what README.md shows, of a run of the example `pumps`.

python scripts/pictures.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from drom_net.reporting.facts import read_facts
from drom_net.reporting.figures import figures_of

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="drom-pictures-") as folder:
        for arguments in (
            ["init", "--example", "pumps"],
            ["run", "pumps/pumps.yaml", "--quiet", "--driver", "reference", "--out", "run"],
        ):
            subprocess.run([sys.executable, "-m", "drom_net", *arguments], cwd=folder, check=True, stdout=sys.stderr)
        figures_of(read_facts(Path(folder) / "run"))["overview"].draw(PICTURES / "pumps.png")


if __name__ == "__main__":
    main()
