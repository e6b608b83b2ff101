"""What the `data` section of a YAML file may say, one dataclass for each kind of data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from drom_net.core.fields import (
    Choice,
    Columns,
    Endpoint,
    EndpointsOf,
    Flag,
    Integer,
    Number,
    PluginName,
    Text,
    TextList,
    TextOrTexts,
    option,
)
from drom_net.core.names import LONGEST, is_name, tidy
from drom_net.data.columns import NUMBER, Column, ColumnKinds, Schema, places_for
from drom_net.data.formats import file_formats, line_formats

NAME = Text("a name of letters, digits, '.', '_' and '-'", pattern=r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class TaskName(Text):
    """Any text that people can read as a name; white space is made tidy."""

    def parse(self, value: object) -> str:
        name = tidy(value) if isinstance(value, str) else ""
        if not is_name(name):
            raise ValueError
        return name

    def schema(self) -> dict[str, object]:
        return {"type": "string", "pattern": r"\S"}


TASK_NAME = TaskName(f"a name of 1 to {LONGEST} characters, none of them a control character")


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What every kind of data has: how its rows become a stream."""

    dataset: ClassVar[str]
    """Its name in the YAML file and in `DATA_SECTIONS`."""

    shuffle: bool = option(
        Flag(),
        True,
        doc="Put each task's examples in a random order, by `seed`.",
    )
    flip: float = option(
        Number(at_least=0.0, at_most=1.0),
        0.0,
        doc="The probability that a label is flipped before it is learned.",
    )
    alignment: str = option(
        Choice(("lockstep", "spread")),
        "lockstep",
        doc="lockstep gives round t each task's example t; spread deals each task's examples evenly over all rounds.",
    )
    passes: int = option(
        Integer(1, 1_000_000),
        1,
        doc="How often each task's examples come, in the same order with the same flips.",
    )
    pace_s: float = option(
        Number(at_least=0.0, at_most=1e6),
        0.0,
        doc="Simulated arrival: seconds that each example takes once its node is ready. Changes no result; may "
        "differ between sites.",
    )
    measure: str | None = option(
        Choice(("error", "auc", "log_loss")),
        None,
        doc="What `compare` goes by: error rate, mean AUC of the tasks or log loss. By default error, for "
        "landmine auc. Changes no run.",
    )


@dataclass(frozen=True, slots=True)
class RowSettings(StreamSettings):
    """What the user's own rows have in them, and what is done to each."""

    label: str = option(
        Text("a column name"),
        "label",
        doc="The label's column, JSON key or NPZ array (there y by default).",
    )
    positive: tuple[str, ...] | None = option(
        TextOrTexts(Text("a label")),
        None,
        doc="The label that is +1, or its spellings. By default the one that means yes, else the rarer one.",
    )
    negative: tuple[str, ...] | None = option(
        TextOrTexts(Text("a label")), None, doc="The label that is -1, or its spellings. By default the other one."
    )
    rest: str | None = option(Choice(("negative",)), None, doc="negative: every label not in data.positive is -1.")
    unlabelled: tuple[str, ...] | None = option(
        TextOrTexts(Text("a text in the label's column")),
        None,
        doc="Texts that are no label (unknown, pending): such rows are predicted, not learned.",
    )
    columns: tuple[Column, ...] | None = option(
        ColumnKinds(),
        None,
        doc="The feature columns in order, with their kinds (number, yes/no, category, date, time, text, or one "
        "that is left out) and levels, missing (whether values may be) and format. By default detected; nodes "
        "started by hand need it.",
    )
    missing: tuple[str, ...] = option(
        TextList(Text()), (), doc="Texts that mean a missing value, beside empty cells, NA, null and the like."
    )
    features: tuple[str, ...] | str | None = option(
        Columns(),
        None,
        doc="The feature columns in order (in a file one a line); others are left out. In live data all are numbers.",
    )
    dim: int | None = option(
        Integer(1, 2**31 - 1),
        None,
        doc="The number of features of rows without column names.",
    )
    hash: int | None = option(
        Integer(1, 2**31 - 1),
        None,
        doc="How many columns hashing folds into. Tables: words and unlisted levels, by default 4096 with text, "
        "else as needed. svmlight: all features; a power of two.",
    )
    zero_based: bool = option(Flag(), False, doc="svmlight: feature numbers start at 0, not 1.")
    delimiter: str | None = option(
        Text("one character", pattern=r"[\s\S]"), None, doc="CSV: the field separator. By default detected."
    )
    decimal: str | None = option(Choice((".", ",")), None, doc="CSV: the decimal separator. By default detected.")
    scaling: str | None = option(
        Choice(("running", "site", "none")),
        None,
        doc="How numbers are standardised: by the site's rows so far (running), by all its rows (site; looks "
        "ahead), or not. By default running; beside data.center or data.scale none.",
    )
    center: tuple[float, ...] | None = option(
        Columns(numbers=True), None, doc="A constant subtracted from each column of numbers first; not in sparse files."
    )
    scale: tuple[float, ...] | None = option(
        Columns(numbers=True), None, doc="A constant that each column of numbers is divided by."
    )
    normalize: bool = option(Flag(), True, doc="Scale each row to unit l2 norm; step sizes rely on it.")
    bias: float = option(Number(at_least=0.0), 1.0, doc="A constant last feature of this value; 0 is none.")

    @property
    def label_words(self) -> tuple[str, str]:
        """What the rows call -1 and +1; ("-1", "1") where that is not said."""
        if not self.positive:
            return "-1", "1"
        return self.negative[0] if self.negative else f"not {self.positive[0]}", self.positive[0]

    @property
    def no_label(self) -> tuple[str, ...]:
        """What means in the label's column that there is none, beside an empty cell and alike."""
        return (*self.missing, *(self.unlabelled or ()))

    @property
    def schema(self) -> Schema | None:
        """What the columns are, as far as the settings say it; None where they do not."""
        if self.columns is None:
            return None
        return Schema(self.columns, self.hash or places_for(self.columns), self.missing)


