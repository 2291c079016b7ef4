"""Memories that mention a file, a command or an error are recalled when an agent uses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, Run, called, sooner_or_later, succeeded, write
from memvault import Vault
from memvault.experience import acts
from memvault.importers.content_counts import ContentCounts
from memvault.importers.sessions import Session, episode

TRACEBACK = """Traceback (most recent call last):
  File "/home/ana/shop/src/load.py", line 3, in <module>
    import yaml
ModuleNotFoundError: No module named 'yaml'
1 failed in 0.03s
"""


@pytest.fixture
def project(vault: Vault, folder: Path) -> Path:
    """A vault with memories that mention a file, a command and an error."""
    for title, text in (
        ("Retry cap", "Changes in src/billing/retry.py need the cap of five tries."),
        ("Two heads", '`alembic merge heads` fixes "Multiple head revisions are present".'),
        ("Lunch", "The canteen closes at two."),
    ):
        assert vault.call("memory_remember", title=title, content=text)["success"]
    return folder


def hooked(run: Run, event: str, **given: Any) -> str:
    """Return the text that a hook adds for Claude Code, or an empty string."""
    out = succeeded(run("hook", event, "--for", "claude-code", stdin=json.dumps(given))).out
    return str(json.loads(out)["hookSpecificOutput"]["additionalContext"]) if out.strip() else ""


def test_hook_recalls_memory_before_edit(project: Path, run: Run) -> None:
    """Before a file is edited, the hook adds the line of the memory that mentions it."""
    file = {"file_path": "/home/ana/shop/src/billing/retry.py", "new_string": "tries = 6"}
    text = sooner_or_later(lambda: hooked(run, "before-tool", tool_name="Edit", tool_input=file))
    assert "Retry cap (retry-cap-" in text
    assert text.startswith("<memory-data> ")
    assert "\n" not in text


def test_hook_injects_memory_once_per_session(project: Path, vault: Vault, run: Run) -> None:
    """A session gets a memory about an act once, and again only after the memory has changed."""
    file = {"file_path": "/home/ana/shop/src/billing/retry.py", "new_string": "tries = 6"}
    given = {"tool_name": "Edit", "tool_input": file, "session_id": "one"}
    text = sooner_or_later(lambda: hooked(run, "before-tool", **given))
    assert "Retry cap (retry-cap-" in text
    assert hooked(run, "before-tool", **given) == ""
    assert "Retry cap" in hooked(run, "before-tool", **{**given, "session_id": "two"})
    (receipt,) = succeeded(run("receipt", "two", "--json")).json["receipts"]
    assert receipt["threshold"] == acts.SURE
    assert receipt["tokens"] <= receipt["budget"]
    called(vault, "memory_compound", query="Retry cap", modifications="Ask Husam first.")
    assert "Retry cap" in sooner_or_later(lambda: hooked(run, "before-tool", **given))


def test_hook_recalls_memory_before_command(project: Path, run: Run) -> None:
    """Before a command runs, the hook adds a memory that mentions its program and subcommand."""
    given = {"tool_name": "Bash", "tool_input": {"command": "cd app && uv run alembic merge heads"}}
    assert "Two heads" in sooner_or_later(lambda: hooked(run, "before-tool", **given))
    for command in ("ls -la", "alembic current", "cat src/billing/retry.py", "git status"):
        given["tool_input"] = {"command": command}
        assert hooked(run, "before-tool", **given) == ""


def test_hook_recalls_memory_after_failure(project: Path, run: Run) -> None:
    """After a command fails, the hook adds a memory with the same error, ignoring numbers."""
    output = "Exit code 255\nFAILED: Multiple head revisions are present for given argument 'head'"
    given = {"tool_name": "Bash", "tool_input": {"command": "make migrate"}}
    found = sooner_or_later(lambda: hooked(run, "after-tool", error=output, **given))
    assert "Two heads" in found
    passed = {"stdout": output.partition("\n")[2], "exit_code": 0}
    assert hooked(run, "after-tool", tool_response=passed, **given) == ""
    failed = {**passed, "exit_code": 1}
    assert "Two heads" in hooked(run, "after-tool", tool_response=failed, **given)
    assert hooked(run, "after-tool", error="Exit code 1\nNo space left on device", **given) == ""


def test_hook_line_about_error_includes_fix(project: Path, vault: Vault, run: Run) -> None:
    """If a line of an imported session is too long, the hook omits the error, not the fix."""
    error = "ModuleNotFoundError: No module named 'stripe' (imported by shop.payments.gateway)"
    line = f"fix: uv run pytest tests/test_pay.py -q failed: {error} - fixed by: ran uv add stripe"
    called(vault, "memory_remember", title="Fix the failing payment test", content=f"- {line}\n")
    given = {"tool_name": "Bash", "tool_input": {"command": "make test"}}
    output = f"Exit code 1\n{error}"
    found = sooner_or_later(lambda: hooked(run, "after-tool", error=output, **given))
    assert found.endswith("): fixed by: ran uv add stripe </memory-data>")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"tool_name": 5, "tool_input": 7},
        {"tool_name": "Edit", "tool_input": {"file_path": "\ud800"}},
        {"tool_name": "Bash", "tool_input": {"command": "'" * 5_000}},
        {"tool_name": "Bash", "tool_input": ["x"], "error": {"a": [None, 3]}},
        {"tool_name": "Edit", "tool_input": {"file_path": "", "new_string": None}},
    ],
)
@pytest.mark.parametrize("event", ["before-tool", "after-tool"])
def test_tool_hook_ignores_foreign_fields(
    event: str, given: dict[str, Any], project: Path, run: Run
) -> None:
    """Missing or foreign fields in a tool event cause no error and no output."""
    ran = run("hook", event, "--for", "claude-code", stdin=json.dumps(given))
    assert (ran.code, ran.out.strip(), ran.err) == (0, "", "")


def test_hook_failure_is_reported_by_doctor(project: Path, vault: Vault, run: Run) -> None:
    """A hook that fails is silent, and doctor says when and why."""
    run("hook", "session-start", "--agent", "../x", stdin="{}")
    findings = vault.call("vault_doctor")["findings"]
    (failed,) = (entry for entry in findings if entry["code"] == "hook-failed")
    assert "the hook session-start printed nothing: " in failed["message"]


def test_experience_finds_memories_that_mention_an_act(project: Path, vault: Vault) -> None:
    """Experience lists the memories that mention a path, a command or an error, with the line."""
    for given, title in (
        ({"path": "src/billing/retry.py"}, "Retry cap"),
        ({"command": "alembic merge heads -m x"}, "Two heads"),
        ({"error": "x\nFAILED: Multiple head revisions are present (99)\n"}, "Two heads"),
    ):
        found = vault.call("recall_memory", **given)
        assert [memory["title"] for memory in found["memories"]] == [title]
        assert found["sources"] == {"facts": [], "experiences": [], "procedures": []}
    assert vault.call("recall_memory", path="docs/none.md")["message"]
    assert vault.call("recall_memory")["error"]["code"] == "usage"


def test_experience_accepts_piped_output_and_path_from_current_folder(
    project: Path, run: Run
) -> None:
    """Output of any length can be piped in, and a path is relative to the current folder."""
    output = "compiling a file\n" * 9_000 + "FAILED: Multiple head revisions are present (9)\n"
    piped = run("experience", "--error", "-", "--json", stdin=output)
    assert [entry["title"] for entry in succeeded(piped).json["memories"]] == ["Two heads"]
    file = write(project, "src/billing/retry.py", "TRIES = 5\n")
    for path, place in (("retry.py", file.parent), ("../billing/retry.py", file.parent)):
        found = succeeded(run("experience", "--path", path, "--json", cwd=place)).json
        assert [entry["title"] for entry in found["memories"]] == ["Retry cap"]
    (project / "loop").symlink_to("loop")
    assert "message" in succeeded(run("experience", "--path", "loop", "--json", cwd=project)).json


def session(*uses: tuple[str, dict[str, str], str]) -> Session:
    """Return a session with tool uses: the tool, its input, and the output if it failed."""
    made = Session("claude-code", "1")
    made.add_prompt("Fix the tests")
    for number, (tool, values, output) in enumerate(uses):
        made.add_tool_use(str(number), tool, values)
        if output:
            made.mark_failed(str(number), output)
    return made


def test_session_episode_records_how_an_error_was_fixed() -> None:
    """An imported session records the error of a failed command, and the steps that fixed it."""
    made = session(
        ("Bash", {"command": "uv run pytest -q"}, f"Exit code 1\n{TRACEBACK}"),
        ("Read", {"file_path": "/a/pyproject.toml"}, ""),
        ("Bash", {"command": "ls"}, ""),
        ("Bash", {"command": "uv add pyyaml"}, ""),
        ("Edit", {"file_path": "/a/src/load.py"}, ""),
        ("Bash", {"command": "uv run pytest -q tests"}, ""),
        ("Bash", {"command": "make lint"}, "Exit code 2\nerror: unused import"),
    )
    note = episode(made, ContentCounts())
    assert note is not None
    (fix,) = (line for line in str(note.text).splitlines() if line.startswith("- fix: "))
    assert fix == (
        "- fix: uv run pytest -q failed: ModuleNotFoundError: No module named 'yaml' - fixed by: "
        "ran uv add pyyaml; changed /a/src/load.py"
    )


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (TRACEBACK, "ModuleNotFoundError: No module named 'yaml'"),
        ("thread panicked at b.rs:1:2:\nlocked (4)\n", "thread panicked at b.rs:1:2: locked (4)"),
        ("\x1b[31merror\x1b[0m: linker `cc` not found\n1 error", "error: linker `cc` not found"),
        ("", ""),
        ("done\n", "done"),
    ],
)  # fmt: skip
def test_error_line_is_the_most_informative(output: str, line: str) -> None:
    """The line with the error is selected from a command's output, without colors and frames."""
    assert acts.error_line(output) == line


