"""One line each for what may spoil what is learned, and none where nothing does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drom_net.cluster.prepare import prepare
from drom_net.config.load import load_config
from drom_net.data.advice import advice
from drom_net.data.datasets import load_dataset
from drom_net.data.stream import FEW_ROWS
from drom_net.results.evidence import interval, levels


def told(base: Path, options: str = "", *, income: float = 3e4, labels: str = "1") -> list[str]:
    """Of three sites; site b has the labels that are said."""
    rng = np.random.default_rng(0)
    lines = ["site,age,income,label"]
    for site in "abc":
        for age, more in rng.standard_normal((60, 2)).tolist():
            label = int(age + more > 0) if site != "b" or labels == "both" else labels
            lines.append(f"{site},{62 + 10 * age!r},{income + income / 10 * more!r},{label}")
    (base / "t.csv").write_text("\n".join(lines) + "\n")
    (base / "c.yaml").write_text(f"algorithm: {{name: local}}\ndata: {{files: t.csv, task_column: site{options}}}\n")
    config = load_config(base / "c.yaml")
    prepared = prepare(config, load_dataset(config.data, base=config.base))
    return advice(prepared.dataset, prepared.streams)


def test_nothing_is_said_of_what_is_prepared_by_default(tmp_path: Path) -> None:
    assert told(tmp_path, labels="both") == []


def test_columns_whose_scales_differ(tmp_path: Path) -> None:
    line, _ = told(tmp_path, ", scaling: none, normalize: false", labels="both")
    assert line.startswith('after preparation "income" varies ') and 'times as much as "age", which will hardly' in line
    alike = told(tmp_path, ", scaling: none, normalize: false", income=620.0, labels="both")
    assert not any("varies" in line for line in alike)


def test_rows_that_are_nearly_parallel(tmp_path: Path) -> None:
    """What was done to each row before: of raw numbers the direction alone is left, and that is the same."""
    lines = told(tmp_path, ", scaling: none, bias: 0", income=620.0, labels="both")
    assert len(lines) == 1 and lines[0].startswith("after preparation rows are nearly parallel (the median cosine of")


@pytest.mark.parametrize("label", ["0", "1"])
def test_a_site_with_one_label_only(tmp_path: Path, label: str) -> None:
    assert told(tmp_path, labels=label) == ['"b" has one label only: its error says little']


def of_sites(base: Path, *sites: tuple[int, int], alignment: str = "lockstep") -> list[str]:
    """Of sites with so many rows of +1 and -1; their columns tell nothing."""
    rng = np.random.default_rng(0)
    lines = ["site,x,z,label"]
    for number, (positive, negative) in enumerate(sites):
        labels = [1] * positive + [0] * negative
        lines += [f"s{number},{rng.normal()!r},{rng.normal()!r},{label}" for label in rng.permutation(labels)]
    (base / "t.csv").write_text("\n".join(lines) + "\n")
    (base / "c.yaml").write_text(f"data: {{files: t.csv, task_column: site, alignment: {alignment}}}\n")
    config = load_config(base / "c.yaml")
    prepared = prepare(config, load_dataset(config.data, base=config.base))
    return advice(prepared.dataset, prepared.streams)


def test_sites_with_very_few_rows(tmp_path: Path) -> None:
    assert of_sites(tmp_path, (10, 10), (30, 30)) == []
    lines = of_sites(tmp_path, (2, 3), (9, 10), (30, 30))
    assert lines == [
        'too few rows with a label at "s0" (5), "s1" (19): to learn a model, or to tell whether sharing helps, takes '
        "20 at the very least, and mostly some hundreds"
    ]


def test_with_fewer_rows_than_that_nothing_could_be_told_of_a_site() -> None:
    """Of fifty sites: were sharing right in each row, and the site alone wrong."""
    of_one, _ = levels(50)
    assert of_one is not None
    level = 0.5 * of_one  # of errors, and as much of log loss
    assert interval(FEW_ROWS, FEW_ROWS, FEW_ROWS, level, 1.0)[0] > 0.0
    few = FEW_ROWS - 2
    assert interval(few, few, few, level, 1.0)[0] < 0.0


def test_sites_with_nearly_one_label_only(tmp_path: Path) -> None:
    assert of_sites(tmp_path, (4, 150), (60, 60)) == []
    (line,) = of_sites(tmp_path, (2, 200), (60, 60))
    assert line.startswith('few rows of the rarer label at "s0" (2 of 202): the error says little')


def test_a_site_with_far_more_rows_than_the_others(tmp_path: Path) -> None:
    sizes = (20, 20), (25, 25), (300, 300)
    (line,) = of_sites(tmp_path, *sizes)
    assert line.startswith('"s2" has 600 rows, 13 times as many as the other sites in the median')
    assert of_sites(tmp_path, *sizes, alignment="spread") == []
    assert of_sites(tmp_path, (20, 20), (190, 190)) == []


def test_a_site_whose_columns_are_mostly_empty(tmp_path: Path) -> None:
    lines = ["site,age,ward,heat,label"]
    lines += [f"a,{n},{'xy'[n % 2]},{n % 5}.5,{n % 2}" for n in range(30)]
    lines += [f"b,,,{n % 7}.5,{n % 3 % 2}" for n in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")

    def notes(ignore: str) -> list[str]:
        (tmp_path / "c.yaml").write_text(f"data: {{files: t.csv, task_column: site, ignore: [{ignore}]}}\n")
        config = load_config(tmp_path / "c.yaml")
        found = load_dataset(config.data, base=config.base).notes
        return [note for note in found if "no cell" in note]

    said = 'site "b" has no cell in 2 of 3 columns ("age", "ward"): little can be learned there'
    assert (notes(""), notes("ward")) == ([said], [])
