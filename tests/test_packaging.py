"""What is published: metadata, README on a package index, notebook, workflows. scripts/package builds and tries it."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from containers import base_image

import drom_net

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["Repository"]
SETUP = runpy.run_path(str(ROOT / "setup.py"))
LINK = re.compile(r"\]\(([^)]*)\)")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def anchors(page: str) -> set[str]:
    """Of a page's headings, as its readers make them."""
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def assert_leads_somewhere(path: str) -> None:
    name, _, anchor = path.partition("#")
    assert (ROOT / name).exists(), path
    assert not anchor or anchor in anchors(read(name)), path


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_of_a_checkout_lead_somewhere(name: str) -> None:
    links = [link for link in LINK.findall(read(name)) if not link.startswith("https://")]
    for link in links:
        assert_leads_somewhere(name + link if link.startswith("#") else link)


def test_links_of_a_package_index_lead_into_the_repository() -> None:
    """Each to the file that the README's own link names, at the tag of this version."""
    links = LINK.findall(SETUP["long_description"]())
    assert len(links) == len(LINK.findall(read("README.md"))) > 20
    kinds = set()
    for link in links:
        kind, tag, path = link.removeprefix(f"{REPOSITORY}/").split("/", 2)
        kinds.add(kind)
        assert (kind, tag) == ("raw" if path.endswith(".png") else "blob", f"v{drom_net.__version__}"), link
        assert_leads_somewhere(path)
    assert kinds == {"raw", "blob"}


def test_what_is_built_and_cited_has_the_version_of_the_package() -> None:
    """Of the image its own test asserts it. What is published is named by scripts/package, which asks setup.py."""
    assert SETUP["version"]() == drom_net.__version__
    assert PROJECT["dynamic"] == ["version", "readme"]
    assert yaml.safe_load(read("CITATION.cff"))["version"] == drom_net.__version__


def test_the_changelog_begins_with_this_version_or_the_next() -> None:
    first = re.findall(r"^## (.*)$", read("CHANGELOG.md"), re.MULTILINE)[0]
    assert first == "[Unreleased]" or re.fullmatch(rf"\[{drom_net.__version__}\] - \d{{4}}-\d\d-\d\d", first)


def test_all_say_the_same_of_the_project() -> None:
    cited = yaml.safe_load(read("CITATION.cff"))
    assert cited["license"] == PROJECT["license"]
    assert cited["repository-code"] == REPOSITORY
    assert cited["keywords"] == PROJECT["keywords"]
    assert cited["authors"] == PROJECT["authors"] == [{"name": "drom_net developers"}]
    assert all(url.startswith(REPOSITORY) for url in PROJECT["urls"].values())
    for url in PROJECT["urls"].values():
        if "/blob/main/" in url:
            assert_leads_somewhere(url.partition("/blob/main/")[2])
    found = re.findall(r"--repo (\S+?)`|(https://github\.com/\S+?)/security/advisories", read("SECURITY.md"))
    assert {one or two.removeprefix("https://github.com/") for one, two in found} == {REPOSITORY.split("/", 3)[3]}


