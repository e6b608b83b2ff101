"""The configuration: what is accepted, what every mistake is answered with, and what is written back."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drom_net.algorithms import BUILTIN
from drom_net.algorithms.drom import PAPER, DromParameters
from drom_net.algorithms.drom_d import DromDParameters
from drom_net.algorithms.local import LocalParameters
from drom_net.cli import main
from drom_net.config.load import load_config
from drom_net.config.model import (
    TOP_LEVEL,
    ClusterConfig,
    PeerSettings,
    ReducerSettings,
    algorithm_settings,
    config_digest,
    data_settings,
    graph_schedule,
    is_loopback,
    peer_endpoints,
    to_mapping,
    to_yaml,
)
from drom_net.config.schema import SCHEMA_FILE, accepts, json_schema, reference_tables
from drom_net.core.errors import ConfigError, DataError, InputError, UsageError
from drom_net.core.fields import REQUIRED, Setting, settings_of
from drom_net.data.public.places import DATA_FOLDER_VARIABLE
from drom_net.data.settings import DATA_SECTIONS, DigitsSites, FileData, LiveData
from drom_net.graph.families import resolve
from drom_net.graph.settings import TopologySettings
from drom_net.protocol.settings import Timeouts

ROOT = Path(__file__).parents[1]
SHIPPED = sorted((ROOT / "configs").glob("*.yaml"))
LEARNERS = ", ".join(BUILTIN)
DROM = "algorithm: {name: drom}\n"
DIGITS = "data: {dataset: digits-sites}\n"
GOOD = DROM + DIGITS
LIVE = (
    DROM + "data: {dataset: live, tasks: [a, b], features: [age, dose], bias: 1}\n"
    "source: {bind: 'tcp://127.0.0.1:5601', unlabelled: 7, keep: all}\n"
)
DROM_D = "algorithm: {name: drom-d}\n"
RING = DROM_D + DIGITS + "topology: {graph: ring}\n"
TOP_KEYS = "one of the keys " + ", ".join(TOP_LEVEL)


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_FOLDER_VARIABLE, raising=False)


def load(folder: Path, text: str | bytes, *overrides: str) -> ClusterConfig:
    path = folder / "c.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_config(path, overrides)


def messages(folder: Path, text: str | bytes, *overrides: str) -> list[str]:
    """What a bad configuration is answered with, a line a problem, without the folder of the test."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text, *overrides)
    assert caught.value.exit_code == 2
    return str(caught.value).replace(f"{folder}/", "").split("\n")


# Good ones ----------------------------------------------------------------------------------------


def test_the_smallest_file_gets_every_default(tmp_path: Path) -> None:
    config = load(tmp_path, GOOD)
    assert config.name == "c"
    assert config.algorithm.name == "drom"
    assert config.algorithm.parameters == DromParameters()
    assert config.data == DigitsSites()
    assert (config.rounds, config.seed) == (None, 0)
    assert config.reducer == ReducerSettings()
    assert config.timeouts == Timeouts()
    assert (config.path, config.base) == (tmp_path / "c.yaml", tmp_path)


def test_everything_can_be_said(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """
        name: Spam.2
        algorithm: {name: drom, eta0: 5, lambda: 1e-3, xi: .inf, kappa: .5, loss: hinge}
        data:
          {files: 'site-{task}.csv', tasks: [a, b], positive: 'yes', negative: ['no', n], ignore: [id], center: [1, 2]}
        rounds: 100
        seed: 7
        reducer: {endpoint: 'tcp://hub_1.Example:5571', bind: 'tcp://0.0.0.0:5571'}
        timeouts: {join_s: 5}
        """,
    )
    assert config.name == "Spam.2"
    assert config.algorithm.parameters == DromParameters(eta0=5.0, lam=0.001, kappa=0.5, loss="hinge")
    assert isinstance(config.algorithm.parameters.eta0, float)
    data = config.data
    assert isinstance(data, FileData)
    assert (data.tasks, data.positive, data.negative) == (("a", "b"), ("yes",), ("no", "n"))
    assert (data.ignore, data.center) == (("id",), (1.0, 2.0))
    assert (config.rounds, config.seed) == (100, 7)
    assert config.reducer.listens_at == "tcp://0.0.0.0:5571"
    assert config.timeouts.join_s == 5.0


def test_a_preset_replaces_defaults_and_keys_replace_the_preset(tmp_path: Path) -> None:
    text = "algorithm: {name: drom, preset: paper, p: 0.7}\n" + DIGITS
    parameters = load(tmp_path, text).algorithm.parameters
    assert parameters == DromParameters(loss="hinge", eta0=1.0, lam=1.0, rho=1.0, xi=1.0, p=0.7, kappa=math.inf)


@pytest.mark.parametrize(
    ("written", "expected"),
    [("no", "no"), ("on", "on"), ("12:30", "12:30"), ("2024-01-31", "2024-01-31"), ("0b1", "0b1")],
)
def test_yaml_1_2_texts(tmp_path: Path, written: str, expected: str) -> None:
    config = load(tmp_path, f"{DROM}data: {{files: a.csv, label: {written}}}")
    assert isinstance(config.data, FileData)
    assert config.data.label == expected


@pytest.mark.parametrize(
    ("written", "number"), [("1e-3", 1e-3), ("1e1", 10.0), (".5", 0.5), ("+2", 2.0), ("0x0A", 10.0)]
)
def test_yaml_1_2_numbers(tmp_path: Path, written: str, number: float) -> None:
    config = load(tmp_path, f"algorithm: {{name: local, eta0: {written}}}\n{DIGITS}")
    assert config.algorithm.parameters == LocalParameters(eta0=number)


def test_aliases_are_followed_and_empty_sections_are_defaults(tmp_path: Path) -> None:
    text = f"{GOOD}reducer:\ntimeouts: {{join_s: &t 3, lost_s: *t}}\nname:\nrounds: null\n"
    config = load(tmp_path, text)
    assert (config.timeouts.join_s, config.timeouts.lost_s) == (3.0, 3.0)
    assert config.reducer == ReducerSettings()


@pytest.mark.parametrize(
    ("stem", "name"), [("star-4", "star-4"), ("my run (2)", "my-run-2"), ("..", "cluster"), ("ä", "cluster")]
)
def test_the_name_is_that_of_the_file_made_safe(tmp_path: Path, stem: str, name: str) -> None:
    path = tmp_path / f"{stem}.yaml"
    path.write_text(GOOD)
    assert load_config(path).name == name


def test_relative_data_files_start_at_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = DROM + "data: {files: a.csv}"
    assert load(tmp_path, files).base == tmp_path
    assert load(tmp_path, files, "data.directory=sub").base == tmp_path / "sub"
    assert load(tmp_path, files, "data.directory=/else").base == Path("/else")
    monkeypatch.setenv(DATA_FOLDER_VARIABLE, "/public")
    assert load(tmp_path, files, "data.directory=sub").base == Path("/public")


# Bad ones -----------------------------------------------------------------------------------------

