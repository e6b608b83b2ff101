"""docker compose: a container for each node, on a private network of one host.

``python -m drom_net.deploy.compose`` writes the docker-compose.yml of this checkout.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath

from drom_net import __version__
from drom_net.config.load import load_config
from drom_net.config.model import ClusterConfig, PeerSettings, ReducerSettings
from drom_net.data.public.catalog import PUBLIC_SETS
from drom_net.data.settings import FileData
from drom_net.deploy.deployment import PORT, Deployment, host_names, memory_mib, plan_deployment
from drom_net.deploy.portable import CLUSTER, WEIGHTS, at_places, portable_files
from drom_net.protocol.node import REDUCER

FILE = "docker-compose.yml"
_OWN_SERVICES = ("image", "init", "collect", "keys", REDUCER)
"""What no task's service may be called."""
_YAML_WORDS = ("yes", "no", "on", "off", "true", "false", "null", "y", "n")
"""Nor these, which YAML reads as no text."""
_CHECKS_A_SECOND = 4
"""Health checks of all nodes together, at the most: each starts two processes in its container."""
_APPLICATIONS = "ipc:///node/app.sock"
"""Where a live task serves applications: other containers that have its volume."""

_SHARED = """\
x-service: &service
  image: ${DROM_NET_IMAGE:-drom-net:@VERSION@}
  pull_policy: never # it is built, or was pulled before: no registry is asked for it
  read_only: true
  tmpfs: [/tmp]
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  pids_limit: 100
  cpus: 1.0
  logging: {driver: json-file, options: {max-size: 1m, max-file: "3"}}

x-node: &node
  <<: *service
  user: &owner "${UID:-1000}:${GID:-1000}"
  environment:
    DROM_NET_CONFIG: /cluster.yaml
    DROM_NET_OUT: /node
    DROM_NET_KEYS: /node/keys
    DROM_NET_DATA: /data
  entrypoint: # what the node says goes to `docker compose logs` and to ./runs/logs; a signal goes on to the node
    - /bin/sh
    - -c
    - |
      mkfifo /tmp/said
      tee -a /logs/log.txt </tmp/said & tee=$$!
      trap 'kill -TERM $$node' TERM INT
      drom-net "$$@" >/tmp/said 2>&1 & node=$$!
      while kill -0 $$node 2>/dev/null; do wait $$node; code=$$?; done
      wait $$tee
      exit $$code
    - node
  networks: [cluster]
  restart: "on-failure:10"
  stop_grace_period: 30s
  healthcheck: # a node touches its lock every 5 s as long as it does its work
    test: ["CMD-SHELL", "find /node/nodes -name lock -newermt '60 seconds ago' | grep -q ."]
    interval: @INTERVAL@s
    timeout: 10s
    start_period: 60s

x-first: &first # makes the keys and gives each node its own; root, for it gives the volumes to their owner
  <<: *service
  user: "0:0"
  cap_add: [CHOWN, DAC_OVERRIDE, FOWNER]
  network_mode: none
  entrypoint: [/bin/sh, -euc]
  command:
    - |
      for node in /nodes/*; do
        mkdir -p "/runs/logs/$$RUN/$${node##*/}"
      done
      chown -R "$$OWNER" /runs/logs
      umask 077
      drom-net keys create /cluster.yaml
      for node in /nodes/*; do
        mkdir -p "$$node/keys"
        cp -pu /keys/public.keys "/keys/$${node##*/}.secret" "$$node/keys/"
      done
      chown -R "$$OWNER" /nodes/*
      if [ "$$(stat -c %u /runs)" = 0 ]; then chown "$$OWNER" /runs; fi

x-last: &last # the nodes' folders become a run directory; then the next `up` is a new run
  <<: *service
  user: *owner
  network_mode: none
  working_dir: /
  entrypoint: [/bin/sh, -euc]
  command:
    - |
      out=runs/$$RUN number=1
      while [ -e "$$out" ]; do number=$$((number + 1)) out=runs/$$RUN-$$number; done
      drom-net merge /nodes/* --out "$$out" || { code=$$?; rm -rf "$$out"; exit $$code; }
      mkdir "$$out/logs"
      for node in /nodes/*; do
        mv "runs/logs/$$RUN/$${node##*/}/log.txt" "$$out/logs/$${node##*/}.log" || true
      done
      rm -rf /nodes/*/nodes /nodes/*/summary.json

x-ready: &ready {condition: service_completed_successfully}
"""


