"""Each command has examples, and each example works as shown in the help."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Run, called, sampled, some_of, succeeded, write
from copies import Copy
from git_clones import git
from memvault import open_vault
from memvault.cli.registry import all_commands
from memvault.tools.core.registry import all_tools
from tool_calls import typed

SETTINGS = "version = 1\n\n[world]\nenabled = true\n"
FOREST = (
    "---\nx: 0\ny: 0\nradius: 9\nterrain: forest\nresources:\n  wood: 50\n---\n\n# The forest\n"
)
TOOL = '{"name": "word_count", "description": "Count words", "parameters": [], "command": ["wc"]}'
NOT_RUN = frozenset(
    {
        "memvault model use BAAI/bge-small-en-v1.5",  # needs the network
        "memvault wait for user --timeout 600",  # waits for an answer
        "memvault tools trust word_count",  # asks on a terminal
        "memvault vaults trust ~/notes",
        'memvault edit "Deploy notes"',  # opens an editor
        "memvault capture --clip --tags later",  # needs a clipboard
        "EDITOR=nano memvault edit use-postgresql",
        "memvault open --with obsidian",
        "memvault index push",  # needs a Milvus server
        "memvault vaults add team http://milvus:19530 --of notes",
        "MEMVAULT_MILVUS_TOKEN=… memvault index push",
        "memvault index status",
        "memvault index status --json",
        "memvault index drop",
        "memvault index drop --all --yes",
        "memvault lsp",  # only an editor ends it without an error
        "memvault lsp --vault .",
        "memvault web",  # runs until it is stopped
        "memvault web --write",
        "memvault web --port 8421 --no-open",
        "memvault serve --http :8420",
        "memvault serve --http 10.0.0.5:8420 --name memory.example.org --audit audit.jsonl",
        "memvault tokens add ann --vaults work",  # no vault has that name
        "memvault tokens add ci --vaults work,home --scope write --as builder --days 90",
        "memvault tokens remove ann",
        "memvault tokens remove ci",
        "memvault vaults add home ~/notes",
        "memvault vaults remove work",  # no vault has that name
        "memvault vaults remove home",
        "memvault vaults default work,home",
        "memvault vaults untrust ~/notes",
        "memvault tools untrust other_tool",
        "memvault vaults untrust .",  # the vault is not trusted
        "memvault model use Xenova/ms-marco-MiniLM-L-6-v2 --for rerank",
        'memvault reply 1 "The second." --agent user',  # talk numbers differ in each vault
        "memvault reply 1 @notes.txt --agent user",
        'memvault restore "Deploy notes" --revision 20261122T0200',  # revisions are timestamps
        'memvault diff "Deploy notes" 20261122T0200',
        "memvault undo 3k9x2m7q --keep-changed",  # ids of changes are random
    }
)
"""Examples that cannot be run here, or that depend on something outside the vault."""

TOOLS = {tool.command: tool.examples for tool in all_tools()}
EXAMPLES = TOOLS | {command.words: command.examples for command in all_commands()}
LINES = [line for lines in EXAMPLES.values() for line in lines if line not in NOT_RUN]
_MARKS = {*"|<>~"}
"""Characters that require a shell."""
PLAIN = [
    line
    for words in TOOLS
    for line in EXAMPLES[words]
    if line not in NOT_RUN and not _MARKS & {*line}
]
"""Examples of tools that require no shell."""


@pytest.fixture(scope="module")
def example(_example: Path, tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A vault with the data used by the examples, restored after each writing example."""
    return Copy(_example, tmp_path_factory.mktemp("examples") / "all")


