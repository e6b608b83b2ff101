"""`drom-net audit`: what others can compute of the rows, and that the sentences of `check` and `run` say the same."""

from __future__ import annotations

import dataclasses
import json
import signal
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from by_hand import free_endpoint
from processes import DEADLINE_S, family, read_until

from drom_net.algorithms import BUILTIN
from drom_net.algorithms.base import NO_REPLY, Contribution, ContributionKind, SyncRounds
from drom_net.algorithms.drom import DromParameters
from drom_net.algorithms.features import dot, places
from drom_net.cli import main
from drom_net.cluster import leaving
from drom_net.cluster.audit import NEIGHBOR, NO_ATTACK, OTHER, READ, REDUCER, Audit, audit
from drom_net.cluster.check import bytes_as_a_rule, cost_of, plan_facts
from drom_net.cluster.leaving import readable, what_leaves_here
from drom_net.cluster.prepare import Prepared, prepare, with_parameters
from drom_net.cluster.progress import Silent
from drom_net.config.load import load_config
from drom_net.config.model import what_leaves
from drom_net.data.datasets import load_dataset
from drom_net.data.stream import TaskStream
from drom_net.results.attacks import ALONE_OR_TWO, attacks_on

ROWS = 40


def prepared(folder: Path, algorithm: str, more: str = "", *, tasks: int = 3, dim: int = 24) -> Prepared:
    path = folder / "cluster.yaml"
    path.write_text(
        f"algorithm: {{{algorithm}}}\n{more}\n"
        f"data: {{dataset: synthetic, tasks: {tasks}, examples: {ROWS}, dim: {dim}}}\n"
    )
    config = load_config(path)
    return prepare(config, load_dataset(config.data, base=config.base))


def attacked(folder: Path, algorithm: str, more: str = "", *, tasks: int = 3) -> tuple[Audit, dict[str, int | None]]:
    """The audit, and how many rows each onlooker has read."""
    found = audit(prepared(folder, algorithm, more, tasks=tasks), Silent())
    assert (found.rows, found.alike) == (tasks * ROWS, 0)
    return found, {onlooker.who: onlooker.read for onlooker in found.onlookers}


def test_the_reducer_reads_all_rows_of_drom_but_the_last_ones(tmp_path: Path) -> None:
    """A row follows from the contribution after it. In trials 99.3 % of digits-sites: 1,785 of 1,797, of 12 sites."""
    found, read = attacked(tmp_path, "name: drom")
    assert read == {REDUCER: 3 * (ROWS - 1), OTHER: None}
    assert found.onlookers[1].note == NO_ATTACK
    assert found.onlookers[0].model is not None and found.onlookers[0].model > READ


def test_a_power_iteration_by_sums_gives_most_rows_away_as_well(tmp_path: Path) -> None:
    """1,551 of the 1,797 rows of digits-sites."""
    found, read = attacked(tmp_path, "name: drom, solver: sums")
    assert (read[REDUCER] or 0) > 2 * ROWS
    assert found.onlookers[0].model is not None and found.onlookers[0].model > READ


def test_a_dual_vector_without_the_nuclear_norm_says_nothing(tmp_path: Path) -> None:
    assert attacked(tmp_path, "name: drom, lambda: 0")[1][REDUCER] == 0


@pytest.mark.parametrize("robust", ["false", "true"])
@pytest.mark.parametrize(("tau", "read"), [(20, 8), (2, 10), (1, ROWS)])
def test_the_reducer_reads_rows_of_adadrom_that_are_alone_or_two_between_sync_rounds(
    tau: int, read: int, robust: str, tmp_path: Path
) -> None:
    """The first eight are alone; with tau 2 there are pairs, which G, Q and Y give away together: five, until a Y does
    not come with each."""
    found, of = attacked(tmp_path, f"name: adadrom, tau: {tau}, robust: {robust}")
    assert of == {REDUCER: 3 * read, OTHER: 0}
    assert found.onlookers[0].model is not None
    assert found.onlookers[0].model > (0.95 if tau == 1 else 0.8), (
        "the sketch shows the model as it was when it was told last"
    )


