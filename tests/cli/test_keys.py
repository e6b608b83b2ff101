"""drom-net keys: files that nobody else can read, and one clear error for each that is wrong."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from drom_net.cli import main
from drom_net.transport.keys import create_keys, read_keyring, read_public_keys

TEXT = "algorithm: {name: drom}\ndata: {dataset: synthetic, tasks: 3, examples: 20}\nsecurity: {keys: keys}\n"
NODES = ["reducer", "task-01", "task-02", "task-03"]


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "cluster.yaml"
    file.write_text(TEXT)
    return str(file)


def drom_net(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def secrets_in(folder: Path) -> list[str]:
    return [path.read_text().splitlines()[-1] for path in sorted(folder.glob("*.secret"))]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_create_makes_files_that_the_owner_alone_can_read(
    umask: int, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accident 36. The mode is right from the first instant: it is given to the very call that makes the file."""
    modes: dict[str, int] = {}
    really_open = os.open

    def noted(path: object, flags: int, mode: int = 0o777, **more: int) -> int:
        descriptor = really_open(path, flags, mode, **more)  # type: ignore[call-overload]
        if str(path).endswith(".secret.part"):
            assert flags & os.O_EXCL
            modes[Path(str(path)).stem] = stat.S_IMODE(os.fstat(descriptor).st_mode)
        return int(descriptor)

    monkeypatch.setattr(os, "open", noted)
    before = os.umask(umask)
    try:
        code, out, err = drom_net(capsys, "keys", "create", config)
    finally:
        os.umask(before)
    assert (code, err) == (0, "")
    folder = tmp_path / "keys"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(path.name for path in folder.iterdir()) == ["public.keys", *(f"{name}.secret" for name in NODES)]
    assert modes == {f"{name}.secret": 0o600 for name in NODES}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.glob("*.secret"))
    assert stat.S_IMODE((folder / "public.keys").stat().st_mode) == 0o644
    assert list(read_public_keys(folder)) == NODES
    for name in NODES:
        assert read_keyring(folder, name).name == name
    assert not any(secret in out for secret in secrets_in(folder))
    assert "for every host" in out


def test_peers_have_keys_for_each_task_and_no_reducer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ring.yaml"
    file.write_text(TEXT.replace("{name: drom}", "{name: drom-d}") + "topology: {graph: ring}\n")
    assert drom_net(capsys, "keys", "create", str(file))[0] == 0
    assert list(read_public_keys(tmp_path / "keys")) == NODES[1:]


