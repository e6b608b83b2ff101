"""An export for Slurm: one job, whose only step has all nodes of the cluster as its tasks.

The job's machines are not known before it runs, and are others when it is submitted again. So the script writes the
endpoints into the file as it begins: rank r of a step that is dealt out cyclically runs on machine r modulo their
number, and Slurm knows at which address each machine is reached.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from drom_net.deploy.deployment import Deployment
from drom_net.deploy.portable import CLUSTER, at_places, node_list, portable_files

_JOB = """\
#!/bin/bash
# The cluster @NAME@ (@WHAT@) as one job of Slurm, in a folder that all of its machines see:
#     drom-net keys create @FILE@        once
#     sbatch --nodes=3 job.sh                 in this folder; again, if it was ended before it had finished: it goes on
# Every machine gets as many nodes of the cluster as it takes: they share the processors that the job has there.
# DROM_NET_OUT is the run directory (run), DROM_NET_PORT the first of the ports (one for each peer; one for a star).
#SBATCH --job-name=@NAME@
#SBATCH --output=slurm-%j.txt
#SBATCH --open-mode=append
#SBATCH --requeue
# A minute before the time limit the nodes are told to end, and keep what they have.
#SBATCH --signal=TERM@60
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:?submit this script with sbatch}"
if [ ! -f @FILE@ ] || [ ! -f nodes.txt ] || [ ! -f node.sh ]; then
    echo "error: expected @FILE@, nodes.txt and node.sh where sbatch is called, got none in $PWD" >&2
    exit 2
fi
export DROM_NET_OUT="${DROM_NET_OUT:-run}"
mkdir -p "$DROM_NET_OUT/logs"

# Where each machine of the job is reached, in the order of Slurm's node ids.
mapfile -t machines < <(
    scontrol -o show node "$SLURM_JOB_NODELIST" |
        sed -n 's/.* NodeAddr=\\([^ ]*\\) .*/\\1/p' | sed 's/.*:.*/[&]/'
)
if [ "${#machines[@]}" != "$SLURM_NNODES" ]; then
    echo "error: expected the addresses of $SLURM_NNODES machines from scontrol, got ${#machines[@]}" >&2
    exit 1
fi
# Jobs that share a machine should not share ports; these are below those that systems give away themselves.
port=${DROM_NET_PORT:-$((10000 + SLURM_JOB_ID % 20 * 1000))}
export DROM_NET_CONFIG=".$SLURM_JOB_ID.yaml" DROM_NET_FIRST_PORT=$port
trap 'rm -f "$DROM_NET_CONFIG"' EXIT
{
    cat @FILE@
@ENDPOINTS@
} >"$DROM_NET_CONFIG"

# One that ends does not end the others: they wait for it, or go on without, as the cluster's policy says.
code=0
srun --nodes="$SLURM_NNODES" --ntasks=@NODES@ --distribution=cyclic --overcommit --overlap \\
    --wait=0 --kill-on-bad-exit=0 --export=ALL ./node.sh || code=$?
if [ $code != 0 ]; then
    echo "not finished: a node has ended with exit code $code; see $DROM_NET_OUT/logs" >&2
    echo "sbatch with the same script goes on from the last snapshots" >&2
    exit $code
fi
if [ -f "$DROM_NET_OUT/model.npz" ]; then
    drom-net show "$DROM_NET_OUT"
else
    drom-net merge "$DROM_NET_OUT"
fi
"""
_STAR = """\
    printf 'reducer: {endpoint: "tcp://%s:%d"}\\n' "${machines[0]}" "$port\""""
_PEERS = """\
    printf 'peers:\\n  endpoints:\\n'
    for ((rank = 0; rank < @NODES@; rank++)); do
        printf '  - "tcp://%s:%d"\\n' "${machines[rank % SLURM_NNODES]}" $((port + rank))
    done"""
_NODE = """\
#!/bin/bash
# One node of the cluster, by its rank in the step that job.sh starts.
name=$(sed -n "$((SLURM_PROCID + 1))p" nodes.txt)
exec >>"$DROM_NET_OUT/logs/$name.log" 2>&1
# All addresses of this machine, whatever kind its name stands for.
any=0.0.0.0
[ -e /proc/net/if_inet6 ] && any="[::]"
case $name in
reducer)
    export DROM_NET_BIND="tcp://$any:$DROM_NET_FIRST_PORT"
    exec drom-net reducer
    ;;
*)
    export DROM_NET_BIND="tcp://$any:$((DROM_NET_FIRST_PORT + SLURM_PROCID))" DROM_NET_TASK=$name
    exec drom-net @ROLE@
    ;;
esac
"""

_HEAD = "The cluster, without endpoints: job.sh adds them as it begins."


def render(deployment: Deployment) -> Mapping[str, str]:
    """The cluster's file, the list of its nodes, and two scripts, for a folder that all machines share."""
    config = deployment.config
    star = deployment.graph is None
    shared = dataclasses.replace(at_places(config), data=config.data)
    files = portable_files(deployment, shared, head=_HEAD, without=["reducer", "peers"])
    what = f"{len(deployment.tasks)} tasks, {'a star' if star else 'peers'}"
    job = _JOB.replace("@NAME@", config.name).replace("@WHAT@", what).replace("@FILE@", CLUSTER)
    job = job.replace("@ENDPOINTS@", _STAR if star else _PEERS).replace("@NODES@", str(len(deployment.nodes)))
    return files | {
        "nodes.txt": node_list(deployment),
        "job.sh": job,
        "node.sh": _NODE.replace("@ROLE@", "worker" if star else "peer"),
    }
