"""An export with a folder for each site: what its host needs to take part, and nothing of the other sites."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from drom_net import __version__
from drom_net.cluster.plan import client_names
from drom_net.config.model import ClusterConfig, is_loopback
from drom_net.core.errors import ConfigError, Problem, UsageError, naming
from drom_net.data.public.catalog import PUBLIC_SETS
from drom_net.data.settings import FileData
from drom_net.deploy import kubernetes, systemd
from drom_net.deploy.deployment import PORT, Deployment, no_meeting_place, no_peers
from drom_net.deploy.portable import CLUSTER, KEYS, WEIGHTS, at_places, host_name, portable_files, reads_data
from drom_net.protocol.node import REDUCER
from drom_net.transport.keys import PUBLIC_LIST, client_of, read_keyring, secret_file

_SERVICE = """\
# @NODE@, the @ROLE@ of this site, in a container on this host: see README.md.
name: @NAME@
services:
  @ROLE@:
    image: ${DROM_NET_IMAGE:-drom-net:@VERSION@}
    pull_policy: never # it is built, or was pulled before: no registry is asked for it
    command: [@ROLE@]
    user: "${UID:-1000}:${GID:-1000}"
    environment:
      DROM_NET_CONFIG: /cluster.yaml
      DROM_NET_OUT: /node
      DROM_NET_KEYS: /keys
      DROM_NET_DATA: /data
@OWN@

    volumes:
@MOUNTS@
    restart: "on-failure:10"
    stop_grace_period: 30s
    read_only: true
    tmpfs: [/tmp]
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    pids_limit: 100
    logging: {driver: json-file, options: {max-size: 1m, max-file: "3"}}
"""
_BY_HAND = """
Or by hand, where drom-net is installed; the first line tells whether all is well, and starts nothing:

```
{check}
{run}
```
"""
_PAGE = """\
# {title}

This folder is for one site: it has what {what} of the cluster `{cluster}` needs, and nothing of the other sites.
{meet}
Keep the folder where nobody else can read it.

## What is in here

{files}

## Your data

{data}

## What to type

Type it in this folder.

{start}
{by_hand}
The nodes may start in any order; each waits {join_s} s for the others (`timeouts.join_s` in `cluster.yaml`). One that
has given up, or that was stopped, is started again by the same command, and goes on.

## What comes out

{out} {model}`result.json` says how it went. When all have finished, whoever runs the
cluster puts the folders of all sites together by `drom-net merge`. If you are asked for `nodes/{node}`, send it without
`snapshot-*`, `examples` and `spool`. These may hold rows, and `merge` needs none of them of a node that has ended in
order.

## Whom to ask

Whoever sent you this folder. Say what the last lines say, and never send the `.secret` file along.
"""

DATA, RUN, PAGE, COMPOSE = "data", "run", "README.md", "docker-compose.yml"
"""Names in a site's folder."""
_DATA_OF = {"compose": "/data", "systemd": "/srv/drom-net"}
"""Where the host's data are for a node; on Kubernetes there are no files to follow."""
_APPLICATIONS = {
    "compose": "the socket `run/app.sock`",
    "kubernetes": "`tcp://127.0.0.1:5601`, from a container of yours beside the node's",
    "systemd": "`ipc:///run/drom-net/{task}/app.sock`, as the user `drom-net`",
}


@dataclass(frozen=True, slots=True)
class _Site:
    """One node, and where it is reached."""

    deployment: Deployment
    node: str
    """As in `deployment.nodes`."""
    task: int
    """-1 for the reducer."""

    @property
    def role(self) -> str:
        return REDUCER if self.task < 0 else self.deployment.role

    @property
    def listens(self) -> bool:
        return self.role != "worker"

    @property
    def endpoint(self) -> str:
        """Where the others reach it; for a worker, where it reaches the reducer."""
        config = self.deployment.config
        return (config.peers.endpoints or [config.reducer.endpoint or ""])[max(self.task, 0) if self.is_peer else 0]

    @property
    def is_peer(self) -> bool:
        return self.deployment.graph is not None

    @property
    def port(self) -> str:
        return self.endpoint.rpartition(":")[2]

    @property
    def has_data(self) -> bool:
        return reads_data(self.deployment.config, reducer=self.task < 0) or self.follows_file

    @property
    def follows_file(self) -> bool:
        source = self.deployment.config.source
        return self.task >= 0 and source is not None and source.file is not None


