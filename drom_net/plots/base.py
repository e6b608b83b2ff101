"""What all pictures share: a file that can be written, and matplotlib, which only drawing needs."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from drom_net.core.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend


FORMATS = (".png", ".svg")
EDGE, FILL, RIM, TEXT = "0.35", "0.93", "0.15", "0.1"  # grey, as a printer sees it
NAME_LIMIT = 16
PRINT_DPI = 300


def check_plot_file(path: Path) -> None:
    """Refuse what could not be written, before anything is computed for it.

    Raises:
        UsageError: matplotlib is missing, the suffix is none of `FORMATS`, or nothing can be written there.
    """
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path}: expected a name that ends in {' or '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path} cannot be written")
    require_matplotlib()


def require_matplotlib() -> None:
    """
    Raises:
        UsageError: It is missing.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("pictures need matplotlib: pip install 'drom-net[plots]'") from None


def as_plain_text(legend: Legend) -> None:
    """Take its labels as they are: a name may have ``$`` in it, and is no formula."""
    for text in legend.get_texts():
        text.set_parse_math(False)


def save(figure: Figure, path: Path, *, dpi: int = 150) -> None:
    """Write a figure, the same bytes for the same picture."""
    from matplotlib import rc_context

    svg = path.suffix.lower() == ".svg"
    with rc_context({"svg.hashsalt": "drom-net"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # names may have letters that no font has
        figure.savefig(path, dpi=dpi, metadata={"Date": None} if svg else {"Software": None})


def inline_svg(draw: Callable[[Path], None], *, name: str) -> str:
    """What `draw` draws into a file, as an element of an HTML page; its text stays text.

    What is around it says what it shows, for who does not see it.

    Args:
        name: Put before the ids of its parts, as a page may have several pictures.
    """
    from matplotlib import rc_context

    with tempfile.TemporaryDirectory() as folder, rc_context({"svg.fonttype": "none"}):
        path = Path(folder) / "picture.svg"
        draw(path)
        text = path.read_text(encoding="utf-8")
    body = text[text.index("<svg") :].strip()
    head, _, rest = body.partition(">")
    view = re.search(r'viewBox="[^"]*"', head)
    assert view is not None  # matplotlib writes one
    width = float(view[0].split()[2])
    rest = re.sub(r"<metadata>.*?</metadata>", "", rest, flags=re.DOTALL)
    rest = re.sub(r'\b(id="|xlink:href="#|url\(#)', lambda match: f"{match[1]}{name}-", rest)
    namespaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return f'<svg {namespaces} {view[0]} style="--wide:{width:.0f}pt" aria-hidden="true">{rest}'
