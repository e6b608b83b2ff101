"""How many rows of each site others can compute: what `drom-net audit` counts, but from who sends when, and no run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.adadrom.state import AGAIN
from drom_net.algorithms.base import SyncRounds
from drom_net.algorithms.ridge import EXACT
from drom_net.algorithms.sums import TRIMMED_FROM
from drom_net.cluster.audit import NEIGHBOR, OTHER, REDUCER
from drom_net.cluster.plan import PeerGraph, about_run, algorithm_of
from drom_net.cluster.prepare import Prepared
from drom_net.config.model import what_leaves
from drom_net.data.faults import quoted
from drom_net.data.stream import SparseRows, TaskStream
from drom_net.results.attacks import ALL, ALONE, ALONE_OR_TWO, BUT_THE_LAST, UNKNOWN, Reads, attacks_on

_SITES_TOLD = 5
_NEARLY_ALL, _SITES_WARNED = 0.9, 3

Places = npt.NDArray[np.int64]
Which = npt.NDArray[np.bool_]


class Readable(NamedTuple):
    """What one kind of onlooker can compute of each site."""

    who: str
    rows: tuple[int, ...] | None
    """So many rows of each; None where they depend on more than who sends when."""
    bound: str = ""
    """What the numbers are: at least, up to, or empty for exactly so many."""


@dataclass(frozen=True, slots=True)
class _Site:
    """One site's rows that are learned, in the order of learning."""

    stream: TaskStream
    last: int
    """Its last round."""
    rounds: Places
    """In which a row is learned."""
    rows: Places
    """Which row that is."""

    @classmethod
    def of(cls, stream: TaskStream, last: int) -> _Site:
        rounds, own = np.arange(1, last + 1), len(stream.labels)
        rows, there = (rounds - 1) % max(own, 1), np.ones(last, dtype=np.bool_)
        if stream.spread_over is not None:
            before = (rounds - 1) * stream.num_examples // stream.spread_over
            there = rounds * stream.num_examples // stream.spread_over > before
            rows = before % max(own, 1)
        if last:
            there &= stream.labels[rows] != 0.0
        return cls(stream, last, rounds[there], rows[there])

    @property
    def num_rows(self) -> int:
        return len(np.unique(self.rows))

    def count(self, read: Which) -> int:
        """How many different rows there are in the rounds that are marked; those of zeros alone say nothing."""
        rows, kept = np.unique(self.rows[read]), self.stream.rows
        if isinstance(kept, SparseRows):
            return int(np.count_nonzero(np.diff(kept.indptr)[rows]))
        return int(np.count_nonzero(kept[rows].any(axis=1)))

    def are_of_length_1(self, count: int) -> bool:
        """Whether the first rows are."""
        rows = [self.stream.features(int(row)) for row in self.rows[:count]]
        lengths = [np.linalg.norm(row if isinstance(row, np.ndarray) else row.values) for row in rows]
        return bool(np.allclose(lengths, 1.0, atol=1e-6))


def rows_of(prepared: Prepared) -> list[int]:
    """How many different rows of each site are learned."""
    return [site.num_rows for site in _sites(prepared)]


def _sites(prepared: Prepared) -> list[_Site]:
    return [_Site.of(*pair) for pair in zip(prepared.streams, prepared.last_rounds, strict=True)]


def readable(prepared: Prepared) -> list[Readable]:
    """What each kind of onlooker can compute where everybody is there all the time; empty of live data, and of learners
    on which no attack is known."""
    if prepared.config.source is not None:
        return []
    sites, graph = _sites(prepared), prepared.graph
    kinds = (REDUCER, OTHER) if graph is None else (NEIGHBOR, OTHER)
    parameters = prepared.config.algorithm.parameters
    algorithm = algorithm_of(prepared.config, 0)
    if not algorithm.exchange.contribution:
        return [Readable(who, (0,) * len(sites)) for who in kinds]
    attacks = attacks_on(parameters)
    if attacks.on_contributions is None:
        return []
    if graph is not None:
        return [_by_neighbors(sites, graph, attacks.reads, prepared), Readable(OTHER, None)]
    syncs = sync_rounds(algorithm.sync, prepared.rounds)
    may_split = prepared.roster.dim <= EXACT
    found = [_total(REDUCER, sites, [_read(site, syncs, attacks.reads, may_split) for site in sites], attacks.reads)]
    reads = attacks.others_read
    if getattr(parameters, "robust", False) and len(sites) >= TRIMMED_FROM:
        reads = UNKNOWN
    return [*found, _total(OTHER, sites, _by_others(sites, syncs, reads, may_split), reads)]


