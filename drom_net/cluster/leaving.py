"""How many rows of each site others can compute: what `drom-net audit` counts, but from who sends when, and no run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.learner import AsARule
from drom_net.algorithms.ridge import EXACT
from drom_net.algorithms.sums import TRIMMED_FROM
from drom_net.cluster.audit import NEIGHBOR, OTHER, REDUCER
from drom_net.cluster.plan import PeerGraph, about_config, algorithm_of
from drom_net.cluster.prepare import Prepared
from drom_net.config.model import what_leaves
from drom_net.core.names import some_of
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


class Ranges(NamedTuple):
    """Some of a site's examples, by their number in the order of learning, from 0; those without a label have none."""

    first: Places
    """Where each range begins, and"""
    stop: Places
    """the first one behind it."""


class _Site:
    """One site's examples that are learned, without a list of all of the run's: it may be many passes."""

    def __init__(self, stream: TaskStream, last: int) -> None:
        self.last, self._stream = last, stream
        """Its last round."""
        spread_over, self._passed_over = stream.spread_over, False
        rows: Places = np.arange(len(stream.labels))
        if spread_over is not None and spread_over < stream.num_examples:  # more examples than rounds
            self._passed_over = True
            rows = np.arange(last) * stream.num_examples // spread_over % len(rows)
        learned = stream.labels[rows] != 0.0
        self._before = np.concatenate([[0], np.cumsum(learned)])
        """How many of the first k examples of a pass are learned, shape (n + 1,)."""
        self._order = rows[learned]
        """Which rows those are."""
        self.learned = int(self.learned_by(np.array([last]))[0])
        """How many examples in all."""

    def learned_by(self, rounds: Places) -> Places:
        """How many examples in the rounds up to each of these."""
        num, spread_over = self._stream.num_examples, self._stream.spread_over
        if spread_over is None or self._passed_over:
            came = np.minimum(rounds, min(self.last, num))
        else:
            came = np.minimum(rounds, spread_over) * num // spread_over
        passes, rest = np.divmod(came, max(1, len(self._before) - 1))
        found: Places = passes * self._before[-1] + self._before[rest]
        return found

    @property
    def num_rows(self) -> int:
        """How many different rows."""
        return int(np.count_nonzero(self._among(self._order[: self.learned])))

    def count(self, ranges: Ranges) -> int:
        """How many different rows there are in these; those of zeros alone say nothing."""
        length, kept = len(self._order), self._stream.rows
        widths = np.minimum(ranges.stop - ranges.first, length)
        if not widths.any():
            return 0
        first = ranges.first % length  # they may end in the next pass
        steps = np.bincount(first, minlength=2 * length + 1) - np.bincount(first + widths, minlength=2 * length + 1)
        within = np.cumsum(steps)[:-1].reshape(2, length).any(axis=0)
        says = np.diff(kept.indptr) > 0 if isinstance(kept, SparseRows) else kept.any(axis=1)
        return int(np.count_nonzero(self._among(self._order[within]) & says))

    def _among(self, rows: Places) -> Which:
        """By row of the site whether it is one of these."""
        found = np.zeros(len(self._stream.labels), dtype=np.bool_)
        found[rows] = True
        return found

    def are_of_length_1(self, count: int) -> bool:
        """Whether the rows of its first examples are."""
        rows = [self._stream.features(int(row)) for row in self._order[:count]]
        lengths = [np.linalg.norm(row if isinstance(row, np.ndarray) else row.values) for row in rows]
        return bool(np.allclose(lengths, 1.0, atol=1e-6))


class _Found(NamedTuple):
    """What is counted once."""

    readable: tuple[Readable, ...]
    rows: tuple[int, ...]
    """How many different rows of each site are learned."""


_FOUND: WeakKeyDictionary[Prepared, _Found] = WeakKeyDictionary()


