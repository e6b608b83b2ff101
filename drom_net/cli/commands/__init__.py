"""The commands as a person types them: arguments, options and help. Light: what they do is imported when they run."""

from __future__ import annotations

import click

from drom_net.cli.commands import cluster, data, learn, machine, study

BY_HEADING: dict[str, tuple[click.Command, ...]] = {
    "Learn": (learn.init, learn.check, learn.run, learn.watch, learn.show, learn.predict, learn.compare_command),
    "Cluster (nodes on several hosts)": (
        *(cluster.reducer, cluster.worker, cluster.peer),
        *(cluster.keys, cluster.export, cluster.merge),
    ),
    "Data sets": (data.data,),
    "Study": (study.simulate, study.topology, study.audit_command, study.replay, study.verify),
    "This machine": (machine.doctor, machine.completion),
}
"""The commands, as the help lists them."""
