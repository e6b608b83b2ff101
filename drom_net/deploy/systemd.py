"""An export for systemd: a unit for each role, and a script that puts one node's files into place on its host."""

from __future__ import annotations

from collections.abc import Mapping

from drom_net.data.public.catalog import PUBLIC_SETS
from drom_net.data.settings import FileData
from drom_net.deploy.deployment import Deployment, memory_mib, no_meeting_place, no_peers
from drom_net.deploy.portable import CLUSTER, at_places, node_list, portable_files
from drom_net.protocol.node import REDUCER

_UNIT = """\
# In /etc/systemd/system; install.sh puts it there. An instance is named after its task.
[Unit]
Description=drom-net @ROLE@ @NODE@ of the cluster @NAME@
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=exec
User=drom-net
Environment=DROM_NET_CONFIG=/etc/drom-net/cluster.yaml
Environment=DROM_NET_KEYS=/etc/drom-net/keys
Environment=DROM_NET_DATA=/srv/drom-net
Environment=DROM_NET_OUT=%S/drom-net/@NODE@
@TASK@# What differs for this node; it replaces the lines above.
EnvironmentFile=-/etc/drom-net/@NODE@.env
ExecStart=/opt/drom-net/bin/drom-net @ROLE@
# It goes on from its last snapshot. Not after 2 (usage) and 3 (rejected): that would be the same the next time.
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2 3
# SIGTERM makes it close its round and keep what it has; the others wait for it, up to timeouts.lost_s.
KillSignal=SIGTERM
TimeoutStopSec=60
SuccessExitStatus=143
StateDirectory=drom-net/@NODE@
StateDirectoryMode=0700
RuntimeDirectory=drom-net/@NODE@
RuntimeDirectoryMode=0700
UMask=0077
# Limits: a node that goes wrong is ended, and goes on from its snapshot, before it harms others on this host.
# `systemctl edit` changes one. Memory: well above what the plan says, or 75% of the host's where the plan cannot know.
MemoryMax=@MEMORY@
# It has about ten threads and starts no processes.
TasksMax=100
# Two for each task, some for strangers, and its files; a node takes what it needs of this.
LimitNOFILE=65536
# A core file would have the key in it.
LimitCORE=0
# Not LoadCredential for the key: some versions of systemd give it a mode that the group may read, which we refuse.
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=yes
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
PrivateDevices=yes
PrivateTmp=yes
RemoveIPC=yes
LockPersonality=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service

[Install]
WantedBy=multi-user.target
"""
_ENVIRONMENT = """\
# What differs for one node, as /etc/drom-net/NODE.env: install.sh puts it there once. After a change call it again.
# Where a reducer or peer listens, if the name in cluster.yaml is not an address of this host ([::] is IPv6 and IPv4):
#DROM_NET_BIND=tcp://0.0.0.0:5571
# Where a worker finds the reducer, if not where cluster.yaml says:
#DROM_NET_ENDPOINT=tcp://hub.example:5571
# The folder of the data files, if not /srv/drom-net; not below /home or /tmp, which the units do not see:
#DROM_NET_DATA=/srv/drom-net
# A page for Prometheus; each node of a host needs its own port:
#DROM_NET_METRICS=127.0.0.1:9100
# 1 if other machines may read that page:
#DROM_NET_METRICS_INSECURE=1
DROM_NET_LOG_FORMAT=text
"""
_INSTALL = """\
#!/bin/sh
# Puts one node of the cluster @NAME@ into place and starts it, as root on its host, in this folder:
#     ./install.sh reducer          or the name of a task, as in nodes.txt
# It needs drom-net in the virtual environment /opt/drom-net, of the keys public.keys and the node's own .secret, and
# the node's data (data.txt says which) in /srv/drom-net. Called again it restarts the node if anything has changed.
set -eu
node=${1:-}
refuse() {
    echo "error: $1" >&2
    exit 2
}
grep -qxF -e "$node" nodes.txt || refuse "expected a node of nodes.txt, got \\"$node\\""
[ -x /opt/drom-net/bin/drom-net ] || refuse "expected drom-net in /opt/drom-net, got none"
for file in keys/public.keys "keys/$node.secret"; do
    [ -f "$file" ] || refuse "$file: expected a key file, got none; \\`drom-net keys create @FILE@\\` makes it"
done
id drom-net >/dev/null 2>&1 ||
    useradd --system --user-group --no-create-home --home-dir /var/lib/drom-net --shell /usr/sbin/nologin drom-net
install -d -m 755 /etc/drom-net
environment=/etc/drom-net/$node.env
[ -e "$environment" ] || install -m 644 node.env "$environment"

# Its data is not copied, only looked at: it may be large, and have its place already.
data=$(sed -n 's/^DROM_NET_DATA=//p' "$environment" | tail -n 1 | tr -d \\"\\')
data=${data:-/srv/drom-net}
while IFS='@TAB@' read -r whose file; do
    [ "$whose" = "$node" ] || continue
    [ -d /srv/drom-net ] || install -d -m 750 -o drom-net -g drom-net /srv/drom-net
    case $file in /*) ;; *) file=$data/$file ;; esac
    for hidden in home root run/user tmp var/tmp; do # ProtectHome and PrivateTmp
        case $file in
        "/$hidden"/*) refuse "$file: expected data where the unit sees it, such as /srv/drom-net" ;;
        esac
    done
    runuser -u drom-net -- test -r "$file" </dev/null ||
        refuse "$file: expected data of $node that the user drom-net may read, got none; put it there, \\
such as by \\`install -D -o drom-net -m 600 FILE '$file'\\`, or name another folder as DROM_NET_DATA in $environment"
done <data.txt

install -d -m 700 -o drom-net -g drom-net /etc/drom-net/keys
install -m 644 @FILES@ /etc/drom-net/
install -m 644 -o drom-net -g drom-net keys/public.keys /etc/drom-net/keys/
install -m 600 -o drom-net -g drom-net "keys/$node.secret" /etc/drom-net/keys/
install -m 644 drom-net-*.service /etc/systemd/system/
unit=drom-net-@ROLE@@$node.service template=drom-net-@ROLE@@.service
[ "$node" != reducer ] || unit=drom-net-reducer.service template=drom-net-reducer.service

# It runs as what is in these files, or is restarted: it closes its round, and goes on from there.
is=$(cat @FILES@ keys/public.keys "keys/$node.secret" "$template" "$environment" | sha256sum)
started=/etc/drom-net/$node.started
systemctl daemon-reload
systemctl enable --quiet "$unit"
order=restart
[ "$is" != "$(cat "$started" 2>/dev/null)" ] || order=start
state=failed since=$(date +%s)
if systemctl "$order" "$unit"; then
    for second in 1 2 3 4 5 6 7 8 9 10; do # a node that something is wrong with ends within seconds
        state=$(systemctl is-active "$unit") || true
        [ "$state" = active ] || break
        sleep 1
    done
fi
case $state in
active) echo "$unit runs; what it says: journalctl -u $unit" ;;
inactive) echo "$unit has come to its end; what it said: journalctl -u $unit" ;;
*)
    rm -f "$started"
    journalctl --no-pager -o cat -n 5 --since="@$since" -u "$unit" >&2 || true
    code=$(systemctl show --property=ExecMainStatus --value "$unit") || code=unknown
    echo "error: $unit: expected it to run, got $state, exit code $code; all that it said: journalctl -u $unit" >&2
    exit 1
    ;;
esac
(umask 077 && echo "$is" >"$started")
"""

