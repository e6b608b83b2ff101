"""``python -m drom_net`` and the console script."""

from __future__ import annotations

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the folder it is started in: a file queue.py there is no module of ours

import os
import signal


def main() -> None:
    """The command line, with its exit code."""
    _open_standard_streams()
    # The imports take a while; who has ended the command by then is spared their traceback.
    former = {number: signal.signal(number, _end) for number in (signal.SIGINT, signal.SIGTERM)}
    from drom_net.core.blas import ONE_THREAD

    os.environ.update(ONE_THREAD)  # before NumPy is imported
    os.environ["PYTHONSAFEPATH"] = "1"  # nor does any process of this one import from where it is started
    from drom_net.cli import main as command_line

    if os.getpid() == 1:  # the first process of a container gets no signal that it does not handle
        del former[signal.SIGTERM]
    for number, handler in former.items():
        signal.signal(number, handler)
    sys.exit(command_line())


def _open_standard_streams() -> None:
    """Those that are closed become empty ones: else the next file that is opened would take their place."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(
                os.devnull, os.O_RDWR
            )  # the lowest number that is free: this one, as those below are there
            os.set_inheritable(opened, True)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _end(number: int, _: object) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    main()