@dataclass(frozen=True, slots=True)
class FileData(RowSettings):
    """Your own files."""

    dataset: ClassVar[str] = "files"

    files: str = option(
        Text("a file name, or a pattern with {task}"),
        doc="One file a task, such as site-{task}.csv, or one with a task column.",
    )
    directory: str | None = option(
        Text("a folder"),
        None,
        doc="Where relative file names start. By default the folder of the YAML file.",
    )
    format: str | None = option(
        PluginName(tuple(file_formats())),
        None,
        doc="The format, where file names do not tell.",
    )
    encoding: str | None = option(
        Text("the name of an encoding"),
        None,
        doc="CSV: the text encoding. By default detected: UTF-8, UTF-16 or cp1252.",
    )
    tasks: tuple[str, ...] | None = option(
        TextList(TASK_NAME),
        None,
        doc="The task names in order. By default from file names or task column; nodes started by hand need them.",
    )
    task_column: str | None = option(
        Text("a column name"),
        None,
        doc="The column (array) of each row's task, where one file holds all tasks.",
    )
    ignore: tuple[str, ...] = option(TextList(Text("a column name")), (), doc="Columns to leave out.")
    order: str | None = option(
        Text("a column name"), None, doc="The time or number by which rows are learned. By default in file order."
    )
    # What comes first in a file came first: its order is that of learning.
    shuffle: bool = option(Flag(), False, doc="Put each task's rows in a random order, by `seed`.")


@dataclass(frozen=True, slots=True)
class LiveData(RowSettings):
    """Examples that arrive while the cluster runs, at each site from its `source`."""

    dataset: ClassVar[str] = "live"

    tasks: tuple[str, ...] = option(TextList(TASK_NAME), doc="The task names in order.")
    # They come once, in the order in which they come, as they are.
    shuffle: bool = field(default=False, init=False)
    flip: float = field(default=0.0, init=False)
    alignment: str = field(default="lockstep", init=False)
    passes: int = field(default=1, init=False)
    pace_s: float = field(default=0.0, init=False)

    @property
    def schema(self) -> Schema | None:
        """What the columns are; None for rows without names. Features without kinds are numbers."""
        columns = self.columns
        if columns is None:
            if not isinstance(self.features, tuple):
                return None
            columns = tuple(Column(name, NUMBER) for name in self.features)
        return Schema(columns, self.hash or places_for(columns), self.missing)


@dataclass(frozen=True, slots=True)
class DigitsSites(StreamSettings):
    """Scikit-learn's handwritten digits at 12 sites, each with a scanner of its own: odd (+1) or even."""

    dataset: ClassVar[str] = "digits-sites"


@dataclass(frozen=True, slots=True)
class Synthetic(StreamSettings):
    """Related linear tasks, made from a seed."""

    dataset: ClassVar[str] = "synthetic"

    tasks: int = option(Integer(1, 100_000), 12, doc="The number of tasks, m.")
    examples: int = option(Integer(1, 10_000_000), 200, doc="The number of examples of each task.")
    dim: int = option(Integer(1, 10_000_000), 60, doc="The number of features, d.")
    rank: int = option(Integer(1, 100_000), 2, doc="The rank of the part that tasks share.")
    noise: float = option(
        Number(at_least=0.0, at_most=1.0),
        0.1,
        doc="The share of each task's squared weight norm that is its own.",
    )
    data_seed: int = option(Integer(0), 0, doc="The seed of the data; `seed` only orders it.")


