"""Plugins in the repository, which other programs install from a clone, and other packages."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import build_packages
from conftest import Run, succeeded, write
from memvault import __version__

ROOT = Path(__file__).resolve().parents[1]


def test_release_clone_is_a_plugin_marketplace(run: Run, folder: Path) -> None:
    """Each plugin has the files its program reads, and its hooks run and find the vault."""
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


def test_desktop_bundle_serves_new_folder(tmp_path: Path) -> None:
    """The bundle's server makes the chosen folder a vault and serves it."""
    bundle = tmp_path / "memvault.mcpb"
    build_packages.bundle(write(tmp_path, "memvault-1-py3-none-any.whl", ""), bundle)
    place = tmp_path / "unpacked"
    response = build_packages.start(bundle, place, [sys.executable])
    assert response["result"]["serverInfo"]["name"] == "memvault"
    assert (place / "vault" / "memvault.toml").is_file()
    manifest = json.loads((place / "manifest.json").read_text("utf-8"))
    assert manifest["version"] == __version__
    assert "memory_recall" in [tool["name"] for tool in manifest["tools"]]
    assert 'path = "memvault-1-py3-none-any.whl"' in (place / "pyproject.toml").read_text("utf-8")
