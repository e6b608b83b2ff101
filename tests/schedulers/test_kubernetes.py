"""The export for Kubernetes: valid by the schemas of its API, and what it means.

There is no Kubernetes here, nor an API server, which neither Debian nor PyPI has. How pods would run is tried in
tests/network/test_kubernetes_pods.py.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import numpy as np
import pytest
import yaml

from drom_net import __version__
from drom_net.cli import main
from drom_net.config.load import load_config
from drom_net.config.model import config_digest, graph_schedule
from drom_net.core.names import safe_names
from drom_net.data.datasets import task_names
from drom_net.deploy.portable import host_name

DATA = "data: {dataset: synthetic, tasks: %d, examples: 50, dim: 8}\n"
STAR = "algorithm: {name: drom}\n" + DATA
PEERS = "algorithm: {name: drom-d, tau: 2}\n" + DATA + "topology: "
KINDS = {
    "star of 1": STAR % 1,
    "star of 4": STAR % 4,
    "star of 1000": STAR % 1000,
    "a peer alone": PEERS % 1 + "{graph: path}",
    "ring of 4": PEERS % 4 + "{graph: ring}",
    "ring of 1000": PEERS % 1000 + "{graph: ring}",
    "random": PEERS % 30 + "{graph: regular, degree: 4, graph_seed: 5, weights: metropolis}",
    "changing": PEERS % 8 + "{graph: one-peer-exponential}",
    "matrix": PEERS % 3 + "{graph: weights, file: w.csv}",
    "adjacency": PEERS % 3 + "{graph: adjacency, file: a.csv, weights: lazy}",
    "files": "algorithm: {name: drom}\npolicy: {absent: proceed}\n"
    "data: {files: '{task}.csv', tasks: ['2', '0', '1', Nord_Ost.x], columns: {x: number}}\n",
    "any names": "algorithm: {name: drom}\n"
    "data: {files: all.csv, task_column: site, columns: {x: number},\n"
    "tasks: [Leeds General, York/St Mary, reducer, a, A, '$(x) \"']}\n",
}
DNS = {
    "to": [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        }
    ],
    "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
}
Export = Callable[..., Path]


@pytest.fixture(scope="module", params=KINDS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its parent has the file that it was made from, deploy.yaml."""
    folder = tmp_path_factory.mktemp("exported")
    (folder / "w.csv").write_text("0.7,0.3,0.0\n0.3,0.4,0.3\n0.0,0.3,0.7\n")
    (folder / "a.csv").write_text("0,1,0\n1,0,1\n0,1,0\n")
    (folder / "deploy.yaml").write_text(KINDS[request.param])
    assert main(["export", "kubernetes", str(folder / "deploy.yaml"), "-o", str(folder / "deploy")]) == 0
    return folder / "deploy"


@cache
def resources(folder: Path) -> list[dict[str, Any]]:
    """Of all manifests, those of collect/ too."""
    return [
        each
        for place in (folder, folder / "collect")
        for file in yaml.safe_load((place / "kustomization.yaml").read_text())["resources"]
        for each in yaml.load_all((place / file).read_text(), yaml.CSafeLoader)
    ]


