"""What one cell says: a number, a day, words, and how it is shown in a message."""

from __future__ import annotations

import datetime
import math
import re
import zlib
from functools import lru_cache

import numpy as np

from drom_net.data.faults import parse_number, quoted

LARGEST_NUMBER = 1e100
"""Beyond it squares are no longer finite."""

MISSING = frozenset(
    ["", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "<NA>", "NULL", "null", "None", "#N/A", "#NA", "?"]
)
"""How tables write a missing value, as pandas does; `data.missing` adds to them."""

YES = frozenset(
    [
        *("true", "t", "yes", "y", "1", "on", "wahr", "ja", "j", "vrai", "oui", "verdadero", "sí", "si", "vero"),
        *("sim", "verdadeiro", "waar", "tak", "prawda", "positive", "positiv", "positif", "pos"),
    ]
)
NO = frozenset(
    [
        *("false", "f", "no", "n", "0", "-1", "off", "falsch", "nein", "faux", "non", "falso", "não", "nao"),
        *("onwaar", "nee", "nie", "fałsz", "negative", "negativ", "négatif", "neg"),
    ]
)
"""Words for yes and no, in lower case."""

_DAY_S = 86_400.0
HALF = math.sqrt(0.5)
EPOCH = datetime.datetime(1970, 1, 1)
WORD = re.compile(r"\b\w\w+\b")
_WHOLE = re.compile(r"[+-]?\d+\.0+")


class CellError(ValueError):
    """A cell that its column cannot have."""

    def __init__(self, expected: str, got: str, column: str = "") -> None:
        self.expected, self.got, self.column = expected, got, column
        super().__init__(f"expected {expected}, got {got}")


@lru_cache(maxsize=1 << 16)
def hashed(what: str, places: int) -> tuple[int, float]:
    """(place, sign) of a word or level: z mod places, z being splitmix64's output for its CRC-32; minus where the
    highest bit of z is set."""
    z = (zlib.crc32(what.encode("utf-8", "surrogatepass")) + 1) * 0x9E3779B97F4A7C15 % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    z ^= z >> 31
    return z % places, -1.0 if z >> 63 else 1.0


GROUPED = "1,234.5"
NUMBER_FORMATS = (GROUPED, "1.234,5")
"""How numbers may be written beside 1234.5: what is between thousands, and before decimals."""
_UNIT = "(?:[$€£¥₹%]|kr|AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HUF|INR|JPY|KRW|MXN|NOK|NZD|PLN|RON|SEK|TRY|USD|ZAR)"
_MASS_AND_LENGTH = "kg mg µg μg mcg g lb lbs oz km cm mm µm m ft mi km/h mph m/s"
_VOLUME = "ml mL dl dL l L mg/dl mg/dL g/dl g/dL g/l g/L mmol/l mmol/L µmol/l mEq/L ppm ppb"
_TIME = "s ms sec min h hrs hours days weeks months years yrs bpm rpm Hz kHz MHz GHz"
_OTHERS = "°C °F bar mbar Pa hPa kPa MPa psi mmHg V mV kV mA W kW MW Wh kWh MWh kJ kcal kB MB GB %"
MEASURES = frozenset(" ".join((_MASS_AND_LENGTH, _VOLUME, _TIME, _OTHERS)).split(" "))
"""What may stand behind all numbers of a column; a currency may be left out in some cells."""
_BEHIND = f"(?:{_UNIT}|{'|'.join(map(re.escape, sorted(MEASURES)))})"
_BLANK = "[ \u00a0\u202f]?"
_WRITTEN = {
    format: re.compile(
        rf"(?P<loss>\()?(?P<before>{_UNIT})?{_BLANK}(?P<sign>[-+\u2212]?)(?P<between>{_UNIT})?{_BLANK}"
        rf"(?P<whole>[1-9][0-9]{{0,2}}(?P<mark>[{mark} '\u2019\u00a0\u202f])[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*|[0-9]*)"
        rf"(?:{decimal}(?P<part>[0-9]*))?{_BLANK}(?P<after>{_BEHIND})?(?(loss)\))"
    )
    for format, mark, decimal in ((GROUPED, ",", r"\."), ("1.234,5", ".", ","))
}


