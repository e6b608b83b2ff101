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
        doc="Whether each task's examples come in a random order (from the run's seed) or in the order of the data.",
    )
    flip: float = option(
        Number(at_least=0.0, at_most=1.0),
        0.0,
        doc="Label noise: the probability that a label is flipped before it is learned.",
    )
    alignment: str = option(
        Choice(("lockstep", "spread")),
        "lockstep",
        doc="Streams of unequal length: lockstep gives round t the example t of each task that has one; "
        "spread deals each task's examples evenly over all rounds.",
    )
    passes: int = option(
        Integer(1, 1_000_000),
        1,
        doc="How many times each task's examples come: in the same order and with the same flipped labels each time.",
    )
    pace_s: float = option(
        Number(at_least=0.0, at_most=1e6),
        0.0,
        doc="How many seconds each example takes to come, from when its node is ready for it: a simulated arrival. "
        "It changes no result, and may differ from site to site.",
    )
    measure: str | None = option(
        Choice(("error", "auc", "log_loss")),
        None,
        doc="What `compare` chooses settings by, and shows differences of: the error rate, AUC (its mean over tasks) "
        "or the log loss. By default the error, of landmine AUC. It changes no run.",
    )


@dataclass(frozen=True, slots=True)
class RowSettings(StreamSettings):
    """What the user's own rows have in them, and what is done to each."""

    label: str = option(
        Text("a column name"),
        "label",
        doc="The label's column (CSV, Parquet), key (JSON) or array (NPZ; there y by default).",
    )
    positive: tuple[str, ...] | None = option(
        TextOrTexts(Text("a label")),
        None,
        doc="The label that is +1, or its spellings. By default the one of two that means yes, else the rarer one.",
    )
    negative: tuple[str, ...] | None = option(
        TextOrTexts(Text("a label")), None, doc="The label that is -1, or its spellings. By default the only other one."
    )
    rest: str | None = option(
        Choice(("negative",)), None, doc="negative: every label that data.positive does not name is -1."
    )
    unlabelled: tuple[str, ...] | None = option(
        TextOrTexts(Text("a text in the label's column")),
        None,
        doc="What is no label (unknown, pending, ..): such rows are predicted and not learned, as where it is missing.",
    )
    columns: tuple[Column, ...] | None = option(
        ColumnKinds(),
        None,
        doc="The feature columns of tables and named rows, in order, with their kinds: number, yes/no, category, date, "
        "time, text; identifier, counter, empty and ignored are left out. A mapping says more: kind, levels of a "
        "category, missing (whether values may be), format of a date (as strptime) or number (1,234.5 or 1.234,5). "
        "What is not listed is found by looking at the files; nodes started by hand need all.",
    )
    missing: tuple[str, ...] = option(
        TextList(Text()), (), doc="Texts that mean a missing value, beside empty cells, NA, NaN, null and alike."
    )
    features: tuple[str, ...] | str | None = option(
        Columns(),
        None,
        doc="The feature columns in order, as a list, or the name of a text file with one a line: others are left out. "
        "Of live data all are numbers, where data.columns does not say more.",
    )
    dim: int | None = option(
        Integer(1, 2**31 - 1),
        None,
        doc="The number of features of rows without column names: svmlight and NPZ files, live data.",
    )
    hash: int | None = option(
        Integer(1, 2**31 - 1),
        None,
        doc="How many columns hashed things fold into, with signs: of tables words and levels that are not listed (by "
        "default 4096 where there is text, else as many as needed), of svmlight all feature numbers (a power of two).",
    )
    zero_based: bool = option(Flag(), False, doc="svmlight: whether feature numbers start at 0 rather than 1.")
    delimiter: str | None = option(
        Text("one character", pattern=r"[\s\S]"), None, doc="CSV: what separates fields. By default found by looking."
    )
    decimal: str | None = option(
        Choice((".", ",")), None, doc="CSV: what stands before decimals. By default found by looking."
    )
    scaling: str | None = option(
        Choice(("running", "site", "none")),
        None,
        doc="Numbers: running standardises each row by mean and deviation of the rows before it at its site; site by "
        "those of all of the site's rows (which looks ahead); none does not. By default running, beside data.center or "
        "data.scale none. Yes/no, categories, words and sparse rows stay as they are.",
    )
    center: tuple[float, ...] | None = option(
        Columns(numbers=True), None, doc="A constant taken from each column of numbers first; dense rows only."
    )
    scale: tuple[float, ...] | None = option(
        Columns(numbers=True), None, doc="A constant each column of numbers is divided by."
    )
    normalize: bool = option(
        Flag(), True, doc="Whether each row, its bias included, is scaled to unit l2 norm; step sizes count on it."
    )
    bias: float = option(
        Number(at_least=0.0), 1.0, doc="A constant feature of this value, put behind the others; 0 is none."
    )

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
    """The user's own files."""

    dataset: ClassVar[str] = "files"

    files: str = option(
        Text("a file name, or a pattern with {task}"),
        doc="One file for each task, such as site-{task}.csv, or one file with a task column. "
        "Relative names start at data.directory.",
    )
    directory: str | None = option(
        Text("a folder"),
        None,
        doc="Where relative file names start: by default the folder of the YAML file; where the files are not "
        "there, the folder that DROM_NET_DATA names.",
    )
    format: str | None = option(
        PluginName(tuple(file_formats())),
        None,
        doc="The format of the files, where their names do not tell. CSV and svmlight may be .gz or .zst. One of "
        "another package is named by its entry point (group drom_net.formats), or as MODULE:ATTRIBUTE.",
    )
    encoding: str | None = option(
        Text("the name of an encoding"),
        None,
        doc="CSV: how text is encoded. By default found: UTF-8, UTF-16 or cp1252.",
    )
    tasks: tuple[str, ...] | None = option(
        TextList(TASK_NAME),
        None,
        doc="The names of the tasks, in order. Left out, `run` finds them in the file names or the task column; "
        "nodes started by hand need them.",
    )
    task_column: str | None = option(
        Text("a column name"),
        None,
        doc="The column (array) that names the task of a row, where one file holds all tasks.",
    )
    ignore: tuple[str, ...] = option(TextList(Text("a column name")), (), doc="Columns to leave out.")
    order: str | None = option(
        Text("a column name"), None, doc="Learn each task's rows by this time or number. By default as in the file."
    )
    # What comes first in a file came first: its order is that of learning.
    shuffle: bool = option(
        Flag(), False, doc="Whether each task's rows come in a random order (from the run's seed) all the same."
    )