def _total(who: str, sites: Sequence[_Site], read: Sequence[Which], reads: Reads) -> Readable:
    if reads.rule == UNKNOWN.rule:
        return Readable(who, None)
    return Readable(who, tuple(site.count(its) for site, its in zip(sites, read, strict=True)), reads.bound)


def sync_rounds(sync: SyncRounds, last: int) -> Places:
    """All up to a round."""
    if not sync.growing:
        return np.arange(sync.tau, last + 1, sync.tau)
    found, t = [], sync.next(1)
    while t <= last:
        found.append(t)
        t = sync.next(t + 1)
    return np.array(found, dtype=np.int64)


def _sent(site: _Site, syncs: Places) -> tuple[Places, Places]:
    """(by learned round, with which sync round it is told, `len(syncs)` for none; how many with each of them)."""
    place = np.searchsorted(syncs, site.rounds)
    return place, np.bincount(place, minlength=len(syncs) + 1)


def _read(
    site: _Site, syncs: Places, reads: Reads, may_split: bool, until: int | None = None, other: _Site | None = None
) -> Which:
    """What who gets a site's contributions can read.

    Args:
        until: The last round in which it listens; by default that of the site.
        other: It is this site, which gets the sums of both: of two rows only while both learn alike.
    """
    syncs = syncs[syncs <= min(site.last, site.last if until is None else until)]
    place, counts = _sent(site, syncs)
    told: Which = place < len(syncs)
    if reads.rule == ALL.rule:
        return told
    if reads.rule == BUT_THE_LAST.rule:
        told &= site.rounds < site.rounds.max(initial=0)
        return told
    if reads.rule not in (ALONE.rule, ALONE_OR_TWO.rule):
        return np.zeros(len(place), dtype=np.bool_)
    read: Which = told & (counts[place] == 1)
    if reads.rule == ALONE.rule:  # of a model: who was idle has gone on from an average that nobody said it had
        read &= (place == 0) | (counts[place - 1] > 0)
    if reads.rule == ALONE_OR_TWO.rule and may_split:
        alike = counts[:-1] == (counts if other is None else _sent(other, syncs)[1])[:-1]
        alike_until = len(alike) if alike.all() else int(np.argmin(alike))
        pairs = _pairs(syncs[:alike_until], counts[:alike_until])
        pairs = [pair for pair in pairs if site.are_of_length_1(int(counts[: pair + 1].sum()))]
        read |= np.isin(place, pairs)
    return read


def _pairs(syncs: Places, counts: Places) -> list[int]:
    """Of AdaDROM: the sync rounds of two rows, which follow from sums and sketch where all before are known."""
    found: list[int] = []
    known = before = 0
    sketched = 0.0
    for place in np.flatnonzero(counts).tolist():
        count = int(counts[place])
        told_again = known + count >= AGAIN * sketched
        if count > 2 or (count == 2 and not (told_again and known)) or not (told_again or syncs[place] == before + 1):
            break
        if told_again:
            sketched = known + count
        if count == 2:
            found.append(place)
        known, before = known + count, int(syncs[place])
    return found


def _by_others(sites: Sequence[_Site], syncs: Places, reads: Reads, may_split: bool) -> list[Which]:
    """What other sites can read from totals without their own part: a row that no third site has added to."""
    if len(sites) == 2 and reads.rule == ALONE_OR_TWO.rule:
        pairs = zip(sites, reversed(sites), strict=True)
        return [_read(site, syncs, reads, may_split, other.last, other) for site, other in pairs]
    parts = [_sent(site, syncs[syncs <= site.last]) for site in sites]
    active = np.zeros(len(syncs), dtype=np.int64)
    live = np.zeros(len(syncs), dtype=np.int64)
    for _, counts in parts:
        active[: len(counts) - 1] += counts[:-1] > 0
        live[: len(counts) - 1] += 1
    hidden = np.append((active > 2) | (live < 2), True)
    if reads.rule == ALL.rule:  # who has an example gets those of all others
        hidden = np.append(active < 2, True)
    found = []
    for place, counts in parts:
        place = np.where(place < len(counts) - 1, place, len(syncs))
        alone = np.append(counts[:-1], np.zeros(len(syncs) + 2 - len(counts), dtype=np.int64)) == 1
        found.append((alone[place] | (reads.rule == ALL.rule)) & ~hidden[place])
    return found


