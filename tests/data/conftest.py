"""Where the large data sets are, for tests that read real ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of data sets: DROM_NET_DATA, or `../shared/data` beside the project.

    Without it the test is skipped, but in CI it fails: there a skipped test is a test nobody runs.
    """
    named = os.environ.get("DROM_NET_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "../shared/data"
    if (folder / "amazon_sentiment").is_dir():
        return folder
    reason = "the data sets are not here; DROM_NET_DATA names their folder"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
