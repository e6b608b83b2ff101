"""The export for Kubernetes: valid by the schemas of its API, and what it means.

There is no Kubernetes here: how pods would run is tried in tests/network/test_kubernetes_pods.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import numpy as np
import pytest
import yaml

from drom_net.cli import main
from drom_net.cluster.kubernetes import INDEX
from drom_net.cluster.portable import host_name
from drom_net.config import config_digest, graph_schedule, load_config
from drom_net.data.datasets import task_names
from drom_net.names import safe_names

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
    """Of all manifests."""
    files = [folder / name for name in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]]
    return [
        each for file in [*files, folder / "collect.yaml"] for each in yaml.load_all(file.read_text(), yaml.CSafeLoader)
    ]


def of_kind(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [each for each in resources(folder) if each["kind"] == kind]


def pods(folder: Path) -> list[dict[str, Any]]:
    """What the Jobs make: host name, labels, containers."""
    found = []
    for job in of_kind(folder, "Job"):
        template = job["spec"]["template"]
        for index in range(job["spec"]["completions"]):
            name = f"{job['metadata']['name']}-{index}"
            labels = template["metadata"]["labels"] | {INDEX: str(index)}
            found.append({"name": name, "labels": labels, "index": index, "spec": template["spec"]})
    return found


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
                    if word not in rule:
                        assert [port["port"] for port in rule["ports"]] == [53, 53]
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
        assert config.reducer.endpoint == at["deploy-reducer-0"]
    else:
        assert config.peers.endpoints == tuple(at[f"deploy-peer-{task}"] for task in range(len(names)))
    listed = (exported / "nodes.txt").read_text().split()
    assert listed == [*(["reducer"] if config.topology is None else []), *safe_names(names)]
    assert len(every) == len(listed)
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
    if schedule is None:
        expected = {(f"deploy-worker-{task}", "deploy-reducer-0") for task in range(len(names))}
    else:
        expected = {(f"deploy-peer-{b}", f"deploy-peer-{a}") for a, b in schedule.union.edges}
    assert allowed_connections(exported) == expected


def test_a_node_sees_its_own_secret_alone(exported: Path) -> None:
    assert not of_kind(exported, "Secret")
    for pod in pods(exported)[:2]:
        (secret,) = [each for each in pod["spec"]["volumes"] if "secret" in each]
        assert secret["secret"]["secretName"] == "deploy-keys"
        (node,), (init,) = pod["spec"]["containers"], pod["spec"]["initContainers"]
        assert secret["name"] not in [mount["name"] for mount in node["volumeMounts"]]
        assert secret["name"] in [mount["name"] for mount in init["volumeMounts"]]
        (keys,) = [mount for mount in node["volumeMounts"] if mount["name"] == "keys"]
        assert keys["readOnly"]
        (volume,) = [each for each in pod["spec"]["volumes"] if each["name"] == "keys"]
        assert volume["emptyDir"]["medium"] == "Memory"


def test_no_secret_is_in_it_even_where_there_are_keys(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(STAR % 2 + "security: {keys: keys}\n")
    assert main(["keys", "create", str(file)]) == 0
    for format in ("kubernetes", "slurm"):
        assert main(["export", format, str(file), "-o", str(tmp_path / format)]) == 0
        written = "".join(path.read_text() for path in (tmp_path / format).iterdir())
        for secret in (tmp_path / "keys").glob("*.secret"):
            assert secret.read_text().splitlines()[-1] not in written


def test_every_container_is_held_back(exported: Path) -> None:
    specs = [pod["spec"] for pod in pods(exported)[:2]] + [pod["spec"] for pod in of_kind(exported, "Pod")]
    for spec in specs:
        assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        for container in [*spec["initContainers"], *spec["containers"]]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


def test_usage_and_rejection_are_not_tried_again(exported: Path) -> None:
    """docs/operations.md, exit codes: after 2 and 3 the next try would fail as well; after others it may not."""
    proceeds = load_config(exported / "cluster.yaml").policy.proceeds
    for job in of_kind(exported, "Job"):
        assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"  # as a podFailurePolicy wants it
        first, second = job["spec"]["podFailurePolicy"]["rules"]
        codes = {"containerName": "node", "operator": "In", "values": [2, 3]}
        assert first == {"action": "FailIndex" if proceeds else "FailJob", "onExitCodes": codes}
        assert second["action"] == "Ignore"
        assert job["spec"]["backoffLimitPerIndex"] > 0
        assert ("maxFailedIndexes" in job["spec"]) == (not proceeds)


def test_the_budget_lets_one_node_go_at_a_time(exported: Path) -> None:
    (budget,) = of_kind(exported, "PodDisruptionBudget")
    held = [pod for pod in pods(exported) if selects(budget["spec"]["selector"], pod["labels"])]
    assert budget["spec"]["minAvailable"] == len(held) - 1 == len(pods(exported)) - 1
    (collect,) = of_kind(exported, "Pod")
    assert not selects(budget["spec"]["selector"], collect["metadata"]["labels"])


def test_memory_follows_the_number_of_features(export: Export) -> None:
    found = []
    for dim, name in ((8, "small"), (100_000, "large")):
        folder = export("kubernetes", (STAR % 4).replace("dim: 8", f"dim: {dim}"), name)
        needs = of_kind(folder, "Job")[0]["spec"]["template"]["spec"]["containers"][0]["resources"]
        found.append({what: int(needs[what]["memory"].removesuffix("Mi")) for what in ("requests", "limits")})
    small, large = found
    # The reducer's (u, v) of 2,000 rounds, which it may have to keep: 1.6 GB; and a few matrices of 4 rows.
    assert 1526 < large["limits"] < 2000
    assert small["requests"] < 100
    assert small["requests"] < large["requests"] < 200


def test_data_is_mounted_where_it_is_read(export: Export) -> None:
    def volumes(folder: Path, job: int) -> set[str]:
        return {each["name"] for each in of_kind(folder, "Job")[job]["spec"]["template"]["spec"]["volumes"]}

    folder = export("kubernetes", KINDS["files"])
    assert "data" not in volumes(folder, 0) and "data" in volumes(folder, 1)
    assert "data" not in volumes(export("kubernetes", STAR % 1, "made"), 1)


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