BAD: dict[str, tuple[str | bytes, list[str]]] = {
    "empty": ("", ["c.yaml: expected a mapping, got an empty file"]),
    "only a comment": ("# nothing\n", ["c.yaml: expected a mapping, got an empty file"]),
    "a list": ("- a\n", [f"c.yaml: expected a mapping with the keys {TOP_KEYS[16:]}, got a list"]),
    "a text": ("hello\n", [f'c.yaml: expected a mapping with the keys {TOP_KEYS[16:]}, got "hello"']),
    "syntax": (
        "algorithm: {name: drom\ndata: 3\n",
        ['c.yaml:1:12: expected a closing "}", got none'],
    ),
    "tab": (
        "algorithm:\n\tname: drom\n",
        ["c.yaml:2:1: expected blanks, got a tab; indent with spaces, not tabs"],
    ),
    "pattern without quotes": (
        DROM + "data:\n  files: {task}.csv\n",
        ['c.yaml:3:16: expected the end of the line, got ".csv"; a text that starts with { needs quotes'],
    ),
    "a quote that stays open": (
        'data:\n  files: "x.csv\n  label: y\n',
        ['c.yaml:2:10: expected a closing ", got none'],
    ),
    "a list that stays open": (
        "data:\n  tasks: [a, b\n  label: y\n",
        ['c.yaml:2:10: expected a closing "]", got none'],
    ),
    "a list without a comma": ('data: {tasks: ["a" "b"]}\n', ['c.yaml:1:20: expected "," or "]", got a text']),
    "a colon in a value": (
        "data:\n  label: time: now\n",
        ['c.yaml:2:10: expected quotes around a text with ": " in it, got "time: now"'],
    ),
    "no blank behind a colon": (
        "data:\n  files:x\n  label: y\n",
        ['c.yaml:2:3: expected KEY: VALUE, with a blank behind the colon, got "files:x"'],
    ),
    "a key without a value": ("data:\n  files: x\n  label\n", ['c.yaml:3:3: expected KEY: VALUE, got "label"']),
    "indented further": (
        "data:\n  files: x\n   label: y\n",
        ["c.yaml:3:4: expected keys of one section one below the other, got one that is indented further"],
    ),
    "indented less": (
        "data:\n  files: x\n label: y\n",
        ["c.yaml:3:2: expected keys of one section one below the other, got one that is indented in another way"],
    ),
    "an item among keys": ("data:\n  files: x\n  - a\n", ['c.yaml:3:3: expected a key, as above, got "-"']),
    "a text that needs quotes": ("name: @x\n", ['c.yaml:1:7: expected a text in quotes, got one that starts with "@"']),
    "an anchor without a name": ("name: &\n", ['c.yaml:1:7: expected a text in quotes, got one that starts with "&"']),
    "an anchor with an odd name": (
        "name: &a!b\n",
        ['c.yaml:1:7: expected a text in quotes, got one that starts with "&"'],
    ),
    "a tag that stays open": ("name: !<a\n", ['c.yaml:1:7: expected a text in quotes, got one that starts with "!"']),
    "a bar before a text": ("name: |x\n", ['c.yaml:1:7: expected a text in quotes, got one that starts with "|"']),
    "the same anchor twice": (
        "name: &x a\nseed: &x 3\n",
        ['c.yaml:2:7: expected a text in quotes, got one that starts with "&"'],
    ),
    "a bracket alone": ("name: ]\n", ['c.yaml:1:7: expected a value, got "]"']),
    "a first key that is indented": (
        "# a cluster\n\n name: a\nseed: 1\n",
        ["c.yaml:3:2: expected keys at the beginning of the line, got one that is indented"],
    ),
    "a first item that is indented": (
        "--- # a list\n  - a\nseed: 1\n",
        ["c.yaml:2:3: expected keys at the beginning of the line, got one that is indented"],
    ),
    "a key behind a list": ("[a, b]\nseed: 1\n", ["c.yaml:2:1: expected the end of the file, got a key"]),
    "a bracket behind the end": ("{seed: 1}\n}\n", ['c.yaml:2:1: expected the end of the file, got "}"']),
    "a line of YAML's own": (
        "%YAML 1.1\nname: a\n",
        ["c.yaml:2:1: expected a line --- below those that start with %, got a text"],
    ),
    "no label that is negative": (
        DROM + "data: {files: a.csv, positive: 'yes',\n  negative: 'no', unlabelled: ['no', unknown]}\n",
        ['c.yaml:3: data.unlabelled[0]: expected no label of data.negative, got "no"'],
    ),
    "no label that is positive": (
        DROM + "data: {files: a.csv, positive: [a, '1'], unlabelled: '1.0'}\n",
        ['c.yaml:2: data.unlabelled: expected no label of data.positive, got the text "1.0"'],
    ),
    "a missing value that is positive": (
        DROM + "data: {files: a.csv, positive: [a, 'null']}\n",
        ['c.yaml:2: data.positive[1]: expected a label, got the text "null"; in a file it means that there is none'],
    ),
    "the rest of nothing": (
        DROM + "data: {files: a.csv, rest: negative}\n",
        ["c.yaml:2: data.positive: expected the label that is +1, beside data.rest, got none"],
    ),
    "a positive of the wrong kind": (
        DROM + "data: {files: a.csv, positive: {}, negative: a}\n",
        [
            "c.yaml:2: data.positive: expected a label, or a list of such, got a mapping; "
            "a text that starts with { needs quotes"
        ],
    ),
    "a format of the wrong kind": (
        DROM + "data: {files: a.csv, format: [csv]}\n",
        ["c.yaml:2: data.format: expected one of csv, svmlight, npz, parquet or MODULE:ATTRIBUTE, got a list"],
    ),
    "an alias of nothing": ("name: *x\n", ['c.yaml:1:7: expected a text in quotes, got one that starts with "*"']),
    "an escape of another language": (
        'name: "a\\d"\n',
        ['c.yaml:1:10: expected an escape of YAML, got "\\d"; in single quotes a backslash stands for itself'],
    ),
    "not utf-8": (
        GOOD.encode() + b"# \xff\n",
        ["c.yaml:3:3: expected UTF-8, got the byte 0xff; save the file as UTF-8"],
    ),
    "utf-16": (GOOD.encode("utf-16"), ["c.yaml:1:1: expected UTF-8, got the byte 0xff; save the file as UTF-8"]),
    "control character": (GOOD + "name: a\x07", ["c.yaml:3: expected YAML, got the character U+0007"]),
    "impossible escape": (
        GOOD + 'name: "\\UFFFFFFFF"',
        ["c.yaml: expected YAML, got a syntax error (an escape or a version out of range)"],
    ),
    "two documents": (GOOD + "---\n" + GOOD, ["c.yaml:3: expected one YAML document, got another one"]),
    "duplicate key": (
        GOOD + "seed: 1\nseed: 2\n",
        ["c.yaml:4: seed: expected each key once, got it again; the first is in line 3"],
    ),
    "keys that are no text": (
        GOOD + "1: 2\n? [a]\n: 3\n",
        ["c.yaml:3: expected a text as a key, got 1", "c.yaml:4: expected a text as a key, got a list"],
    ),
    "tag": (
        GOOD + "name: !!python/name:os.system x\n",
        ['c.yaml:3: name: expected a value without a tag, got the tag "tag:yaml.org,2002:python/name:os.system"'],
    ),
    "recursive alias": (
        GOOD + "timeouts: &a {join_s: *a}\n",
        [
            "c.yaml:3: expected at most 200000 values, 20 levels deep, got more; "
            "an alias may contain itself or multiply others"
        ],
    ),
    "nothing but a key": (
        "seed: 1\n",
        [
            f"c.yaml: data.dataset: expected one of {', '.join(DATA_SECTIONS)}, got nothing",
        ],
    ),
    "sections of the wrong kind": (
        "algorithm: drom\ndata: [digits-sites]\ntimeouts: 3\n",
        [
            'c.yaml:1: algorithm: expected a mapping, got "drom"; set algorithm.name to it',
            "c.yaml:2: data: expected a mapping, got a list",
            "c.yaml:3: timeouts: expected a mapping, got 3",
        ],
    ),
    "unknown algorithm": (
        "algorithm: {name: dorm, eta0: 1, eta: 2}\n" + DIGITS,
        [
            f'c.yaml:1: algorithm.name: expected one of {LEARNERS}, got "dorm"; did you mean "drom"?',
            'c.yaml:1: algorithm.eta: expected a key of algorithm, got "eta"; did you mean "eta0"?',
        ],
    ),
    "unknown preset": (
        "algorithm: {name: drom, preset: papr}\n" + DIGITS,
        ['c.yaml:1: algorithm.preset: expected one of default, paper, got "papr"; did you mean "paper"?'],
    ),
    "near miss at the top": (
        GOOD + "sed: 1\n",
        [f'c.yaml:3: sed: expected {TOP_KEYS}, got "sed"; did you mean "seed"?'],
    ),
    "near miss among many": (
        DROM + "data:\n  files: a.csv\n  lable: x\n",
        ['c.yaml:4: data.lable: expected a key of data (files), got "lable"; did you mean "label"?'],
    ),
    "no near miss": (
        GOOD + "reducer: {zzz: 1}\n",
        ['c.yaml:3: reducer.zzz: expected one of the keys endpoint, bind, got "zzz"'],
    ),
    "key of another section": (
        GOOD + "eta0: 5\njoin_s: 3\nendpoint: x\n",
        [
            f'c.yaml:3: eta0: expected {TOP_KEYS}, got "eta0"; it belongs under algorithm',
            f'c.yaml:4: join_s: expected {TOP_KEYS}, got "join_s"; it belongs under timeouts',
            f'c.yaml:5: endpoint: expected {TOP_KEYS}, got "endpoint"; it belongs under reducer',
        ],
    ),
    "key of the top in a section": (
        "algorithm: {name: drom, seed: 4}\n" + DIGITS,
        ['c.yaml:1: algorithm.seed: expected a key of algorithm (drom), got "seed"; it belongs at the top'],
    ),
    "key of another kind": (
        "algorithm: {name: local, rho: 1}\ndata: {dataset: synthetic, zero_based: true}\n",
        [
            'c.yaml:1: algorithm.rho: expected one of the keys name, preset, eta0, loss, steps, got "rho"; '
            "it belongs to algorithm drom, drom-d and d-admm",
            'c.yaml:2: data.zero_based: expected a key of data (synthetic), got "zero_based"; '
            "it belongs to dataset files and live",
        ],
    ),
    "bad numbers": (
        "algorithm:\n  name: drom\n  eta0: 0\n  lambda: .inf\n  rho: .nan\n  p: 1.5\n  xi: inf\n  kappa: true\n"
        "  power_iterations: 10.5\n" + DIGITS,
        [
            "c.yaml:3: algorithm.eta0: expected a number above 0, got 0",
            "c.yaml:4: algorithm.lambda: expected a number of at least 0, got .inf; it must be finite",
            "c.yaml:5: algorithm.rho: expected a number of at least 0, got .nan",
            "c.yaml:6: algorithm.p: expected a number above 0 and at most 1, got 1.5",
            'c.yaml:7: algorithm.xi: expected a number above 0 or .inf, got "inf"; write .inf',
            "c.yaml:8: algorithm.kappa: expected a number above 0 or .inf, got true",
            "c.yaml:9: algorithm.power_iterations: expected a whole number from 1 to 1000000, got 10.5",
        ],
    ),
    "numbers in quotes, and the other way round": (
        'algorithm: {name: drom, eta0: "10"}\ndata: {files: a.csv, positive: 1, label: no, task_column: true}\n',
        [
            'c.yaml:1: algorithm.eta0: expected a number above 0, got the text "10"',
            'c.yaml:2: data.positive: expected a label, or a list of such, got 1; in quotes it is a text: "1"',
            'c.yaml:2: data.task_column: expected a column name, got true; in quotes it is a text: "true"',
        ],
    ),
    "whole numbers": (
        GOOD + f"rounds: 1e3\nseed: {10**100}\n",
        [
            "c.yaml:3: rounds: expected a whole number of at least 1, got 1e3; write 1000",
            f"c.yaml:4: seed: expected a whole number of at least 0, got {str(10**100)[:77]}...",
        ],
    ),
    "null": (
        DROM + "data: {dataset: digits-sites, flip:}\nseed: ~\n",
        [
            "c.yaml:2: data.flip: expected a number from 0 to 1, got nothing; leave the key out for its default",
            "c.yaml:3: seed: expected a whole number of at least 0, got nothing; leave the key out for its default",
        ],
    ),
    "truth": (
        DROM + "data: {dataset: digits-sites, shuffle: yes}\n",
        ['c.yaml:2: data.shuffle: expected true or false, got "yes"'],
    ),
    "name that is no folder": (
        GOOD + 'name: "../x\\n"\n',
        [
            "c.yaml:3: name: expected a name of letters, digits, '.', '_' and '-', got \"../x\\n\"",
        ],
    ),
    "eta0 times lambda": (
        "algorithm:\n  name: drom\n  lambda: 1\n  kapa: 2\n" + DIGITS,
        [
            "c.yaml:3: algorithm.lambda: expected eta0 * lambda of at most 2, got 10 * 1 = 10",
            'c.yaml:4: algorithm.kapa: expected a key of algorithm (drom), got "kapa"; did you mean "kappa"?',
        ],
    ),
    "one file for two tasks": (
        DROM + "data: {files: all.csv, tasks: [a, b]}\n",
        ['c.yaml:2: data.files: expected a pattern with {task}, or data.task_column, for 2 tasks, got "all.csv"'],
    ),
    "both ways to name a task": (
        DROM + "data: {files: 'a-{task}.csv', task_column: site}\n",
        ["c.yaml:2: data.task_column: expected either {task} in data.files or a task column, got both"],
    ),
    "another word in braces": (
        DROM + "data: {files: 'a-{tsk}.csv'}\n",
        ['c.yaml:2: data.files: expected no braces but {task}, got "a-{tsk}.csv"; did you mean "{task}"?'],
    ),
    "task names": (
        DROM + "data: {files: 'all.csv', task_column: site, tasks: [a, ' ']}\n",
        ['c.yaml:2: data.tasks[1]: expected a name of 1 to 200 characters, none of them a control character, got " "'],
    ),
    "a control character in a task name": (
        DROM + "data: {files: 'all.csv', task_column: site, tasks: [a, \"b\\e[31m\"]}\n",
        [
            "c.yaml:2: data.tasks[1]: expected a name of 1 to 200 characters, none of them a control character, "
            'got "b\\u001b[31m"'
        ],
    ),
    "a number as a task name": (
        DROM + "data: {files: '{task}.csv', tasks: [a, 3]}\n",
        [
            "c.yaml:2: data.tasks[1]: expected a name of 1 to 200 characters, none of them a control character, "
            'got 3; in quotes it is a text: "3"'
        ],
    ),
    "task names that no file can have": (
        DROM + "data: {files: '{task}.csv', tasks: [a, b/c, .., d]}\n",
        [
            'c.yaml:2: data.tasks[1]: expected a name that can be in that of a file, got "b/c"; '
            "data.task_column takes any",
            'c.yaml:2: data.tasks[2]: expected a name that can be in that of a file, got ".."; '
            "data.task_column takes any",
        ],
    ),
    "task twice": (
        DROM + "data:\n  files: '{task}.csv'\n  tasks:\n    - a\n    - b\n    - a\n",
        ['c.yaml:7: data.tasks[2]: expected each item once, got "a"'],
    ),
    "tasks that differ only in white space": (
        DROM + "data: {files: 'all.csv', task_column: site, tasks: [Leeds General, ' Leeds   General ']}\n",
        ['c.yaml:2: data.tasks[1]: expected each item once, got " Leeds   General "'],
    ),
    "hash": (
        DROM + "data:\n  files: '{task}.svm'\n  hash: 1000\n  dim: 1000\n",
        [
            "c.yaml:4: data.hash: expected a power of two, got 1000",
            "c.yaml:5: data.dim: expected either data.hash or data.dim, got both",
        ],
    ),
    "columns that contradict": (
        DROM + "data:\n  files: a.csv\n  features: [x, y, label]\n  dim: 2\n  center: [0, 0]\n  scale: [1, 0, 1]\n",
        [
            'c.yaml:4: data.features[2]: expected no feature that is data.label, got "label"',
            "c.yaml:5: data.dim: expected 3, as data.features lists so many, got 2",
            "c.yaml:7: data.scale: expected 2 numbers, as data.center has, got 3",
            "c.yaml:7: data.scale[1]: expected a number other than 0, got 0",
        ],
    ),
    "center and scale": (
        DROM + "data: {files: a.csv, center: [0, 0], scale: [1]}\n",
        ["c.yaml:2: data.scale: expected 2 numbers, as data.center has, got 1"],
    ),
    "columns and features": (
        DROM + "data:\n  files: a.csv\n  features: [x]\n  columns: {x: number, label: yes/no}\n",
        [
            "c.yaml:4: data.features: expected either data.columns or data.features, got both",
            'c.yaml:5: data.columns: expected no feature that is data.label, got "label"',
        ],
    ),
    "a kind that is none": (
        DROM + "data: {files: a.csv, columns: {x: numbr}}\n",
        [
            "c.yaml:2: data.columns: expected a mapping from column names to kinds, got a mapping; "
            'of column "x": expected a kind (number, yes/no, category, date, time, text, identifier, counter, empty, '
            "ignored), or a mapping with it as `kind`"
        ],
    ),
    "levels that YAML takes for truth": (
        DROM + "data: {files: a.csv, columns: {x: {kind: category, levels: [on, 1]}}}\n",
        [
            "c.yaml:2: data.columns: expected a mapping from column names to kinds, got a mapping; of column "
            '"x": expected a list of texts as `levels`; numbers, true and false need quotes there'
        ],
    ),
    "text among numbers": (
        DROM + "data: {files: a.csv, center: [0, x], scale: []}\n",
        [
            'c.yaml:2: data.center[1]: expected a number, got "x"',
            "c.yaml:2: data.scale: expected a list of numbers, got an empty list",
        ],
    ),
    "bind alone": (
        GOOD + "reducer: {bind: 'tcp://*:5571'}\n",
        [
            'c.yaml:3: reducer.bind: expected tcp://host:port or ipc://path, got "tcp://*:5571"; '
            "write 0.0.0.0 for all addresses of this host"
        ],
    ),
    "bind without endpoint": (
        GOOD + "reducer: {bind: 'tcp://0.0.0.0:5571'}\n",
        [
            "c.yaml:3: reducer.bind: expected reducer.endpoint as well, for the workers, "
            "got only where the reducer listens"
        ],
    ),
    "peers without a graph": (
        DROM_D + DIGITS,
        [
            "c.yaml:1: algorithm.name: expected a section topology beside drom-d, for the graph of its peers, "
            "got none; such as topology: {graph: ring}"
        ],
    ),
    "a graph beside a star": (
        GOOD + "topology: {graph: ring}\npeers: {endpoints: ['tcp://a:1']}\n",
        [
            "c.yaml:3: topology: expected no such section with algorithm drom, got a mapping; "
            "drom has a reducer, and no graph of peers; algorithm.name: "
            "adadrom, drom-d, fed-avg-d or mt-co2ol-d has one",
            "c.yaml:4: peers: expected no such section with algorithm drom, got a mapping; "
            "drom has a reducer, and its workers are no peers; where they meet is reducer.endpoint",
        ],
    ),
    "a graph beside Local": (
        "algorithm: {name: local}\n" + DIGITS + "topology: {graph: ring}\n",
        [
            "c.yaml:3: topology: expected no such section with algorithm local, got a mapping; "
            "local has a reducer, and no graph of peers; algorithm.name: "
            "adadrom, drom-d, fed-avg-d or mt-co2ol-d has one"
        ],
    ),
    "a reducer beside peers": (
        RING + "reducer: {endpoint: 'tcp://a:1'}\n",
        [
            "c.yaml:4: reducer: expected no such section with algorithm drom-d, got a mapping; "
            "the peers of drom-d have no reducer; where they meet is peers.endpoints"
        ],
    ),
    "keys of another graph": (
        DROM_D + DIGITS + "topology:\n  graph: ring\n  degree: 3\n  weights: zeta\n",
        [
            "c.yaml:3: topology.zeta: expected a value, as weights is zeta, got nothing",
            "c.yaml:5: topology.degree: expected no such key with graph: ring, got 3",
        ],
    ),
    "a graph of no kind": (
        DROM_D + DIGITS + "topology: {graph: rnig, neighbours: 3, tau: 2}\n",
        [
            "c.yaml:3: topology.graph: expected one of full, ring, nearest, grid, torus, hub, path, hypercube, "
            "exponential, regular, erdos-renyi, one-peer-exponential, edges, adjacency, weights, "
            'got "rnig"; did you mean "ring"?',
            'c.yaml:3: topology.neighbours: expected a key of topology, got "neighbours"; did you mean "neighbors"?',
            'c.yaml:3: topology.tau: expected a key of topology, got "tau"; it belongs under algorithm',
        ],
    ),
    "no graph at all": (
        DROM_D + DIGITS + "topology: {zeta: 0.5}\n",
        [
            "c.yaml:3: topology.graph: expected one of full, ring, nearest, grid, torus, hub, path, hypercube, "
            "exponential, regular, erdos-renyi, one-peer-exponential, edges, adjacency, weights, got nothing"
        ],
    ),
    "edges": (
        DROM_D + DIGITS + "topology:\n  graph: edges\n  edges:\n    - [0, 1]\n    - [0, 1, 2]\n",
        ["c.yaml:7: topology.edges[1]: expected a pair [a, b], each a task's name or its number from 0, got a list"],
    ),
    "peers' endpoints": (
        RING + "peers:\n  endpoints: ['tcp://a:1', 'tcp://0.0.0.0:1']\n  bind: ['tcp://*:1']\n",
        [
            'c.yaml:5: peers.endpoints[1]: expected tcp://host:port or ipc://path, got "tcp://0.0.0.0:1"; '
            "nobody can connect to 0.0.0.0; where peers listen is peers.bind",
            'c.yaml:6: peers.bind[0]: expected tcp://host:port or ipc://path, got "tcp://*:1"; '
            "write 0.0.0.0 for all addresses of this host",
        ],
    ),
    "an endpoint twice": (
        RING + "peers: {endpoints: ['tcp://a:1', 'tcp://b:1', 'tcp://a:1'], endpoint: x}\n",
        [
            'c.yaml:4: peers.endpoints[2]: expected each endpoint once, got "tcp://a:1"',
            'c.yaml:4: peers.endpoint: expected one of the keys endpoints, bind, got "endpoint"; '
            'did you mean "endpoints"?',
        ],
    ),
    "peers that listen only": (
        RING + "peers: {bind: ['tcp://0.0.0.0:1']}\n",
        [
            "c.yaml:4: peers.bind: expected peers.endpoints as well, for the neighbors, got only where peers listen",
        ],
    ),
    "other numbers of peers": (
        RING + "peers:\n  endpoints: ['tcp://a:1', 'tcp://b:1']\n  bind: ['tcp://0.0.0.0:1']\n",
        ["c.yaml:6: peers.bind: expected 2 endpoints, as peers.endpoints has, got 1"],
    ),
    "eta0 times lambda of peers": (
        "algorithm: {name: drom-d, lambda: 1}\n" + DIGITS + "topology: {graph: ring}\n",
        ["c.yaml:1: algorithm.lambda: expected eta0 * lambda of at most 2, got 10 * 1 = 10"],
    ),
    "null byte": (
        DROM + 'data: {files: "a\\0.csv"}\n',
        ['c.yaml:2: data.files: expected a file name, or a pattern with {task}, got "a\\u0000.csv"'],
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_configurations(tmp_path: Path, kind: str) -> None:
    text, expected = BAD[kind]
    assert messages(tmp_path, text) == expected


ENDPOINTS = {
    "localhost": "",
    "tcp://localhost": "",
    "tcp://localhost:0": "a port is a number from 1 to 65535",
    "tcp://localhost:65536": "a port is a number from 1 to 65535",
    "tcp://localhost:http": "",
    "tcp://::1:5571": "an IPv6 address stands in brackets",
    "tcp://[::g]:5571": "",
    "tcp://[1::2::3]:5571": "[1::2::3] is not an IP address",
    "tcp://256.0.0.1:5571": "256.0.0.1 is not an IP address",
    "tcp://a b:5571": "",
    "tcp://-a:5571": "",
    "tcp://0.0.0.0:5571": "nobody can connect to 0.0.0.0; where the reducer listens is reducer.bind",
    "tcp://[::]:5571": "nobody can connect to [::]; where the reducer listens is reducer.bind",
    "http://localhost:5571": "",
    "ipc://": "",
    "ipc://" + "x" * 200: "a socket's path has at most 100 bytes",
}


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_bad_endpoints(tmp_path: Path, endpoint: str) -> None:
    text = f"{GOOD}reducer:\n  endpoint: {json.dumps(endpoint)}\n"
    shown = json.dumps(endpoint if len(endpoint) <= 80 else endpoint[:77] + "...")
    hint = f"; {ENDPOINTS[endpoint]}" if ENDPOINTS[endpoint] else ""
    place = "c.yaml:4: reducer.endpoint"
    assert messages(tmp_path, text) == [f"{place}: expected tcp://host:port or ipc://path, got {shown}{hint}"]


@pytest.mark.parametrize(
    ("endpoint", "loopback"),
    [
        ("tcp://127.0.0.1:5571", True),
        ("tcp://LOCALHOST:1", True),
        ("tcp://[::1]:65535", True),
        ("tcp://[::ffff:127.0.0.1]:1", True),
        ("ipc:///tmp/drom.sock", True),
        ("tcp://192.168.1.7:5571", False),
        ("tcp://My_Host-1.example.org:5571", False),
        ("tcp://reducer:5571", False),
        ("tcp://[fe80::1%eth0]:5571", False),
    ],
)
def test_good_endpoints_and_who_can_reach_them(tmp_path: Path, endpoint: str, loopback: bool) -> None:
    config = load(tmp_path, f"{GOOD}reducer: {{endpoint: '{endpoint}'}}")
    assert config.reducer.listens_at == endpoint
    assert is_loopback(endpoint) is loopback


def test_binding_everywhere_is_not_loopback() -> None:
    assert not is_loopback("tcp://0.0.0.0:5571")
    assert not is_loopback("tcp://[::]:5571")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path, got in ((tmp_path / "none.yaml", "no such file"), (tmp_path / "folder", "a folder")):
        with pytest.raises(ConfigError) as caught:
            load_config(path)
        assert str(caught.value) == f"{path}: expected a YAML file, got {got}"
    with pytest.raises(ConfigError, match="one that cannot be read"):
        load_config(Path("a\0b"))


@pytest.mark.slow
def test_hostile_files_end_at_a_limit(tmp_path: Path) -> None:
    laughs = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 19))
    assert "got more; an alias may contain itself or multiply others" in messages(tmp_path, laughs)[0]
    assert "more than 20 levels of nesting" in messages(tmp_path, "[" * 100_000)[0]
    assert messages(tmp_path, "#" * 2**20 + "#") == ["c.yaml: expected at most 1048576 bytes, got more"]
    many = messages(tmp_path, GOOD + "".join(f"k{i}: 1\n" for i in range(500)))
    assert len(many) == 101
    assert many[-1] == "c.yaml: expected fewer than 100 problems, got more; the rest is not shown"


