"""What all tests share: where shared files are, and that no test is timed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a shell's background: processes of tests inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # as below nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A busy machine is not an error: no test fails for the time that it takes.
settings.register_profile("drom_net", deadline=None, print_blob=True)
settings.load_profile("drom_net")

NAMED = dict(os.environ)
"""As the session found it: a test may take a variable away."""
os.environ.pop("DROM_NET_DATA", None)  # it would replace the folders of the tests' own files


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of data sets: DROM_NET_DATA, or `../shared/data` beside the project."""
    return _shared("DROM_NET_DATA", "data", "amazon_sentiment", "the data sets are")


@pytest.fixture(scope="session")
def shared_set() -> Callable[[str], Path]:
    """A function from a data set's sub-folder to the folder of data sets; without it the test is skipped."""
    return lambda folder: _shared("DROM_NET_DATA", "data", folder, f"the data set {folder} is")


@pytest.fixture(scope="session")
def shared_labs() -> Path:
    """The folder of emulated networks: DROM_NET_LABS, or `../shared/labs` beside the project."""
    return _shared("DROM_NET_LABS", "labs", "netlab.py", "the emulated network is")


def _shared(variable: str, folder: str, content: str, what: str) -> Path:
    """Without the folder the test is skipped, but in CI it fails: there a skipped test is a test nobody runs."""
    named = NAMED.get(variable)
    path = Path(named) if named else Path(__file__).parents[1] / "../shared" / folder
    if (path / content).exists():
        return path
    reason = f"{what} not here; {variable} names the folder"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
