"""``python -m drom_net.node SPEC``: what the launcher starts, and what `drom-net worker` becomes."""

from __future__ import annotations

import signal
import sys
from pathlib import Path


def main() -> int:
    # What comes before the node can end in order is held back until it can; run_node lets it through.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    import gc
    import resource

    from drom_net.node.process import run_node
    from drom_net.node.spec import NodeSpec

    # Strangers who connect must not use up the descriptors that the node's own files need.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.freeze()  # what the imports made stays; the collector need not look at it again and again
    return run_node(NodeSpec.read(Path(sys.argv[1])))


if __name__ == "__main__":
    raise SystemExit(main())