def _found(prepared: Prepared) -> _Found:
    """All sites and sync rounds are looked at, so it is done once."""
    if (found := _FOUND.get(prepared)) is None:
        pairs = zip(prepared.streams, prepared.last_rounds, strict=True)
        sites = [_Site(*pair) for pair in pairs] if prepared.config.source is None else []
        rows = tuple(site.num_rows for site in sites)
        found = _FOUND[prepared] = _Found(tuple(_count(prepared, sites)), rows)
    return found


def readable(prepared: Prepared) -> tuple[Readable, ...]:
    """What each kind of onlooker can compute where everybody is there all the time; empty of live data, and of learners
    on which no attack is known."""
    return _found(prepared).readable


def _count(prepared: Prepared, sites: Sequence[_Site]) -> list[Readable]:
    if not sites:
        return []
    graph = prepared.graph
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
    syncs, split_by = algorithm.sync.up_to(prepared.rounds), _splits(prepared)
    found = [_total(REDUCER, sites, (_read(site, syncs, attacks.reads, split_by) for site in sites), attacks.reads)]
    reads = attacks.others_read
    if getattr(parameters, "robust", False) and len(sites) >= TRIMMED_FROM:
        reads = UNKNOWN
    return [*found, _total(OTHER, sites, _by_others(sites, syncs, reads, split_by), reads)]


def _splits(prepared: Prepared) -> AsARule | None:
    """When all numbers are sent, where pairs of rows can be taken apart with these; None where they cannot."""
    return prepared.config.algorithm.learner.as_a_rule if prepared.roster.dim <= EXACT else None


def _total(who: str, sites: Sequence[_Site], read: Iterable[Ranges], reads: Reads) -> Readable:
    if reads.rule == UNKNOWN.rule:
        return Readable(who, None)
    return Readable(who, tuple(site.count(its) for site, its in zip(sites, read, strict=True)), reads.bound)


def _told(site: _Site, syncs: Places) -> Ranges:
    """What is new in each of these sync rounds, as far as the site is still there."""
    stop = site.learned_by(syncs[: np.searchsorted(syncs, site.last, side="right")])
    return Ranges(np.concatenate([[0], stop[:-1]])[: len(stop)], stop)


def _read(
    site: _Site,
    syncs: Places,
    reads: Reads,
    split_by: AsARule | None,
    until: int | None = None,
    other: _Site | None = None,
) -> Ranges:
    """What who gets a site's contributions can read.

    Args:
        split_by: As `_splits` says.
        until: The last round in which it listens; by default that of the site.
        other: It is this site, which gets the sums of both: of two rows only while both learn alike.
    """
    if until is not None:
        syncs = syncs[: np.searchsorted(syncs, until, side="right")]
    first, stop = told = _told(site, syncs)
    counts = stop - first
    if reads.rule == ALL.rule:
        return told
    if reads.rule == BUT_THE_LAST.rule:
        return Ranges(first, np.maximum(first, np.minimum(stop, site.learned - 1)))
    if reads.rule not in (ALONE.rule, ALONE_OR_TWO.rule):
        return Ranges(first[:0], stop[:0])
    read: Which = counts == 1
    if reads.rule == ALONE.rule:  # of a model: who was idle has gone on from an average that nobody said it had
        read[1:] &= counts[:-1] > 0
    if reads.rule == ALONE_OR_TWO.rule and split_by is not None:
        alike_until = len(counts)
        if other is not None:
            its = _told(other, syncs[: len(counts)])
            alike = counts[: len(its.stop)] == its.stop - its.first
            alike_until = len(alike) if alike.all() else int(np.argmin(alike))
        pairs = _pairs(syncs[:alike_until], counts[:alike_until], split_by)
        read[[pair for pair in pairs if site.are_of_length_1(int(stop[pair]))]] = True
    return Ranges(first[read], stop[read])


def _pairs(syncs: Places, counts: Places, rule: AsARule) -> list[int]:
    """Of AdaDROM: the sync rounds of two rows, which follow from sums and sketch where all before are known."""
    found: list[int] = []
    two = np.flatnonzero(counts == 2)
    known = before = 0
    sent_last = 0.0
    for place in np.flatnonzero(counts[: two[-1] + 1]).tolist() if len(two) else ():
        count = int(counts[place])
        in_full = rule.is_due(known + count, sent_last)
        if count > 2 or (count == 2 and not (in_full and known)) or not (in_full or syncs[place] == before + 1):
            break
        if in_full:
            sent_last = known + count
        if count == 2:
            found.append(place)
        known, before = known + count, int(syncs[place])
    return found