def test_the_notebook_is_ten_lines_without_outputs() -> None:
    """scripts/docs runs it."""
    cells = json.loads(read("docs/notebook.ipynb"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    lines = [line for cell in code for line in "".join(cell["source"]).splitlines() if line and line[0] != "!"]
    assert 0 < len(lines) <= 10


STUBS = {
    "python": 'case "$*" in *importlib.metadata*) echo "drom-net, version 1" ;; *"-m build") mkdir dist ;; '
    f'*runpy*) exec {sys.executable} "$@" ;; esac',
    "drom-net": 'echo "drom-net, version 1"',
    "check-wheel-contents": "",
    "cyclonedx-py": "",
}
TOLD = ("all  1", "sharing helps: 1", "report pumps/runs/pumps/report.html", "label,p,score")


def packaged(folder: Path, *args: str, shown: tuple[str, ...] = TOLD, **env: str) -> tuple[int, str]:
    """(exit code, what it says) of scripts/package in a folder without git, with tools that do nothing, and a README
    whose commands tell `TOLD`, and that shows this."""
    for name in ("scripts/package", "scripts/environment", "setup.py", "drom_net/__init__.py", "pyproject.toml"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    commands = ["mkdir -p pumps/runs/pumps", *(f"echo x >pumps/runs/pumps/report.{kind}" for kind in ("html", "png"))]
    commands += [f"printf '%s\\n' '{TOLD[0]}' '{TOLD[1]}'", f"printf '%s\\n' '{TOLD[2]}' '{TOLD[3]}'"]
    readme = [*(f"$ {command}" for command in commands), *shown]
    (folder / "README.md").write_text("\n".join(readme) + "\n")
    (folder / "CHANGELOG.md").write_text(f"## [{drom_net.__version__}] - 2026-01-01\n")
    (folder / "bin").mkdir(exist_ok=True)
    for name, text in STUBS.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / "bin" / name).chmod(0o755)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    outside = {"PATH": path, "GIT_DIR": str(folder / "none"), "CI": "", "GITHUB_ACTIONS": "", "GITHUB_REPOSITORY": ""}
    command = [str(folder / "scripts" / "package"), *args]
    run = subprocess.run(command, env=os.environ | outside | env, capture_output=True, text=True, check=False)
    return run.returncode, run.stderr


@pytest.mark.parametrize("gone", range(len(TOLD)))
def test_a_package_is_none_where_its_readme_has_lost_a_line_to_compare(gone: int, tmp_path: Path) -> None:
    code, said = packaged(tmp_path, shown=TOLD[:gone] + TOLD[gone + 1 :])
    assert (code, "README.md has other than four lines" in said) == (1, True), said
    code, said = packaged(tmp_path, shown=(*TOLD[:gone], f"{TOLD[gone]} other", *TOLD[gone + 1 :]))
    assert (code, "its commands did not tell it" in said) == (1, True), said


def test_a_package_for_others_is_compared_with_git_or_is_none(tmp_path: Path) -> None:
    code, said = packaged(tmp_path)
    assert (code, "error" in said) == (0, False), said
    assert "the sdist is not compared with what git has: fatal: not a git repository" in said
    tag = f"v{drom_net.__version__}"
    for code, said in (packaged(tmp_path, CI="true"), packaged(tmp_path, GITHUB_ACTIONS="true")):
        assert (code, "error: the sdist cannot be compared with what git has" in said) == (1, True), said
    code, said = packaged(tmp_path, "--tag", tag)
    assert (code, "error: the sdist cannot be compared with what git has" in said) == (1, True), said
    code, said = packaged(tmp_path, "--tag", "v0")
    assert said == f"error: the tag is v0, and the version {drom_net.__version__}\n"


def workflows() -> dict[str, dict[Any, Any]]:
    return {path.name: yaml.safe_load(path.read_text()) for path in sorted((ROOT / ".github/workflows").iterdir())}


def test_workflows_may_do_what_they_must_and_no_more() -> None:
    found = workflows()
    assert {name: workflow["permissions"] for name, workflow in found.items()} == {
        "ci.yml": {"contents": "read"},
        "release.yml": {},
    }
    assert {name: job.get("permissions") for workflow in found.values() for name, job in workflow["jobs"].items()} == {
        "all": None,
        "build": {"contents": "read"},
        "publish": {"id-token": "write", "attestations": "write"},
        "release": {"contents": "write"},
    }
    jobs = found["release.yml"]["jobs"]
    assert (jobs["publish"]["needs"], jobs["release"]["needs"]) == ("build", "publish")
    assert all(not step.get("run") for step in jobs["publish"]["steps"]), "no code of ours where the identity is"


def test_workflows_call_scripts_that_are_there_and_actions_of_one_version() -> None:
    called = set()
    for name, workflow in workflows().items():
        for step in [step for job in workflow["jobs"].values() for step in job["steps"]]:
            command = step.get("run", "")
            assert "${{" not in command, "a value in a command is code"
            called |= set(re.findall(r"\S*(?:scripts|\.ci)/\S+", command))
            if "uses" in step:
                action = re.escape(step["uses"])
                assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
                assert re.search(rf"{action} # v\d+\.\d+\.\d+\b", read(f".github/workflows/{name}")), "of which version"
    assert called == {".ci/run", "scripts/package"}
    assert all(os.access(ROOT / path, os.X_OK) for path in called)


def test_ci_checks_out_a_repository_that_git_can_read() -> None:
    """scripts/package compares the sdist with it, and fails where it cannot."""
    steps = workflows()["ci.yml"]["jobs"]["all"]["steps"]
    checkout = next(at for at, step in enumerate(steps) if step.get("uses", "").startswith("actions/checkout@"))
    before = " ".join(step.get("run", "") for step in steps[:checkout])
    assert re.search(r"apt-get install .*\bgit\b", before)
    assert 'safe.directory "$GITHUB_WORKSPACE"' in before


def test_ci_runs_on_the_system_that_the_image_is_made_of() -> None:
    assert workflows()["ci.yml"]["jobs"]["all"]["container"]["image"] == base_image()
