"""``python -m drom_net`` and the console script."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """The command line, with its exit code."""
    from drom_net.blas import ONE_THREAD

    os.environ.update(ONE_THREAD)  # before NumPy is imported
    from drom_net.cli import main as command_line

    sys.exit(command_line())


if __name__ == "__main__":
    main()
