"""Every exception of the package, as one small tree that says whose fault it is.

Each class carries the exit code the command line ends with.
"""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with what the user gave us."""

    place: str
    """Where: ``configs/a.yaml:12: data.label`` or ``site-3.csv:17, column "age"``."""
    expected: str
    got: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.place}: expected {self.expected}, got {self.got}"
        return f"{text}; {self.hint}" if self.hint else text


def did_you_mean(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """``did you mean "label"?`` for a near miss (of this similarity, up to 1), or an empty string."""
    names = list(known)
    for name in names:
        if name != word and _look(name) == _look(word):  # an accent in one character or two, an invisible one
            there, here = (text.encode("unicode_escape").decode() for text in (name, word))
            return f'"{name}" looks alike in other Unicode characters: {there} there, {here} here'
    near = get_close_matches(word, names, n=1, cutoff=cutoff)
    return f'did you mean "{near[0]}"?' if near else ""


def _look(text: str) -> str:
    """The same for texts that nobody can tell apart."""
    seen = (char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")
    return " ".join("".join(seen).split())


@contextlib.contextmanager
def naming(path: object) -> Iterator[None]:
    """Calls on open files fail without saying of which file: an OSError in here names this one."""
    try:
        yield
    except OSError as error:
        why = error.strerror or f"not all of it could be written ({error})"
        raise OSError(error.errno, why, str(path)) from error


class DromNetError(Exception):
    """Something went wrong that one message can explain; no traceback is shown."""

    exit_code = 1


class InputError(DromNetError):
    """The user's input is wrong: all problems that were found, at once."""

    exit_code = 2

    def __init__(self, problems: Iterable[Problem], *, omitted: int = 0) -> None:
        """
        Args:
            omitted: How many more were found that are not among `problems`.
        """
        self.problems, self.omitted = tuple(problems), omitted
        lines = [str(problem) for problem in self.problems]
        super().__init__("\n".join([*lines, f"and {omitted} more"] if omitted else lines))


class ConfigError(InputError):
    """A YAML file, an override or an option is wrong."""


class DataError(InputError):
    """A data file is wrong."""


class UsageError(DromNetError):
    """A command cannot be carried out as it was asked: a folder is in use, a package is missing."""

    exit_code = 2


class CheckpointError(DromNetError):
    """A node cannot go on from what is in its folder: it is damaged, of another run, or of a later version."""

    exit_code = 2


class DownloadError(DromNetError):
    """A file could not be fetched from its publisher, or is not what it should be."""


class LearnerError(DromNetError):
    """A learner does not do what `algorithms.base.Algorithm` says."""


class DivergedError(DromNetError):
    """The learner left the finite numbers; its parameters do not suit the data."""


class NodeFailedError(DromNetError):
    """A process of this cluster ended with an error; the message names it."""

    def __init__(self, text: str, *, was_killed: bool = False) -> None:
        """
        Args:
            was_killed: It did nothing wrong itself: it was killed by a signal, or has lost one that was.
        """
        self.was_killed = was_killed
        super().__init__(text)


class StoppedError(DromNetError):
    """The user ended a command before it had anything to show; the exit code is that of the signal."""

    def __init__(self, text: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(text)


class RemoteError(DromNetError):
    """The other side broke the protocol: bytes or fields that must not be."""


class RejectedError(DromNetError):
    """The cluster does not let this node in."""

    exit_code = 3


class ClusterError(DromNetError):
    """The network or a node that we need is gone."""

    exit_code = 4
