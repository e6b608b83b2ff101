"""What came out of a run: figures, records, models, pictures."""

from __future__ import annotations

import csv
import html
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.base import ContributionKind, ReplyKind
from drom_net.algorithms.features import Vector
from drom_net.api.rows import in_python, read_rows
from drom_net.cluster.plan import lanes, peer_graph
from drom_net.config.model import ClusterConfig
from drom_net.core.errors import UsageError, naming
from drom_net.data.dataset import pick_task
from drom_net.data.faults import extra, parse_number
from drom_net.data.formats.frames import make_frame
from drom_net.data.settings import RowSettings
from drom_net.data.stream import SparseRows
from drom_net.learning.records import LEARNED
from drom_net.plots.report import draw_picture
from drom_net.plots.sharing import draw_sharing
from drom_net.plots.timeline import draw_timeline
from drom_net.results.outcomes import Rows
from drom_net.results.report import Panel, Picture, Series
from drom_net.results.run_directory import create_run_directory, load_disturbances
from drom_net.results.site_model import SiteModel
from drom_net.results.tables import read_timeline
from drom_net.results.wording import number, percent

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_FIGURES = ("examples", "error_rate", "majority_error_rate", "auc", "log_loss", "f1", "unlabelled")
_SHARING = ("error_rate_alone", "gain_points", "effect", "effect_by", "weight", "noise")
_IN_MEMORY = "The rows were in memory; Run.save keeps the run, its figures and its models."
_rate, _figure = partial(percent, unknown="–"), partial(number, unknown="–")
_LINES = 8
"""Sites in one picture of errors."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture, which a notebook shows."""

    svg: str = field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg


class Run:
    """What came out of a run, in memory or of its directory. `fit`, `run` and `load` make it.

    Attributes:
        summary: All figures, as summary.json has them.
        path: The run directory; None where it is in memory alone.
        notes: What people should know of how the rows were read, a line each.

    >>> import numpy as np
    >>> from drom_net import fit
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0]] * 20)
    >>> run = fit({"north": (x, [1, 0] * 20), "south": (x, [1, 0] * 20)}, learner="local")
    >>> run.predict("north", [[0.0, 1.0], [1.0, 0.0]]).tolist()
    [0, 1]
    >>> run.site("north").to_sklearn()
    LogisticRegression()
    """

    def __init__(
        self,
        summary: dict[str, Any],
        model: dict[str, npt.NDArray[Any]],
        *,
        config: ClusterConfig | None,
        read: Callable[[], Sequence[Rows]],
        write: Callable[[Path], None] | None = None,
        path: Path | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """
        Args:
            model: As model.npz has it.
            config: As run; None where nobody has left it.
            read: Each site's records.
            write: What writes the run directory; None where there is one.
        """
        self.summary, self.path, self.notes = summary, path, tuple(notes)
        self._model, self._config, self._read, self._write = model, config, read, write

    @property
    def sites(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(task["name"] for task in self.summary["tasks"])

    @property
    def digest(self) -> str:
        """SHA-256 of all predictions and models, the same by every driver."""
        return str(self.summary["digest"])

    @property
    def tasks(self) -> Any:
        """A row for each site: its figures, as a frame of pandas, else of pyarrow."""
        found = self.summary["tasks"]
        columns = {"site": list(self.sites)} | {name: [task.get(name) for task in found] for name in _FIGURES}
        if "sharing" in self.summary:
            columns |= {name: [task["sharing"].get(name) for task in found] for name in _SHARING}
        return make_frame(columns)

    def records(self, kind: str | None = None) -> Any:
        """A row for each site and round: what was predicted, and what was true.

        Args:
            kind: "pandas", "pyarrow" or "polars"; by default the first that is installed.

        Raises:
            UsageError: The run has kept none, or no such package is installed.
        """
        rows = self._rows
        whole = np.concatenate(list(rows))
        columns: dict[str, Any] = {"site": np.repeat(np.array(self.sites), [len(one) for one in rows])}
        columns |= {name: np.ascontiguousarray(whole[name]) for name in whole.dtype.names or ()}
        for name, words in (("reply", ReplyKind), ("contribution", ContributionKind)):
            columns[name] = np.array([kind.name.lower() for kind in words])[columns[name]]
        columns["active"] = np.array(["idle", "learned", "predicted"])[columns["active"]]
        return make_frame(columns, kind)

    @cached_property
    def _rows(self) -> Sequence[Rows]:
        return self._read()

    def site(self, name: str | int) -> Site:
        """A site's model, by the site's name or number from 0.

        Raises:
            DataError: There is no such site.
            UsageError: An earlier version has made the model.
        """
        index = pick_task(self.sites, name)
        model = SiteModel.of(self._model, index, self.path or Path("the run"))
        return Site(model, self._classes, [str(name) for name in self._model["features"]], self.summary["tasks"][index])

    @property
    def _classes(self) -> npt.NDArray[Any]:
        """(the label that is -1, the one that is +1): truth values or numbers where both are."""
        data = None if self._config is None else self._config.data
        texts = list(data.label_words) if isinstance(data, RowSettings) else ["-1", "1"]
        if [text.lower() for text in texts] == ["false", "true"]:
            return np.array([False, True])
        numbers = [parse_number(text) for text in texts]
        if all(number is not None and number == int(number) for number in numbers):
            return np.array([int(number or 0) for number in numbers])
        return np.array(texts)

    def predict(self, site: str | int, rows: Any) -> npt.NDArray[Any]:
        """Labels of rows by a site's model; as `Site.predict`."""
        return self.site(site).predict(rows)

    def predict_proba(self, site: str | int, rows: Any) -> Vector:
        """Probabilities of the two labels; as `Site.predict_proba`."""
        return self.site(site).predict_proba(rows)

    def save(self, path: str | Path) -> None:
        """Write the run directory: `load`, and `drom-net show`, `verify` and `predict` read it.

        Rows of `fit` are not in it: `replay` needs a run of files.

        Raises:
            UsageError: There is something already, or it cannot be written.
        """
        folder = Path(path)
        if self._write is not None:
            self._write(folder)
            return
        assert self.path is not None
        create_run_directory(folder)
        shutil.copytree(self.path, folder, dirs_exist_ok=True)

    def report(self, path: str | Path) -> Path:
        """Write the run as one page of HTML that needs no network, and the same as PNG beside it.

        Returns:
            The page's path.

        Raises:
            UsageError: matplotlib is missing, or it cannot be written.
        """
        from drom_net.reporting.page import write_report

        if self.path is not None:
            return write_report(self.path, Path(path))
        with tempfile.TemporaryDirectory(prefix="drom-net-") as folder:
            self.save(Path(folder) / "run")
            return write_report(Path(folder) / "run", Path(path), repeat=_IN_MEMORY)

    def plot_errors(self, path: str | Path | None = None) -> Plot:
        """The error rate so far by example, of all sites together and of each (of many the first eight).

        Args:
            path: Also write it there: PNG or SVG by its suffix. Likewise of the others.

        Raises:
            UsageError: matplotlib is missing, or the run has kept no records.
        """
        series = []
        for name, rows in list(zip(self.sites, self._rows, strict=True))[:_LINES]:
            learned = rows[rows["active"] == LEARNED]
            wrong = (learned["score"] >= 0.0) != (learned["clean_label"] > 0.0)
            number = np.arange(1, len(wrong) + 1)
            series.append(Series(name, number.tolist(), (100.0 * np.cumsum(wrong) / number).tolist()))
        panel = Panel("", "examples", "errors so far (%)", [one for one in series if one.x])
        return _drawn(lambda file: draw_picture(Picture([panel], 1), file), path)

    def plot_sharing(self, path: str | Path | None = None) -> Plot:
        """What sharing did to each site: errors alone and with sharing, the weights of its experts, and its noise.

        Raises:
            UsageError: matplotlib is missing, or the learner mixes no experts.
        """
        if "sharing" not in self.summary:
            learner = self.summary["algorithm"]
            raise UsageError(f"expected a run of a learner that mixes experts (adadrom), got {learner}")
        figures = [task["sharing"] for task in self.summary["tasks"]]
        return _drawn(lambda file: draw_sharing(self.sites, figures, file, self._title), path)

    def plot_timeline(self, path: str | Path | None = None) -> Plot:
        """Who worked and who waited when, of processes and simulations.

        Raises:
            UsageError: matplotlib is missing, or the run has no timeline: the plain loop has no clock.
        """
        if self.path is None or self._config is None:
            raise UsageError("expected a run of processes or a simulation, got the plain loop, which has no clock")
        config, names = self._config, self.sites
        found = lanes(config, peer_graph(config, names), names, read_timeline(self.path, self.summary))
        more = {"faults": load_disturbances(self.path), "virtual": self.summary["driver"] == "simulation"}
        return _drawn(lambda file: draw_timeline(found, file, self._title, **more), path)

    @property
    def _title(self) -> str:
        return f"{self.summary['name']}: {self.summary['algorithm']}"

    def __repr__(self) -> str:
        figures = self.summary
        error = "no labels" if figures["error_rate"] is None else f"error {100 * figures['error_rate']:.2f} %"
        sites = f"{len(self.sites)} site{'s' * (len(self.sites) > 1)}"
        return f"<Run {figures['status']}: {figures['algorithm']}, {sites}, {figures['examples']:,} examples, {error}>"

    def _repr_html_(self) -> str:
        """A table in the colors of the page, light or dark."""
        figures = self.summary
        columns = ["site", "examples", "errors", "majority", "AUC", "log loss"]
        columns += ["errors alone", "gain (points)"] if "sharing" in figures else []
        rows = [_html_cells(task, task["name"]) for task in figures["tasks"]]
        rows.append(_html_cells(figures, "all sites"))
        line = "border-bottom:1px solid rgba(128,128,128,.35);padding:.25em .8em;text-align:"
        body = "".join(
            "<tr>"
            + "".join(f'<td style="{line}{"left" if not place else "right"}">{cell}</td>' for place, cell in row)
            + "</tr>"
            for row in map(enumerate, rows)
        )
        head = "".join(
            f'<th style="{line}{"left" if not place else "right"}">{name}</th>' for place, name in enumerate(columns)
        )
        said = "".join(f"<p style='margin:.3em 0'>{html.escape(text)}</p>" for text in figures.get("verdict", ()))
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        if notes:
            notes = f"<details><summary>how the rows were read</summary><ul>{notes}</ul></details>"
        about = f"{figures['algorithm']}, driver {figures['driver']}: {figures['status']}"
        about += f" after {figures['rounds']:,} rounds"
        style = "color:inherit;background:transparent"
        return (
            f'<div style="{style}"><b>{html.escape(about)}</b>{said}'
            f'<table style="border-collapse:collapse;{style}"><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>{notes}</div>"
        )


class Site:
    """A site's model, and what it says of rows as the site has them."""

    def __init__(
        self, model: SiteModel, classes: npt.NDArray[Any], features: Sequence[str], summary: dict[str, Any]
    ) -> None:
        """
        Args:
            classes: (the label that is -1, the one that is +1).
            features: Names of the prepared columns; empty where they have none.
            summary: The site's figures.
        """
        self.name, self.classes, self.summary = model.name, classes, summary
        self._model, self._features = model, tuple(features)

    def decision_function(self, rows: Any) -> Vector:
        """Scores, shape (n,): the label is the second of `classes` where it is >= 0.

        Args:
            rows: A frame with the columns of the features, in any order; others are left out. An array of shape
                (n, d) or a matrix of SciPy, a row as a dict, or a list of rows.

        Raises:
            DataError: Columns are missing, or a cell cannot be used.
        """
        with in_python():
            found = read_rows(rows, self._model.reader)
        return self._model.scores(found)

    def predict(self, rows: Any) -> npt.NDArray[Any]:
        """Labels, shape (n,), as the data has them; arguments as for `decision_function`."""
        return self.classes[(self.decision_function(rows) >= 0.0).astype(np.int64)]

    def predict_proba(self, rows: Any) -> Vector:
        """Probabilities of the two `classes`, shape (n, 2); arguments as for `decision_function`."""
        p = np.array([self._model.probability(score) for score in self.decision_function(rows)], dtype=np.float64)
        return np.stack([1.0 - p, p], axis=1)

    def prepare(self, rows: Any) -> Vector | csr_matrix:
        """Rows as the learner sees them, shape (n, d): encoded, scaled, of unit norm, with the bias as last column.

        Dense, or of SciPy where they are sparse; arguments as for `decision_function`.
        """
        with in_python():
            found = read_rows(rows, self._model.reader)
        prepared = self._model.preparation.look_at(found)
        if not isinstance(prepared, SparseRows):
            return prepared
        with extra("data", "sparse rows"):
            from scipy.sparse import csr_matrix
        shape = (len(prepared.indptr) - 1, prepared.dim)
        return csr_matrix((prepared.values, prepared.indices, prepared.indptr), shape)

    @property
    def coefficients(self) -> Vector:
        """w of a linear model, of the prepared columns, shape (d,).

        Raises:
            UsageError: The learner is no linear model.
        """
        learner = self._model.learner
        if not learner.is_linear:
            raise UsageError(
                f"{self.name}: expected a learner that is one linear model, got {learner.name}, whose model is more "
                "than w; predict and predict_proba use all of it, and drom or local gives one linear model"
            )
        return self._model.vectors["w"]

    def to_csv(self, path: str | Path) -> None:
        """Write a linear model: a row for each prepared column, its name and its coefficient.

        Raises:
            UsageError: The learner is no linear model.
        """
        found = self.coefficients
        names = self._features or [f"x{number}" for number in range(len(found))]
        with naming(path), Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["feature", "coefficient"])
            writer.writerows(zip(names, found.tolist(), strict=True))

    def to_sklearn(self) -> Any:
        """A linear model as scikit-learn's LogisticRegression over `prepare(rows)`: the same scores, and the same
        probabilities (of a learner of another package where its scores are log odds).

        Raises:
            UsageError: The learner is no linear model, or scikit-learn is missing.
        """
        found = self.coefficients
        with extra("data", "models of scikit-learn"):
            from sklearn.linear_model import LogisticRegression
        made = LogisticRegression()
        made.classes_, made.n_features_in_ = self.classes, len(found)
        made.coef_, made.intercept_ = found[np.newaxis, :].copy(), np.zeros(1)
        return made

    def __repr__(self) -> str:
        return f"<Site {self.name}: {self._model.learner.name}, {self.summary['examples']:,} examples>"


def _html_cells(figures: dict[str, Any], name: str) -> list[str]:
    sharing = figures.get("sharing")
    cells = [html.escape(name), f"{figures['examples']:,}"]
    cells += [_rate(figures["error_rate"]), _rate(figures.get("majority_error_rate"))]
    cells += [_figure(figures.get("auc"), ".3f"), _figure(figures.get("log_loss"), ".3f")]
    if sharing:
        cells += [_rate(sharing["error_rate_alone"]), _figure(sharing["gain_points"], "+.2f")]
    return cells


def _drawn(draw: Callable[[Path], None], path: str | Path | None) -> Plot:
    """The picture; it is also written to `path`, where there is one."""
    if path is not None:
        draw(Path(path))
    with tempfile.TemporaryDirectory(prefix="drom-net-") as folder:
        file = Path(folder) / "plot.svg"
        draw(file)
        return Plot(file.read_text(encoding="utf-8"))