# Overrides ----------------------------------------------------------------------------------------


def test_overrides_replace_and_add(tmp_path: Path) -> None:
    overrides = ["algorithm.eta0=5", "data.flip=0.1", "rounds=100", "algorithm.eta0=1e-1", "timeouts.join_s=2"]
    config = load(tmp_path, GOOD, *overrides)
    assert config.algorithm.parameters == DromParameters(eta0=0.1)
    assert config.data == DigitsSites(flip=0.1)
    assert config.rounds == 100
    assert config.timeouts.join_s == 2.0


def test_override_values_are_scalars_or_lists(tmp_path: Path) -> None:
    text = DROM + "data: {files: a.csv}\nrounds: 4\n"
    overrides = ["data.files={task}: #1.csv", "data.tasks=[a, b]", "data.positive='1'", "rounds=", "seed= 3 "]
    config = load(tmp_path, text, *overrides)
    assert isinstance(config.data, FileData)
    assert (config.data.files, config.data.tasks, config.data.positive) == ("{task}: #1.csv", ("a", "b"), ("1",))
    assert (config.rounds, config.seed) == (None, 3)


def test_another_algorithm_drops_what_only_the_former_one_knows(tmp_path: Path) -> None:
    text = "algorithm: {name: drom, eta0: 3, lambda: 0.1, kappa: 9}\n" + DIGITS
    config = load(tmp_path, text, "algorithm.name=local")
    assert config.algorithm.parameters == LocalParameters(eta0=3.0)
    assert messages(tmp_path, text.replace("kappa", "kapa"), "algorithm.name=local") == [
        'c.yaml:1: algorithm.kapa: expected one of the keys name, preset, eta0, loss, steps, got "kapa"'
    ]
    assert messages(tmp_path, text, "algorithm.name=local", "algorithm.lambda=1") == [
        '--set algorithm.lambda: expected one of the keys name, preset, eta0, loss, steps, got "lambda"; '
        "it belongs to algorithm drom, drom-d, d-admm and prox-gd"
    ]
    text = text.replace("kappa: 9", "preset: paper")
    assert messages(tmp_path, text, "algorithm.name=local") == [
        'c.yaml:1: algorithm.preset: expected one of default, got "paper"'
    ]


