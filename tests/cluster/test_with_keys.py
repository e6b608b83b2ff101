"""Whole clusters with keys: the same bits, nobody else gets in, and no secret is anywhere but in its file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from by_hand import free_endpoint, free_endpoints
from processes import DEADLINE_S, family, read_until

from drom_net.transport.keys import create_keys, read_public_keys

pytestmark = pytest.mark.process

STAR = "algorithm: {name: drom}\ndata: {dataset: synthetic, tasks: 3, examples: 100}\n"
RING = "algorithm: {name: drom-d, tau: 2}\ntopology: {graph: ring}\n" + STAR.partition("\n")[2]
KEYS = "security: {keys: keys}\n"
SOON = "timeouts: {join_s: 2, linger_s: 1}\n"
PATIENT = "timeouts: {join_s: 600, stall_s: 600}\n"
"""Nobody gives up, nor tells of a wait, however slow the others start."""
ONCE = "timeouts: {join_s: 600, resend_after_s: 60, resend_cap_s: 60}\n"
"""It waits for an answer, and does not ask twice."""


def write(folder: Path, name: str, *parts: str) -> str:
    (folder / name).write_text("".join(parts))
    return name


def secrets_in(folder: Path) -> list[str]:
    return [path.read_text().splitlines()[-1] for path in sorted(folder.glob("*.secret"))]


def digest(folder: Path, run: str) -> str:
    return str(json.loads((folder / run / "summary.json").read_text())["digest"])


@pytest.mark.parametrize("text", [STAR, RING], ids=["star", "ring"])
@pytest.mark.parametrize("where", ["private sockets", "tcp"])
def test_a_run_with_keys_has_the_same_digest(text: str, where: str, tmp_path: Path) -> None:
    if where == "tcp":
        text += f"reducer: {{endpoint: '{free_endpoint()}'}}\n" if text == STAR else ""
        text += f"peers: {{endpoints: {json.dumps(free_endpoints(3))}}}\n" if text == RING else ""
    write(tmp_path, "plain.yaml", text, PATIENT)
    write(tmp_path, "secret.yaml", text, PATIENT, KEYS)
    with family(tmp_path) as processes:
        assert processes.run("keys", "create", "secret.yaml")[0] == 0
        for config in ("plain", "secret"):
            code, _, err = processes.run("run", f"{config}.yaml", "--out", config, "--quiet")
            assert (code, err) == (0, "")
        assert digest(tmp_path, "plain") == digest(tmp_path, "secret")
        assert processes.run("verify", "secret")[0] == 0
        shutil.copy(tmp_path / "secret" / "config.yaml", tmp_path / "runs.yaml")  # the configuration as it was run
        assert processes.run("check", "runs.yaml")[0] == 0
        shutil.rmtree(tmp_path / "keys")
        code, _, err = processes.run("check", "runs.yaml")
        assert (code, "public.keys: expected the list of public keys" in err) == (2, True)


def test_accident_36_no_secret_is_in_the_run_directory_the_output_or_the_process_list(tmp_path: Path) -> None:
    """Also not in what a run by hand leaves, which keeps each node's spec.json."""
    meet = free_endpoint()
    write(tmp_path, "c.yaml", STAR.replace("100", "30000"), KEYS)
    create_keys(tmp_path / "k", ["reducer", "task-01", "task-02", "task-03"])
    (tmp_path / "k").rename(tmp_path / "keys")
    secrets = [secret.encode() for secret in secrets_in(tmp_path / "keys")]
    assert len(secrets) == 4
    written = b""
    with family(tmp_path) as processes:
        reducer = processes.start("reducer", "c.yaml", "--bind", meet, "--out", "hand")
        workers = [processes.start("worker", "c.yaml", "-k", k, "--endpoint", meet, "--out", "hand") for k in "012"]
        written += read_until(reducer, "sigma_1").encode()
        for number in processes.alive():
            written += Path(f"/proc/{number}/cmdline").read_bytes() + Path(f"/proc/{number}/environ").read_bytes()
        reducer.terminate()
        for process in (reducer, *workers):
            out, err = process.communicate(timeout=DEADLINE_S)
            written += (out + err).encode()
        run = processes.start("run", "c.yaml", "--out", "run")
        written += read_until(run, "sigma_1").encode()
        seen = [path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()]  # while it runs
        for number in processes.alive():
            written += Path(f"/proc/{number}/cmdline").read_bytes()
        run.terminate()
        out, err = run.communicate(timeout=DEADLINE_S)
        written += (out + err).encode() + b"".join(seen)
        left = [path for folder in ("hand", "run") for path in (tmp_path / folder).rglob("*") if path.is_file()]
        assert {"spec.json", "config.yaml", "environment.json", "result.json"} <= {path.name for path in left}
        written += b"".join(path.read_bytes() for path in left)
        assert processes.run("show", "run")[0] == 0
    assert b"keys" in written
    assert not any(secret in written for secret in secrets)


