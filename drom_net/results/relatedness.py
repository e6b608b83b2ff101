"""Which sites' models look alike (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drom_net.algorithms.features import Matrix
from drom_net.core.names import some_of

ALIKE = 0.5
"""Sites are one group while the mean cosine between the parts that are joined is at least this."""
SHOWN = 40
"""Of more sites some are compared, evenly over all."""
_NAMED = 6
"""Of a larger group only some are named."""


def cosines(models: Matrix) -> Matrix:
    """The cosine of each pair of rows, in [-1, 1], shape (m, m); 0 with a row that is zero.

    Args:
        models: A row a site, shape (m, d), finite.
    """
    most = np.abs(models).max(axis=1, keepdims=True, initial=0.0)
    rows = models / np.where(most > 0.0, most, 1.0)  # squares of very large numbers would not be finite
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows / np.where(lengths > 0.0, lengths, 1.0)
    return np.asarray(np.clip(rows @ rows.T, -1.0, 1.0))


def groups_of(similarity: Matrix, *, at_least: float = ALIKE) -> list[list[int]]:
    """Groups of sites by average linkage, each in the order of the sites, and so are the groups by their first.

    Args:
        similarity: Symmetric, shape (m, m).
        at_least: Where the joining of groups ends.
    """
    means = np.array(similarity, dtype=np.float64)
    np.fill_diagonal(means, -np.inf)
    members: dict[int, list[int]] = {site: [site] for site in range(len(means))}
    while len(members) > 1:
        first, second = sorted(divmod(int(np.argmax(means)), len(means)))
        if means[first, second] < at_least:
            break  # nor is any later joining's mean larger
        one, other = members.pop(first), members.pop(second)
        row = (len(one) * means[first] + len(other) * means[second]) / (len(one) + len(other))
        means[first], means[:, first] = row, row
        means[second], means[:, second], means[first, first] = -np.inf, -np.inf, -np.inf
        members[first] = one + other
    return sorted(map(sorted, members.values()))


def group_sentence(names: Sequence[str], groups: Sequence[Sequence[int]]) -> str:
    """The groups of more than one site, in words."""
    large = [group for group in groups if len(group) > 1]
    alone = len(groups) - len(large)
    if not large:
        return "No two sites' models are alike."
    members = ([names[site] for site in group] for group in large)
    listed = "; ".join(some_of(its, _NAMED if len(its) <= _NAMED else _NAMED - 1) for its in members)
    rest = f"; {alone} {'stands' if alone == 1 else 'stand'} alone" if alone else ""
    return f"{len(large)} {'group' if len(large) == 1 else 'groups'} of sites with models alike: {listed}{rest}."


@dataclass(frozen=True, slots=True)
class Related:
    """Which sites' models are alike."""

    names: Sequence[str]
    """Of the sites that are shown: group by group, within one in their order."""
    similarity: Matrix
    """Their cosines, in that order."""
    told: str
    """The groups in words."""
    shown: str
    """How many of all sites these are, in words."""


def spread_over(count: int, most: int = SHOWN) -> list[int]:
    """The places of so many of `count` sites at the most, evenly over all."""
    return [int(place) for place in np.unique(np.linspace(0, count - 1, min(count, most)).round())]


def related(names: Sequence[str], models: Matrix, num_sites: int | None = None) -> Related | None:
    """Group the sites by their own models; None where fewer than two have learned one.

    Args:
        models: A row for each name, zero where nothing was learned.
        num_sites: How many there are in all, where these are some of them.
    """
    learned = np.flatnonzero(models.any(axis=1)).tolist()
    if len(learned) < 2:
        return None
    some = [learned[place] for place in spread_over(len(learned))]
    similarity = cosines(models[some])
    groups = groups_of(similarity)
    order = [site for group in groups for site in group]
    of_these = [names[site] for site in some]
    all_sites = num_sites or len(names)
    shown = f"{len(some)} of {all_sites} sites" if len(some) < all_sites else "all sites"
    told = group_sentence(of_these, groups)
    return Related([of_these[site] for site in order], similarity[np.ix_(order, order)], told, shown)