def test_another_algorithm_drops_the_sections_that_only_the_former_one_has(tmp_path: Path) -> None:
    """A yardstick run: the same file, with each task alone, or with a reducer; and the other way round."""
    peers = RING.replace("drom-d", "drom-d, tau: 5") + "peers: {endpoints: ['tcp://a:1', 'tcp://b:1']}\n"
    for name in ("local", "drom"):
        config = load(tmp_path, peers, f"algorithm.name={name}")
        assert config == load(tmp_path, f"algorithm: {{name: {name}}}\n{DIGITS}")
    assert messages(tmp_path, peers, "algorithm.name=local", "topology.graph=full") == [
        "--set topology: expected no such section with algorithm local, got a mapping; "
        "local has a reducer, and no graph of peers; algorithm.name: "
        "adadrom, drom-d, fed-avg-d or mt-co2ol-d has one"
    ]
    star = GOOD + "reducer: {endpoint: 'tcp://a:1'}\n"
    assert load(tmp_path, star, "algorithm.name=drom-d", "topology.graph=ring") == load(tmp_path, RING)
    assert load(tmp_path, star, "algorithm.name=local").reducer.endpoint == "tcp://a:1"
    assert messages(tmp_path, star, "algorithm.name=drom-d") == [
        "--set algorithm.name: expected a section topology beside drom-d, for the graph of its peers, got none; "
        "such as topology: {graph: ring}"
    ]


