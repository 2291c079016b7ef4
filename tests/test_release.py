"""What a forge reads of the project: forms and workflows that name what there is."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import Run, succeeded
from memvault import __version__

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / ".github").rglob("*.yml"))
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def loaded(file: Path) -> dict[Any, Any]:
    """Return a file's content."""
    found: dict[Any, Any] = yaml.safe_load(file.read_text("utf-8"))
    return found


@pytest.mark.parametrize("file", FILES, ids=[file.name for file in FILES])
def test_workflows_run_what_the_makefile_has(file: Path) -> None:
    """Each make target of a workflow exists, each job may do no more than it needs."""
    text = file.read_text("utf-8")
    content = loaded(file)
    assert set(re.findall(r"run: make ([a-z]+)", text)) <= TARGETS
    if "jobs" in content:
        assert content["permissions"] == {"contents": "read"}
        writers = [name for name, job in content["jobs"].items() if job.get("permissions")]
        assert writers == (["publish"] if file.name == "release.yml" else [])
        assert "secrets." not in text
        assert all(re.search(r"@[\w./]+$", use) for use in re.findall(r"uses: (\S+)", text))


def test_a_contributor_finds_four_commands() -> None:
    """CONTRIBUTING names the commands that a contributor needs, and the Makefile has them."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    block = text.split("```")[1]
    named = re.findall(r"^make ([a-z]+)", block, re.MULTILINE)
    assert named == ["test", "docs", "format", "bench"]
    assert set(re.findall(r"`make ([a-z]+)`", text)) | set(named) <= TARGETS


def test_the_package_states_what_it_runs_on() -> None:
    """The classifiers name the Pythons that the tests run on, and no system that is untested."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = {text.rpartition(" ")[2] for text in project["classifiers"] if ":: 3." in text}
    matrix = loaded(ROOT / ".github/workflows/test.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert named == set(matrix["python"])
    systems = [text for text in project["classifiers"] if text.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]


def test_a_clone_is_a_marketplace_of_plugins(run: Run, folder: Path) -> None:
    """Each plugin has the files that its program reads; its hooks run, and find the vault here."""
    market = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text("utf-8"))
    (entry,) = market["plugins"]
    plugin = ROOT / entry["source"]
    manifest = json.loads((plugin / ".claude-plugin/plugin.json").read_text("utf-8"))
    assert (manifest["name"], manifest["version"]) == (entry["name"], __version__)
    extension = ROOT / "plugins/gemini"
    manifest = json.loads((extension / "gemini-extension.json").read_text("utf-8"))
    assert (extension / manifest["contextFileName"]).is_file()
    for place in (plugin, extension):
        assert "name: historian" in (place / "agents/historian.md").read_text("utf-8")
        hooks = json.loads((place / "hooks/hooks.json").read_text("utf-8"))["hooks"]
        commands = [entry["hooks"][0]["command"] for (entry,) in hooks.values()]
        assert len(commands) == 4
        for command in commands:
            words = shlex.split(command)
            assert words[0] == "memvault"
            assert words[-2:] == ["||", "true"]
            succeeded(run(*words[1:-2], stdin=json.dumps({"cwd": str(folder)})))
    plugin_text = (ROOT / "plugins/opencode/memvault.js").read_text("utf-8")
    assert '["memvault", "hook", "EVENT", "--for", "opencode"]' in plugin_text