def render_bundles(format: str, deployment: Deployment) -> Mapping[str, str]:
    """The files of all sites, each below the name of its node; names that end with "/" are of folders.

    Raises:
        ConfigError: There are no keys, or the file does not say where the nodes meet.
        UsageError: The format has all nodes in one place.
    """
    if format == "slurm":
        raise UsageError(
            "--per-site: expected compose, kubernetes or systemd, got slurm, whose job has all nodes in one folder"
        )
    config = deployment.config
    _require_endpoints(deployment)
    if config.security.keys is None:
        hint = "such as security: {keys: keys}; then `drom-net keys create` makes them"
        raise ConfigError([Problem(f"{config.path}: security.keys", "the folder of the keys", "nothing", hint)])
    keys = Path(config.security.keys)
    shared = _shared_data(config)
    local = dataclasses.replace(deployment, config=_with_own_paths(config, _DATA_OF.get(format, "")))
    first = 0 if deployment.graph is not None else -1
    files: dict[str, str] = {}
    for task, node in enumerate(deployment.nodes, start=first):
        site = _Site(local, node, task)
        read_keyring(keys, node)
        clients = [name for name in client_names(config, deployment.tasks) if name == client_of(node)]
        own = dict(_RENDER[format](site))
        for path in (keys / PUBLIC_LIST, *(secret_file(keys, name) for name in (node, *clients))):
            with naming(path):
                own[f"{KEYS}/{path.name}"] = path.read_text(encoding="utf-8")
        if site.has_data:
            own |= {f"{DATA}/": ""} | shared
        own[PAGE] = _page(format, site, list(own))
        files |= {f"{node}/{name}": text for name, text in own.items()}
    return files


def _require_endpoints(deployment: Deployment) -> None:
    config = deployment.config
    if deployment.graph is None:
        if config.reducer.endpoint is None:
            raise no_meeting_place(config)
        key, endpoints = "reducer.endpoint", [config.reducer.endpoint]
    else:
        if config.peers.endpoints is None:
            raise no_peers(config)
        key, endpoints = "peers.endpoints", list(config.peers.endpoints)
    for endpoint in endpoints:
        if not endpoint.startswith("tcp://"):
            expected = "tcp://HOST:PORT, which other sites can reach"
            raise ConfigError([Problem(f"{config.path}: {key}", expected, endpoint)])


def _with_own_paths(config: ClusterConfig, folder: str) -> ClusterConfig:
    """Without the folders that data files have here: each site has its own.

    Args:
        folder: Where a followed file of a live task is for the node.
    """
    data, source = config.data, config.source
    if isinstance(data, FileData):
        features = PurePath(data.features).name if isinstance(data.features, str) else data.features
        data = dataclasses.replace(data, files=_own_name(data.files), features=features)
    if source is not None and source.file is not None and folder:
        source = dataclasses.replace(source, file=f"{folder}/{_own_name(source.file)}")
    return dataclasses.replace(config, data=data, source=source)


def _own_name(pattern: str) -> str:
    """The end of a path; with a folder of the task before it if it would not name the task."""
    name = PurePath(pattern).name
    return f"{{task}}/{name}" if "{task}" in pattern and "{task}" not in name else name


def _shared_data(config: ClusterConfig) -> dict[str, str]:
    """The list of features, which all sites have in common, where it is a file."""
    if not (isinstance(config.data, FileData) and isinstance(config.data.features, str)):
        return {}
    path = config.base / config.data.features
    with naming(path):
        return {f"{DATA}/{path.name}": path.read_text(encoding="utf-8")}


# The files of an engine ---------------------------------------------------------------------------


def _kubernetes(site: _Site) -> Mapping[str, str]:
    return kubernetes.render_site(site.deployment, site.node)


