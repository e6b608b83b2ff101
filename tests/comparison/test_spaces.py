"""What is searched: as many settings for each learner, all of them allowed, none depending on another."""

from __future__ import annotations

from pathlib import Path

import pytest

from drom_net.algorithms import BUILTIN
from drom_net.algorithms.learner import Learner, Search
from drom_net.algorithms.local import LocalParameters, local
from drom_net.comparison.comparison_data import comparison_data, named_config
from drom_net.comparison.jobs import configure
from drom_net.comparison.spaces import Line, draw, line_names, line_of, lines_of, num_settings
from drom_net.config.load import load_config
from drom_net.config.model import to_yaml
from drom_net.core.errors import UsageError


def test_every_algorithm_is_a_learner() -> None:
    assert {line_of(name).algorithm for name in line_names()} == set(BUILTIN)


def test_all_learners_with_something_to_tune_get_the_same_number_of_settings() -> None:
    assert {num_settings(name, 24) for name in line_names() if line_of(name).search.space} == {24}
    assert num_settings("adadrom", 24) == 1


@pytest.mark.parametrize("name", line_names())
def test_settings_are_allowed_by_the_configuration(name: str, tmp_path: Path) -> None:
    """Also that eta0 * lambda is at most 2, which a file is checked for."""
    dataset = comparison_data(named_config("synthetic"))
    wanted = num_settings(name, 40)
    drawn = [draw(name, number, 7) for number in range(wanted)]
    assert len({repr(values) for values in drawn}) > 0.85 * wanted
    for values in drawn:
        assert values.keys() == drawn[0].keys()
        config = configure(dataset, name, values, seed=0)
        path = tmp_path / "drawn.yaml"
        path.write_text(to_yaml(config))
        assert load_config(path).algorithm == config.algorithm
        if "lam" in values and name.startswith("drom"):
            assert values["eta0"] * values["lam"] <= 2.0  # type: ignore[operator]


@pytest.mark.parametrize("name", line_names())
def test_the_first_setting_is_the_defaults(name: str) -> None:
    defaults = BUILTIN[line_of(name).algorithm].parameters()
    assert all(getattr(defaults, field) == value for field, value in draw(name, 0, 5).items())


def test_a_setting_is_drawn_from_its_number_and_the_seed() -> None:
    assert draw("drom", 3, 0) == draw("drom", 3, 0) != draw("drom", 3, 1)


def test_a_learner_without_a_space_has_its_defaults() -> None:
    learner = Learner(name="new", parameters=LocalParameters, build=local, reveals="Nothing.")
    assert lines_of("new", learner) == {"new": Line("new", Search())}
    assert num_settings("adadrom", 24) == 1
    assert draw("adadrom", 0, 0) == {}


def test_an_unknown_learner_is_refused_with_a_hint() -> None:
    with pytest.raises(UsageError, match=r'got "osmtl-x"; did you mean "osmtl-'):
        line_of("osmtl-x")