def _by_neighbors(sites: Sequence[_Site], graph: PeerGraph, reads: Reads, prepared: Prepared) -> Readable:
    """What neighbors can read: of a site that they hear alone, and whose neighbors are their own."""
    config, hoods = prepared.config, graph.neighborhoods
    algorithms = [algorithm_of(config, task) for task in range(len(sites))]
    is_full = all(len(hood.closed_neighborhood) == len(sites) for hood in hoods)
    along_tree = config.algorithm.learner.along_tree and not is_full
    same = len({algorithm.sync for algorithm in algorithms}) == 1 and len(graph.schedule.graphs) == 1
    if not same or not (is_full or along_tree) or hoods[0].scales is not None:
        return Readable(NEIGHBOR, None)
    syncs = sync_rounds(algorithms[0].sync, prepared.rounds)
    may_split, found = prepared.roster.dim <= EXACT, []
    for site, hood in zip(sites, hoods, strict=True):
        next_to = (hood.tree if along_tree else hood.neighbors) or ()
        until = max((sites[other].last for other in next_to), default=0)
        # Of who passes on what others say, nothing has come along yet in the first sync round.
        heard = syncs[:1] if along_tree and len(next_to) > 1 else syncs
        found.append(_read(site, heard, reads, may_split, until))
    return _total(NEIGHBOR, sites, found, reads)


# --- in words ----------------------------------------------------------------------------------------


def what_leaves_here(prepared: Prepared) -> str:
    """What others can compute, and of how many rows of these sites."""
    told = [text for each in readable(prepared) if (text := _in_words(each, prepared))]
    counts = f" Of the rows here: {'; '.join(told)}." if told else ""
    return what_leaves(prepared.config) + counts


def _in_words(found: Readable, prepared: Prepared) -> str:
    """``the reducer at least 10 of 90 of harbor, 10 of 240 of north``; empty where no number is known."""
    if found.rows is None or (prepared.graph is None and len(prepared.streams) == 1 and found.who == OTHER):
        return ""
    pairs = list(zip(found.rows, rows_of(prepared), strict=True))
    bound = f"{found.bound} " if found.bound else ""
    if not any(found.rows):
        return f"{found.who} none for certain" if bound else f"{found.who} none"
    if len(set(pairs)) == 1 and len(pairs) > 1:
        read, rows = pairs[0]
        return f"{found.who} {bound}{read} of the {rows} of each site"
    named = [f"{read} of {rows} of {name}" for (read, rows), name in zip(pairs, prepared.roster.tasks, strict=True)]
    if len(named) > _SITES_TOLD:
        total, rows = sum(found.rows), sum(rows for _, rows in pairs)
        if len({*found.rows}) == 1:
            return f"{found.who} {bound}{found.rows[0]} of each site ({total} of {rows} in all)"
        named[_SITES_TOLD:] = [f"and so on, {total} of {rows} in all"]
    return f"{found.who} {bound}{', '.join(named)}"


def exposed(prepared: Prepared) -> list[str]:
    """A warning that names the sites of whose rows others can compute nearly all, where it is not so of every site."""
    told, found = [], readable(prepared)
    known = [(each, each.rows) for each in found if each.rows is not None and _in_words(each, prepared)]
    for site, (name, rows) in enumerate(zip(prepared.roster.tasks, rows_of(prepared), strict=True)):
        read, each = max(((its[site], each) for each, its in known), key=itemgetter(0), default=(0, None))
        if each is not None and read and read >= min(rows - 1, _NEARLY_ALL * rows):
            told.append(f"{quoted(name)} ({each.who} {'up to ' if each.bound == 'up to' else ''}{read:,} of {rows:,})")
    if not told or len(told) == len(prepared.roster.tasks):  # what a learner does to every site is no site's own matter
        return []
    more = f" and {len(told) - _SITES_WARNED} more" if len(told) > _SITES_WARNED else ""
    hint = "leave such a site out, or put its rows together with those of another"
    return [f"others can compute all rows, or nearly all, of {', '.join(told[:_SITES_WARNED])}{more}; {hint}"]


def about_prepared(prepared: Prepared) -> dict[str, Any]:
    """`about_run`, by one who sees all rows."""
    return about_run(prepared.config) | {"what_leaves": what_leaves_here(prepared)}