def test_bad_overrides_name_themselves(tmp_path: Path) -> None:
    overrides = [
        "eta0",
        "=3",
        "algorithm.eta0=x",
        "eta0=3",
        "rounds.x=3",
        "data.shuffle=[a",
        "seed=[1]",
        "algorithm.lambda=-1",
    ]
    assert messages(tmp_path, GOOD + "rounds: 5\n", *overrides) == [
        '--set: expected key=value, such as algorithm.eta0=5, got "eta0"',
        '--set: expected key=value, such as algorithm.eta0=5, got "=3"',
        '--set algorithm.eta0: expected a number above 0, got "x"',
        f'--set eta0: expected {TOP_KEYS}, got "eta0"; it belongs under algorithm',
        "--set rounds.x: expected a section where rounds is, got 5",
        '--set data.shuffle: expected "," or "]", got the end',
        "--set seed: expected a whole number of at least 0, got a list",
        "--set algorithm.lambda: expected a number of at least 0, got -1",
    ]


def test_cross_checks_name_the_override(tmp_path: Path) -> None:
    assert messages(tmp_path, "algorithm: {name: drom, lambda: 0.1}\n" + DIGITS, "algorithm.eta0=100") == [
        "--set algorithm.eta0: expected eta0 * lambda of at most 2, got 100 * 0.1 = 10"
    ]


# Writing ------------------------------------------------------------------------------------------

FULL = """
name: full
algorithm: {name: drom, preset: paper, kappa: 3e-5}
data:
  files: 'a/{task}.csv'
  tasks: [a, "1", "1e3", "null", "yes"]
  label: "12:30"
  positive: " ü, \\u2028x\\u0085 \U0001f600"
  features: ["#", "x: y", "[", "0x1", ""]
  ignore: []
  center: [1, 2, 3, 4, 5e-324]
rounds: 3
reducer: {endpoint: 'tcp://[::1]:5571'}
""".replace(', ""]', ', "-"]')