def _by_others(sites: Sequence[_Site], syncs: Places, reads: Reads, split_by: AsARule | None) -> Iterator[Ranges]:
    """What other sites can read from totals without their own part: a row that no third site has added to."""
    if len(sites) == 2 and reads.rule == ALONE_OR_TWO.rule:
        for site, other in zip(sites, reversed(sites), strict=True):
            yield _read(site, syncs, reads, split_by, other.last, other)
        return
    active, live = np.zeros((2, len(syncs)), dtype=np.int64)
    for site in sites:
        first, stop = _told(site, syncs)
        active[: len(stop)] += stop > first
        live[: len(stop)] += 1
    hidden = (active > 2) | (live < 2)
    if reads.rule == ALL.rule:  # who has an example gets those of all others
        hidden = active < 2
    for site in sites:
        first, stop = _told(site, syncs)
        read = ~hidden[: len(stop)]
        if reads.rule != ALL.rule:
            read &= stop - first == 1
        yield Ranges(first[read], stop[read])


def _by_neighbors(sites: Sequence[_Site], graph: PeerGraph, reads: Reads, prepared: Prepared) -> Readable:
    """What neighbors can read: of a site that they hear alone, and whose neighbors are their own."""
    config, hoods = prepared.config, graph.neighborhoods
    algorithms = [algorithm_of(config, task) for task in range(len(sites))]
    is_full = all(len(hood.closed_neighborhood) == len(sites) for hood in hoods)
    along_tree = config.algorithm.learner.along_tree and not is_full
    same = len({algorithm.sync for algorithm in algorithms}) == 1 and len(graph.schedule.graphs) == 1
    if not same or not (is_full or along_tree) or hoods[0].scales is not None:
        return Readable(NEIGHBOR, None)
    syncs = algorithms[0].sync.up_to(prepared.rounds)
    found: list[Ranges] = []
    for site, hood in zip(sites, hoods, strict=True):
        next_to = (hood.tree if along_tree else hood.neighbors) or ()
        until = max((sites[other].last for other in next_to), default=0)
        # Of who passes on what others say, nothing has come along yet in the first sync round.
        heard = syncs[:1] if along_tree and len(next_to) > 1 else syncs
        found.append(_read(site, heard, reads, _splits(prepared), until))
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
    pairs = list(zip(found.rows, _found(prepared).rows, strict=True))
    bound = f"{found.bound} " if found.bound else ""
    if not any(found.rows):
        more = "" if found.bound in ("", "up to") else " that is guaranteed (`drom-net audit` may find some)"
        return f"{found.who} none{more}"
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
    told, (found, rows_of) = [], _found(prepared)
    known = [(each, each.rows) for each in found if each.rows is not None and _in_words(each, prepared)]
    for site, (name, rows) in enumerate(zip(prepared.roster.tasks, rows_of, strict=bool(known))):
        read, each = max(((its[site], each) for each, its in known), key=itemgetter(0), default=(0, None))
        if each is not None and read and read >= min(rows - 1, _NEARLY_ALL * rows):
            told.append(f"{quoted(name)} ({each.who} {'up to ' if each.bound == 'up to' else ''}{read:,} of {rows:,})")
    if not told or len(told) == len(prepared.roster.tasks):  # what a learner does to every site is no site's own matter
        return []
    hint = "leave such a site out, or put its rows together with those of another"
    return [f"others can compute all rows, or nearly all, of {some_of(told, _SITES_WARNED)}; {hint}"]


def about_prepared(prepared: Prepared) -> dict[str, Any]:
    """`about_config`, by one who sees the rows of all sites."""
    return about_config(prepared.config) | {"what_leaves": what_leaves_here(prepared)}