@dataclass(frozen=True)
class _Cluster:
    """One cluster of a compose file."""

    deployment: Deployment
    file: str
    """Its YAML file, as seen from the compose file."""
    prefix: str = ""
    """Before the names of its services and volumes."""
    profile: str = ""
    """With which it is started; empty for always."""

    @property
    def services(self) -> list[str]:
        """Of the nodes, in the order of `deployment.nodes`."""
        nodes = self.deployment.nodes
        hosts = host_names([name for name in nodes if name != REDUCER], taken=(*_OWN_SERVICES, *_YAML_WORDS))
        return [self.prefix + host for host in (*((REDUCER,) if REDUCER in nodes else ()), *hosts)]

    @cached_property
    def files(self) -> Mapping[str, str]:
        """The YAML file as its containers see it, and what that names; large for many tasks."""
        return _portable_files(self)

    @property
    def anchor(self) -> str:
        """Names its list of volumes."""
        return f"{self.prefix}all-nodes"


def render(deployment: Deployment) -> Mapping[str, str]:
    """docker-compose.yml, and the YAML file that its containers read."""
    cluster = _Cluster(deployment, CLUSTER)
    image = f"drom-net:{__version__}"
    extras = ",".join(("metrics", *deployment.extras))
    build = f"--build-arg EXTRAS={extras} " if deployment.extras else ""
    head = (
        f"{_about(deployment)}, written by `drom-net export compose`.\n\n"
        f"docker build {build}-t {image} CHECKOUT    once: the image, from a checkout of drom_net\n"
        f"docker compose up                {'':{len(build)}}         a run, which ends by itself: see ./runs\n"
        f"docker compose down -v           {'':{len(build)}}         forget it all, but for ./runs"
    )
    return {FILE: _compose_file(head, [cluster]), **cluster.files}


def render_checkout(star: Deployment, peers: Deployment) -> Mapping[str, str]:
    """The files of this checkout: a star, and peers instead of it."""
    clusters = [
        _Cluster(star, "configs/compose/star.yaml", profile="drom"),
        _Cluster(peers, "configs/compose/peers.yaml", prefix="peers-", profile="drom-d"),
    ]
    head = (
        f"{_about(star)}; or, with the profile drom-d, {_about(peers)}.\n\n"
        "docker compose up --build                     DROM: a reducer, four workers; result and logs are in ./runs\n"
        "docker compose --profile drom-d up --build    DROM-D instead: four peers\n"
        "docker compose down -v                        forget it all, but for ./runs (with the same --profile)\n\n"
        "Which profile is meant where none is named is said in .env. Written by `python -m drom_net.deploy.compose`."
    )
    files = {FILE: _compose_file(head, clusters, build="."), ".env": "COMPOSE_PROFILES=drom\n"}
    return files | {cluster.file: cluster.files[CLUSTER] for cluster in clusters}


def _about(deployment: Deployment) -> str:
    config = deployment.config
    return f"{config.algorithm.name} on {config.data.dataset}, {len(deployment.tasks)} tasks"


