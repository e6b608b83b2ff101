"""What all tests share: where the large data sets are, and that no test is timed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is not an error: no test fails for the time that it takes.
settings.register_profile("drom_net", deadline=None, print_blob=True)
settings.load_profile("drom_net")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of data sets: DROM_NET_DATA, or `../shared/data` beside the project.

    Without it the test is skipped, but in CI it fails: there a skipped test is a test nobody runs.
    """
    named = os.environ.get("DROM_NET_DATA")
    folder = Path(named) if named else Path(__file__).parents[1] / "../shared/data"
    if (folder / "amazon_sentiment").is_dir():
        return folder
    reason = "the data sets are not here; DROM_NET_DATA names their folder"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
