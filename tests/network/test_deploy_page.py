"""What docs/deploy.md says, done word by word: its hosts are network namespaces, and `ssh` leads there."""

from __future__ import annotations

import json
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pytest
from by_hand import digest_of_loop
from processes import DEADLINE_S, family

pytestmark = [pytest.mark.network, pytest.mark.process, pytest.mark.slow, pytest.mark.usefixtures("may_make_networks")]

PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"

SSH = """\
#!/bin/sh
host=$1; shift
cd "@HOME@/$host"
exec ip netns exec "@NAME@-$host" sh -c "mount --bind '@HOME@/hosts' /etc/hosts; $*"
"""
SCP = """\
#!/bin/bash
words=()
for word; do
    case $word in
    *:*) word="@HOME@/${word%%:*}/${word#*:}" ;;
    esac
    words+=("$word")
done
exec cp "${words[@]}"
"""


def blocks(heading: str) -> list[tuple[str, str]]:
    """(language, text) of the blocks of code under a heading."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```(\w*)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def test_three_plain_hosts(netlab: ModuleType, tmp_path: Path) -> None:
    hosts = ["hub", "north", "south"]
    (file,) = [text for language, text in blocks("What every way needs") if language == "yaml"]
    (tmp_path / "cluster.yaml").write_text(file)
    commands = [text for _, text in blocks("What every way needs") if text.startswith("drom-net")]
    commands += [text for _, text in blocks("Plain hosts")]
    assert len(commands) == 4
    with ExitStack() as stack:
        lab = stack.enter_context(netlab.Lab(hosts))
        processes = stack.enter_context(family(tmp_path))
        (tmp_path / "hosts").write_text("".join(f"{lab.ip(host)} {host}\n" for host in hosts))
        tools = tmp_path / "bin"
        for folder in [*hosts, tools]:
            (tmp_path / folder).mkdir()
        for name, text in {
            "ssh": SSH.replace("@NAME@", lab.name),
            "scp": SCP,
            "drom-net": f'#!/bin/sh\nexec {sys.executable} -P -m drom_net "$@"\n',
        }.items():
            (tools / name).write_text(text.replace("@HOME@", str(tmp_path)))
            (tools / name).chmod(0o755)
        script = f'set -eu\nexport PATH="{tools}:$PATH"\n' + "".join(commands)
        (tmp_path / "page.sh").write_text(script)
        done = processes.start(before=("bash", "page.sh"))
        out, err = done.communicate(timeout=4 * DEADLINE_S)
        logs = "".join(path.read_text() for path in tmp_path.glob("*.log"))
        assert done.returncode == 0, f"{out}\n{err}\n{logs}"
        assert "finished after round 500" in err  # as the page says
        assert not processes.alive()
    assert not list((tmp_path / "keys").glob("*.secret"))
    for host, node in zip(hosts, ["reducer", "task-01", "task-02"], strict=True):
        there = {path.name for path in (tmp_path / host / "cluster" / "keys").iterdir()}
        assert there == {"public.keys", f"{node}.secret"}
    result = json.loads((tmp_path / "result" / "summary.json").read_text())
    assert result["digest"] == digest_of_loop(tmp_path / "cluster.yaml")
