"""Draws the state tables of drom_net/protocol/states.py into docs/protocol.md, in place of the diagrams that are there.

python scripts/diagrams.py
"""

from __future__ import annotations

import re
from pathlib import Path

from drom_net.protocol.states import PEER_STEPS, REDUCER_STEPS, WORKER_STEPS, diagram

PAGE = Path(__file__).resolve().parents[1] / "docs" / "protocol.md"


def drawn(page: str) -> str:
    """The page with its three diagrams, of worker, reducer and peer, drawn anew."""
    tables = iter((WORKER_STEPS, REDUCER_STEPS, PEER_STEPS))
    return re.sub(r"```mermaid\n.*?\n```", lambda _: f"```mermaid\n{diagram(next(tables))}\n```", page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