_HEAD = "The cluster, the same on all hosts: in /etc/drom-net."


def render(deployment: Deployment) -> Mapping[str, str]:
    """A folder that every host gets, each with its own key only.

    Raises:
        ConfigError: The file does not say where the nodes meet.
    """
    config, star = deployment.config, deployment.graph is None
    if star and config.reducer.endpoint is None:
        raise no_meeting_place(config)
    if not star and config.peers.endpoints is None:
        raise no_peers(config)
    bind = "ipc:///run/drom-net/{task}/app.sock"  # in the unit's RuntimeDirectory
    places = at_places(config, reducer=config.reducer, peers=config.peers, bind=bind, follows_files=True)
    files = portable_files(deployment, places, head=_HEAD)
    roles = ["reducer", "worker"] if star else ["peer"]
    install = _INSTALL.replace("@ROLE@", roles[-1]).replace("@FILES@", " ".join(files)).replace("@NAME@", config.name)
    return {
        **files,
        "nodes.txt": node_list(deployment),
        "data.txt": _data_list(deployment),
        "node.env": _ENVIRONMENT,
        **dict(_unit(role, deployment) for role in roles),
        "install.sh": install.replace("@FILE@", CLUSTER).replace("@TAB@", "\t"),
    }


def _data_list(deployment: Deployment) -> str:
    """A line for each file, or folder of a public set, that a node reads: the node and the file, with a tab between."""
    data = deployment.config.data
    lines = ["# NODE, a tab, and a file that it reads; names without / at the front are relative to /srv/drom-net.\n"]
    for name in deployment.nodes:
        if isinstance(data, FileData):
            if isinstance(data.features, str):
                lines.append(f"{name}\t{data.features}\n")
            if name != REDUCER:
                task = deployment.tasks[deployment.nodes.index(name) - len(deployment.nodes)]
                lines.append(f"{name}\t{data.files.replace('{task}', task)}\n")
        elif data.dataset in PUBLIC_SETS and name != REDUCER:
            lines.append(f"{name}\t{PUBLIC_SETS[data.dataset].folder}\n")
    return "".join(lines)


def _memory(role: str, deployment: Deployment) -> str:
    """Twice what compose allows, for here Python may have all extras; one limit for all tasks."""
    tasks = [-1] if role == REDUCER else range(len(deployment.tasks))
    planned = [memory_mib(deployment, task) for task in tasks]
    return f"{max(512, 2 * max(planned))}M" if all(planned) else "75%"


def _unit(role: str, deployment: Deployment) -> tuple[str, str]:
    """Its name, and what is in it."""
    if role == REDUCER:
        name, node, task = "drom-net-reducer.service", "reducer", ""
    else:
        name, node, task = f"drom-net-{role}@.service", "%i", "Environment=DROM_NET_TASK=%i\n"
    text = _UNIT.replace("@ROLE@", role).replace("@NODE@", node).replace("@TASK@", task)
    return name, text.replace("@NAME@", deployment.config.name).replace("@MEMORY@", _memory(role, deployment))
