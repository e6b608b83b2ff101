"""A classifier with the conventions of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Matrix, Vector
from drom_net.api.online import Online
from drom_net.api.rows import in_python
from drom_net.cluster.prepare import prepare
from drom_net.config.load import config_of
from drom_net.config.model import ClusterConfig
from drom_net.core.errors import ConfigError, DataError, Problem, UsageError, did_you_mean
from drom_net.data.cells import label_text
from drom_net.data.faults import Faults, extra, listed, quoted
from drom_net.data.file_settings import ONE_TASK, check_task_name, natural_key, preprocessing_of
from drom_net.data.files import load_files
from drom_net.data.formats.npz import Arrays
from drom_net.data.settings import FileData
from drom_net.data.stream import SparseRows, each, take
from drom_net.data.tables import Source

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.metrics import accuracy_score
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data
except ImportError as error:
    raise UsageError("MultiTaskClassifier needs scikit-learn 1.6 or newer: pip install 'drom-net[data]'") from error

_ROWS = "X"
_PLAIN = {"accept_sparse": "csr", "dtype": np.float64}


class MultiTaskClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Online multi-task learning of two labels, with the conventions of scikit-learn.

    Each row is of a task (a site). `fit` learns each task's rows in their order, with the digest of
    `drom-net run --driver reference`; `partial_fit` goes on from there.

    Args:
        learner: As `algorithm.name` of a YAML file; one that runs on a star.
        parameters: Its parameters, by the keys of that section.
        task_column: The column of X that has the task of a row: the name of a column of a frame, or a number from 0.
            None where `tasks` says it. It counts as no feature.
        scaling: "running", "site" (`fit` alone) or "none"; by default running of dense rows. Sparse rows stay as they
            are.
        normalize: Whether rows get unit norm.
        bias: The value of a constant feature; 0 is none.
        passes: How many times `fit` learns the rows.
        shuffle: Whether `fit` learns them in a random order.
        random_state: What random draws are made from; None is 0.

    Attributes:
        classes_: The two labels, ascending; the second is +1.
        task_names_: The tasks in order.
        n_features_in_: Without the task column.

    >>> import numpy as np
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0]] * 20)
    >>> y = np.array(["yes", "no"] * 20)
    >>> tasks = ["north"] * 20 + ["south"] * 20
    >>> model = MultiTaskClassifier().fit(x, y, tasks=tasks)
    >>> model.predict([[1.0, 0.0]], tasks=["south"]).tolist()
    ['yes']
    """

    def __init__(
        self,
        learner: str = "adadrom",
        *,
        parameters: Mapping[str, object] | None = None,
        task_column: str | int | None = None,
        scaling: str | None = None,
        normalize: bool = True,
        bias: float = 1.0,
        passes: int = 1,
        shuffle: bool = False,
        random_state: Any = None,
    ) -> None:
        self.learner = learner
        self.parameters = parameters
        self.task_column = task_column
        self.scaling = scaling
        self.normalize = normalize
        self.bias = bias
        self.passes = passes
        self.shuffle = shuffle
        self.random_state = random_state

    def fit(self, X: Any, y: Any, tasks: Any = None) -> MultiTaskClassifier:
        """Learn from the beginning.

        Args:
            X: Shape (n, d), numbers, dense or sparse.
            y: Two labels, shape (n,).
            tasks: The task of each row, shape (n,); None where there is one, or a task column.

        Raises:
            ConfigError, DataError: A parameter or a task is wrong.
            ValueError: X or y is wrong, as scikit-learn says it.
        """
        X, tasks = self._split(X, tasks)
        X, y = validate_data(self, X, y, **_PLAIN)
        self.classes_ = self._two(y)
        of_row = self._texts(tasks, X)
        names = tuple(sorted(set(of_row), key=natural_key))
        signs = self._signs(y)
        with in_python():
            config = self._config(names)
            rows = {name: (X[np.flatnonzero(of_row == name)], signs[of_row == name]) for name in names}
            dataset = load_files(self._data(config), base=config.base, format=Arrays(rows))
            prepared = prepare(config, dataset)
        self.task_names_ = names
        self._online = Online(config, names, dataset.preprocessing)
        self._online.learn_all(prepared.streams)
        return self

    def partial_fit(
        self, X: Any, y: Any, tasks: Any = None, *, classes: Any = None, task_names: Sequence[object] | None = None
    ) -> MultiTaskClassifier:
        """Go on with more rows: in each round the next row of each task that has one left.

        Args:
            X, y, tasks: As for `fit`.
            classes: In the first call: both labels, where y may have one of them.
            task_names: In the first call: all tasks, where some may come later.

        Raises:
            ConfigError, DataError: A parameter is wrong, or a task is new.
            ValueError: X or y is wrong, as scikit-learn says it.
        """
        X, tasks = self._split(X, tasks)
        first = not self.__sklearn_is_fitted__()
        X, y = validate_data(self, X, y, reset=first, **_PLAIN)
        of_row = self._texts(tasks, X)
        if first:
            self.classes_ = self._two(y if classes is None else np.asarray(classes))
            if len(self.classes_) < 2:
                raise ValueError("expected two classes, got one: classes= says both in the first call of partial_fit")
            self._begin(X, set(of_row) if task_names is None else {label_text(name) for name in task_names})
        if not np.isin(y, self.classes_).all():
            got = np.setdiff1d(y, self.classes_)[:3].tolist()
            raise ValueError(f"y: expected the classes {self.classes_.tolist()}, got {got}")
        places, signs = self._places(of_row), self._signs(y)
        rows = list(each(self._rows(X)))
        count = len(self.task_names_)
        self._online.learn(
            [[(rows[row], signs[row]) for row in np.flatnonzero(places == task).tolist()] for task in range(count)]
        )
        return self

    def decision_function(self, X: Any, tasks: Any = None) -> Vector:
        """Scores, shape (n,): the label is the second of `classes_` where it is >= 0.

        Raises:
            DataError: A task is unknown, or not said.
            ValueError: X is wrong, as scikit-learn says it.
        """
        return self._scores(X, tasks)[0]

    def predict(self, X: Any, tasks: Any = None) -> npt.NDArray[Any]:
        """Labels, shape (n,); arguments as for `decision_function`."""
        positive = self.decision_function(X, tasks) >= 0.0
        return self.classes_[np.where(positive, len(self.classes_) - 1, 0)]

    def predict_proba(self, X: Any, tasks: Any = None) -> npt.NDArray[np.float64]:
        """Probabilities of `classes_`, shape (n, 2); arguments as for `decision_function`."""
        scores, places = self._scores(X, tasks)
        models = {task: self._online.model(task) for task in set(places.tolist())}
        pairs = zip(places.tolist(), scores.tolist(), strict=True)
        p = np.array([models[task].probability(score) for task, score in pairs], dtype=np.float64)
        if len(self.classes_) == 1:
            return np.ones((len(p), 1))
        return np.stack([1.0 - p, p], axis=1)

    def score(self, X: Any, y: Any, sample_weight: Any = None, tasks: Any = None) -> float:
        """The share of labels that are right."""
        return float(accuracy_score(y, self.predict(X, tasks), sample_weight=sample_weight))

    @property
    def digest_(self) -> str:
        """The digest of a run of the same rows, in hexadecimal."""
        check_is_fitted(self)
        return self._online.digest

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_online")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    def _config(self, names: Sequence[str]) -> ClusterConfig:
        """What a YAML file would say.

        Raises:
            ConfigError: A parameter is wrong.
        """
        keys = ("scaling", "normalize", "bias", "passes", "shuffle")
        options = {key: value for key in keys if (value := getattr(self, key)) is not None}
        state = self.random_state
        if state is not None and not isinstance(state, int | np.integer):
            state = check_random_state(state).randint(2**31)
        both = {"positive": "1", "negative": "-1"}
        return config_of(
            {
                "algorithm": {"name": self.learner, **(self.parameters or {})},
                "data": {"files": "{task}", "tasks": list(names), **both, **options},
                "seed": int(state or 0),
            },
            name=type(self).__name__,
        )

    @staticmethod
    def _data(config: ClusterConfig) -> FileData:
        assert isinstance(config.data, FileData)
        return config.data

    def _begin(self, X: Any, names: set[str]) -> None:
        self.task_names_ = tuple(sorted(names, key=natural_key))
        with in_python():
            config = self._config(self.task_names_)
        if self.scaling == "site":
            hint = "it needs all rows of a site, as fit has them"
            raise ConfigError([Problem("scaling=", "running or none for partial_fit", '"site"', hint)])
        is_dense = not hasattr(X, "tocsr")
        made = preprocessing_of(self._data(config), X.shape[1], None, is_dense=is_dense)
        self._online = Online(config, self.task_names_, made)

    def _scores(self, X: Any, tasks: Any) -> tuple[Vector, npt.NDArray[np.int64]]:
        """The score of each row, and the number of its task."""
        check_is_fitted(self)
        X, tasks = self._split(X, tasks)
        X = validate_data(self, X, reset=False, **_PLAIN)
        if tasks is None and len(self.task_names_) > 1:
            hint = "" if self.task_column is None else "task_column= names a column of X"
            raise DataError([Problem("tasks=", f"the task of each row: {listed(self.task_names_)}", "none", hint)])
        places = self._places(self._texts(tasks, X) if tasks is not None else np.repeat(self.task_names_, X.shape[0]))
        rows, scores = self._rows(X), np.zeros(len(places))
        for task in np.unique(places).tolist():
            own = np.flatnonzero(places == task)
            scores[own] = self._online.model(task).scores(take(rows, own))
        return scores, places

    def _split(self, X: Any, tasks: Any) -> tuple[Any, Any]:
        """(X without the task column, the task of each row or None)."""
        column = self.task_column
        if column is None:
            return X, tasks
        if tasks is not None:
            raise ConfigError([Problem("tasks=", "none beside task_column=", "some")])
        if isinstance(column, str):
            with extra("tables", "task columns with names"):
                import narwhals
            try:
                frame = narwhals.from_native(X, eager_only=True)
            except TypeError:
                expected, got = f"a frame with the column {quoted(column)} (task_column=)", f"a {type(X).__name__}"
                raise DataError([Problem(_ROWS, expected, got)]) from None
            if column not in frame.columns:
                hint = did_you_mean(column, frame.columns)
                raise DataError([Problem(_ROWS, f"a task column {quoted(column)}", listed(frame.columns), hint)])
            return frame.drop(column).to_native(), frame.get_column(column).to_list()
        X = X.tocsc() if hasattr(X, "tocsc") else np.asarray(X)
        if X.ndim != 2 or not 0 <= column < X.shape[1]:
            raise DataError([Problem("task_column=", "the number of a column of X", f"{column}")])
        others = np.flatnonzero(np.arange(X.shape[1]) != column)
        own = X[:, [column]]
        return X[:, others], (own.toarray() if hasattr(own, "toarray") else own).ravel().tolist()

    @staticmethod
    def _texts(tasks: Any, X: Any) -> npt.NDArray[Any]:
        """The task of each row, as a text."""
        if tasks is None:
            return np.repeat(np.array([ONE_TASK], dtype=object), X.shape[0])
        found = np.asarray(tasks, dtype=object).ravel()
        check_consistent_length(X, found)
        texts = np.array([label_text(task) for task in found.tolist()], dtype=object)
        faults = Faults()
        for name in dict.fromkeys(texts.tolist()):
            check_task_name(name, f"tasks=, row {int(np.flatnonzero(texts == name)[0])}", faults)
        faults.raise_if_any()
        return texts

    def _places(self, of_row: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """The number of each row's task."""
        known = {name: place for place, name in enumerate(self.task_names_)}
        for row, name in enumerate(of_row.tolist()):
            if name not in known:
                hint = did_you_mean(name, known) or "partial_fit takes all tasks in its first call (task_names=)"
                expected = f"one of the tasks {listed(self.task_names_)}"
                raise DataError([Problem(f"tasks=, row {row}", expected, quoted(name), hint)])
        return np.array([known[name] for name in of_row.tolist()], dtype=np.int64)

    @staticmethod
    def _two(y: Any) -> npt.NDArray[Any]:
        """The labels of y, at most two."""
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        found: npt.NDArray[Any] = np.unique(column_or_1d(y))
        return found

    def _signs(self, y: npt.NDArray[Any]) -> Vector:
        return np.where(y == self.classes_[-1], 1.0, -1.0)

    def _rows(self, X: Any) -> Matrix | SparseRows:
        """Rows of the kind that was learned first, dense or sparse."""
        sparse_first = self._online.preprocessing.numbers == 0
        if hasattr(X, "tocsr") and not sparse_first:
            X = X.toarray()
        elif not hasattr(X, "tocsr") and sparse_first:
            from scipy.sparse import csr_matrix

            X = csr_matrix(X)
        table = Arrays({_ROWS: (X, np.zeros(X.shape[0]))}).table(Source(Path(_ROWS), _ROWS), Faults())
        assert table is not None
        return table.rows
