"""One command configures memvault in each program, and removes the configuration again."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from conftest import Ran, Run, refused, succeeded, write
from made_secrets import made
from memvault import open_vault
from memvault.command_table import TOOLS
from memvault.integrations import NAMES
from memvault.integrations.integration import HISTORIAN
from memvault.tools.core import registry
from terminal import at_terminal

THERE = {
    ".mcp.json": '{"mcpServers": {"other": {"command": "b", "args": []}}}',
    ".claude/settings.json": '{\n  "hooks": {\n    "Stop": [{"hooks": []}]\n  },\n  "a": "x"\n}',
    "CLAUDE.md": "# Rules\r\n\r\nBe kind.\r\n",
    ".codex/config.toml": '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "b"\n',
    ".codex/hooks.json": '{"hooks": {"Stop": [1]}}',
    "AGENTS.md": "# Rules\n",
    "opencode.jsonc": '// mine\n{\n\t"mcp": {"a": {}}, // one\n\t"theme": "dark",\n}\n',
    ".gemini/settings.json": '{\n    "mcpServers": {"a": {}},\n    "ui": {} /* dark */\n}\n',
    "GEMINI.md": "\n",
    ".cursor/hooks.json": '{"version": 1, "hooks": {"stop": [{"command": "x"}]}}\n',
}
"""Files that a user may already have, in the programs' documented formats."""
PATIENT = """
import sys
from memvault.__main__ import main
from memvault.cli import hook

hook._SESSION_START = hook._LIMIT = 60.0
sys.exit(main())
"""
"""memvault with long hook timeouts, for busy machines; test_hook.py tests the real timeouts."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder for one test."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCODE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def project(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a vault whose name needs shell quoting; memvault is on PATH."""
    root = tmp_path / "project"
    write(root, "my 'notes'/memvault.toml", "version = 1\n")
    with open_vault(root / "my 'notes'") as vault:
        vault.call("memory_remember", title="Use PostgreSQL", content="It is our database.")
    monkeypatch.setenv("MEMVAULT_VAULT", str(root / "my 'notes'"))
    patient = write(root.parent, "patient.py", PATIENT)
    line = f'#!/bin/sh\nexec "{sys.executable}" "{patient}" "$@"\n'
    program = write(root.parent, "bin/memvault", line)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return root


@pytest.fixture
def setup(project: Path, run: Run) -> Callable[..., Ran]:
    """Run ``memvault setup`` in the project; --yes writes the changes."""
    return lambda *words, cwd=project: run("setup", *words, "--yes", cwd=cwd)