@dataclass(frozen=True, slots=True)
class LiveData(RowSettings):
    """Examples that come while the cluster runs, at each site from its own `source`."""

    dataset: ClassVar[str] = "live"

    tasks: tuple[str, ...] = option(TextList(TASK_NAME), doc="The names of the tasks, in order.")
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
    """Scikit-learn's handwritten digits, dealt to 12 sites that each have a scanner of their own; odd (+1) or even."""

    dataset: ClassVar[str] = "digits-sites"


@dataclass(frozen=True, slots=True)
class Synthetic(StreamSettings):
    """Related tasks made from a seed: w_i = (shared part of a chosen rank + own part), labels sign(<w_i, x>)."""

    dataset: ClassVar[str] = "synthetic"

    tasks: int = option(Integer(1, 100_000), 12, doc="How many tasks, m.")
    examples: int = option(Integer(1, 10_000_000), 200, doc="How many examples each task has.")
    dim: int = option(Integer(1, 10_000_000), 60, doc="How many features, d.")
    rank: int = option(Integer(1, 100_000), 2, doc="The rank of the part that tasks share.")
    noise: float = option(
        Number(at_least=0.0, at_most=1.0),
        0.1,
        doc="The share of each task's weight vector (squared norm) that is its own and not shared.",
    )
    data_seed: int = option(Integer(0), 0, doc="What the data is made from; `seed` only orders it.")


@dataclass(frozen=True, slots=True)
class SpamPu(StreamSettings):
    """PU1, PU2, PU3 and PUA: mail of four users, spam (+1) or not; the paper's Spam Email."""

    dataset: ClassVar[str] = "spam-pu"

    features: str = option(
        Choice(("frequency", "weka")),
        "frequency",
        doc="Which words: the 1,458 of highest document frequency, or the 1,450 that the rule of Weka's "
        "StringToWordVector keeps.",
    )