def test_of_two_sites_each_reads_what_the_reducer_reads(tmp_path: Path) -> None:
    assert attacked(tmp_path, "name: adadrom", tasks=2)[1] == {REDUCER: 16, OTHER: 16}
    for name in ("pooled", "osmtl", "fed-avg, tau: 1", "adadrom, tau: 1"):
        assert attacked(tmp_path, f"name: {name}", tasks=2)[1] == {REDUCER: 80, OTHER: 80}, name


def test_another_site_reads_rows_where_the_third_is_idle(tmp_path: Path) -> None:
    """A site whose last row was earlier says nothing any more."""
    (tmp_path / "a.csv").write_text(table(0, 10))
    (tmp_path / "b.csv").write_text(table(1, 40))
    (tmp_path / "c.csv").write_text(table(2, 40))
    path = tmp_path / "own.yaml"
    path.write_text(
        "algorithm: {name: adadrom, tau: 1}\n"
        "data: {files: '{task}.csv', tasks: [a, b, c], label: y, scaling: none, bias: 0}\n"
    )
    config = load_config(path)
    found = audit(prepare(config, load_dataset(config.data, base=config.base)), Silent())
    assert found.rows == 90
    assert [onlooker.read for onlooker in found.onlookers] == [90, 60], "of b and c the rows 11 to 40"


def table(seed: int, rows: int) -> str:
    values = np.random.default_rng(seed).standard_normal((rows, 12))
    lines = [",".join([*(f"{value:.6f}" for value in row), str(int(row[0] > 0))]) for row in values]
    return "\n".join([",".join([*(f"x{k}" for k in range(12)), "y"]), *lines]) + "\n"


@pytest.mark.parametrize("exchange", ["blocking", "overlap"])
def test_a_neighbor_on_a_full_graph_reads_all_of_drom_d(exchange: str, tmp_path: Path) -> None:
    found, read = attacked(tmp_path, f"name: drom-d, exchange: {exchange}", "topology: {graph: full}")
    assert read == {NEIGHBOR: 3 * ROWS, OTHER: None}
    assert found.onlookers[1].note == "all sites are neighbors"
    late = attacked(tmp_path, "name: drom-d, exchange: delayed", "topology: {graph: full}")[1][NEIGHBOR]
    assert late is not None and late > 2 * ROWS


def test_along_a_tree_those_at_its_ends_are_read(tmp_path: Path) -> None:
    """A path of five: of the three in the middle the first row, before anything of others comes along."""
    name = "name: adadrom, tau: 1"
    _, read = attacked(tmp_path, name, "topology: {graph: path}", tasks=5)
    assert read[NEIGHBOR] is not None and 2 * ROWS + 3 <= read[NEIGHBOR] < 3 * ROWS
    assert attacked(tmp_path, name, "topology: {graph: full}")[1] == {NEIGHBOR: 3 * ROWS, OTHER: None}


def test_with_local_nothing_leaves(tmp_path: Path) -> None:
    found, read = attacked(tmp_path, "name: local")
    assert read == {REDUCER: 0, OTHER: 0}
    assert {onlooker.note for onlooker in found.onlookers} == {"nothing leaves a site"}


def test_models_that_are_averaged_seldom_hide_single_rows(tmp_path: Path) -> None:
    assert attacked(tmp_path, "name: fed-avg, tau: 1")[1][REDUCER] == 3 * ROWS
    assert attacked(tmp_path, "name: fed-avg, tau: 10")[1][REDUCER] == 0


def test_where_no_attack_is_known_it_says_so_and_never_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, read = attacked(tmp_path, "name: d-admm")
    assert read == {REDUCER: None, OTHER: None}
    assert {onlooker.note for onlooker in found.onlookers} == {NO_ATTACK}
    assert main(["audit", str(tmp_path / "cluster.yaml"), "-q"]) == 0
    out = capsys.readouterr().out
    assert NO_ATTACK in out and BUILTIN["d-admm"].reveals in out
    assert "safe" not in out.lower()