def test_by_hand_only_listed_keys_get_in_and_each_as_itself(tmp_path: Path) -> None:
    """Right, foreign, missing and plain; and accident 35, a good key that speaks for another task."""
    meet = free_endpoint()
    write(tmp_path, "c.yaml", STAR, PATIENT, KEYS)
    nodes = ["reducer", "task-01", "task-02", "task-03"]
    create_keys(tmp_path / "keys", nodes)
    create_keys(tmp_path / "foreign", nodes)
    ours = read_public_keys(tmp_path / "keys")

    # An insider at the site of task-02 says in a file of its own that its key is that of task-01.
    insider = tmp_path / "insider"
    insider.mkdir()
    public = {name: key.decode() for name, key in ours.items()}
    public["task-01"], public["task-02"] = public["task-02"], public["task-01"]
    (insider / "public.keys").write_text("".join(f"{name} {key}\n" for name, key in public.items()))
    shutil.copy(tmp_path / "keys" / "task-02.secret", insider / "task-01.secret")
    # A stranger has the list, which is public, and made a key for a name that is in it.
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    public = {name: key.decode() for name, key in ours.items()}
    public["task-01"] = read_public_keys(tmp_path / "foreign")["task-01"].decode()
    (stranger / "public.keys").write_text("".join(f"{name} {key}\n" for name, key in public.items()))
    shutil.copy(tmp_path / "foreign" / "task-01.secret", stranger / "task-01.secret")

    cases = {
        "insider": (3, "does not let this worker in: its key is that of task-02, not of task-01"),
        "stranger": (3, f"{meet} does not accept our key: the list there has another one for task-01, or none"),
        "foreign": (4, f"{meet} answers, but the handshake fails: does it use keys as well, and those of the same"),
        "": (4, f"{meet} answers, but the handshake fails: does it use keys (security.keys)"),
        "nowhere": (2, "nowhere/public.keys: expected the list of public keys, got no such file"),
    }
    with family(tmp_path) as processes:
        reducer = processes.start("reducer", "c.yaml", "--bind", meet, "--out", "hand")
        read_until(reducer, "listening")
        for keys, (expected_code, expected) in cases.items():
            security = f"security: {{keys: {keys}}}\n" if keys else ""
            waits = ONCE if expected_code == 3 else SOON
            write(tmp_path, "other.yaml", STAR, waits, security)
            arguments = ("-k", "0", "--endpoint", meet, "--out", f"out-{keys}")
            code, _, err = processes.run("worker", "other.yaml", *arguments)
            assert (code, expected in err) == (expected_code, True), err
            assert "Traceback" not in err
            assert not (tmp_path / f"out-{keys}").exists()
        workers = [processes.start("worker", "c.yaml", "-k", k, "--endpoint", meet, "--out", "hand") for k in "012"]
        _, err = reducer.communicate(timeout=DEADLINE_S)
        assert [process.wait(timeout=DEADLINE_S) for process in (reducer, *workers)] == [0] * 4, err
        assert "refused a connection: its key is not among those that may join (key " in err
        assert "refused a connection: it uses no keys" in err
        result = json.loads((tmp_path / "hand" / "nodes" / "reducer" / "result.json").read_text())
        assert result["refused"] == 1  # the insider
        assert result["refused_handshakes"] >= 3
        assert processes.run("run", "c.yaml", "--driver", "reference", "--out", "loop", "-q")[0] == 0
        assert digest(tmp_path, "hand") == digest(tmp_path, "loop")


def test_a_peer_whose_key_its_neighbor_does_not_accept_ends_soon_and_says_so(tmp_path: Path) -> None:
    endpoints = free_endpoints(3)
    where = f"peers: {{endpoints: {json.dumps(endpoints)}}}\n"
    write(tmp_path, "c.yaml", RING, where, PATIENT, KEYS)
    nodes = ["task-01", "task-02", "task-03"]
    create_keys(tmp_path / "keys", nodes)
    create_keys(tmp_path / "foreign", nodes)
    ours, theirs = read_public_keys(tmp_path / "keys"), read_public_keys(tmp_path / "foreign")
    listed = {name: (theirs if name == "task-03" else ours)[name].decode() for name in nodes}
    (tmp_path / "foreign" / "public.keys").write_text("".join(f"{name} {key}\n" for name, key in listed.items()))
    write(tmp_path, "other.yaml", RING, where, PATIENT, "security: {keys: foreign}\n")
    with family(tmp_path) as processes:
        peers = [processes.start("peer", "c.yaml", "-k", k, "--out", "hand") for k in "01"]
        for peer in peers:
            read_until(peer, "listening")
        code, _, err = processes.run("peer", "other.yaml", "-k", "2", "--out", "elsewhere")
        assert code == 3
        assert "does not accept our key: the list there has another one for task-03, or none" in err
        good = processes.start("peer", "c.yaml", "-k", "2", "--out", "hand")
        assert [peer.wait(timeout=DEADLINE_S) for peer in (*peers, good)] == [0, 0, 0]


def test_a_reducer_says_who_cannot_join_for_want_of_a_key(tmp_path: Path) -> None:
    """Revoking: its line is gone from the list, and the reducer was started anew."""
    write(tmp_path, "c.yaml", STAR, KEYS, SOON)
    create_keys(tmp_path / "keys", ["reducer", "task-01", "task-03"])
    with family(tmp_path) as processes:
        code, _, err = processes.run("reducer", "c.yaml", "--bind", free_endpoint(), "--out", "hand")
        assert code == 4
        assert "warning: task-02 cannot join: " in err
        assert "public.keys has no such public key" in err