def tree(root: Path) -> dict[str, bytes]:
    """Return every file in a folder, except the vault's own."""
    files = (path for path in root.rglob("*") if path.is_file())
    named = {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
    return {name: data for name, data in named.items() if not name.startswith("my ")}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("there", [{}, THERE], ids=["new", "there"])
def test_setup_is_idempotent_and_reversible(
    name: str, there: dict[str, str], project: Path, setup: Callable[..., Ran]
) -> None:
    """A second setup changes nothing, and removal restores every file."""
    for path, text in there.items():
        write(project, path, text)
    before = tree(project)
    shown = succeeded(setup(name, "--dry-run"))
    assert "Nothing was written" in shown.out
    assert tree(project) == before
    done = succeeded(setup(name))
    assert "Next: " in done.out
    assert done.out.partition("\nSet ")[0] == shown.out.partition("\nNothing was written")[0]
    after = tree(project)
    assert after != before
    assert succeeded(setup(name)).out == "Nothing to change\n"
    assert tree(project) == after
    assert "Removed memvault from" in succeeded(setup(name, "--remove")).out
    assert tree(project) == before
    assert [*project.rglob("historian*")] == []
    assert succeeded(setup(name, "--remove")).out == "Nothing to change\n"
    if not there:
        assert [path.name for path in project.iterdir()] == ["my 'notes'"]


@pytest.mark.parametrize("scope", ["--project", "--user"])
def test_setup_allows_claude_code_to_read_without_asking(
    home: Path, project: Path, setup: Callable[..., Ran], scope: str
) -> None:
    """The rules allow read-only tools and commands; a person's other rules are kept."""
    folder = home if scope == "--user" else project
    mine = '{"permissions": {"deny": [], "allow": ["Read"]}}\n'
    file = write(folder, ".claude/settings.json", mine)
    succeeded(setup("claude-code", scope))
    allowed = json.loads(file.read_text("utf-8"))["permissions"]["allow"][1:]
    tools = {entry.tool: entry for entry in TOOLS}
    named = [rule.removeprefix("mcp__memvault__") for rule in allowed if rule.startswith("mcp")]
    assert named == [name for name in named if registry.find(name).read_only and tools[name].core]
    assert {"memory_recall", "memory_show", "memory_list", "memory_list_types"} == {*named}
    shell = [f"Bash(memvault {tools[name].words}:*)" for name in named]
    assert allowed == [*(f"mcp__memvault__{name}" for name in named), *shell]
    changed = file.read_text("utf-8").replace('"deny": []', '"deny": ["WebFetch"]')
    file.write_text(changed, "utf-8")
    succeeded(setup("claude-code", scope, "--remove"))
    assert file.read_text("utf-8") == mine.replace('"deny": []', '"deny": ["WebFetch"]')


def read_by_several(project: Path, setup: Callable[..., Ran]) -> dict[str, list[str]]:
    """Return the files that setup changes for more than one of these programs."""
    before = tree(project)
    readers = defaultdict[str, list[str]](list)
    for name in NAMES:
        succeeded(setup(name))
        for path, data in tree(project).items():
            if data != before.get(path):
                readers[path].append(name)
        succeeded(setup(name, "--remove"))
    return {path: names for path, names in readers.items() if len(names) > 1}


def test_setup_keeps_files_shared_by_several_programs(
    project: Path, setup: Callable[..., Ran]
) -> None:
    """A file that several programs read stays until the last program is removed, in any order."""
    for path, text in THERE.items():
        write(project, path, text)
    before = tree(project)
    shared = read_by_several(project, setup)
    assert shared
    for name in NAMES:
        succeeded(setup(name))
    written = tree(project)
    for path, names in shared.items():
        for last in names:
            for name in set(names) - {last}:
                succeeded(setup(name, "--remove"))
            assert tree(project)[path] == written[path]
            succeeded(setup(last, "--remove"))
            assert tree(project).get(path) == before.get(path)
            for name in NAMES:
                succeeded(setup(name))
    for name in NAMES:
        succeeded(setup(name, "--remove"))
    assert tree(project) == before


@pytest.mark.parametrize(
    ("name", "variables", "paths"),
    [
        ("claude-code", {}, [".claude.json", ".claude/settings.json", ".claude/CLAUDE.md"]),
        ("claude-code", {"CLAUDE_CONFIG_DIR": "c"}, ["c/.claude.json", "c/agents/historian.md"]),
        ("codex", {}, [".codex/config.toml", ".codex/hooks.json", ".codex/AGENTS.md"]),
        ("codex", {"CODEX_HOME": "c"}, ["c/config.toml", "c/agents/historian.toml"]),
        ("opencode", {}, [".config/opencode/opencode.json", ".config/opencode/AGENTS.md"]),
        ("opencode", {"XDG_CONFIG_HOME": "c"}, ["c/opencode/plugins/memvault.js"]),
        ("gemini", {}, [".gemini/settings.json", ".gemini/GEMINI.md"]),
        ("cursor", {}, [".cursor/mcp.json", ".cursor/hooks.json", ".cursor/agents/historian.md"]),
    ],
)
def test_setup_for_user_changes_only_home_folder(
    name: str,
    variables: dict[str, str],
    paths: list[str],
    home: Path,
    project: Path,
    setup: Callable[..., Ran],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With --user, only the program's own folder is changed, with the full path in the vault."""
    for variable, folder in variables.items():
        monkeypatch.setenv(variable, str(home / folder))
    before = tree(project)
    succeeded(setup(name, "--user"))
    found = tree(home)
    assert set(paths) <= found.keys()
    assert str(project / "my 'notes'").encode() in b"".join(found.values())
    assert tree(project) == before
    succeeded(setup(name, "--user", "--remove"))
    assert tree(home) == {}


def commands(value: Any) -> list[str]:
    """Return every command line below ``hooks``."""
    if isinstance(value, list):
        return [line for item in value for line in commands(item)]
    if not isinstance(value, dict):
        return []
    own = [value["command"]] if isinstance(value.get("command"), str) else []
    return own + [line for item in value.values() for line in commands(item)]


@pytest.mark.parametrize(
    ("name", "file", "variable"),
    [
        ("claude-code", ".claude/settings.json", "CLAUDE_PROJECT_DIR"),
        ("codex", ".codex/hooks.json", ""),
        ("gemini", ".gemini/settings.json", "GEMINI_PROJECT_DIR"),
        ("cursor", ".cursor/hooks.json", ""),
    ],
)
def test_setup_hooks_run_in_a_shell(
    name: str, file: str, variable: str, project: Path, setup: Callable[..., Ran]
) -> None:
    """The hook commands run in a shell and answer, regardless of the vault's name."""
    succeeded(setup(name))
    written = json.loads((project / file).read_text("utf-8"))["hooks"]
    lines = commands(written)
    assert len(lines) == (3 if name == "cursor" else 4)
    (line,) = (line for line in lines if "hook prompt" in line)
    asked = subprocess.run(
        ["sh", "-c", line],
        input='{"prompt": "which database"}',
        cwd=project if not variable else "/",
        env={**os.environ, **({variable: str(project)} if variable else {})},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Use PostgreSQL" in asked.stdout
    if name == "claude-code":
        words = shlex.quote("my 'notes'")
        assert f"with `--vault {words}`" in (project / "CLAUDE.md").read_text("utf-8")
    gone = line.replace("memvault hook", "no-such-program hook")
    assert subprocess.run(["sh", "-c", gone], capture_output=True, check=False).returncode == 0


_OPENCODE_HOST = """
const { Memvault } = await import(process.argv[2])
const hooks = await Memvault({ directory: process.argv[3] })
let count = 0
const told = async (sessionID, said) => {
  const message = { id: `msg_${++count}`, sessionID, role: "user" }
  const about = { sessionID, messageID: message.id }
  const parts = said.map((text, n) => ({ id: `prt_${count}${n}`, ...about, type: "text", text }))
  parts.push({ id: `prt_${count}y`, ...about, type: "text", text: "zoo", synthetic: true })
  const output = { message, parts }
  await hooks["chat.message"]({ sessionID }, output)
  return output.parts
}
const system = [], context = [], empty = { message: { id: "msg_0" }, parts: [] }
const first = await told("1", ["which", "database"])
const second = await told("1", ["which database"])
await hooks.event({ event: { type: "session.compacted", properties: { sessionID: "1" } } })
const third = await told("1", ["hello"])
const other = await told("2", ["which database"])
await hooks["chat.message"]({ sessionID: "1" }, empty)
await hooks["experimental.chat.system.transform"]?.({ sessionID: "1" }, { system })
await hooks["experimental.session.compacting"]({ sessionID: "1" }, { context })
const messages = [first, second, third, other, empty.parts]
console.log(JSON.stringify({ messages, system, context }))
"""
"""A program that loads the plugin as OpenCode does, and prints where its text is inserted."""


@pytest.mark.promise("S101")
def test_opencode_plugin_adds_memories_to_the_user_message(
    project: Path, setup: Callable[..., Ran]
) -> None:
    """OpenCode's model gets memories as part of the user's message, not the system prompt."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    succeeded(setup("opencode"))
    plugin = (project / ".opencode/plugins/memvault.js").read_text("utf-8")
    assert "LONGEST = 6000" in plugin  # milliseconds; a busy machine may need that long
    write(project, "plugin.mjs", plugin.replace("LONGEST = 6000", "LONGEST = 60000"))
    module = write(project, "host.mjs", _OPENCODE_HOST)

    def host() -> dict[str, Any]:
        words = [node, str(module), str(project / "plugin.mjs"), str(project)]
        ran = subprocess.run(words, capture_output=True, text=True, check=True)
        return cast("dict[str, Any]", json.loads(ran.stdout))

    found = host()
    assert found["system"] == []
    assert "memory_remember" in found["context"][0]
    first, second, third, other, empty = found["messages"]
    assert empty == []
    assert len(second) == 2  # The session has this memory already.
    for parts in (first, other):
        *_, last, added = parts
        assert {key: added[key] for key in ("type", "synthetic", "sessionID", "messageID")} == {
            "type": "text",
            "synthetic": True,
            "sessionID": last["sessionID"],
            "messageID": last["messageID"],
        }
        assert added["id"] == max(part["id"] for part in parts)
        before, fence, memories = added["text"].partition("<memory-data>")
        assert fence
        assert "Use PostgreSQL" in memories
        assert "PostgreSQL" not in before
    assert "memory_remember" in first[-1]["text"]  # a session starts with the reminder
    for parts in (third, other):  # so do a compacted session and another session
        assert "memory_remember" in parts[-1]["text"]
    write(project.parent, "bin/memvault", "#!/nowhere\n")
    missing = host()
    assert (missing["system"], missing["context"]) == ([], [])
    assert [len(parts) for parts in missing["messages"]] == [3, 2, 2, 2, 0]


def test_setup_historian_agent_has_only_memvault_tools(
    project: Path, setup: Callable[..., Ran]
) -> None:
    """If a program can restrict an agent's tools, only the server's tools are allowed."""
    profiles = pytest.importorskip("memvault.mcp.profiles")
    for name in NAMES:
        succeeded(setup(name))
    head = (project / f".claude/agents/{HISTORIAN}.md").read_text("utf-8").split("---")[1]
    tools = head.partition("tools: ")[2].strip().split(", ")
    assert tools == [f"mcp__memvault__{tool}" for tool in profiles.profiles()["core"].tools]
    agent = tomllib.loads((project / f".codex/agents/{HISTORIAN}.toml").read_text("utf-8"))
    assert agent["features"] == {"shell_tool": False, "unified_exec": False}
    assert agent["sandbox_mode"] == "read-only"
    for path in (".opencode/agents", ".gemini/agents"):
        head = (project / path / f"{HISTORIAN}.md").read_text("utf-8").split("---")[1]
        assert "memvault_*" in head


def test_setup_uses_full_path_if_memvault_is_not_on_path(
    project: Path, setup: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If memvault is not on PATH, the server is started with the path of its Python."""
    (project.parent / "bin/memvault").unlink()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    succeeded(setup("claude-code"))
    server = json.loads((project / ".mcp.json").read_text("utf-8"))["mcpServers"]["memvault"]
    assert server["command"] == sys.executable
    assert server["args"] == ["-P", "-m", "memvault", "mcp", "--vault", "my 'notes'"]
    assert succeeded(setup("claude-code")).out == "Nothing to change\n"


@pytest.mark.parametrize(
    ("name", "path", "text", "said"),
    [
        ("claude-code", ".claude/settings.json", '{\n "hooks": {\n', "line 3: "),
        ("claude-code", "CLAUDE.md", "a\n<!-- memvault: begin -->\n", "line 2: "),
        ("claude-code", ".mcp.json", '{"mcpServers": {"memvault": {}}}', "line 1: "),
        ("claude-code", ".claude/settings.json", '{"hooks": {}, "permissions": 1}', "line 1: "),
        ("claude-code", ".mcp.json", "[" * 100_000, "nested too deeply"),
        ("claude-code", ".claude/settings.json", b'{\n\n"a": "\xff"}', "line 3, is not UTF-8"),
        ("claude-code", ".claude/agents/historian.md", "mine\n", "not written by memvault"),
        ("codex", ".codex/config.toml", "a = \n", "line 1"),
        ("codex", ".codex/config.toml", "[mcp_servers.memvault]\n", "a server named memvault"),
        ("codex", ".codex/config.toml", "mcp_servers = {}\n", "uses an inline table"),
        ("cursor", ".cursor", "no folder", "is not a folder"),
        ("opencode", "opencode.jsonc", "// nothing\n", "line 2: "),
    ],
)
def test_setup_refuses_broken_files_and_files_of_other_users(
    name: str, path: str, text: str | bytes, said: str, project: Path, setup: Callable[..., Ran]
) -> None:
    """If one file is invalid, it is reported with the line and nothing is written."""
    write(project, path, text)
    before = tree(project)
    assert said in refused(setup(name), 1)
    assert tree(project) == before
    setup(name, "--remove")
    assert tree(project) == before


def test_setup_keeps_instructions_shared_by_symlink(
    project: Path, setup: Callable[..., Ran]
) -> None:
    """If CLAUDE.md is a symlink to AGENTS.md, removing one program keeps the other's block."""
    rules = write(project, "AGENTS.md", "# Rules\n")
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    for first, last in (("claude-code", "codex"), ("codex", "claude-code")):
        for name in (first, last):
            succeeded(setup(name))
        assert rules.read_text("utf-8").count("memvault recall") == 1
        succeeded(setup(first, "--remove"))
        assert "memvault recall" in rules.read_text("utf-8")
        succeeded(setup(last, "--remove"))
        assert rules.read_text("utf-8") == "# Rules\n"


def test_setup_refuses_symlinks_out_of_project(
    home: Path, project: Path, setup: Callable[..., Ran]
) -> None:
    """A project's symlink to an outside file is refused; a user's own files may be symlinks."""
    rules = write(home, "rules.md", "Mine.\n")
    (project / "CLAUDE.md").symlink_to(rules)
    before = tree(project)
    assert "outside the project" in refused(setup("claude-code"), 1)
    assert tree(project) == before
    assert rules.read_text("utf-8") == "Mine.\n"
    (home / ".claude").mkdir()
    (home / ".claude/CLAUDE.md").symlink_to(rules)
    succeeded(setup("claude-code", "--user"))
    assert "memvault recall" in rules.read_text("utf-8")
    succeeded(setup("claude-code", "--user", "--remove"))
    assert rules.read_text("utf-8") == "Mine.\n"
    assert (home / ".claude/CLAUDE.md").is_symlink()


def test_setup_reports_impossible_requests(
    home: Path, project: Path, setup: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong program, two scopes, the home folder and a missing vault are each reported."""
    assert "has no integration with 'emacs'" in refused(setup("emacs"), 2)
    assert "`memvault setup` needs `claude-code|codex|" in refused(setup(), 2)
    assert "cannot be combined" in refused(setup("codex", "--user", "--project"), 2)
    done = setup("codex", cwd=home)
    assert "is your home" in refused(done, 1)
    assert "`memvault setup codex --user`" in done.err
    monkeypatch.delenv("MEMVAULT_VAULT")
    refused(setup("codex"), 3)
    succeeded(setup("codex", "--remove"))
    assert tree(project) == {}


def test_setup_leaves_existing_instructions_unchanged(
    project: Path, setup: Callable[..., Ran]
) -> None:
    """If AGENTS.md already explains how to use memvault, nothing is added to it."""
    said = "# Ours\n\nFirst call `memvault recall`.\n"
    write(project, "AGENTS.md", said)
    succeeded(setup("codex"))
    assert (project / "AGENTS.md").read_text("utf-8") == said


def test_setup_masks_secrets_in_diff(home: Path, project: Path, setup: Callable[..., Ran]) -> None:
    """The diff masks a key next to the changed lines, and the file keeps it."""
    secret, _ = made("OpenAI key")
    write(home, ".claude.json", json.dumps({"env": {"KEY": secret}}, indent=2))
    for words in (["--dry-run"], ["--json"]):
        ran = succeeded(setup("claude-code", "--user", *words))
        assert secret not in ran.out + ran.err
    assert secret in (home / ".claude.json").read_text("utf-8")


def test_setup_keeps_file_permissions(home: Path, project: Path, setup: Callable[..., Ran]) -> None:
    """A private file stays private, and --json lists each file and its diff."""
    write(home, ".claude.json", "{}").chmod(0o600)
    found = succeeded(setup("claude-code", "--user", "--json")).json
    assert found["success"]
    assert found["written"]
    actions = {Path(entry["path"]).name: entry["action"] for entry in found["changes"]}
    assert actions[".claude.json"] == "change"
    assert actions["settings.json"] == "create"
    assert all(entry["diff"].startswith("---") for entry in found["changes"])
    assert (home / ".claude.json").stat().st_mode & 0o777 == 0o600


def test_setup_writes_files_with_closed_output(project: Path) -> None:
    """With ``memvault setup --yes | true``, all announced files are written."""
    reading, writing = os.pipe()
    os.close(reading)
    line = [sys.executable, "-m", "memvault", "setup", "claude-code", "--yes"]
    ran = subprocess.run(line, cwd=project, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert "memvault" in (project / ".mcp.json").read_text()


@pytest.mark.parametrize("words", [[], ["--remove"], ["--user"], ["--json"]], ids=" ".join)
def test_setup_without_a_terminal_only_shows_the_changes(
    words: list[str], home: Path, project: Path, setup: Callable[..., Ran], run: Run
) -> None:
    """Without a terminal, setup writes only with --yes and explains how to confirm."""
    if "--remove" in words:
        succeeded(setup("codex"))
    before = tree(project), tree(home)
    shown = succeeded(run("setup", "codex", *words, cwd=project))
    assert (tree(project), tree(home)) == before
    assert "--yes" in shown.out
    if "--json" in words:
        assert (shown.json["written"], bool(shown.json["changes"])) == (False, True)
    else:
        assert "+++ " in shown.out
    succeeded(run("setup", "codex", *words, "--yes", cwd=project))
    assert (tree(project), tree(home)) != before


def test_setup_asks_for_confirmation_on_terminal(project: Path) -> None:
    """On a terminal the diff is shown first, and nothing is written without a yes."""
    code, shown = at_terminal(project, "setup", "codex", answer="\n")
    assert code == 1
    assert "Nothing was changed" in shown
    assert "+++ " in shown
    assert tree(project) == {}
    code, shown = at_terminal(project, "setup", "codex", answer="y\n")
    assert code == 0
    assert "Set up Codex (4 files)" in shown
    assert len(tree(project)) == 4


def test_setup_does_not_overwrite_concurrent_change(project: Path) -> None:
    """A file that another program changes during the confirmation is not overwritten."""
    write(project, ".codex/config.toml", "a = 1\n")

    def change() -> None:
        write(project, ".codex/config.toml", "a = 2\n")

    code, shown = at_terminal(project, "setup", "codex", answer="y\n", meanwhile=change)
    assert code == 1
    assert "was changed after the preview" in shown
    assert tree(project) == {".codex/config.toml": b"a = 2\n"}


@pytest.mark.parametrize("text", ["", "\n", "{}", '{"hooks": {"Stop": []}}'])
def test_setup_remove_deletes_a_file_without_entries(
    project: Path, setup: Callable[..., Ran], text: str
) -> None:
    """A settings file that had no entries is deleted when setup is removed."""
    file = write(project, ".claude/settings.json", text)
    succeeded(setup("claude-code"))
    assert succeeded(setup("claude-code")).out == "Nothing to change\n"
    succeeded(setup("claude-code", "--remove"))
    assert not file.exists()