def _systemd(site: _Site) -> Mapping[str, str]:
    files = dict(systemd.render(site.deployment))
    for role in (REDUCER, "worker"):
        if role != site.role:
            files.pop("drom-net-reducer.service" if role == REDUCER else f"drom-net-{role}@.service", None)
    settings = files["node.env"]
    if site.listens and _listens_by_itself(site) is None:
        settings = settings.replace(f"#DROM_NET_BIND=tcp://0.0.0.0:{PORT}", f"DROM_NET_BIND=tcp://0.0.0.0:{site.port}")
    data = [line for line in files["data.txt"].splitlines(keepends=True) if line.startswith(("# ", f"{site.node}\t"))]
    return files | {"nodes.txt": f"{site.node}\n", "data.txt": "".join(data), "node.env": settings}


def _compose(site: _Site) -> Mapping[str, str]:
    config = site.deployment.config
    places = at_places(
        config, reducer=config.reducer, peers=config.peers, bind="ipc:///node/app.sock", follows_files=True
    )
    files = portable_files(site.deployment, places, head="The cluster, the same at all sites.")
    mounts = [f"./{CLUSTER}:/{CLUSTER}:ro", f"./{KEYS}:/{KEYS}:ro", f"./{RUN}:/node"]
    if WEIGHTS in files:
        mounts.append(f"./{WEIGHTS}:/{WEIGHTS}:ro")
    if site.has_data:
        mounts.append(f"${{DROM_NET_DATA:-./{DATA}}}:/data:ro")
    own = [] if site.task < 0 else [f"      DROM_NET_TASK: {site.node!r}"]
    ports = []
    if site.listens:
        own.append(f"      DROM_NET_BIND: tcp://0.0.0.0:{PORT}")
        ports = [f'    ports: ["{site.port}:{PORT}"] # where the others reach it']
    text = _SERVICE.replace("@NODE@", site.node).replace("@ROLE@", site.role).replace("@VERSION@", __version__)
    text = text.replace("@NAME@", host_name(f"{config.name}-{site.node}", longest=60)).replace(
        "@OWN@", "\n".join([*own, *ports])
    )
    text = text.replace("@MOUNTS@", "\n".join(f'      - "{mount}"' for mount in mounts))
    return files | {COMPOSE: text.replace("\n\n    volumes", "\n    volumes"), f"{RUN}/": ""}


_RENDER = {"compose": _compose, "kubernetes": _kubernetes, "systemd": _systemd}


def _listens_by_itself(site: _Site) -> str | None:
    """Where the configuration says that it listens, if others are not to reach it by that."""
    config = site.deployment.config
    if site.task < 0:
        return config.reducer.bind or (config.reducer.endpoint if is_loopback(site.endpoint) else None)
    return config.peers.bind[site.task] if config.peers.bind else site.endpoint if is_loopback(site.endpoint) else None


# The page of instructions -------------------------------------------------------------------------


def _page(format: str, site: _Site, files: list[str]) -> str:
    config, node = site.deployment.config, site.node
    title = config.name if site.task < 0 else site.deployment.tasks[site.task]
    meet = f"The other nodes reach it at `{site.endpoint}`: let this port through, from their hosts only."
    if not site.listens:
        meet = f"It connects to the reducer at `{site.endpoint}`, and nobody connects to it."
    about = {f"{KEYS}/{node}.secret": "the secret key of this node: give it to nobody", CLUSTER: "the cluster"}
    about |= {f"{KEYS}/{PUBLIC_LIST}": "the public keys of all nodes", PAGE: "this page"}
    about |= {f"{KEYS}/{client_of(node)}.secret": "the secret key of the applications at this site"}
    about |= {f"{DATA}/": "for your own data", f"{RUN}/": "for what comes out"}
    lines = [f"- `{name}`{f': {about[name]}' if name in about else ''}" for name in (*files, PAGE)]
    which = "" if site.task < 0 else f" --task {node}"
    bind = f" --bind tcp://0.0.0.0:{site.port}" if site.listens and _listens_by_itself(site) is None else ""
    data = f"DROM_NET_DATA={DATA} " if site.has_data else ""
    by_hand = ""
    if config.source is None:  # a live one has its places from the service
        check = f"{data}drom-net check {CLUSTER} --task {node}"
        by_hand = _BY_HAND.format(check=check, run=f"{data}drom-net {site.role} {CLUSTER}{which}{bind} --out {RUN}")
    start, out = _START[format](site)
    return _PAGE.format(
        title=title,
        what="the reducer" if site.task < 0 else f"the {site.role} `{node}`",
        cluster=config.name,
        meet=meet,
        files="\n".join(lines),
        data=_about_data(format, site),
        start=start,
        by_hand=by_hand,
        join_s=f"{(kubernetes.patient(config) if format == 'kubernetes' else config).timeouts.join_s:g}",
        out=out,
        model="" if site.task < 0 else "`w.npy` in it is this site's model, ",
        node=node,
    )


