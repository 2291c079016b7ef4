"""Plugins in the repository, which other programs install from a clone."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from conftest import Run, succeeded
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
