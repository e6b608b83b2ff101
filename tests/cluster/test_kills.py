"""Real processes, SIGKILLed at drawn instants and started again: `scripts/storm --processes`, in small."""

from __future__ import annotations

from pathlib import Path

import pytest
from storm import LAYOUTS, run_killed

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_accident_28_processes_that_are_killed_again_and_again_give_the_digest_of_the_loop(
    layout: str, tmp_path: Path
) -> None:
    done = run_killed(layout, 6, 1, tmp_path)
    assert done.kills == 6
    assert done.digest == done.expected
