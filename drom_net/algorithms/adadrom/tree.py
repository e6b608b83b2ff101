"""A peer along a spanning tree: each edge carries the sum of everything behind it, one edge farther each sync round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drom_net.algorithms.adadrom.exchange import is_due, num_sites, receive, sketch_of, sums_of
from drom_net.algorithms.adadrom.state import LAYOUT, AdaState, Tree, init_local
from drom_net.algorithms.base import IDLE, Contribution, ContributionKind, Reply, ReplyKind
from drom_net.algorithms.features import Block
from drom_net.algorithms.sums import (
    TRIMMED_FROM,
    WITH_EXTREMES,
    Whole,
    block_of,
    nothing,
    some_or_all,
    trimmed,
    with_extremes,
)


def init_of_tree(dim: int, recipients: int, layout: Sequence[int]) -> AdaState:
    """Before the first example.

    Args:
        recipients: How many neighbors it has along the tree.
    """
    state = init_local(dim)
    relay, told = ([np.zeros((recipients, rows, dim), dtype=np.int64) for rows in layout] for _ in range(2))
    state.tree = Tree(tuple([np.zeros((rows, dim), dtype=np.int64) for rows in layout]), tuple(relay), tuple(told))
    return state


def send_along(
    state: AdaState, neighborhood: Sequence[int], own: int, tree: Sequence[int], *, whole: bool
) -> tuple[AdaState, Contribution]:
    """To itself what it has come to, to a neighbor along the tree that and what others behind it have; idle without
    anything new.

    Args:
        whole: Whether all is told and not what has changed, as a neighbor may miss a word.
    """
    assert state.tree is not None
    if state.touched.any():
        everywhere = slice(None)
        sums, sketch = sums_of(state, everywhere), state.tree.mine[1]
        if is_due(state):
            sketch = sketch_of(state, everywhere)
        else:
            state.sending = state.sent
        state.tree.mine = (with_extremes(sums[None]) if len(state.tree.mine[0]) == WITH_EXTREMES else sums), sketch
    elif not state.tree.news and not (whole and any(part.any() for part in (*state.tree.mine, *state.tree.relay))):
        return state, IDLE
    mine, dim = state.tree.mine, len(state.touched)
    blocks: list[Block] = []
    for task in neighborhood:
        place = tree.index(task) if task in tree else -1
        for part, relay, told in zip(mine, state.tree.relay, state.tree.told, strict=True):
            if task == own:
                blocks.append(block_of(slice(None), part, dim))
            elif place < 0:
                blocks.append(nothing(len(part), dim))
            else:
                blocks.append(_news(_joined(part, relay, place), told[place], whole=whole))
    return state, Contribution(ContributionKind.VECTORS, tuple(blocks))


def _joined(mine: Whole, relay: Whole, place: int) -> Whole:
    """What to tell one of n neighbors: what it has come to itself, and others but the listener; shape (r, d)."""
    other = relay[place]
    if len(mine) == WITH_EXTREMES:
        return with_extremes(np.stack((mine, other)[: len(relay)]))  # zeros would count as those of a site
    joined: Whole = mine + other
    return joined


def _news(values: Whole, told: Whole, *, whole: bool) -> Block:
    """What of some vectors, shape (r, d), is new."""
    at = slice(None) if whole else some_or_all((values != told).any(axis=0), len(values))
    return block_of(at, values[:, at], values.shape[1])


def receive_along(state: AdaState, reply: Reply, t: int) -> AdaState:
    """Take the totals, and what to pass on."""
    if reply.kind is not ReplyKind.VECTORS:
        return state
    tree = state.tree
    assert tree is not None
    for part, relay, told in zip(tree.mine, tree.relay, tree.told, strict=True):
        for place in range(len(told)):
            told[place] = _joined(part, relay, place)
    (sums, sketch), relays = reply.vectors[: len(LAYOUT)], reply.vectors[len(LAYOUT) :]
    before = tree.relay
    tree.relay = tuple([block.reshape(old.shape).copy() for block, old in zip(relays, before, strict=True)])
    tree.news = any((new != old).any() for new, old in zip(tree.relay, before, strict=True))
    if len(sums) == WITH_EXTREMES:
        sums = trimmed(sums) if num_sites(state, sketch) >= TRIMMED_FROM else sums[:2]
    same = (sketch == state.totals[1]).all()
    return receive(state, Reply(ReplyKind.VECTORS, (sums, nothing(*sketch.shape) if same else sketch)), t)