def test_nothing_is_overwritten(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drom_net(capsys, "keys", "create", config)
    before = {path.name: path.read_bytes() for path in (tmp_path / "keys").iterdir()}
    for more in ((), ("--task", "task-02"), ("--task", "reducer", "--task", "0")):
        code, out, _ = drom_net(capsys, "keys", "create", config, *more)
        assert code == 0
        assert "nothing to make" in out
    assert {path.name: path.read_bytes() for path in (tmp_path / "keys").iterdir()} == before


def test_a_new_task_gets_a_key_and_the_others_keep_theirs(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drom_net(capsys, "keys", "create", config)
    before = read_public_keys(tmp_path / "keys")
    (tmp_path / "keys" / "task-01.secret").unlink()  # it is on its own host
    Path(config).write_text(TEXT.replace("tasks: 3", "tasks: 5"))
    assert drom_net(capsys, "keys", "create", config, "--task", "4")[0] == 0
    assert list(read_public_keys(tmp_path / "keys")) == [*NODES, "task-05"]
    code, out, _ = drom_net(capsys, "keys", "create", config, "--json")
    assert code == 0
    assert json.loads(out)["created"] == ["task-04"]
    after = read_public_keys(tmp_path / "keys")
    assert {name: after[name] for name in before} == before
    assert not (tmp_path / "keys" / "task-01.secret").exists()


def test_a_key_is_replaced_by_removing_the_old_one(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drom_net(capsys, "keys", "create", config)
    folder = tmp_path / "keys"
    before = read_public_keys(folder)
    lines = (folder / "public.keys").read_text().splitlines(keepends=True)
    (folder / "public.keys").write_text("".join(line for line in lines if not line.startswith("task-02 ")))
    code, _, err = drom_net(capsys, "keys", "create", config, "--task", "task-02")
    assert code == 2
    assert "task-02.secret is there already, but task-02 is not in" in err
    assert "task-02" not in read_public_keys(folder)
    (folder / "task-02.secret").unlink()
    assert drom_net(capsys, "keys", "create", config, "--task", "task-02")[0] == 0
    after = read_public_keys(folder)
    assert after["task-02"] != before["task-02"]
    assert after["task-01"] == before["task-01"]


def test_where_it_fails_half_way_no_secret_is_left(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "task-02.secret").write_text("whatever is in it")
    code, _, err = drom_net(capsys, "keys", "create", config)
    assert code == 2
    assert "whatever" not in err
    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["task-02.secret"]
    assert (tmp_path / "keys" / "task-02.secret").read_text() == "whatever is in it"


@pytest.mark.parametrize("at", ["task-01.secret.part", "public.keys.part", "task-01.secret"])
def test_one_that_was_killed_is_in_nobodys_way(
    at: str, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it wrote secrets, the list, and when it had only to give the secrets their names."""
    really_open, really_rename, really_unlink = os.open, Path.rename, Path.unlink

    def killed(path: object, *arguments: object) -> None:
        if Path(str(path)).name == at:
            monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)  # who is killed tidies nothing
            raise KeyboardInterrupt

    def opened(path: object, *arguments: int, **more: int) -> int:
        killed(path)
        return really_open(path, *arguments, **more)  # type: ignore[call-overload, no-any-return]

    def renamed(path: Path, target: Path) -> Path:
        killed(target)
        return really_rename(path, target)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(Path, "rename", renamed)
    if at == "public.keys.part":
        monkeypatch.setattr("drom_net.transport.keys._write_list", lambda *_: killed(at))
    assert drom_net(capsys, "keys", "create", config)[0] == 130
    monkeypatch.undo()
    assert Path.unlink is really_unlink
    code, _, err = drom_net(capsys, "keys", "create", config)
    assert (code, err) == (0, "")
    folder = tmp_path / "keys"
    assert sorted(path.name for path in folder.iterdir()) == ["public.keys", *(f"{name}.secret" for name in NODES)]
    for name in NODES:
        assert read_keyring(folder, name).name == name


def test_of_two_at_once_each_finds_all_made(tmp_path: Path) -> None:
    names = [f"task-{task}" for task in range(8)]
    with ThreadPoolExecutor(4) as pool:
        made = [done.result() for done in [pool.submit(create_keys, tmp_path / "keys", names) for _ in range(4)]]
    assert sorted(map(len, made)) == [0, 0, 0, 8]
    for name in names:
        assert read_keyring(tmp_path / "keys", name).name == name


def test_show_names_nodes_and_public_keys_and_no_secret(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drom_net(capsys, "keys", "create", config)
    folder = tmp_path / "keys"
    secrets = secrets_in(folder)
    (folder / "task-01.secret").unlink()
    public = {name: key.decode() for name, key in read_public_keys(folder).items()}
    for what in (config, str(folder)):
        code, out, _ = drom_net(capsys, "keys", "show", what)
        assert code == 0
        for name, key in public.items():
            (line,) = [line for line in out.splitlines() if line.startswith(f"{name} ")]
            assert key in line  # whole: a key may look like markup
            assert ("not here" in line) == (name == "task-01")
        code, json_out, _ = drom_net(capsys, "keys", "show", what, "--json")
        nodes = json.loads(json_out)["nodes"]
        assert {node["name"]: node["public_key"] for node in nodes} == public
        assert [node["name"] for node in nodes if not node["secret_is_here"]] == ["task-01"]
        assert not any(secret in out + json_out for secret in secrets)


def test_keys_that_look_like_markup_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = "[red]:+1:[/red][bold]00000000000000000000"[:40]
    (tmp_path / "public.keys").write_text(f"north {key}\n")
    code, out, err = drom_net(capsys, "keys", "show", str(tmp_path))
    assert code == 0, err
    assert key in out


def test_without_a_folder_in_the_file_it_says_which_line_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plain.yaml"
    file.write_text(TEXT.replace("security: {keys: keys}\n", ""))
    for command in ("create", "show"):
        code, _, err = drom_net(capsys, "keys", command, str(file))
        assert code == 2
        assert "security.keys: expected the folder of the keys, got nothing; such as security: {keys: keys}" in err


SECRET = "keys/task-01.secret"
LIST = "keys/public.keys"


def replace_in(path: str, old: str, new: str) -> None:
    file = Path(path)
    file.write_text(file.read_text().replace(old, new))


def swap_names(path: str) -> None:
    replace_in(path, "task-01 ", "task-99 ")
    replace_in(path, "task-02 ", "task-01 ")
    replace_in(path, "task-99 ", "task-02 ")


DAMAGE = {
    "no list": (lambda: Path(LIST).unlink(), f"{LIST}: expected the list of public keys, got no such file"),
    "no secret": (lambda: Path(SECRET).unlink(), f"{SECRET}: expected a secret key, got no such file"),
    "no folder": (lambda: Path("keys").rename("elsewhere"), f"{LIST}: expected the list of public keys, got no such"),
    "others may read": (lambda: Path(SECRET).chmod(0o640), "got mode 0640; chmod 600 "),
    "all may read": (lambda: Path(SECRET).chmod(0o604), "got mode 0604; chmod 600 "),
    "all may write the list": (lambda: Path(LIST).chmod(0o666), "got mode 0666; chmod o-w "),
    "an empty secret": (lambda: Path(SECRET).write_text(""), f"{SECRET}: expected one secret key of 40 characters"),
    "noise": (lambda: Path(SECRET).write_bytes(bytes(range(256))), f"{SECRET}: expected one secret key"),
    "a secret cut short": (lambda: Path(SECRET).write_text("ab" * 19), f"{SECRET}: expected one secret key"),
    "no Z85": (lambda: Path(SECRET).write_text("~" * 40), f"{SECRET}: expected one secret key"),
    "too large for Z85": (lambda: Path(SECRET).write_text("#" * 40), f"{SECRET}: expected one secret key"),
    "another's secret": (
        lambda: Path(SECRET).write_bytes(Path("keys/task-02.secret").read_bytes()),
        f"{SECRET}: expected the secret key of task-01, whose public key is in",
    ),
    "a list cut short": (lambda: replace_in(LIST, "task-01 ", "task-01 x"), f"{LIST}:3: expected a node's name and"),
    "names swapped": (lambda: swap_names(LIST), f"{SECRET}: expected the secret key of task-01"),
    "a name twice": (lambda: replace_in(LIST, "task-02 ", "task-01 "), f"{LIST}:4: expected a node's name and its "),
    "not listed": (lambda: replace_in(LIST, "task-01 ", "task-09 "), f"{LIST}: expected the public key of task-01"),
    "a folder": (lambda: (Path(SECRET).unlink(), Path(SECRET).mkdir()), f"{SECRET}: expected a secret key, got Is a"),
}


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("command", [["run"], ["worker", "--task", "0", "--endpoint", "tcp://127.0.0.1:9"]])
def test_accident_36_a_key_file_that_is_wrong_is_one_clear_error(
    kind: str,
    command: list[str],
    config: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    drom_net(capsys, "keys", "create", config)
    secrets = secrets_in(tmp_path / "keys")
    damage, expected = DAMAGE[kind]
    damage()
    code, out, err = drom_net(capsys, command[0], "cluster.yaml", *command[1:])
    assert code == 2
    assert expected in err
    assert "Traceback" not in err
    assert not any(secret in out + err for secret in [*secrets, "ab" * 19])
    assert not (tmp_path / "runs").exists()


def test_a_key_that_two_nodes_have_is_refused(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The key decides which node one is."""
    drom_net(capsys, "keys", "create", config)
    key = read_public_keys(tmp_path / "keys")["task-01"].decode()
    with (tmp_path / "keys" / "public.keys").open("a") as file:
        file.write(f"task-04 {key}\n")
    code, _, err = drom_net(capsys, "keys", "show", config)
    assert code == 2
    assert "public.keys:6: " in err
    assert "a key that another node has: a key says who one is" in err


def test_lists_of_several_hosts_are_put_together_by_hand(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """docs/security.md: each site makes its own key, and only public lines travel."""
    lists = []
    for name in NODES:
        site = tmp_path / f"host-of-{name}"
        site.mkdir()
        (site / "cluster.yaml").write_text(TEXT)
        assert drom_net(capsys, "keys", "create", str(site / "cluster.yaml"), "--task", name)[0] == 0
        assert [path.name for path in (site / "keys").glob("*.secret")] == [f"{name}.secret"]
        lists.append((site / "keys" / "public.keys").read_text())
    for name in NODES:
        (tmp_path / f"host-of-{name}" / "keys" / "public.keys").write_text("".join(lists))
        assert sorted(read_keyring(tmp_path / f"host-of-{name}" / "keys", name).public) == NODES


@pytest.mark.parametrize("with_keys", [False, True])
def test_accident_34_wider_than_loopback_needs_keys(
    with_keys: bool, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not with_keys:
        Path(config).write_text(TEXT.replace("security: {keys: keys}\n", ""))
    wide = ("--set", "reducer.endpoint=tcp://127.0.0.1:1", "--set", "reducer.bind=tcp://0.0.0.0:1")
    code, _, err = drom_net(capsys, "run", config, *wide)
    assert code == 2
    assert ("tcp://0.0.0.0:1 can be reached from other machines, and without keys" in err) == (not with_keys)
    assert ("public.keys: expected the list of public keys" in err) == with_keys
    assert ("security.keys" in err and "--insecure" in err) == (not with_keys)


def test_applications_that_connect_by_tcp_have_a_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "live.yaml"
    file.write_text(
        "algorithm: {name: drom}\ndata: {dataset: live, tasks: [a, b], dim: 2}\nsecurity: {keys: keys}\n"
        'source: {bind: ["tcp://0.0.0.0:5601", "ipc://b.sock"]}\n'
    )
    code, _, err = drom_net(capsys, "run", str(file))
    assert code == 2
    assert "public.keys" in err
    assert drom_net(capsys, "keys", "create", str(file), "--task", "a")[0] == 0
    assert list(read_public_keys(tmp_path / "keys")) == ["a", "a+client"]
    assert drom_net(capsys, "keys", "create", str(file))[0] == 0
    assert list(read_public_keys(tmp_path / "keys")) == ["a", "a+client", "reducer", "b"]


OPEN = {
    "reducer": ("star", ["reducer", "--bind", "tcp://0.0.0.0:1"]),
    "peer": ("ring", ["peer", "--task", "0"]),
    "worker": ("live", ["worker", "--task", "a"]),
    "run": ("star", ["run", "--set", "reducer.endpoint=tcp://a:1", "--set", "reducer.bind=tcp://0.0.0.0:1"]),
    "run of peers": ("ring", ["run"]),
    "run of live sites": ("live", ["run"]),
}
"""Each listens at 0.0.0.0 without keys, and would then fail, for its run directory is a file."""


def opened(folder: Path, of: str) -> list[str]:
    """The command line of one of OPEN."""
    data = "data: {dataset: synthetic, tasks: 3, examples: 20}\n"
    ring = "topology: {graph: ring}\npeers:\n"
    for key, host in (("endpoints", "127.0.0.1"), ("bind", "0.0.0.0")):
        ring += f"  {key}: {[f'tcp://{host}:{port}' for port in (1, 2, 3)]}\n"
    texts = {
        "star": f"algorithm: {{name: drom}}\nreducer: {{endpoint: 'tcp://127.0.0.1:1'}}\n{data}",
        "ring": f"algorithm: {{name: drom-d}}\n{ring}{data}",
        "live": "algorithm: {name: drom}\nreducer: {endpoint: 'tcp://127.0.0.1:1'}\n"
        "data: {dataset: live, tasks: [a, b], dim: 2}\nsource: {bind: ['tcp://0.0.0.0:5601', 'ipc://b.sock']}\n",
    }
    layout, (command, *arguments) = OPEN[of]
    (folder / "cluster.yaml").write_text(texts[layout])
    (folder / "file").touch()
    return [command, str(folder / "cluster.yaml"), *arguments, "--out", str(folder / "file" / "out")]


@pytest.mark.parametrize("of", OPEN)
def test_who_listens_beyond_the_machine_without_keys_says_so(
    of: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only if asked; what is asked for the page of metrics opens no port."""
    command = opened(tmp_path, of)
    monkeypatch.setenv("DROM_NET_METRICS_INSECURE", "1")
    code, _, err = drom_net(capsys, *command, "--metrics", "0.0.0.0:9100")
    assert code == 2 and "--insecure does without" in err and "can be reached from other machines without" not in err
    monkeypatch.setenv("DROM_NET_INSECURE", "1")
    code, _, err = drom_net(capsys, *command)
    assert code == 2 and f"{tmp_path}/file" in err, "it came as far as its folder"
    port = 5601 if "live" in of or of == "worker" else 1
    assert f"warning: tcp://0.0.0.0:{port} can be reached from other machines without keys (--insecure)" in err
    _, _, err = drom_net(capsys, *command, "--log-format", "json")
    lines = [json.loads(line) for line in err.splitlines()]
    (first, *_) = [line for line in lines if line["event"] == "insecure"]
    assert (first["level"], first["endpoint"]) == ("warning", f"tcp://0.0.0.0:{port}")


@pytest.mark.parametrize("of", OPEN)
def test_insecure_is_for_ports_and_not_for_the_page_of_metrics(
    of: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*opened(tmp_path, of), "--insecure", "--metrics", "0.0.0.0:9100"]
    code, _, err = drom_net(capsys, *command)
    assert code == 2 and "--metrics 0.0.0.0:9100 can be read from other machines" in err and "--metrics-insecure" in err
    code, _, err = drom_net(capsys, *command, "--metrics-insecure")
    assert code == 2 and f"{tmp_path}/file" in err, "it came as far as its folder"
    assert "warning: other machines can read the metrics at 0.0.0.0:9100 (--metrics-insecure)" in err


def test_an_application_socket_with_a_key_is_not_called_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*opened(tmp_path, "worker"), "--insecure", "--keys", str(tmp_path / "keys")]
    create_keys(tmp_path / "keys", ["reducer", "a", "b"])
    code, _, err = drom_net(capsys, *command)
    assert code == 2 and "whoever reaches it can teach a and ask its model" in err, "its list has no a+client"
    create_keys(tmp_path / "keys", ["a+client"])
    code, _, err = drom_net(capsys, *command)
    assert code == 2 and "warning" not in err
