"""Draws docs/pictures: what README.md shows, of a run of the example `pumps`.

python scripts/pictures.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="drom-pictures-") as folder:
        for arguments in (
            ["init", "--example", "pumps"],
            ["run", "pumps/pumps.yaml", "--quiet", "--driver", "reference", "--report", "--out", "run"],
        ):
            subprocess.run([sys.executable, "-m", "drom_net", *arguments], cwd=folder, check=True, stdout=sys.stderr)
        (PICTURES / "pumps.png").write_bytes((Path(folder) / "run" / "report.png").read_bytes())


if __name__ == "__main__":
    main()