def test_an_attack_needs_what_it_hears() -> None:
    """A vector that is not DROM's gives guesses that are no rows: what is counted as read is computed, not found."""
    attack = attacks_on(DromParameters()).on_contributions
    assert attack is not None
    rng, listening, row = np.random.default_rng(0), attack(DromParameters(), 24), np.ones(24)
    for t in range(1, 20):
        for guess in listening.hear(t, Contribution(ContributionKind.VECTORS, (rng.standard_normal(24),)), NO_REPLY):
            at, values = places(row)
            assert abs(dot(guess.vector, row)) < READ * np.linalg.norm(guess.vector[at]) * np.linalg.norm(values)


def test_the_command_tells_a_table_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leaves = what_leaves(prepared(tmp_path, "name: adadrom").config)
    file = str(tmp_path / "cluster.yaml")
    assert main(["audit", file, "-q"]) == 0
    out = capsys.readouterr().out
    assert "the reducer   24 of 120 (20.0 %)" in out and leaves in out
    assert main(["audit", file, "-q", "--json", "--set", "algorithm.tau=1", "--set", "rounds=10"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["learner"], found["rows"], found["rounds"]) == ("adadrom", 30, 10)
    first = found["onlookers"][0]
    assert (first["who"], first["read"], first["share"], first["note"]) == (REDUCER, 30, 1.0, "")
    assert main(["audit", str(tmp_path / "none.yaml"), "-q"]) == 2


def test_live_data_has_nothing_to_attack_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "live.yaml"
    path.write_text(
        'data: {dataset: live, tasks: [a, b], columns: {x: number}, label: y, positive: "1", negative: "0"}\n'
        "source: {bind: 'ipc://{task}.socket'}\n"
    )
    assert main(["audit", str(path)]) == 2
    assert "live data has no examples before its processes run" in capsys.readouterr().err


def test_check_and_run_say_what_others_can_compute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepared(tmp_path, "name: adadrom")
    file = str(tmp_path / "cluster.yaml")
    assert main(["check", file]) == 0
    out = capsys.readouterr().out
    assert "what leaves: The reducer can compute rows that are alone between two sync rounds" in out
    assert f" the reducer at least 8 of the {ROWS} of each site; another site {NOT_GUARANTEED}.\n" in out
    assert main(["check", file, "--json", "--set", "algorithm.tau=1"]) == 0
    plan = json.loads(capsys.readouterr().out)
    every = plan["what_leaves"]
    assert every.startswith("The reducer can compute every row")
    assert f"the reducer at least {ROWS} of the {ROWS} of each site" in every
    assert [(each["who"], each["rows"]) for each in plan["readable"]] == [(REDUCER, [ROWS] * 3), (OTHER, [0] * 3)]
    assert main(["check", file, "--task", "task-01"]) == 0
    assert "what leaves: The reducer can compute" in capsys.readouterr().out
    run = ["run", file, "--driver", "reference", "--out", str(tmp_path / "run"), "--set", "algorithm.tau=1"]
    assert main(run) == 0
    assert f"what leaves: {every}\n" in capsys.readouterr().out
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["what_leaves"] == every


NOT_GUARANTEED = "none that is guaranteed (`drom-net audit` may find some)"
FULL, PATH = "topology: {graph: full}", "topology: {graph: path}"


@pytest.mark.parametrize(
    ("algorithm", "more", "sizes"),
    [
        ("name: adadrom", "", (5, 9, 40)),
        ("name: adadrom", "", (5, 40)),
        ("name: adadrom", "", (9, 11)),
        ("name: adadrom, tau: 1", "", (10, 30, 40)),
        ("name: adadrom, tau: 2", "", (23, 30)),
        ("name: adadrom", "rounds: 9", (30, 30)),
        ("name: adadrom", FULL, (12, 40, 40)),
        ("name: adadrom, tau: 1", FULL, (40, 40)),
        ("name: adadrom, tau: 1", PATH, (40, 40, 40, 40)),
        ("name: drom", "", (5, 30, 40)),
        ("name: drom, lambda: 0", "", (30, 30)),
        ("name: drom, solver: sums", "", (30, 30)),
        ("name: drom-d", FULL, (30, 40, 40)),
        ("name: drom-d, tau: 5", FULL, (30, 40)),
        ("name: drom-d", PATH, (30, 40, 30)),
        ("name: fed-avg", "", (20, 41, 60)),
        ("name: fed-avg, tau: 10", "", (21, 40, 40)),
        ("name: fed-avg, tau: 1", "", (20, 30, 40)),
        ("name: fed-avg, tau: 1", "", (30, 30)),
        ("name: fed-avg-d, tau: 1", FULL, (30, 30, 30)),
        ("name: prox-gd", "", (20, 30)),
        ("name: d-ofw", "", (20, 30)),
        ("name: fed-avg, tau: 1", "", (10, 30)),
        ("name: pooled", "", (10, 30, 40)),
        ("name: pooled", "", (10, 30)),
        ("name: osmtl", "", (10, 30)),
        ("name: osmtl", "", (10, 30, 20)),
        ("name: local", "", (10, 30)),
        ("name: d-admm", "", (10, 30)),
    ],
)
def test_what_check_says_can_be_read_is_what_an_audit_reads(
    algorithm: str, more: str, sizes: tuple[int, ...], tmp_path: Path
) -> None:
    """At the least, at the most or exactly; with these rows the bounds are met."""
    for site, rows in enumerate(sizes):
        (tmp_path / f"{site}.csv").write_text(table(site, rows))
    path = tmp_path / "own.yaml"
    data = "{files: '{task}.csv', label: y, scaling: none, bias: 0"
    for spread in ("", ", alignment: spread"):
        path.write_text(f"algorithm: {{{algorithm}}}\n{more}\ndata: {data}{spread}}}\n")
        config = load_config(path)
        made = prepare(config, load_dataset(config.data, base=config.base))
        found = {onlooker.who: onlooker.read for onlooker in audit(made, Silent()).onlookers}
        for who, rows_of_sites, bound in readable(made):
            read = found[who]
            if rows_of_sites is None:
                continue
            assert read is not None
            said = sum(rows_of_sites)
            fits = said <= read if bound == "at least" else said >= read if bound == "up to" else said == read
            assert fits, (spread, who, rows_of_sites, read)
            if PATH not in more and not spread and (who != OTHER or "adadrom" in algorithm):
                assert said == read, (who, rows_of_sites, read)


def test_a_run_and_a_check_look_at_each_site_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They tell it several times: all of it is kept by what was prepared."""
    looked: list[int] = []

    class Counted(leaving._Site):
        def __init__(self, stream: TaskStream, last: int) -> None:
            super().__init__(stream, last)
            looked.append(last)

    monkeypatch.setattr(leaving, "_Site", Counted)
    prepared(tmp_path, "name: adadrom")
    file = str(tmp_path / "cluster.yaml")
    for args in (["check"], ["check", "--json"], ["run", "--driver", "reference"], ["simulate"]):
        looked.clear()
        out = [] if args[0] == "check" else ["--out", str(tmp_path / args[0])]
        assert main([args[0], file, *args[1:], *out]) == 0
        assert looked == [ROWS] * 3, args
    made = prepared(tmp_path, "name: adadrom")
    assert readable(made) is readable(made)
    assert readable(with_parameters(made, tau=1)) != readable(made)


def test_of_many_passes_nothing_is_as_long_as_the_run(tmp_path: Path) -> None:
    """A list of its rounds would not fit into memory."""
    made = prepared(tmp_path, "name: adadrom, tau: 0")
    stream = dataclasses.replace(made.streams[0], passes=10**12)
    long = dataclasses.replace(made, streams=(stream, *made.streams[1:]))
    assert long.rounds == ROWS * 10**12
    assert [each.rows for each in readable(long)] == [each.rows for each in readable(made)] == [(8,) * 3, (0,) * 3]
    assert bytes_as_a_rule(long, cost_of(long)) is not None


def test_rows_that_are_alone_are_those_that_a_walk_through_all_rounds_finds() -> None:
    """In passes, over fewer or more rounds than examples, with labels that are not known, and with rows of zeros."""
    draws = np.random.default_rng(0)
    for _ in range(300):
        rows, passes, tau = (int(number) for number in draws.integers((1, 1, 1), (30, 5, 9)))
        labels = draws.choice([-1.0, 0.0, 1.0], rows)
        spread = int(draws.integers(1, 150)) if draws.random() < 0.5 else None
        values = np.ones((rows, 2)) * (draws.random((rows, 1)) < 0.8)
        stream = TaskStream(values, labels, labels, spread, passes)
        last = min(stream.last_round(), int(draws.integers(1, 150)))
        sync = SyncRounds(tau, growing=int(draws.choice([0, 4, 16])))
        since: list[int] = []
        alone: set[int] = set()
        learned: set[int] = set()
        for t in range(1, last + 1):
            index = stream.index_at(t)
            if index is not None and labels[index]:
                since.append(index)
                learned.add(index)
            if sync.at(t):
                alone |= {*since} if len(since) == 1 else set()
                since = []
        site = leaving._Site(stream, last)
        assert site.num_rows == len(learned)
        assert site.count(leaving._read(site, sync.up_to(last), ALONE_OR_TWO, None)) == sum(values[[*alone], 0])


def test_sites_that_differ_are_named_and_of_many_the_first(tmp_path: Path) -> None:
    def told(*sizes: int, algorithm: str = "name: drom") -> str:
        for site, rows in enumerate(sizes):
            (tmp_path / f"{site}.csv").write_text(table(site, rows))
        path = tmp_path / "own.yaml"
        path.write_text(f"algorithm: {{{algorithm}}}\ndata: {{files: '{{task}}.csv', label: y}}\n")
        config = load_config(path)
        made = prepare(config, load_dataset(config.data, base=config.base))
        return what_leaves_here(made).partition(" Of the rows here: ")[2]

    assert told(5, 30) == "the reducer up to 4 of 5 of 0, 29 of 30 of 1."
    many = told(5, 30, 30, 30, 30, 30, 30)
    assert many.endswith("29 of 30 of 4, and so on, 178 of 185 in all.")
    alike = told(*range(12, 18), algorithm="name: adadrom")
    assert alike == f"the reducer at least 8 of each site (56 of 117 in all); another site {NOT_GUARANTEED}."


def test_a_site_whose_rows_can_nearly_all_be_computed_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*sizes: int, algorithm: str = "name: adadrom") -> list[str]:
        for site, rows in enumerate(sizes):
            (tmp_path / f"{site}.csv").write_text(table(site, rows))
        path = tmp_path / "own.yaml"
        tasks = [*map(str, range(len(sizes)))]
        data = f"{{files: '{{task}}.csv', label: y, tasks: {json.dumps(tasks)}}}"
        path.write_text(f"algorithm: {{{algorithm}}}\ndata: {data}\n")
        config = load_config(path)
        made = prepare(config, load_dataset(config.data, base=config.base))
        return [line for line in plan_facts(made)["warnings"] if line.startswith("others can compute")]

    start = "others can compute all rows, or nearly all, of "
    hint = "; leave such a site out, or put its rows together with those of another"
    assert told(5, 40, 60) == [f'{start}"0" (the reducer 5 of 5){hint}']
    assert told(40, 60) == []
    (four,) = told(5, 5, 6, 7, 60, 60)
    assert four.startswith(f'{start}"0" (the reducer 5 of 5), "1" (')
    assert four.endswith(f'"2" (the reducer 6 of 6) and 1 more{hint}')
    assert told(5, 30, algorithm="name: drom") == told(40, 60, algorithm="name: adadrom, tau: 1") == []
    assert main(["check", str(tmp_path / "own.yaml")]) == 0
    assert "warning: others" not in capsys.readouterr().err
    told(5, 40, 60)
    assert main(["check", str(tmp_path / "own.yaml")]) == 0
    assert f'warning: {start}"0" (the reducer 5 of 5){hint}\n' in capsys.readouterr().err
    assert told(40, 60, algorithm="name: local") == []


def test_keys_are_not_said_to_hide_anything_from_members(tmp_path: Path) -> None:
    config = prepared(tmp_path, "name: adadrom", "security: {keys: keys}").config
    assert what_leaves(config).endswith("Keys encrypt the path, and hide nothing from members.")


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_every_learner_says_it_in_one_sentence_for_its_parameters(name: str) -> None:
    learner = BUILTIN[name]
    for tau in (1, 20):
        has_tau = hasattr(learner.parameters(), "tau")
        parameters = learner.parameters(tau=tau) if has_tau else learner.parameters()
        for place in learner.on:
            sentence = learner.what_leaves(parameters, on_graph=place == "graph")
            assert sentence.endswith(".") and "safe" not in sentence
            assert sentence[:-1].count(". ") == 0


def holds(path: Path, values: Iterable[float]) -> bool:
    """Whether a file has one of these numbers, as bytes or as text."""
    data = path.read_bytes()
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            data = b"".join(arrays[name].tobytes() for name in arrays)
    return any(np.float64(value).tobytes() in data or repr(float(value)).encode() in data for value in values)


@pytest.mark.process
def test_rows_that_adadrom_keeps_are_in_snapshots_of_their_own_site_and_nowhere_else(tmp_path: Path) -> None:
    """It keeps a site's last 600 rows: they are in no model, no log, no record, on no page, and `merge` takes none."""
    path = tmp_path / "cluster.yaml"
    path.write_text(
        "algorithm: {name: adadrom}\ndata: {dataset: synthetic, tasks: 2, examples: 30, dim: 5, passes: 1000000}\n"
        f"reducer: {{endpoint: '{free_endpoint()}'}}\ncheckpoint: {{every_s: 0.1}}\n"
    )
    config = load_config(path)
    streams = prepare(config, load_dataset(config.data, base=config.base)).streams
    values = [np.asarray(stream.rows).ravel().tolist() for stream in streams]
    with family(tmp_path) as processes:
        watched = ("--metrics", "127.0.0.1:0", "--log-format", "json")
        nodes = [processes.start("worker", path.name, "--task", str(k), "--out", f"host-{k}", *watched) for k in (0, 1)]
        urls = [json.loads(read_until(node, "/metrics"))["text"].split()[-1] for node in nodes]
        reducer = processes.start("reducer", path.name, "--out", "hub")
        pages = [page_with_examples(url) for url in urls]
        for node in (*nodes, reducer):
            node.send_signal(signal.SIGTERM)
        told = [node.communicate(timeout=DEADLINE_S) for node in (*nodes, reducer)]
        code, out, err = processes.run("merge", "hub", "host-0", "host-1", "--out", "all")
        assert code == 0, err
    every = [value for site in values for value in site]
    for k, site in enumerate(values):
        own = {file for file in (tmp_path / f"host-{k}").rglob("*") if file.is_file()}
        snapshots = {file for file in own if file.suffix == ".drom"}
        assert any(holds(file, site) for file in snapshots), "a search that finds them where they are"
        assert not any(holds(file, values[1 - k]) for file in snapshots)
        assert [file.name for file in own - snapshots if holds(file, every)] == []
    for folder in ("hub", "all"):
        files = [file for file in (tmp_path / folder).rglob("*") if file.is_file()]
        assert len(files) > 3
        assert [file.name for file in files if holds(file, every)] == []
    for snapshot in tmp_path.glob("host-*/nodes/*/snapshot-*"):  # as they are to be sent
        snapshot.unlink()
    folders = [str(tmp_path / name) for name in ("hub", "host-0", "host-1")]
    assert main(["merge", *folders, "--out", str(tmp_path / "b")]) == 0
    assert (tmp_path / "b" / "model.npz").read_bytes() == (tmp_path / "all" / "model.npz").read_bytes()
    said = "".join((*pages, out, err, *(text for both in told for text in both)))
    assert not any(repr(value) in said for value in every)


def page_with_examples(url: str) -> str:
    """A page of metrics of a site that has learned from some rows."""
    give_up_at = time.monotonic() + DEADLINE_S
    while True:
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as page:
            text = str(page.read().decode())
        if any(
            line.startswith("drom_net_rounds_total{") and float(line.split()[-1]) > 60 for line in text.splitlines()
        ):
            return text
        assert time.monotonic() < give_up_at, text
