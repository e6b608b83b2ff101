"""Real runs whose ports strangers attack; `scripts/strangers` does the same with a million messages each."""

from __future__ import annotations

from pathlib import Path

import pytest
import strangers

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("target", "messages", "kinds"),
    [
        ("star", 3000, 16),
        ("ring", 3000, 16),
        ("application", 3000, 16),
        pytest.param("metrics", 300, 7, marks=pytest.mark.large),
    ],
)
def test_accident_30_what_strangers_send_to_a_port_changes_no_bit(
    target: str, messages: int, kinds: int, tmp_path: Path
) -> None:
    """Garbage, half handshakes, frames without an end, messages that are nearly right, and replays of right ones."""
    done = strangers.attack_run(target, messages, tmp_path)
    assert done.messages >= messages
    assert len(done.sent) == kinds, "some kind was not tried"
    assert not done.wrong()