@dataclass(frozen=True, slots=True)
class SpamPu(StreamSettings):
    """PU1, PU2, PU3 and PUA, mail of four users: spam (+1) or not."""

    dataset: ClassVar[str] = "spam-pu"

    features: str = option(
        Choice(("frequency", "weka")),
        "frequency",
        doc="The 1,458 words of highest document frequency, or the 1,450 that Weka's StringToWordVector keeps.",
    )


@dataclass(frozen=True, slots=True)
class Mhci(StreamSettings):
    """Peptides and 12 MHC class I molecules: a binder (+1) or not."""

    dataset: ClassVar[str] = "mhci"

    features: str = option(
        Choice(("dipeptides", "one-hot")),
        "dipeptides",
        doc="Counts of the 400 pairs of adjacent residues, or the residue at each of 9 positions (180).",
    )


@dataclass(frozen=True, slots=True)
class Jester(StreamSettings):
    """Ratings of 100 jokes by 30 people: liked (+1) or not."""

    dataset: ClassVar[str] = "jester"


@dataclass(frozen=True, slots=True)
class MovieLens(StreamSettings):
    """Ratings of films by 30 people (MovieLens 1M): liked (+1) or not."""

    dataset: ClassVar[str] = "movielens"


@dataclass(frozen=True, slots=True)
class EachMovie(StreamSettings):
    """Votes on films by 30 people, for who has the files: liked (+1) or not."""

    dataset: ClassVar[str] = "eachmovie"


@dataclass(frozen=True, slots=True)
class SpamEcml2006(StreamSettings):
    """Mail of 15 users (ECML/PKDD 2006): spam (+1) or not."""

    dataset: ClassVar[str] = "spam-ecml2006"


@dataclass(frozen=True, slots=True)
class SpamEnron(StreamSettings):
    """Mail of six Enron users: spam (+1) or not."""

    dataset: ClassVar[str] = "spam-enron"


@dataclass(frozen=True, slots=True)
class Amazon(StreamSettings):
    """Amazon reviews of four kinds of goods: favorable (+1) or not."""

    dataset: ClassVar[str] = "amazon"


@dataclass(frozen=True, slots=True)
class Newsgroups(StreamSettings):
    """20 Newsgroups: two related tasks, each to tell two groups apart."""

    dataset: ClassVar[str] = "newsgroups"

    pair: str = option(Choice(("comp-sci", "rec-talk")), "comp-sci", doc="comp against sci, or rec against talk.")


@dataclass(frozen=True, slots=True)
class Landmine(StreamSettings):
    """Radar features at 29 mine fields: a mine (+1) or not; AUC is the measure."""

    dataset: ClassVar[str] = "landmine"


@dataclass(frozen=True, slots=True)
class Wisdm(StreamSettings):
    """Movements of 36 people by their telephones: an activity (+1) or another."""

    dataset: ClassVar[str] = "wisdm"

    activity: str = option(
        Choice(("walking", "stairs")), "walking", doc="What +1 is: Walking, or Upstairs and Downstairs."
    )


DATA_SECTIONS: dict[str, type[StreamSettings]] = {
    section.dataset: section
    for section in (
        *(FileData, LiveData, DigitsSites, Synthetic),
        *(SpamPu, Mhci, Jester, MovieLens, EachMovie, SpamEcml2006, SpamEnron, Amazon, Newsgroups, Landmine, Wisdm),
    )
}


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Where a site's live examples come from: one of `bind`, `file` and `stdin`. Only with `dataset: live`."""

    bind: tuple[str, ...] | str | None = option(
        EndpointsOf(Endpoint(listens=True)),
        None,
        doc="Where applications send examples and ask for predictions. ipc:// is for the node's user alone; "
        "tcp:// beyond this machine needs keys, or --insecure.",
    )
    file: str | None = option(
        Text("a file name, with {task} for the safe form of the task's name"),
        None,
        doc="A file to follow as it grows, relative to this file.",
    )
    stdin: bool = option(Flag(), False, doc="Read standard input of a node that is started by hand.")
    format: str | None = option(
        PluginName(tuple(line_formats())),
        None,
        doc="The format, where no file name tells. By default jsonl.",
    )
    follow: bool = option(Flag(), True, doc="Whether a file may still grow; if not, the task is done at its end.")
    round_every_s: float = option(
        Number(at_least=0.0, at_most=1e6),
        0.0,
        doc="The least time between rounds that a task begins; it joins those of others sooner.",
    )
    backlog: int = option(
        Integer(1, 10_000_000),
        10_000,
        doc="How many accepted examples may wait. With more, applications have to wait, and lines are not read.",
    )
    unlabelled: int = option(
        Integer(0, 10_000_000),
        10_000,
        doc="How many predicted rows wait for their label; with more, the oldest is forgotten.",
    )
    keep: str = option(
        Choice(("checkpoint", "all")),
        "checkpoint",
        doc="Keep accepted examples while checkpoints need them, or all, for `replay`.",
    )
