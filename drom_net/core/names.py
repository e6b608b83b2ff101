"""Names of tasks: any text for people, and of each a safe form for files, addresses and metrics; some in a sentence."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

LONGEST = 200
"""Characters of a name."""
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RESERVED = re.compile(r"reducer|(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
"""Of our own reducer, and of devices, which Windows finds in every folder."""
_PART, _MARK = 55, 8
"""Characters of a name, and of its hash, in the safe form of one that is not safe itself."""


def some_of(items: Sequence[Any], limit: int = 8, shown: Callable[[Any], str] = str, *, between: str = ", ") -> str:
    """The first of these, and how many more there are: ``a, b and 3 more``."""
    more = len(items) - limit
    return between.join(map(shown, items[:limit])) + (f" and {more:,} more" if more > 0 else "")


def tidy(text: str) -> str:
    """The name that a text stands for: without white space around it, and one blank for each run of it inside."""
    return " ".join(text.split())


def is_name(text: str) -> bool:
    """Whether a task may be called so: tidy, neither empty nor longer than `LONGEST`, without control characters."""
    if not 0 < len(text) <= LONGEST or text != tidy(text):
        return False
    return not any(unicodedata.category(char) in ("Cc", "Cs") for char in text)


def safe_name(name: str) -> str:
    """A name for files and addresses: itself, or ``ascii-part-12ab34cd`` with a hash of the whole name.

    1 to 64 ASCII letters, digits, '.', '_' and '-', the first one a letter or digit; never `reducer` or a device of
    Windows in any case.
    """
    return _form(name, 0)


def safe_names(names: Sequence[str]) -> tuple[str, ...]:
    """The safe form of each task's name, all different also where case does not count, and none another task's name.

    They are those of `safe_name` but for names that would meet: of "a" and "A" both get a hash.

    Args:
        names: Of all tasks, different; every node knows them, and so finds the same forms.
    """
    return _safe_names(tuple(names))


@lru_cache(maxsize=8)
def _safe_names(names: tuple[str, ...]) -> tuple[str, ...]:
    salts = dict.fromkeys(names, 0)
    while True:
        forms = {name: _form(name, salt) for name, salt in salts.items()}
        users = Counter(form.lower() for form in forms.values())
        meeting = [name for name, form in forms.items() if users[form.lower()] > 1 or (form != name and form in forms)]
        if not meeting:
            return tuple(forms[name] for name in names)
        for name in meeting:
            salts[name] += 1


def _form(name: str, salt: int) -> str:
    """The safe form; another one for each `salt`, of which 0 leaves a safe name as it is."""
    if _SAFE.fullmatch(name) and not _RESERVED.fullmatch(name):
        if not salt:
            return name
        salt -= 1
    # By the tables of Unicode 3.2, which are the same in every Python: hosts must agree.
    ascii_part = unicodedata.ucd_3_2_0.normalize("NFKD", name).encode("ascii", "ignore").decode()
    words = re.sub("[^A-Za-z0-9_]+", "-", ascii_part).strip("-_")[:_PART].rstrip("-_")
    mark = hashlib.sha256((name + "\0" * salt).encode("utf-8", "surrogatepass")).hexdigest()[:_MARK]
    return f"{words or 'task'}-{mark}"
