"""Which columns of tables may be the label, and which the site of each row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from drom_net.cluster.drafting import Tables
from drom_net.core.names import some_of
from drom_net.data.columns import CATEGORY, Schema
from drom_net.data.faults import quoted
from drom_net.data.labels import means_none, plain_label
from drom_net.data.tables import Texts, as_texts, counts

_LABEL_NAMES = re.compile(r"(?i)label|labels|target|class|outcome|y")
_SITE_NAMES = re.compile(
    r"(?i)(site|task|hospital|clinic|ward|shop|store|branch|plant|station|location|cent(er|re)|desk|mailbox|device|machine)"
    r"([ _]?(id|nr|name))?"
)
_MOST_SITES, _MOST_NUMBERED_SITES = 1000, 100


def label_candidates(found: Tables, unlabelled: Sequence[str] = ()) -> tuple[dict[str, str], dict[str, str]]:
    """Columns with two kinds of cells, and those with three, each with what they are; those that are called so first.

    Args:
        unlabelled: Cells that do not count.
    """
    candidates: dict[int, dict[str, str]] = {2: {}, 3: {}}
    for name in found.names:
        total = _total(found, name)
        spellings = _spellings(total, unlabelled)
        if (kinds := len(spellings)) in candidates:
            often = sorted((text for its in spellings for text in its), key=lambda text: -total[text])
            *first, last = [f"{quoted(text)} {total[text]:,}" for text in often[: kinds + 1]]
            candidates[kinds][name] = f"{', '.join(first)} and {last}"
    return _named_first(candidates[2], _LABEL_NAMES), _named_first(candidates[3], _LABEL_NAMES)


def label_spellings(found: Tables, name: str, unlabelled: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """The labels of a column, each as all of its spellings, the most frequent label first."""
    return _spellings(_total(found, name), unlabelled)


def _spellings(total: Counter[str], unlabelled: Sequence[str]) -> list[tuple[str, ...]]:
    spellings: dict[str, list[str]] = {}
    for text, _ in total.most_common():
        if not means_none(text, unlabelled):
            spellings.setdefault(plain_label(text).casefold(), []).append(text)
    return sorted(map(tuple, spellings.values()), key=lambda its: -sum(total[text] for text in its))


def site_candidates(found: Tables, label: str) -> dict[str, str]:
    """Columns whose cells come often enough to be sites, each with what they are."""
    candidates = {}
    for name in found.names:
        if name == label:
            continue
        total = _total(found, name)
        # Numbers may be sites, but measurements are none.
        if not all(isinstance(table.cells.get(name), Texts) for table in found.tables) and (
            len(total) > _MOST_NUMBERED_SITES or not all(text.isdigit() for text in total)
        ):
            continue
        if 2 <= len(total) <= _MOST_SITES and total.total() >= 5 * len(total):
            candidates[name] = some_of([f"{quoted(text)} {count:,}" for text, count in total.most_common()], 3)
    return _named_first(candidates, _SITE_NAMES)


def _named_first(candidates: dict[str, str], names: re.Pattern[str]) -> dict[str, str]:
    return {name: told for name, told in candidates.items() if names.fullmatch(name)} | candidates


def site_columns(schema: Schema | None) -> list[str]:
    """The columns of features that could be the site: those that are called so, else the first categories."""
    columns = () if schema is None else schema.used
    named = [column.name for column in columns if _SITE_NAMES.fullmatch(column.name)]
    return named or [column.name for column in columns if column.kind == CATEGORY and len(column.levels) > 1][:3]


def called_so(candidates: dict[str, str], *, site: bool) -> str:
    """The only candidate whose name says what it is; empty for none, or several."""
    named = [name for name in candidates if (_SITE_NAMES if site else _LABEL_NAMES).fullmatch(name)]
    return named[0] if len(named) == 1 else ""


def _total(found: Tables, name: str) -> Counter[str]:
    total = sum((counts(as_texts(table.cells[name])) for table in found.tables if name in table.cells), Counter[str]())
    total.pop("", None)
    return total