PEERS_FULL = """
algorithm: {name: drom-d, preset: paper, tau: 5, exchange: delayed, outlier: skip}
data: {dataset: synthetic, tasks: 3}
topology: {graph: edges, edges: [[0, 1], [task-02, 2]], weights: zeta, zeta: 0.9}
peers: {endpoints: ['tcp://a:1', 'tcp://b:1', 'ipc://c'], bind: ['tcp://0.0.0.0:1', 'tcp://0.0.0.0:1', 'ipc://c']}
"""
MATRIX = DROM_D + DIGITS + "topology: {graph: adjacency, file: sub/a.csv}\n"


def test_peers_with_everything(tmp_path: Path) -> None:
    config = load(tmp_path, PEERS_FULL)
    assert config.algorithm.parameters == DromDParameters(**PAPER, tau=5, exchange="delayed", outlier="skip")
    edges = ((0, 1), ("task-02", 2))
    assert config.topology == TopologySettings(graph="edges", edges=edges, weights="zeta", zeta=0.9)
    assert config.peers.listens_at == ("tcp://0.0.0.0:1", "tcp://0.0.0.0:1", "ipc://c")
    assert load(tmp_path, PEERS_FULL, "peers.bind=").peers.listens_at == ("tcp://a:1", "tcp://b:1", "ipc://c")
    assert load(tmp_path, GOOD + "topology:\npeers:\n").topology is None
    assert load(tmp_path, RING + "reducer:\n").reducer == ReducerSettings()
    matrix = load(tmp_path, MATRIX).topology
    assert matrix is not None
    assert matrix.file == str(tmp_path / "sub" / "a.csv")


def test_there_are_as_many_endpoints_as_tasks(tmp_path: Path) -> None:
    config = load(tmp_path, PEERS_FULL)
    assert peer_endpoints(config, ["a", "b", "c"]) == ("tcp://a:1", "tcp://b:1", "ipc://c")
    assert peer_endpoints(load(tmp_path, RING), ["a", "b"]) is None
    with pytest.raises(ConfigError) as caught:
        peer_endpoints(load(tmp_path, PEERS_FULL), ["a", "b"])
    place = f"{tmp_path / 'c.yaml'}: peers.endpoints"
    assert str(caught.value) == f"{place}: expected 2 endpoints, one for each task, got 3"


@pytest.mark.parametrize(
    "text", [GOOD, FULL, "algorithm: {name: local}\ndata: {dataset: synthetic}\n", RING, PEERS_FULL, MATRIX, LIVE]
)
def test_what_is_written_loads_again_to_an_equal_configuration(tmp_path: Path, text: str) -> None:
    config = load(tmp_path, text)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert load(elsewhere, to_yaml(config)) == config
    assert load(elsewhere, json.dumps(to_mapping(config), allow_nan=False)) == config
    assert to_yaml(load(elsewhere, to_yaml(config))) == to_yaml(config)
    assert to_yaml(config).startswith("# ")


def test_every_value_is_written_out(tmp_path: Path) -> None:
    written = to_mapping(load(tmp_path, GOOD))
    assert list(written) == [key for key in TOP_LEVEL if key not in ("topology", "peers", "source")]
    assert written["algorithm"] == {"name": "drom", "eta0": 10.0, "lambda": 0.003, "rho": 0.1, "p": 0.9} | {
        "xi": ".inf",
        "kappa": 2.0,
        "loss": "logistic",
        "solver": "power",
        "power_iterations": 10,
        "f0": "regularise",
        "ended": "keep",
    }
    assert yaml.safe_load(to_yaml(load(tmp_path, GOOD)))["algorithm"]["xi"] == math.inf


def test_the_digest_covers_what_defines_the_result(tmp_path: Path) -> None:
    def digest(*overrides: str, tasks: Sequence[str] = ("a", "b")) -> str:
        return config_digest(load(tmp_path, FULL, *overrides), tasks)

    first = digest()
    assert re.fullmatch("[0-9a-f]{64}", first)
    same = ["name=x", "reducer.endpoint=tcp://b:1", "data.directory=/x", "data.files=/y/{task}.csv"]
    for override in [*same, "timeouts.join_s=1"]:
        assert digest(override) == first, override
    other = ["algorithm.eta0=0.5", "algorithm.kappa=.inf", "data.files=b-{task}.csv", "data.flip=0.1"]
    other += ["data.passes=2"]
    for override in [*other, "data.label=y", "rounds=4", "rounds=", "seed=1", "algorithm.name=local"]:
        extra = ["algorithm.preset=default"] if "name" in override else []
        assert digest(override, *extra) != first, override
    assert digest(tasks=["b", "a"]) != first


def test_the_digest_covers_the_graphs_and_not_how_they_are_said(tmp_path: Path) -> None:
    text = "algorithm: {name: drom-d}\ndata: {dataset: synthetic}\ntopology: {graph: erdos-renyi, probability: 0.5}\n"
    text += "peers: {endpoints: ['tcp://a:1', 'tcp://b:1', 'tcp://c:1', 'tcp://d:1']}\n"
    tasks = ["a", "b", "c", "d"]

    def digest(*overrides: str, text: str = text) -> str:
        return config_digest(load(tmp_path, text, *overrides), tasks)

    first = digest()
    assert digest("peers.endpoints=[tcp://e:1]") == digest("peers.endpoints=") == first
    assert digest("topology.graph_seed=1") != first
    assert digest("topology.weights=metropolis") != first
    config = load(tmp_path, text)
    schedule = graph_schedule(config, tasks)
    assert schedule is not None
    assert config.topology is not None
    resolved = dataclasses.replace(config, topology=resolve(config.topology, schedule.union))
    assert config_digest(resolved, tasks) == first
    assert digest(text=to_yaml(resolved)) == first

    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.csv").write_text("0,1,0,1\n1,0,1,0\n0,1,0,1\n1,0,1,0\n")
    assert digest(text=MATRIX) == digest(text=RING)
    assert graph_schedule(load(tmp_path, GOOD), tasks) is None


# Schema, documentation, shipped files -------------------------------------------------------------


def test_the_stored_schema_and_the_tables_are_in_step() -> None:
    """``python -m drom_net.config`` writes both."""
    assert json.loads(SCHEMA_FILE.read_text()) == json_schema()
    assert reference_tables() in (ROOT / "docs" / "configuration.md").read_text()


def rows_of(text: str) -> dict[str, tuple[str, ...]]:
    """(accepts, default, meaning) by key, of the tables in a text."""
    rows = {}
    for line in (line for line in text.splitlines() if line.startswith("| `")):
        key, values, meaning = re.split(r" (?<!\\)\| ", line[2:-2])
        found = re.fullmatch(r"(.+?)(?: \((`[^`]+`|required)\))?", values)
        assert found, line
        rows[key.strip("`")] = (found[1], found[2] or "none", meaning)
    return rows


def test_the_tables_say_what_is_accepted_in_fewer_words_than_a_message() -> None:
    specs = {
        **settings_of(Timeouts),
        **algorithm_settings("drom-d"),
        **data_settings("files"),
        **settings_of(PeerSettings),
    }
    shown = {key: accepts(setting.spec) for key, setting in specs.items()}
    assert shown["join_s"] == "number > 0"
    assert shown["p"] == "number > 0 and <= 1"
    assert shown["xi"] == "number > 0 or .inf"
    assert shown["tau"] == "integer >= 1, or a list, one a task"
    assert shown["passes"] == "integer from 1 to 1000000"
    assert shown["loss"] == "hinge, squared_hinge, logistic"
    assert shown["tasks"] == "list, each a name of 1 to 200 characters"
    assert shown["positive"] == "label or a list"
    assert shown["endpoints"] == "list of endpoints"