def written_number(text: str, format: str) -> tuple[float, str] | None:
    """A number as people write it, ``$5,341.25`` or ``86,0 kg``, and its currency, unit or percent sign; None for no
    such.

    Args:
        format: One of `NUMBER_FORMATS`. Blanks and apostrophes may be between thousands in both. In brackets a number
            is negative.
    """
    found = _WRITTEN[format].fullmatch(text.strip())
    if found is None or not (found["whole"] or found["part"]):
        return None
    units = [unit for unit in (found["before"], found["between"], found["after"]) if unit]
    if len(units) > 1:
        return None
    value = float(f"{re.sub('[^0-9]', '', found['whole']) or 0}.{found['part'] or 0}")
    negative = found["sign"] in ("-", "\u2212") or found["loss"] is not None
    return -value if negative else value, units[0] if units else ""


def number_of(cell: object, format: str = "") -> float:
    """A cell as a finite number.

    Args:
        format: Of texts, one of `NUMBER_FORMATS`; empty for 1234.5.

    Raises:
        CellError: It is none.
    """
    number: float | None
    if isinstance(cell, str):
        number = parse_number(cell)
        if format:
            written = written_number(cell, format)
            number = written[0] if written else None
    elif isinstance(cell, bool) or not isinstance(cell, int | float):
        number = None
    else:
        number = float(cell) if abs(cell) < LARGEST_NUMBER or isinstance(cell, float) else math.inf
    if number is None:
        expected = f"a number as {format}" if format else "a number"
        if isinstance(cell, str) and not format:
            fits = next((known for known in NUMBER_FORMATS if written_number(cell, known)), "")
            expected += f' such as 1234.5 (format: "{fits}" in data.columns reads this one)' if fits else ""
        raise CellError(expected, shown(cell))
    if not abs(number) <= LARGEST_NUMBER:
        raise CellError("a finite number" if math.isinf(number) else f"a number up to {LARGEST_NUMBER:g}", shown(cell))
    return number


def days_of(cell: object, format: str = "") -> float:
    """A date or time as days since 1970-01-01 (UTC where it says its zone).

    Raises:
        CellError: It is none.
    """
    moment: datetime.datetime | datetime.date | None = None
    try:
        if isinstance(cell, datetime.date):  # a datetime is one, too
            moment = cell
        elif isinstance(cell, str):
            text = cell.strip()
            moment = datetime.datetime.strptime(text, format) if format else datetime.datetime.fromisoformat(text)
        if isinstance(moment, datetime.datetime) and moment.tzinfo is not None:
            past = moment - EPOCH.replace(tzinfo=datetime.UTC)  # no date of the calendar is made: it may have none
        elif isinstance(moment, datetime.datetime):
            past = moment - EPOCH
        elif moment is not None:
            past = datetime.datetime(moment.year, moment.month, moment.day) - EPOCH
    except (ValueError, OverflowError):
        moment = None
    if moment is None:
        raise CellError(f"a date as {format}" if format else "a date (2024-12-31, 2024-12-31T23:59)", shown(cell))
    return past.days + (past.seconds + past.microseconds / 1e6) / _DAY_S


def plain_text(cell: object) -> str:
    """A level as text: " x " is "x", and 3.0 and "3.0" are "3"."""
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, float | np.floating):
        cell = repr(float(cell) + 0.0)
    text = str(cell).strip()
    return text.partition(".")[0] if _WHOLE.fullmatch(text) else text


def shown(value: object) -> str:
    """A value in a message."""
    if value is None or value == "":
        return "nothing (a missing value)"
    if isinstance(value, str):
        return quoted(value.strip())
    if isinstance(value, list | dict | bytes):
        return f"{'bytes' if isinstance(value, bytes) else type(value).__name__} of {len(value)}"
    return str(value)[:60]


def label_text(value: object) -> str:
    """A label or task name of any type as text: 3.0 and True are "3" and "1", a missing one is ""."""
    if isinstance(value, str):
        return value.strip()
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace").strip()
    if isinstance(value, bool | int | np.integer | np.bool_):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return "" if value != value else repr(float(value) + 0.0).removesuffix(".0")
    text = str(value)
    return "" if text in ("<NA>", "NaT") else text  # of pandas and NumPy