def test_command_names_skip_wrappers_and_trivial_programs() -> None:
    """A command is identified by its program and arguments, without runners, options or pipes."""
    assert acts.command_names(
        "FOO=1 cd app && sudo uv run alembic -c x upgrade head | tail -3"
    ) == [("alembic", "x", "upgrade", "head")]
    assert acts.command_names("python scripts/replay.py --all; ls; npx eslint src") == [
        ("replay.py",),
        ("eslint", "src"),
    ]
    assert acts.command_names("'" * 3) == []


def test_path_is_not_confused_with_same_name_elsewhere() -> None:
    """A file of the same name in another folder, or a longer name, does not count as named."""
    assert acts.path_score("src/a/retry.py", "See src/a/retry.py for it") == 1
    assert acts.path_score("tests/retry.py", "See src/retry.py for it") < acts.SURE
    assert acts.path_score("src/retry.py", "retry.py.bak and my-retry.py") < acts.SURE
    assert acts.path_score("src/x/index.ts", "Every index.ts exports it") < acts.SURE
    assert acts.path_score("", "anything") == 0


def test_act_files_have_the_documented_counts() -> None:
    """The README of bench/acts states the actual number of acts of each kind."""
    files = (ROOT / "bench/acts").glob("*.json")
    projects = [json.loads(file.read_text("utf-8")) for file in files]
    made = [act for one in projects for part in one["sessions"] for act in part.get("acts", ())]
    assert len(projects) == 14
    assert sum(bool(act["right"]) for act in made) == 135
    assert sum(not act["right"] for act in made) == 400
    for one in projects:
        paths = {memory["path"] for memory in one["memories"]}
        acted = (act for part in one["sessions"] for act in part.get("acts", ()))
        assert all(paths.issuperset(act["right"]) for act in acted)


@pytest.mark.parametrize(
    ("program", "file", "event"),
    [
        ("claude-code", ".claude/settings.json", "hook before-tool --for claude-code"),
        ("codex", ".codex/hooks.json", "hook after-tool --for codex"),
        ("gemini", ".gemini/settings.json", "hook after-tool --for gemini"),
        ("cursor", ".cursor/hooks.json", "hook after-tool --for cursor"),
        ("opencode", ".opencode/plugins/memvault.js", "ACTS = true"),
    ],
)
def test_setup_adds_and_removes_tool_hooks(
    program: str, file: str, event: str, folder: Path, run: Run
) -> None:
    """Setup --act adds the hooks for tool uses; setup without it, and --remove, remove them."""
    written = folder / file
    succeeded(run("setup", program, "--act", "--yes"))
    assert event in written.read_text("utf-8")
    succeeded(run("setup", program, "--yes"))
    assert event not in written.read_text("utf-8")
    succeeded(run("setup", program, "--act", "--yes"))
    succeeded(run("setup", program, "--remove", "--yes"))
    assert not written.exists()