@pytest.fixture(scope="module")
def _example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("examples")
    root = base / "vault"
    write(root, "memvault.toml", SETTINGS)
    write(root, "places/forest.md", FOREST)
    write(root, "notes.txt", "Some notes.\n")
    write(root, "templates/architectural-decision.md", "# {{title}}\n\n{{date}}\n")
    write(root, "word_count.json", TOOL)
    with open_vault(root, agent="bob") as bob:
        assert bob.call("move_to", x=0, y=0)["success"]
    with open_vault(root) as vault:

        def call(tool: str, **given: object) -> None:
            called(vault, tool, **given)

        for title, text, kind in (
            ("Use PostgreSQL", "## Reasons\n\nOne database.", "architectural-decision"),
            ("Deploy notes", "Deploys run on Fridays.", "context"),
            ("Old notes", "No longer so.", "context"),
            ("Thrown away", "Gone.", "context"),
            ("Disk full", "Staging ran out of disk space.", "issue"),
        ):
            tags = ["network", "database", "team"]
            call("memory_remember", title=title, content=text, memoryType=kind, tags=tags)
        call("memory_forget", query="Thrown away", confirm=True)
        call("save_search", name="blockers", query="blocked")
        for text in ("At ten.", "At noon.", "- [ ] Tell Husam"):
            call("memory_compound", query="Deploy notes", modifications=text)
        call("memory_load", memId="Deploy notes")
        call(
            "set_memories", memories=[{"key": key, "value": "x"} for key in ("deadline", "a", "b")]
        )
        call("set_goals", goals=[{"id": key, "description": "x"} for key in ("report", "launch")])
        plan = {"instruction": "x", "scheduledAt": "2999-01-01"}
        call("set_plans", plans=[{"name": name, **plan} for name in ("Follow up", "a", "b")])
        call("store_fact", fact="Tea is served at four", category="people")
        call(
            "store_procedure", procedureName="roll", procedurePrompt="x", skillId="ops.deploy.roll"
        )
        call("talk_user", message="Which?")
        call("enter_space", spaceId="team")
        call(
            "register_tool",
            name="word_count",
            description="Count words",
            parameters=[],
            command=["wc"],
        )
        call("move_to", x=0, y=0)
    if shutil.which("git"):
        git(base, "init", "--quiet", "--bare", "--initial-branch=main", "shared.git")
        git(root, "init", "--quiet", "--initial-branch=main")
        git(root, "remote", "add", "origin", "../shared.git")
    return base


def test_each_command_has_examples() -> None:
    """Every command has two or three examples, each of which contains the command."""
    for words, lines in EXAMPLES.items():
        assert 2 <= len(lines) <= 3, words
        assert all(f"memvault {words}" in line for line in lines), words
    assert set(LINES) | NOT_RUN == {line for lines in EXAMPLES.values() for line in lines}


@sampled(1)
def test_each_tool_example_works(
    example: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """An example of a tool's command that needs no shell succeeds."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        for line in some_of(PLAIN):
            with subtests.test(line=line):
                if "git" in line.split() and not shutil.which("git"):
                    pytest.skip("there is no git")
                example.put_back()
                monkeypatch.chdir(example.root / "vault")
                if line.startswith("memvault git"):  # the remote is a folder with its own hooks
                    succeeded(typed("git", "init", "--confirm", "true"))
                succeeded(typed(*shlex.split(line)[1:]))


@sampled(3)
@pytest.mark.parametrize("line", [line for line in LINES if line not in PLAIN])
def test_each_shell_example_works(
    line: str, example: Copy, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An example typed into a shell in a vault succeeds."""
    example.put_back()
    root = example.root / "vault"
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path, "Notes/plan.md", "A plan.\n")
    write(tmp_path, "memory.jsonl", '{"type": "entity", "name": "Ana", "observations": []}\n')
    if line.startswith("memvault git"):  # the remote is a folder with its own hooks
        succeeded(run("git", "init", "--confirm", "true", cwd=root))
    if not _MARKS & {*line}:
        succeeded(run(*shlex.split(line)[1:], cwd=root))
        return
    program = tmp_path / "bin" / "memvault"
    write(tmp_path, "bin/memvault", f'#!/bin/sh\nexec "{sys.executable}" -m memvault "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    command = ["bash", "-c", line]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, (line, ran.stdout, ran.stderr)


def test_help_shows_the_examples(run: Run) -> None:
    """The help of a command ends with its examples."""
    for words in ("recall", "git sync", "mcp"):
        shown = succeeded(run(*words.split(), "--help")).out
        listed = shown.partition("Examples:\n")[2].split("\n")
        assert [line.strip() for line in listed if line] == list(EXAMPLES[words])