def _compose_file(head: str, clusters: Sequence[_Cluster], *, build: str = "") -> str:
    most = max(len(cluster.deployment.nodes) for cluster in clusters)
    shared = _SHARED.replace("@VERSION@", __version__)
    shared = shared.replace("@INTERVAL@", str(max(10, most // _CHECKS_A_SECOND)))
    comment = "".join(f"# {line}".rstrip() + "\n" for line in head.splitlines())
    lines = [comment, shared, *(_volumes_of_all(cluster) for cluster in clusters), "services:"]
    if build:
        lines += ["  image: # built once, whatever the profile; it says its version, and ends", "    <<: *service"]
        lines += [f"    build: {build}", "    network_mode: none", '    command: ["--version"]', ""]
    for cluster in clusters:
        lines += _services(cluster, after_image=bool(build))
    lines += ["networks:", "  cluster: {internal: true} # no way out, and none in", "", "volumes:"]
    for cluster in clusters:
        lines += [f"  {name}:" for name in (f"{cluster.prefix}keys", *cluster.services)]
    return "\n".join(lines) + "\n"


def _volumes_of_all(cluster: _Cluster) -> str:
    """What init and collect see: every node's volume, under the node's own name."""
    file, *others = _shared_files(cluster)
    lines = [f"x-{cluster.anchor}: &{cluster.anchor}", f"  - &{cluster.prefix}cluster {file}"]
    lines += [f"  - {each}" for each in (*others, "./runs:/runs", f"{cluster.prefix}keys:/keys")]
    nodes = zip(cluster.services, cluster.deployment.nodes, strict=True)
    return "\n".join([*lines, *(f"  - {service}:/nodes/{name}" for service, name in nodes), ""])


def _services(cluster: _Cluster, *, after_image: bool) -> list[str]:
    deployment = cluster.deployment
    profile = [f"    profiles: [{cluster.profile}]"] if cluster.profile else []
    name = json.dumps(deployment.config.name)
    lines = [
        *(f"  {cluster.prefix}init:", "    <<: *first", f"    environment: {{RUN: {name}, OWNER: *owner}}"),
        *(["    depends_on: {image: *ready}"] if after_image else []),
        *(*profile, f"    volumes: *{cluster.anchor}", ""),
    ]
    first = f"    depends_on: {{{cluster.prefix}init: *ready}}"
    files = [f"*{cluster.prefix}cluster", *_shared_files(cluster)[1:]]
    first_task = 0 if deployment.graph is not None else -1
    for task, (service, node) in enumerate(zip(cluster.services, deployment.nodes, strict=True), start=first_task):
        command = ["reducer"] if task < 0 else [deployment.role, "--task", node]
        own = [] if task < 0 else _own_files(deployment.config, deployment.tasks[task], node)
        mounts = [*files, f"{service}:/node", f"./runs/logs/{deployment.config.name}/{node}:/logs", *own]
        memory = memory_mib(deployment, task)
        lines += [
            *(f"  {service}:", "    <<: *node", f"    command: {json.dumps(command)}"),
            f"    volumes: [{', '.join(mounts)}]",
            *([f"    mem_limit: {memory}m"] if memory else []),
            *(*profile, first, ""),
        ]
    lines += [
        *(f"  {cluster.prefix}collect:", "    <<: *last"),
        *(f"    environment: {{RUN: {name}}}", f"    volumes: *{cluster.anchor}"),
        *(*profile, "    depends_on:", *(f"      {service}: *ready" for service in cluster.services), ""),
    ]
    return lines


# Files of the user --------------------------------------------------------------------------------


def _portable_files(cluster: _Cluster) -> Mapping[str, str]:
    """The YAML file, as `_shared_files` and `_own_files` put things into the containers, and what it names."""
    deployment, hosts = cluster.deployment, cluster.services
    if deployment.graph is None:
        meet = ReducerSettings(endpoint=f"tcp://{hosts[0]}:{PORT}", bind=f"tcp://0.0.0.0:{PORT}")
        config = at_places(deployment.config, reducer=meet, bind=_APPLICATIONS, follows_files=True)
    else:
        endpoints = tuple(f"tcp://{host}:{PORT}" for host in hosts)
        binds = (f"tcp://0.0.0.0:{PORT}",) * len(hosts)
        meet_each_other = PeerSettings(endpoints=endpoints, bind=binds)
        config = at_places(deployment.config, peers=meet_each_other, bind=_APPLICATIONS, follows_files=True)
    if config.source is not None and config.source.file is not None:
        file = f"/data/{{task}}/{PurePath(config.source.file).name}"
        config = dataclasses.replace(config, source=dataclasses.replace(config.source, file=file))
    data = config.data
    if isinstance(data, FileData):
        features = _inside(data.features) if isinstance(data.features, str) else data.features
        config = dataclasses.replace(
            config,
            data=dataclasses.replace(data, directory="/data", files=_inside(data.files), features=features),
        )
    # Many containers take a while to start.
    join_s = max(config.timeouts.join_s, 60.0 + 0.5 * len(deployment.nodes))
    config = dataclasses.replace(config, timeouts=dataclasses.replace(config.timeouts, join_s=join_s))
    head = f"{_about(deployment)}, as its containers see it: see {FILE}. Written by drom_net."
    return portable_files(deployment, config, head=head)


def _shared_files(cluster: _Cluster) -> list[str]:
    """The mounts of files that every node reads; the YAML file is the first."""
    config = cluster.deployment.config
    mounts = [_mount(f"./{cluster.file}", "/cluster.yaml")]
    if isinstance(config.data, FileData) and isinstance(config.data.features, str):
        mounts.append(_data_mount(config, config.data.features))
    if WEIGHTS in cluster.files:
        mounts.append(_mount(f"./{PurePath(cluster.file).with_name(WEIGHTS)}", f"/{WEIGHTS}"))
    return mounts


def _own_files(config: ClusterConfig, name: str, node: str) -> list[str]:
    """The mounts of files that a task alone reads; `node` is its name in the safe form."""
    if isinstance(config.data, FileData):
        return [_data_mount(config, config.data.files.replace("{task}", name))]
    if config.source is not None and config.source.file is not None:
        # Its folder, if that is its own: a file that is moved away for a new one would stay the same in the container.
        file = PurePath(config.source.file)
        own = file.parent if "{task}" in str(file.parent) else file
        inner = "" if own != file else f"/{file.name}"
        source = str(own).replace("{task}", node).replace("$", "$$")
        return [_mount(source, f"/data/{node}{inner}".replace("{task}", node))]
    if config.data.dataset in PUBLIC_SETS:
        return [_mount("${DROM_NET_DATA:?the folder of the public data sets}", "/data")]
    return []


def _data_mount(config: ClusterConfig, file: str) -> str:
    """Of a data file, whose folder may be elsewhere on the host that runs it."""
    folder, inner = str(config.base).replace("$", "$$"), file.replace("$", "$$")
    source = inner if PurePath(file).is_absolute() else f"${{DROM_NET_DATA:-{folder}}}/{inner}"
    return _mount(source, f"/data/{_inside(file)}".replace("$", "$$"))


def _inside(file: str) -> str:
    """Where a file of the host is in a container, below a folder."""
    return "/".join(part for part in PurePath(file).parts if part not in ("/", ".."))


def _mount(source: str, target: str) -> str:
    """Read-only; of a file that must be there, else docker would make an empty folder of that name."""
    where = f"source: {_text(source)}, target: {_text(target)}"
    return f"{{type: bind, {where}, read_only: true, bind: {{create_host_path: false}}}}"


def _text(text: str) -> str:
    plain = text.isascii() and not set(text) & set(" :#{}[],&*?|<>=!%@`'\"\\$")
    return text if plain else json.dumps(text, ensure_ascii=False)


def main() -> None:
    """Bring the compose file of this checkout, and what it needs, up to date."""
    root = Path(__file__).parents[2]
    for name, text in checkout_files(root).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def checkout_files(root: Path) -> Mapping[str, str]:
    """What `main` writes, by names relative to the checkout."""
    plans = (plan_deployment(load_config(root / "configs" / name)) for name in ("star-4.yaml", "ring-4.yaml"))
    return render_checkout(*plans)


if __name__ == "__main__":
    main()