@pytest.mark.parametrize(
    ("section", "selector", "kinds", "settings_for"),
    [("algorithm", "name", BUILTIN, algorithm_settings), ("data", "dataset", DATA_SECTIONS, data_settings)],
)
def test_the_tables_say_every_key_of_every_kind(
    section: str, selector: str, kinds: dict[str, object], settings_for: Callable[[str], dict[str, Setting]]
) -> None:
    """In the kind's own table, by reference to that of another one, or in the table of all."""
    parts = dict(part.split("\n", 1) for part in reference_tables().removeprefix("### ").split("\n### "))
    common = rows_of(parts[f"`{section}`"])
    for kind in kinds:
        text = parts.get(f"`{section}.{selector}: {kind}`", "")
        told = dict(common)
        for where, listed in re.findall(r"As with `([\w-]+)`: (.+?)\.(?=\s)", text):
            rows = rows_of(parts[f"`{section}.{selector}: {where}`"])
            for key, default in re.findall(r"`(\w+)`(?: \(default ([^)]+)\))?", listed):
                told[key] = (rows[key][0], default or rows[key][1], rows[key][2])
        told |= rows_of(text)
        for key in re.findall(r"`(\w+)`", "".join(re.findall(r"There is no ([^.]+)\.", text))):
            del told[key]
        assert text or f"`{kind}`" in re.findall(r"No others: (.+)\.\n", parts[f"`{section}`"])[0].split(", ")
        known = settings_for(kind)
        assert told.keys() == known.keys(), kind
        for key, setting in known.items():
            accepted, default, meaning = told[key]
            assert (accepted, meaning) == (accepts(setting.spec), setting.doc), (kind, key)
            odd = {REQUIRED: "required", math.inf: ".inf", (): "[]"}
            assert default.strip("`") == odd.get(setting.default, str(setting.default).lower()), (kind, key)


def valid(document: object) -> bool:
    checker = jsonschema.Draft202012Validator(json_schema())
    return bool(checker.is_valid(document))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_configurations_load_and_validate(path: Path) -> None:
    config = load_config(path)
    text = path.read_text()
    assert text.startswith("# yaml-language-server: $schema=../drom_net/schema.json\n")
    assert valid(yaml.safe_load(text))
    assert valid(to_mapping(config))


WITH_A_GRAPH = [path for path in SHIPPED if "\ntopology:" in path.read_text()]


@pytest.mark.parametrize("path", WITH_A_GRAPH, ids=lambda path: path.name)
def test_shipped_graphs_have_the_zeta_that_they_state(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ((stated, weights),) = re.findall(r"zeta (\d\.\d{3}) \((Metropolis weights|weights in use)\)", path.read_text())
    assert main(["topology", str(path)]) == 0
    printed = capsys.readouterr()
    assert re.search(
        rf"^zeta, {weights.replace('weights', '').strip()} +{re.escape(stated)}$", printed.out, re.MULTILINE
    )
    tasks = path.stem.partition("-")[2]
    assert re.search(rf"^tasks +{tasks}$", printed.out, re.MULTILINE)
    assert printed.err == ""
    if family := re.match(r"zeta(\d\d)-", path.stem):
        assert float(stated) == pytest.approx(float(family[1]) / 100, abs=0.05)


def test_the_networks_of_the_paper_are_shipped() -> None:
    """decisions.md, zeta: by name and by zeta, for 4, 12 and 30 tasks."""
    names = {"full-4", "ring-4", "path-4", "zeta50-4", "zeta90-4"}
    names |= {f"{kind}-{m}" for kind in ("full", "ring", "grid", "zeta50", "zeta90") for m in (12, 30)}
    assert names == {path.stem for path in WITH_A_GRAPH}


def test_quickstart_names_its_algorithm_and_no_endpoint() -> None:
    document = yaml.safe_load((ROOT / "configs" / "quickstart.yaml").read_text())
    assert document["algorithm"]["name"] == "drom"
    assert "reducer" not in document


@pytest.mark.parametrize("name", ["tests.no_such:LEARNER", "an-entry-point"])
def test_the_schema_takes_learners_of_other_packages_with_any_keys(name: str) -> None:
    assert valid({"algorithm": {"name": name, "width": [3]}, "data": {"files": "a"}, "topology": {"graph": "ring"}})
    assert valid({"algorithm": {"name": name}, "data": {"files": "a"}, "reducer": {}})


@pytest.mark.parametrize(
    "document",
    [
        {"algorithm": {"name": "drom"}},
        {"algorithm": {"name": "drom"}, "data": {}},
        {"algorithm": {"name": "drom", "eta": 1}, "data": {"dataset": "synthetic"}},
        {"algorithm": {"name": "local", "rho": 1}, "data": {"dataset": "synthetic"}},
        {"algorithm": {"name": "drom", "p": 0}, "data": {"dataset": "synthetic"}},
        {"algorithm": {"name": "drom"}, "data": {"dataset": "synthetic", "files": "x"}},
        {"algorithm": {"name": "drom"}, "data": {"dataset": "files"}},
        {"algorithm": {"name": "drom"}, "data": {"files": "a", "lable": "x"}},
        {"algorithm": {"name": "drom"}, "data": {"files": "a"}, "seeds": 1},
        {"algorithm": {"name": "drom"}, "data": {"files": "a"}, "reducer": {"endpoint": "localhost"}},
        {"algorithm": {"name": "drom-d"}, "data": {"files": "a"}},
        {"algorithm": {"name": "drom-d"}, "data": {"files": "a"}, "topology": None},
        {"algorithm": {"name": "drom-d"}, "data": {"files": "a"}, "topology": {}},
        {"algorithm": {"name": "drom-d"}, "data": {"files": "a"}, "topology": {"graph": "ring"}, "reducer": {}},
        {"algorithm": {"name": "local"}, "data": {"files": "a"}, "topology": {"graph": "ring"}},
        {"algorithm": {"name": "drom"}, "data": {"files": "a"}, "peers": {}},
        {"algorithm": {"name": "drom"}, "data": {"files": "a"}, "source": {"stdin": True}},
        {"algorithm": {"name": "drom"}, "data": {"dataset": "live", "tasks": ["a"], "dim": 2}},
        {"algorithm": {"name": "drom"}, "data": {"dataset": "live", "dim": 2}, "source": {"stdin": True}},
    ],
)
def test_the_schema_refuses_what_loading_refuses(tmp_path: Path, document: dict[str, Any]) -> None:
    assert not valid(document)
    assert messages(tmp_path, json.dumps(document))


# Live data ----------------------------------------------------------------------------------------


def live(source: str, data: str = "tasks: [a, b], dim: 2") -> str:
    return DROM + f"data: {{dataset: live, {data}}}\nsource: {source}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (live("{}"), "source.bind: expected one of source.bind, source.file and source.stdin, got none"),
        (live("{stdin: true, file: 'a-{task}.csv'}"), "source.stdin: expected one of source.bind, source.file and"),
        (DROM + "data: {dataset: live, tasks: [a], dim: 2}\n", "source.bind: expected one of source.bind"),
        (GOOD + "source: {stdin: true}\n", "source: expected no such section with dataset digits-sites, got a mapping"),
        (live("{bind: [tcp://a:1]}"), "source.bind: expected 2 endpoints, as there are so many tasks, got 1"),
        (live("{bind: 'tcp://a:{tsk}'}"), "source.bind: expected tcp://host:port or ipc://path, with {task}"),
        (live("{bind: 'ipc://{tsk}'}"), 'source.bind: expected no braces but {task}, got "ipc://{tsk}"; did you mean'),
        (live("{file: a.csv}"), 'source.file: expected a name with {task}, for 2 tasks, got "a.csv"'),
        (live("{file: '{task}.log'}"), "source.file: expected a name that ends in .jsonl, .ndjson, .csv"),
        (live("{bind: 'ipc://{task}', format: csv}"), 'source.format: expected none beside source.bind, got "csv"'),
        (live("{bind: 'ipc://{task}', backlog: 0}"), "source.backlog: expected a whole number from 1 to 10000000, got"),
        (live("{stdin: true}", "tasks: [a]"), "data.dim: expected data.columns, data.features, data.dim or data"),
        (
            live("{stdin: true}", "tasks: [a], dim: 2, negative: ['9']"),
            "data.positive: expected the label that is +1, beside data.negative, got none",
        ),
        (
            live("{stdin: true}", "tasks: [a], dim: 2, positive: a, rest: negative, unlabelled: [b, a]"),
            'data.unlabelled[1]: expected no label of data.positive, got "a"',
        ),
        (live("{stdin: true}", "tasks: [a], hash: 6"), "data.hash: expected a power of two, got 6"),
        (live("{stdin: true}", "tasks: [a], dim: 2, scaling: site"), "data.scaling: expected running or none, for"),
        (live("{stdin: true}", "tasks: [a], dim: 2, positive: x"), "data.negative: expected the label that is -1, or"),
        (live("{stdin: true}", "dim: 2"), "data.tasks: expected a list of different items"),
        (live("{stdin: true}", "tasks: [], dim: 2"), "data.tasks: expected at least one name, got none"),
        (live("{stdin: true}", "tasks: [a], dim: 2, shuffle: true"), "data.shuffle: expected a key of data (live)"),
        (live("{stdin: true}", "tasks: [a], hash: 4, center: [1, 1]"), "data.center: expected either data.hash or"),
    ],
)
def test_what_live_data_must_say(tmp_path: Path, text: str, expected: str) -> None:
    told = messages(tmp_path, text)
    assert any(expected in line for line in told), told