@dataclass(frozen=True, slots=True)
class Mhci(StreamSettings):
    """Peptides and 12 MHC class I molecules: a binder (+1) or not; for the paper's MHC-I."""

    dataset: ClassVar[str] = "mhci"

    features: str = option(
        Choice(("dipeptides", "one-hot")),
        "dipeptides",
        doc="Counts of the 400 pairs of adjacent residues, or which of 20 residues is at each of 9 positions (180).",
    )


@dataclass(frozen=True, slots=True)
class Jester(StreamSettings):
    """Ratings of 100 jokes by 30 people: liked (+1) or not; in place of the paper's EachMovie."""

    dataset: ClassVar[str] = "jester"


@dataclass(frozen=True, slots=True)
class MovieLens(StreamSettings):
    """Ratings of films by 30 people (MovieLens 1M): liked (+1) or not; in place of the paper's EachMovie."""

    dataset: ClassVar[str] = "movielens"


@dataclass(frozen=True, slots=True)
class EachMovie(StreamSettings):
    """Votes on films by 30 people, for who has the files: liked (+1) or not; the paper's EachMovie."""

    dataset: ClassVar[str] = "eachmovie"


@dataclass(frozen=True, slots=True)
class SpamEcml2006(StreamSettings):
    """Mail of 15 users (ECML/PKDD 2006 Discovery Challenge), spam (+1) or not."""

    dataset: ClassVar[str] = "spam-ecml2006"


@dataclass(frozen=True, slots=True)
class SpamEnron(StreamSettings):
    """Mail of six Enron users, spam (+1) or not."""

    dataset: ClassVar[str] = "spam-enron"


@dataclass(frozen=True, slots=True)
class Amazon(StreamSettings):
    """Amazon reviews of four kinds of goods: favorable (+1) or not."""

    dataset: ClassVar[str] = "amazon"


@dataclass(frozen=True, slots=True)
class Newsgroups(StreamSettings):
    """20 Newsgroups: two related tasks that tell two groups apart."""

    dataset: ClassVar[str] = "newsgroups"

    pair: str = option(
        Choice(("comp-sci", "rec-talk")), "comp-sci", doc="Which groups: comp against sci, or rec against talk."
    )


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
    """Where a site's live examples come from: one of `bind`, `file` and `stdin`. Only beside `dataset: live`."""

    bind: tuple[str, ...] | str | None = option(
        EndpointsOf(Endpoint(listens=True)),
        None,
        doc="Where applications at the site send examples and ask for predictions: an endpoint, with {task} for the "
        "safe form of its name, or a list with one a task. ipc:// is for the node's user alone; tcp:// beyond this "
        "machine needs keys (`drom-net keys create`), or --insecure.",
    )
    file: str | None = option(
        Text("a file name, with {task} for the safe form of the task's name"),
        None,
        doc="A file that is followed as it grows, relative to this file.",
    )
    stdin: bool = option(Flag(), False, doc="Standard input, of a node that is started by hand.")
    format: str | None = option(
        PluginName(tuple(line_formats())),
        None,
        doc="What the lines of a file are, where its name does not tell, and of standard input (by default jsonl). One "
        "of another package is named as in data.format.",
    )
    follow: bool = option(Flag(), True, doc="Whether a file may still grow; if not, the task is done at its end.")
    round_every_s: float = option(
        Number(at_least=0.0, at_most=1e6),
        0.0,
        doc="A task begins no round sooner than this after the one before, unless others have.",
    )
    backlog: int = option(
        Integer(1, 10_000_000),
        10_000,
        doc="How many accepted examples may wait to be learned. With more, lines are not read, and applications are "
        "told to wait.",
    )
    unlabelled: int = option(
        Integer(0, 10_000_000),
        10_000,
        doc="How many predicted rows are remembered until their label comes; the oldest is forgotten.",
    )
    keep: str = option(
        Choice(("checkpoint", "all")),
        "checkpoint",
        doc="How long accepted examples are kept: until the checkpoints need them no more, or all, for `replay`.",
    )
