"""What is published: metadata, README on a package index, notebook, workflows. scripts/package builds and tries it."""

from __future__ import annotations

import json
import os
import re
import runpy
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


def test_the_version_stands_in_one_place() -> None:
    """Elsewhere it is read, or held to it here; of the image by its own test."""
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


def test_ci_runs_on_the_system_that_the_image_is_made_of() -> None:
    assert workflows()["ci.yml"]["jobs"]["all"]["container"]["image"] == base_image()