def test_the_names_of_live_features_are_read_once_so_that_nodes_need_no_file_of_them(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("age\ndose\n")
    config = load(tmp_path, live("{file: 'in/{task}.csv'}", "tasks: [a], features: names.txt"))
    assert isinstance(config.data, LiveData) and config.data.features == ("age", "dose")
    assert config.source is not None and config.source.file == f"{tmp_path}/in/{{task}}.csv"
    (tmp_path / "names.txt").unlink()
    with pytest.raises(DataError, match=r"names\.txt: expected a file, got none of this name"):
        load(tmp_path, live("{stdin: true}", "tasks: [a], features: names.txt"))
    with pytest.raises(DataError, match=r"data\.center: expected 3 numbers"):
        load(tmp_path, live("{stdin: true}", "tasks: [a], dim: 3, center: [1, 2]"))


def test_the_digest_of_live_data_does_not_cover_its_source(tmp_path: Path) -> None:
    def digest(*overrides: str) -> str:
        return config_digest(load(tmp_path, LIVE, *overrides), ["a", "b"])

    assert digest("source.backlog=3", "source.bind=ipc://{task}", "source.round_every_s=1") == digest()
    assert digest("data.bias=2") != digest()
    assert digest("data.features=[dose, age]") != digest()


# Fuzzing ------------------------------------------------------------------------------------------

KEYS = st.sampled_from([*TOP_LEVEL, "dataset", "files", "tasks", "eta0", "preset", "endpoint", "hash", "scale"])
GRAPH_KEYS = st.sampled_from([*settings_of(TopologySettings), "endpoints", "bind"])
GRAPHS = st.sampled_from(["ring", "full", "grid", "edges", "regular", "erdos-renyi", "weights", "metropolis", "zeta"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["drom", "local", "files", "synthetic", "paper", "{task}", "tcp://a:1", ".inf", 10**500]),
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)
SECTION = st.dictionaries(KEYS, DOCUMENTS, max_size=5)
CONFIGS = st.fixed_dictionaries(
    {
        "algorithm": SECTION.map(lambda section: {"name": "drom"} | section),
        "data": SECTION.map(lambda section: {"files": "{task}.csv"} | section),
    },
    optional={"rounds": SCALARS, "seed": SCALARS, "name": SCALARS, "reducer": SECTION, "timeouts": SECTION},
)
PEERS = st.fixed_dictionaries(
    {
        "algorithm": st.just({"name": "drom-d"}),
        "data": st.just({"files": "{task}.csv"}),
        "topology": st.dictionaries(GRAPH_KEYS, GRAPHS | DOCUMENTS, max_size=4).map(lambda s: {"graph": "ring"} | s),
    },
    optional={"peers": st.dictionaries(GRAPH_KEYS, DOCUMENTS, max_size=3), "reducer": SECTION},
)
PIECES = ["algorithm: ", "{name: drom}", "\n", "  ", "- ", ": ", "[", "]", "{", "}", "&a ", "*a", "!!int ", "? "]
PIECES += ['"', "'", "|", ">", "%YAML 1.2\n", "---\n", "...\n", "\t", "#", "\\U", "\x85", "\ufeff", "x", "1", "<<: *a"]


def survives(folder: Path, content: bytes, *overrides: str) -> None:
    """A configuration or a ConfigError, and a configuration can be written and read again."""
    path = folder / "c.yaml"
    path.write_bytes(content)
    try:
        config = load_config(path, overrides)
    except ConfigError as error:
        assert error.problems
        str(error).encode()
        return
    path.write_text(to_yaml(config), encoding="utf-8")
    assert load_config(path) == config
    with contextlib.suppress(
        InputError, UsageError
    ):  # a graph that one task cannot have, or a matrix that is not there
        config_digest(config, ["a"])


FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_random_bytes(tmp_path: Path, content: bytes) -> None:
    survives(tmp_path, content)


@FUZZ
@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_random_pieces_of_yaml(tmp_path: Path, pieces: list[str]) -> None:
    survives(tmp_path, "".join(pieces).encode())
    survives(tmp_path, (GOOD + "".join(pieces)).encode())


@pytest.mark.slow
@FUZZ
@given(CONFIGS | PEERS | DOCUMENTS)
def test_random_structures(tmp_path: Path, document: object) -> None:
    survives(tmp_path, yaml.safe_dump(document, allow_unicode=True).encode("utf-8", "surrogatepass"))


@FUZZ
@given(st.text(min_size=1), st.lists(st.text(min_size=1, max_size=5), min_size=1, unique=True), st.floats(1, 2))
def test_random_texts_come_back_as_they_were(tmp_path: Path, positive: str, features: list[str], eta0: float) -> None:
    data = {"files": "a.csv", "positive": positive, "features": features}
    survives(tmp_path, json.dumps({"algorithm": {"name": "local", "eta0": eta0}, "data": data}).encode())
    data = {"files": "a.csv", "positive": [positive, positive + "x"], "columns": dict.fromkeys(features, "number")}
    survives(tmp_path, json.dumps({"algorithm": {"name": "local", "eta0": eta0}, "data": data}).encode())


@FUZZ
@given(st.lists(st.builds("{}.{}={}".format, KEYS, KEYS, st.text(max_size=12)) | st.text(max_size=12), max_size=4))
def test_random_overrides(tmp_path: Path, overrides: list[str]) -> None:
    survives(tmp_path, GOOD.encode(), *overrides)


def test_a_preset_named_by_set_replaces_the_parameters_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("algorithm: {name: drom, eta0: 20, rho: 9}\ndata: {dataset: digits-sites}\n")
    parameters = load_config(path, ["algorithm.preset=paper", "algorithm.rho=3"]).algorithm.parameters
    assert (parameters.eta0, parameters.lam, parameters.rho, parameters.loss) == (1.0, 1.0, 3.0, "hinge")
    assert load_config(path, ["algorithm.lambda=0.01"]).algorithm.parameters.eta0 == 20.0


def test_data_files_are_looked_for_beside_the_topology_file_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DROM_NET_DATA, which names the folder of public sets, does not move a user's own files."""
    own, named = tmp_path / "own", tmp_path / "named"
    own.mkdir()
    named.mkdir()
    path = own / "c.yaml"
    path.write_text("algorithm: {name: local}\ndata: {files: 's[1]-{task}.csv'}\n")
    monkeypatch.setenv("DROM_NET_DATA", str(named))
    assert load_config(path).base == named
    (own / "s[1]-a.csv").touch()
    assert load_config(path).base == own
    monkeypatch.delenv("DROM_NET_DATA")
    (own / "s[1]-a.csv").unlink()
    assert load_config(path).base == own