def of_kind(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [each for each in resources(folder) if each["kind"] == kind]


def pods(folder: Path) -> list[dict[str, Any]]:
    """What the Jobs make, in the order of the nodes: host name, labels, containers."""
    templates = [job["spec"]["template"] for job in of_kind(folder, "Job")]
    return [
        {"name": each["spec"]["hostname"], "labels": each["metadata"]["labels"], "spec": each["spec"]}
        for each in templates
    ]


def node_of(pod: dict[str, Any]) -> str:
    """What the pod's node is called in files."""
    return str(environment_of(pod).get("DROM_NET_TASK", "reducer"))


def environment_of(pod: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}


def mounts_of(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Of the node's container, by volume."""
    return {mount["name"]: mount for mount in pod["spec"]["containers"][0]["volumeMounts"]}


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    fits = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    for each in selector.get("matchExpressions", []):
        assert each["operator"] == "In"
        fits = fits and labels.get(each["key"]) in each["values"]
    return fits


def allowed_connections(folder: Path) -> set[tuple[str, str]]:
    """(who connects, to whom), as the NetworkPolicies allow it on both sides."""
    policies = [each["spec"] for each in of_kind(folder, "NetworkPolicy")]
    out: set[tuple[str, str]] = set()
    into: set[tuple[str, str]] = set()
    everybody = pods(folder)
    for pod in everybody:
        own = [policy for policy in policies if selects(policy["podSelector"], pod["labels"])]
        assert own, f"nothing holds {pod['name']} back"
        for policy in own:
            assert policy["policyTypes"] == ["Ingress", "Egress"]
            for key, word, found in (("egress", "to", out), ("ingress", "from", into)):
                for rule in policy[key]:
                    if any("namespaceSelector" in each for each in rule[word]):
                        assert (key, rule) == ("egress", DNS), "of other namespaces only DNS is reached"
                        continue
                    assert rule["ports"] == [{"protocol": "TCP", "port": 5571}]
                    for other in everybody:
                        if any(selects(each["podSelector"], other["labels"]) for each in rule[word]):
                            ends = (pod["name"], other["name"])
                            found.add(ends if word == "to" else ends[::-1])
    return out & into


def test_manifests_are_valid_by_the_schemas(exported: Path) -> None:
    """By the oldest that has all that is used, and the newest; of a thousand policies the first and the last ones."""
    found = resources(exported)
    for each in [*found[:20], *found[-20:]] if len(found) > 40 else found:
        for version in ("1.29", kubernetes_validate.latest_version()):
            kubernetes_validate.validate(each, version, strict=True)
    names = [(each["kind"], each["metadata"]["name"]) for each in found]
    assert len(set(names)) == len(names)
    for _, name in names:
        assert len(name) <= 63 and name == name.lower() and "_" not in name


def test_a_wrong_field_would_be_found(export: Export) -> None:
    job = deepcopy(of_kind(export("kubernetes", STAR % 1), "Job")[0])
    job["spec"]["template"]["spec"]["restartpolicy"] = "Never"
    with pytest.raises(kubernetes_validate.ValidationError, match="restartpolicy"):
        kubernetes_validate.validate(job, "1.31", strict=True)


def test_the_configuration_is_the_same_with_the_pods_as_endpoints(exported: Path) -> None:
    config, original = load_config(exported / "cluster.yaml"), load_config(exported.parent / "deploy.yaml")
    names = task_names(original.data, original.base)
    assert config_digest(config, names) == config_digest(original, names)
    (service,) = of_kind(exported, "Service")
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"]
    every = pods(exported)
    for pod in every:
        assert pod["spec"]["subdomain"] == service["metadata"]["name"]
        assert selects({"matchLabels": service["spec"]["selector"]}, pod["labels"])
        assert len(pod["name"]) <= 63
    at = {pod["name"]: f"tcp://{pod['name']}.{service['metadata']['name']}:5571" for pod in every}
    if config.topology is None:
        assert config.reducer.endpoint == at["reducer"]
    else:
        assert config.peers.endpoints == tuple(at[pod["name"]] for pod in every)
    assert len(at) == len(every)
    assert [node_of(pod) for pod in every] == [*(["reducer"] if config.topology is None else []), *safe_names(names)]
    if original.policy.proceeds:
        assert config.timeouts == original.timeouts
    else:
        assert (config.timeouts.join_s, config.timeouts.lost_s) == (600.0, 600.0)


def test_only_neighbors_may_talk(exported: Path) -> None:
    config = load_config(exported / "cluster.yaml")
    names = task_names(config.data, config.base)
    if len(names) > 100:
        return  # every pod against every other of a thousand would take minutes
    schedule = graph_schedule(config, names)
    hosts = [pod["name"] for pod in pods(exported)]
    if schedule is None:
        expected = {(worker, hosts[0]) for worker in hosts[1:]}
    else:
        expected = {(hosts[b], hosts[a]) for a, b in schedule.union.edges}
    assert allowed_connections(exported) == expected


def test_a_pod_has_its_own_key_alone(exported: Path) -> None:
    assert not of_kind(exported, "Secret")
    made = yaml.load((exported / "kustomization.yaml").read_text(), yaml.CSafeLoader)["secretGenerator"]
    files = {each["name"]: each["files"] for each in made}
    every = pods(exported)
    assert len(files) == len(every)
    for pod in every:
        (secret,) = [each for each in pod["spec"]["volumes"] if "secret" in each]
        assert files[secret["secret"]["secretName"]] == ["keys/public.keys", f"keys/{node_of(pod)}.secret"]
        (init,) = pod["spec"]["initContainers"]
        assert secret["name"] not in mounts_of(pod), "it has not the mode that a key must have"
        assert secret["name"] in [mount["name"] for mount in init["volumeMounts"]]
        assert mounts_of(pod)["keys"]["readOnly"]
        (volume,) = [each for each in pod["spec"]["volumes"] if each["name"] == "keys"]
        assert volume["emptyDir"]["medium"] == "Memory"


def test_a_pod_sees_its_own_folder_and_data_alone(exported: Path) -> None:
    every = pods(exported)
    for volume in ("run", "data"):
        folders = [mounts_of(pod)[volume].get("subPath") for pod in every if volume in mounts_of(pod)]
        assert None not in folders and len(set(folders)) == len(folders)
    for pod in every:
        if "data" in mounts_of(pod):
            assert mounts_of(pod)["data"]["subPath"] == node_of(pod)
            assert mounts_of(pod)["data"]["readOnly"]


def test_pods_are_spread_over_the_machines(exported: Path) -> None:
    for pod in pods(exported):
        (spread,) = pod["spec"]["topologySpreadConstraints"]
        assert spread["topologyKey"] == "kubernetes.io/hostname"
        assert all(selects(spread["labelSelector"], other["labels"]) for other in pods(exported)[:3])


def test_no_secret_is_in_it_even_where_there_are_keys(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(STAR % 2 + "security: {keys: keys}\n")
    assert main(["keys", "create", str(file)]) == 0
    for format in ("kubernetes", "slurm"):
        assert main(["export", format, str(file), "-o", str(tmp_path / format)]) == 0
        written = "".join(path.read_text() for path in (tmp_path / format).rglob("*") if path.is_file())
        for secret in (tmp_path / "keys").glob("*.secret"):
            assert secret.read_text().splitlines()[-1] not in written


def test_every_container_is_held_back(exported: Path) -> None:
    specs = [pod["spec"] for pod in pods(exported)[:2]] + [pod["spec"] for pod in of_kind(exported, "Pod")]
    for spec in specs:
        assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


def test_usage_and_rejection_are_not_tried_again(exported: Path) -> None:
    """docs/deploy.md, Kubernetes: after 2 and 3 the next try would fail as well; after others it may not."""
    for job in of_kind(exported, "Job"):
        assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"  # as a podFailurePolicy wants it
        first, second = job["spec"]["podFailurePolicy"]["rules"]
        codes = {"containerName": "node", "operator": "In", "values": [2, 3]}
        assert first == {"action": "FailJob", "onExitCodes": codes}
        assert second["action"] == "Ignore"
        assert job["spec"]["backoffLimit"] > 0


def test_no_budget_blocks_a_drain(exported: Path) -> None:
    """Of Jobs a budget can only be an integer, which tasks that have ended no longer fill."""
    assert not of_kind(exported, "PodDisruptionBudget")


def test_the_volumes_class_can_be_given(export: Export) -> None:
    folder = export("kubernetes", STAR % 2)
    text = (folder / "volume.yaml").read_text()
    claim = yaml.safe_load(text.replace("#storageClassName: NAME", "storageClassName: shared"))
    assert claim["spec"]["storageClassName"] == "shared"
    kubernetes_validate.validate(claim, kubernetes_validate.latest_version(), strict=True)


def built(folder: Path) -> list[dict[str, Any]]:
    """By kustomize, as `kubectl apply -k` does."""
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl here; Debian's package kubernetes-client has it")
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return list(yaml.load_all(done.stdout, yaml.CSafeLoader))


def images_of(manifests: list[dict[str, Any]]) -> set[str]:
    specs = [each["spec"].get("template", each)["spec"] for each in manifests if each["kind"] in ("Job", "Pod")]
    return {one["image"] for spec in specs for one in [*spec.get("initContainers", []), *spec["containers"]]}


def test_image_and_namespace_reach_all_of_it(export: Export) -> None:
    """By the kustomize that is in kubectl; the Secrets have each their own key."""
    folder = export("kubernetes", STAR % 2)
    assert main(["keys", "create", str(folder / "cluster.yaml")]) == 0
    settings = folder / "settings" / "kustomization.yaml"
    text = settings.read_text().replace("#namespace: NAME", "namespace: lab")
    settings.write_text(text.replace("newName: drom-net", "newName: registry.example/drom-net"))
    everything, collect = built(folder), built(folder / "collect")
    assert {each["metadata"]["namespace"] for each in (*everything, *collect)} == {"lab"}
    assert images_of(everything) == images_of(collect) == {f"registry.example/drom-net:{__version__}"}
    secrets = {each["metadata"]["name"]: set(each["data"]) for each in everything if each["kind"] == "Secret"}
    assert secrets == {
        f"deploy-keys-{node}": {"public.keys", f"{node}.secret"} for node in ("reducer", "task-01", "task-02")
    }
    for each in (*everything, *collect):
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize(
    ("policy", "answers", "code", "said"),
    [
        ("", ["a SuccessCriteriaMet Complete\nb\n", "a Complete\nb SuccessCriteriaMet Complete\n"], 0, "complete: 2"),
        ("", ["a\nb\n", "a\nb FailureTarget Failed\n"], 1, "failed: b"),
        ("policy: {absent: proceed}\n", ["a\nb Failed\n", "a Complete\nb Failed\n"], 1, "failed: b"),
    ],
    ids=["complete", "failed", "failed, and the others go on without"],
)
def test_the_wait_ends_when_a_job_has_failed(
    policy: str, answers: list[str], code: int, said: str, export: Export, tmp_path: Path
) -> None:
    """With a kubectl that gives these answers, one each time that it is asked."""
    folder = export("kubernetes", STAR % 2 + policy)
    commands = tmp_path / "bin"
    commands.mkdir()
    for number, answer in enumerate(answers):
        (tmp_path / f"answer-{number}").write_text(answer)
    asked = f'[ "$1 $2" = "get -k" ] && cat {tmp_path}/answer-0 && rm {tmp_path}/answer-0'
    later = f"[ ! -e {tmp_path}/answer-1 ] || mv {tmp_path}/answer-1 {tmp_path}/answer-0"
    for name, text in {"kubectl": asked, "sleep": later}.items():
        (commands / name).write_text(f"#!/bin/sh\n{text}\n")
        (commands / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{commands}:{os.environ['PATH']}"}
    done = subprocess.run([str(folder / "wait.sh")], env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert not list(tmp_path.glob("answer-*")), "it ended before it had to"


def test_memory_follows_the_number_of_features_and_what_a_reducer_keeps(export: Export) -> None:
    found = []
    some = ((8, "drom"), (10**5, "drom"), (10**5, "fed-avg, tau: 1"), (10**5, "prox-gd"), (10**5, "fed-avg, tau: 20"))
    for number, (dim, learner) in enumerate(some):
        text = (STAR % 4).replace("dim: 8", f"dim: {dim}").replace("drom", learner)
        folder = export("kubernetes", text, str(number))
        needs = of_kind(folder, "Job")[0]["spec"]["template"]["spec"]["containers"][0]["resources"]
        found.append({what: int(needs[what]["memory"].removesuffix("Mi")) for what in ("requests", "limits")})
    small, large, same, own, rare = found
    # The reducer's (u, v) of 2,000 rounds, which it may have to keep: 1.6 GB; and a few matrices of 4 rows.
    assert 1526 < large["limits"] < 2000
    assert small["requests"] < 100
    assert small["requests"] < large["requests"] < 200
    assert same == large and own["limits"] > 3 * large["limits"]  # one reply for all, or one for each of 4
    assert rare["limits"] < 0.2 * large["limits"]  # 100 sync rounds of 2,000 rounds


def test_data_is_mounted_where_it_is_read(export: Export) -> None:
    def volumes(folder: Path, job: int) -> set[str]:
        return {each["name"] for each in of_kind(folder, "Job")[job]["spec"]["template"]["spec"]["volumes"]}

    folder = export("kubernetes", KINDS["files"])
    assert "data" not in volumes(folder, 0) and "data" in volumes(folder, 1)
    assert "data" not in volumes(export("kubernetes", STAR % 1, "made"), 1)
    public = pods(export("kubernetes", "algorithm: {name: drom}\ndata: {dataset: spam-pu}\n", "public"))[1]
    assert "subPath" not in mounts_of(public)["data"], "it is the same folder for all"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            PEERS % 600 + "{graph: erdos-renyi, probability: 0.5}",
            "expected a graph that can be written down in 1,048,576",
        ),
        (PEERS % 3 + "{graph: adjacency, file: several.npy}", "expected one matrix"),
        ("algorithm: {name: drom}\ndata: {files: '{task}.csv'}\n", "data.tasks: expected the names of all tasks"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ring = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    np.save(tmp_path / "several.npy", np.stack([ring, np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])]))
    (tmp_path / "cluster.yaml").write_text(text)
    assert main(["export", "kubernetes", str(tmp_path / "cluster.yaml"), "-o", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error
    assert not (tmp_path / "out").exists()


def test_names_are_names_of_hosts_and_stay_different() -> None:
    names = ["a", "A", "a_b", "a-b", "a.b", "a--b", "4", "4-a", "drom-4", "x" * 64, "x" * 63 + "y", "Nord_Ost.1"]
    found = [host_name(name, longest=40) for name in names]
    assert found[0] == "a" and found[3] == "a-b"
    for one, other in itertools.combinations(found, 2):
        assert one != other
    for name in found:
        assert len(name) <= 40 and name[0].isalpha() and name[-1].isalnum()
        assert all(letter.isascii() and (letter.isalnum() or letter == "-") for letter in name) and name == name.lower()
