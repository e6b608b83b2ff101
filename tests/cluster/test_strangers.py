"""Real runs whose ports strangers attack; `scripts/strangers` does the same with a million messages each."""

from __future__ import annotations

from pathlib import Path

import pytest
import strangers

pytestmark = pytest.mark.process


@pytest.mark.parametrize("layout", strangers.LAYOUTS)
def test_accident_30_what_strangers_send_to_a_port_changes_no_bit(layout: str, tmp_path: Path) -> None:
    """Garbage, half handshakes, frames without an end, messages that are nearly right, and replays of right ones."""
    done = strangers.attack_run(layout, 3000, tmp_path)
    assert done.messages >= 3000
    assert len(done.sent) == 16, "some kind was not tried"
    assert not done.wrong()
