"""An export for systemd: a unit for each role, and a script that puts one node's files into place on its host."""

from __future__ import annotations

from collections.abc import Mapping

from drom_net.cluster.deployment import Deployment, no_meeting_place, no_peers
from drom_net.cluster.portable import CLUSTER, at_places, node_list, portable_files

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
        "drom-net.env": _ENVIRONMENT,
        **dict(_unit(role, config.name) for role in roles),
        "install.sh": install.replace("@FILE@", CLUSTER),
    }


def _unit(role: str, cluster: str) -> tuple[str, str]:
    """Its name, and what is in it."""
    if role == "reducer":
        name, node, task = "drom-net-reducer.service", "reducer", ""
    else:
        name, node, task = f"drom-net-{role}@.service", "%i", "Environment=DROM_NET_TASK=%i\n"
    text = _UNIT.replace("@ROLE@", role).replace("@NODE@", node).replace("@TASK@", task).replace("@NAME@", cluster)
    return name, text


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
Environment=DROM_NET_OUT=%S/drom-net/@NODE@
@TASK@# What differs on this host; it replaces the lines above.
EnvironmentFile=-/etc/drom-net/drom-net.env
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
# What differs on this host, as /etc/drom-net/drom-net.env. All nodes of the host read it.
# Where a reducer or peer listens, if the name in cluster.yaml is not an address of this host ([::] is IPv6 and IPv4):
#DROM_NET_BIND=tcp://0.0.0.0:5571
# Where a worker finds the reducer, if not where cluster.yaml says:
#DROM_NET_ENDPOINT=tcp://hub.example:5571
# The folder of the data files; not below /home, which the units do not see:
#DROM_NET_DATA=/srv/drom-net
# A page for Prometheus; of one node of the host only:
#DROM_NET_METRICS=127.0.0.1:9100
DROM_NET_LOG_FORMAT=text
"""

_INSTALL = """\
#!/bin/sh
# Puts one node of the cluster @NAME@ into place and starts it, as root on its host, in this folder:
#     ./install.sh reducer          or the name of a task, as in nodes.txt
# It needs drom-net in the virtual environment /opt/drom-net, and of the keys public.keys and the node's own .secret.
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
install -d -m 700 -o drom-net -g drom-net /etc/drom-net/keys
install -m 644 @FILES@ /etc/drom-net/
install -m 644 -o drom-net -g drom-net keys/public.keys /etc/drom-net/keys/
install -m 600 -o drom-net -g drom-net "keys/$node.secret" /etc/drom-net/keys/
[ -e /etc/drom-net/drom-net.env ] || install -m 644 drom-net.env /etc/drom-net/
install -m 644 drom-net-*.service /etc/systemd/system/
unit="drom-net-@ROLE@@$node"
[ "$node" != reducer ] || unit=drom-net-reducer
systemctl daemon-reload
systemctl enable --now "$unit"
echo "started; what it says: journalctl -u $unit"
"""
