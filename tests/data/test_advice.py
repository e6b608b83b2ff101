"""One line each for what may spoil what is learned, and none where nothing does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drom_net.cluster.prepare import prepare
from drom_net.config.load import load_config
from drom_net.data.advice import advice
from drom_net.data.datasets import load_dataset


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