def _about_data(format: str, site: _Site) -> str:
    config = site.deployment.config
    if site.task < 0:
        return "None: a reducer reads no rows."
    if site.follows_file:
        assert config.source is not None and config.source.file is not None
        name = PurePath(config.source.file).name.replace("{task}", site.node)
        place = f"{DATA}/{name}" if "{task}" in PurePath(config.source.file).name else f"{DATA}/{site.node}/{name}"
        return f"Write your rows to `{place}`; the node follows the file as it grows."
    if config.source is not None:
        place = _APPLICATIONS[format].format(task=site.node)
        return f"Your application sends the rows to {place}: see docs/live.md of drom_net."
    if isinstance(config.data, FileData):
        name = config.data.files.replace("{task}", site.deployment.tasks[site.task])
        column = f", with {site.deployment.tasks[site.task]} in column {config.data.task_column}"
        more = column if config.data.task_column else ""
        stay = "" if config.allow_sharing_examples else " They stay at this site."
        return f"Put your own rows at `{DATA}/{name}`{more}.{stay}"
    if config.data.dataset in PUBLIC_SETS:
        return f"Put the folder of the public data set {config.data.dataset} into `{DATA}`."
    return "None is needed: the rows are made up."


def _build(deployment: Deployment) -> str:
    """The command for an image that can read the data."""
    extras = f"--build-arg EXTRAS={','.join(('metrics', *deployment.extras))} " if deployment.extras else ""
    return f"docker build {extras}-t drom-net:{__version__} CHECKOUT"


def _start_compose(site: _Site) -> tuple[str, str]:
    start = f"""\
```
{_build(site.deployment)}
export UID GID=$(id -g)
docker compose up
```

(the first line once, with a checkout of drom_net; the second, so that the files in `{RUN}` are yours)."""
    return start, f"The folder `{RUN}/nodes/{site.node}`."


def _start_systemd(site: _Site) -> tuple[str, str]:
    unit = "drom-net-reducer" if site.task < 0 else f"drom-net-{site.role}@{site.node}"
    copy = f"sudo mkdir -p /srv/drom-net\nsudo cp -r {DATA}/. /srv/drom-net/\n" if site.has_data else ""
    start = f"""\
```
{copy}sudo ./install.sh {site.node}
journalctl -fu {unit}
```

drom-net has to be in `/opt/drom-net`, and what differs on this host is in `/etc/drom-net/{site.node}.env`, once
`install.sh` has put it there. The user `drom-net` must be allowed to read the data."""
    return start, f"The folder `/var/lib/drom-net/{site.node}/nodes/{site.node}`."


def _start_kubernetes(site: _Site) -> tuple[str, str]:
    name = kubernetes.site_name(site.deployment.config.name, site.node)
    claim = f"Make a PersistentVolumeClaim `{name}-data` with what belongs into `{DATA}`. " if site.has_data else ""
    outside = "`service.yaml` has to give this node the address above. " if site.listens else ""
    folder = f"{site.role}-{site.node}/nodes/{site.node}"
    start = f"""\
The image is made by `{_build(site.deployment)}`, from a checkout of drom_net. In `settings/kustomization.yaml` give its
place and the namespace. {claim}{outside}Then

```
kubectl apply --server-side -k .
./wait.sh
kubectl apply -k collect
kubectl wait --for=condition=ready --timeout=600s -f collect/pod.yaml
kubectl cp {name}-collect:/srv/drom-net/run/{folder} {site.node}
kubectl delete -k collect
```

(with `-n NAMESPACE` for `wait` and `cp`, if there is one)."""
    return start, f"The folder `{site.node}`, by `kubectl cp`."


_START = {"compose": _start_compose, "kubernetes": _start_kubernetes, "systemd": _start_systemd}
