"""People can access the files: by path, in an editor, in Obsidian, from a template."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from conftest import Run, called, contents, refused, succeeded, until, write
from made_secrets import made
from memvault import Vault
from memvault.agents import receipts
from terminal import at_terminal

NOTE = "---\nid: plan-7k2m9q\ntitle: The plan\n---\n\nBegin.\n"
EDITOR = """import sys
with open(sys.argv[-1], "a") as file:
    file.write("Go on.\\n")
"""
SLOW_EDITOR = """import pathlib, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: pathlib.Path("interrupted").touch())
pathlib.Path("begun").touch()
while not pathlib.Path("go").exists():
    time.sleep(0.01)
with open(sys.argv[-1], "a") as file:
    file.write("Saved.\\n")
"""


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor that adds a line."""
    script = tmp_path / "my editor.py"
    script.write_text(EDITOR, "utf-8")
    monkeypatch.setenv("VISUAL", f"{sys.executable} '{script}'")


@pytest.fixture(autouse=True)
def noted(folder: Path) -> None:
    """A vault with one memory."""
    write(folder, "ideas/the plan.md", NOTE)


def test_path_prints_only_the_path(run: Run, folder: Path) -> None:
    """``path`` prints one line: the full path of the memory, or of the vault."""
    assert run("path", "The plan").out == f"{folder.resolve()}/ideas/the plan.md\n"
    assert run("path").out == f"{folder.resolve()}\n"


def test_edit_reports_its_changes(run: Run, folder: Path, editor: None) -> None:
    """The editor opens the file, and the change is reported and immediately found."""
    said = succeeded(run("edit", "The plan", "--json")).json
    assert "+Go on." in said["diff"]
    assert (said["added"], said["removed"], said["filePath"]) == (1, 0, "ideas/the plan.md")
    assert (folder / "ideas/the plan.md").read_text("utf-8") == f"{NOTE}Go on.\n"
    assert "Go on." in run("show", "The plan").out


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("/nowhere/editor", 1, "could not be started"),
        ("no-such-editor", 1, "could not be started"),
        ("false", 1, "exit code 1"),
        ("'unclosed", 2, "VISUAL cannot be read"),
    ],
)
def test_edit_reports_failed_editor(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, code: int, said: str
) -> None:
    """An editor that fails or can't be started is reported in one sentence."""
    monkeypatch.setenv("VISUAL", command)
    assert said in refused(run("edit", "The plan"), code)


def test_vault_cannot_provide_the_editor(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program inside the vault is never run as the editor, even if it is on PATH."""
    write(folder, "my-editor", f"#!/bin/sh\ntouch {folder}/ran\n").chmod(0o755)
    monkeypatch.setenv("VISUAL", "my-editor")
    monkeypatch.setenv("PATH", f".:{folder}:{os.environ['PATH']}")
    assert "could not be started" in refused(run("edit", "The plan"), 1)
    assert not (folder / "ran").exists()


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_edit_leaves_ctrl_c_to_the_editor(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Ctrl-C that the editor handles does not end memvault, so the edit can be saved."""
    script = tmp_path / "editor.py"
    script.write_text(SLOW_EDITOR, "utf-8")
    monkeypatch.setenv("VISUAL", f"{sys.executable} {script}")
    child = subprocess.Popen(
        [sys.executable, "-m", "memvault", "edit", "The plan"],
        cwd=folder, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    until((folder / "begun").exists)
    os.killpg(child.pid, signal.SIGINT)
    until((folder / "interrupted").exists)
    (folder / "go").touch()
    said = child.communicate(timeout=60)[0].decode()
    assert (child.returncode, "1 line added" in said) == (0, True), said
    assert (folder / "ideas/the plan.md").read_text("utf-8") == f"{NOTE}Saved.\n"


def test_edit_without_editor_or_terminal_fails_with_hint(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no editor is set and no terminal is attached, the hint shows the variable to set."""
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    ran = run("edit", "The plan")
    assert "No editor found" in refused(ran, 1)
    assert "VISUAL" in ran.err


def test_open_passes_file_to_obsidian(run: Run, folder: Path) -> None:
    """The URL is one that Obsidian opens, and --print opens nothing."""
    ran = succeeded(run("open", "The plan", "--print"))
    path = str(folder.resolve() / "ideas/the plan.md").replace("/", "%2F").replace(" ", "%20")
    assert ran.out == f"obsidian://open?path={path}\n"


@pytest.mark.skipif(os.name == "nt", reason="needs a script in place of the desktop's program")
def test_open_uses_obsidian_for_its_vaults(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, editor: None
) -> None:
    """A vault with .obsidian opens in Obsidian; any other opens in the editor."""
    write(tmp_path, "bin/xdg-open", f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    (tmp_path / "bin/xdg-open").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    succeeded(run("open", "The plan"))
    assert "Go on." in (folder / "ideas/the plan.md").read_text("utf-8")
    (folder / ".obsidian").mkdir()
    succeeded(run("open", "The plan"))
    assert (tmp_path / "opened").read_text("utf-8").startswith("obsidian://open?path=")


def test_remember_fills_in_template(run: Run, folder: Path) -> None:
    """Title, date and time are filled in as in Obsidian; type and tags come from the header."""
    text = (
        "---\nmemory_type: issue\ntags: [bug]\n---\n\n# {{title}}\n\n{{date:DD.MM.YYYY}} {{time}}\n"
        "{{date:MMM Do, h A}} {{date:[Week] W}}\n"
    )
    write(folder, "templates/fault.md", text)
    made = succeeded(run("new", "Disk full", "--template", "fault", "--json")).json
    found = (folder / made["filePath"]).read_text("utf-8")
    assert made["filePath"] == "issue/disk-full.md"
    assert "tags: [bug]" in found
    now = datetime.now().astimezone()
    assert re.search(rf"# Disk full\n\n{now:%d\.%m\.%Y} \d\d:\d\d\n", found)
    assert re.search(rf"{now:%b} {now.day}(st|nd|rd|th), \d+ [AP]M Week \d+\n$", found)


def test_new_keeps_the_header_of_the_template(run: Run, folder: Path) -> None:
    """Every key of a template's header is in the memory, with placeholders filled in anywhere."""
    text = (
        "---\ntitle: {{title}}\ndue: {{date}}\nat: {{time:[T]HH}}\nwho:\nn: 5\n"
        "tags: [log/{{date:YYYY}}]\naliases: [fault]\nids: ['{{title}}', x]\n"
        "by: {a: '{{title}}'}\ncreated: {{date}}\n---\n\nText.\n"
    )
    write(folder, "templates/fault.md", text)
    title = 'Disk "full": [db1]'
    made = succeeded(run("new", title, "--template", "fault", "--json")).json
    shown = succeeded(run("show", made["memId"], "--json")).json
    now = datetime.now().astimezone()
    wanted = {
        "due": f"{now:%Y-%m-%d}",
        "at": f"{now:T%H}",
        "who": None,
        "n": 5,
        "tags": [f"log/{now:%Y}"],
        "ids": [title, "x"],
        "by": {"a": title},
    }
    assert (shown["title"], shown["memoryType"]) == (title, "fault")
    assert {key: shown["metadata"].get(key) for key in wanted} == wanted
    assert "fault" in shown["metadata"]["aliases"]
    assert succeeded(run("undo", "--json")).json["undone"]["tool"] == "new"


TEMPLATE = """---
# Filled in on {{date:YYYY}} for {{title}}.
who:               # ask Ann
due: "{{date:YYYY}}" # quoted
secrets: allowed   # only for this template
id: fault-7k2m9q
tags: [x]          # at least one
---

Text.
"""


def test_new_keeps_comments_of_the_template(run: Run, folder: Path) -> None:
    """A template's comments, order and quotes are preserved; a template cannot allow secrets."""
    write(folder, "templates/fault.md", TEMPLATE)
    made = succeeded(run("new", "Disk\nfull", "--type", "fault", "--json")).json
    text = (folder / made["filePath"]).read_text("utf-8")
    year = f"{datetime.now().astimezone():%Y}"
    lines = [
        f"# Filled in on {year} for Disk full.",
        "who:               # ask Ann",
        f'due: "{year}" # quoted',
        "tags: [x]          # at least one",
        "---",
    ]
    assert "\n".join(lines) in text
    assert text.startswith(f"---\nid: {made['memId']}\n")
    assert "secrets" not in text
    assert text.count("id:") == 1
    write(folder, "memvault.toml", "version = 1\n[daily]\ntemplate = 'fault'\n")
    daily = succeeded(run("today", "Hello", "--json")).json
    assert "# ask Ann" in (folder / daily["filePath"]).read_text("utf-8")


@pytest.mark.parametrize(
    "header",
    [
        "id: 1\nid: 2\nwho: a",
        "{who: a, id: 1}",
        "id: &a a\nwho: *a",
        "aliases: &a [a]\nwho: a\nx: *a",
    ],
)
def test_new_uses_values_of_template_that_cannot_be_edited(
    run: Run, folder: Path, header: str
) -> None:
    """The values of a template are added even if its header's lines cannot be replaced."""
    write(folder, "templates/fault.md", f"---\n{header}\n---\n\nText.\n")
    made = succeeded(run("new", "Full: disk", "--type", "fault", "--json")).json
    shown = succeeded(run("show", made["memId"], "--json")).json
    assert shown["metadata"]["who"] == "a"
    assert "Full: disk" in shown["metadata"]["aliases"]


def test_new_counts_as_use_of_recalled_memory(run: Run, vault: Vault, folder: Path) -> None:
    """A memory that was given to an agent counts as used once a new memory mentions its id."""
    ferry = called(vault, "memory_remember", title="Ferry", content="The ferry leaves at nine.")
    succeeded(run("context", "when does the ferry leave"))
    assert receipts.unused(folder, 1)
    succeeded(run("new", f"Later than {ferry['memId']}", "--type", "fact"))
    assert not receipts.unused(folder, 1)


def scripted(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Set an editor that runs Python code on the file at ``path`` with the text ``text``."""
    script = folder.parent / "editor.py"
    head = "import os, pathlib, signal, sys, time\npath = pathlib.Path(sys.argv[-1])\n"
    script.write_text(f"{head}text = path.read_text('utf-8')\n{code}\n", "utf-8")
    monkeypatch.setenv("VISUAL", f"{sys.executable} {script}")


IN_PLACE = "path.write_text(text + 'Go on.\\n', 'utf-8')"
BY_RENAME = (
    "other = path.with_name('.swap')\n"
    "other.write_text(text + 'Go on.\\n', 'utf-8')\n"
    "os.replace(other, path)"
)
KILLED = f"{IN_PLACE}\nos.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [(IN_PLACE, 0), (BY_RENAME, 0), (f"{IN_PLACE}\nsys.exit(3)", 1), (KILLED, 1)],
    ids=["in-place", "by-rename", "non-zero", "killed"],
)
def test_edit_is_logged_and_can_be_undone(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, exit_code: int
) -> None:
    """With any way of saving and exiting the editor, undo reverts only the edit."""
    succeeded(run("remember", "Other", "Text."))
    scripted(folder, monkeypatch, code)
    assert run("edit", "The plan").code == exit_code
    change = succeeded(run("log", "--json")).json["changes"][0]
    assert (change["tool"], change["agent"]) == ("edit", "main")
    assert change["files"][0]["memId"] == "plan-7k2m9q"
    logged = succeeded(run("log", "The plan", "--json")).json
    assert (logged["edited"], len(logged["changes"])) == (False, 1)
    revision = change["files"][0]["revision"]
    assert "+Go on." in succeeded(run("diff", "The plan", revision)).out
    assert succeeded(run("undo", "--json")).json["undone"]["tool"] == "edit"
    assert (folder / "ideas/the plan.md").read_text("utf-8") == NOTE
    assert "Text." in succeeded(run("show", "Other")).out


@pytest.mark.parametrize("code", ["", "path.write_text(text, 'utf-8')", "sys.exit(1)"])
def test_edit_without_change_is_not_logged(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """A file closed without changes does not add a log entry or a revision."""
    scripted(folder, monkeypatch, code)
    run("edit", "The plan")
    assert succeeded(run("log", "The plan", "--json")).json["changes"] == []


def test_edit_deletion_in_editor_can_be_undone(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory deleted in the editor is logged, and undo restores it."""
    scripted(folder, monkeypatch, "path.unlink()")
    assert succeeded(run("edit", "The plan", "--json")).json["gone"]
    succeeded(run("undo"))
    assert (folder / "ideas/the plan.md").read_text("utf-8") == NOTE


def test_edit_logs_concurrent_change_separately(
    run: Run, folder: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process's change is logged separately; a note reports if it was overwritten."""
    calls = f"subprocess.run([{sys.executable!r}, '-m', 'memvault', 'compound', 'The plan', 'So.'])"
    compound = f"import subprocess\n{calls}"
    scripted(folder, monkeypatch, compound)
    said = succeeded(run("edit", "The plan", "--json"))
    assert '"added": 0' in said.out
    changes = succeeded(run("log", "The plan", "--json")).json["changes"]
    assert [entry["tool"] for entry in changes] == ["memory_compound"]
    scripted(folder, monkeypatch, f"{compound}\n{IN_PLACE}")
    said = succeeded(run("edit", "The plan"))
    assert "was changed by memory_compound while it was open" in said.err
    changes = succeeded(run("log", "The plan", "--json")).json["changes"]
    assert [entry["tool"] for entry in changes] == ["edit", *["memory_compound"] * 2]
    succeeded(run("undo"))
    assert "Go on." not in (folder / "ideas/the plan.md").read_text("utf-8")
    delete = compound.replace("'compound', 'The plan', 'So.'", "'delete', 'The plan'")
    scripted(folder, monkeypatch, delete)
    assert "no longer exists" in succeeded(run("edit", "The plan")).out
    assert succeeded(run("log", "--json")).json["changes"][0]["tool"] == "memory_delete"


def test_edit_by_two_people_reports_overwritten_change(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If two people edit one memory, a note reports that the later edit overwrote the other."""
    second = folder.parent / "second.py"
    second.write_text("import sys\nopen(sys.argv[-1], 'a').write('Mine.\\n')\n", "utf-8")
    nested = (
        "import subprocess\n"
        f"os.environ['VISUAL'] = {f'{sys.executable} {second}'!r}\n"
        f"subprocess.run([{sys.executable!r}, '-m', 'memvault', 'edit', 'The plan'], check=True)\n"
    )
    scripted(folder, monkeypatch, f"{nested}{IN_PLACE}")
    assert "was changed by edit while it was open" in succeeded(run("edit", "The plan")).err
    changes = succeeded(run("log", "The plan", "--json")).json["changes"]
    assert [entry["tool"] for entry in changes] == ["edit", "edit"]
    succeeded(run("undo"))
    assert (folder / "ideas/the plan.md").read_text("utf-8") == NOTE


def test_edit_warns_of_secret_typed_in_editor(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit that adds a secret causes the same warning as any other write."""
    _, secret = made("GitHub token")
    scripted(folder, monkeypatch, f"path.write_text(text + {secret!r}, 'utf-8')")
    assert "now contains a secret" in succeeded(run("edit", "The plan")).err


def test_new_masks_secrets_of_similar_memories(run: Run, folder: Path) -> None:
    """The titles of similar memories in the result are shown without secrets."""
    key = made("GitHub token")[0]
    write(folder, "key.md", f"# Boiler key {key}\n\nThe boiler in the cellar.\n")
    shown = succeeded(run("new", "Boiler in the cellar", "--no-edit")).out
    assert "Boiler key [masked: GitHub token]" in shown


@pytest.mark.parametrize("command", ["remember", "new", "create"])
def test_remember_opens_editor_on_terminal(
    folder: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """On a terminal, a memory without content is written in the editor, from its template."""
    write(folder, "templates/issue.md", "# {{title}}\n\n## Cause\n")
    scripted(folder, monkeypatch, "path.write_text(text + 'The disk.\\n', 'utf-8')")
    code, shown = at_terminal(folder, command, "Ferry is late", "--type", "issue")
    assert code == 0, shown
    made_memory = vault.call("memory_show", memId="Ferry is late")
    assert made_memory["content"].split() == "# Ferry is late ## Cause The disk.".split()
    assert len(vault.call("memory_log")["changes"]) == 1
    assert not list((folder / ".memvault/drafts").iterdir())


@pytest.mark.parametrize("command", ["remember Ferry", "new Ferry", "create Ferry", "capture"])
def test_memory_from_editor_has_header_of_template(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A memory written in the editor has its template's header in addition to the given tags."""
    write(folder, "templates/issue.md", TEMPLATE)
    scripted(folder, monkeypatch, "path.write_text('The disk is full.\\n', 'utf-8')")
    tags = [] if command.startswith("new") else ["--tags", "y"]
    code, shown = at_terminal(folder, *command.split(), "--type", "issue", *tags)
    assert code == 0, shown
    (file,) = (folder / "issue").iterdir()
    text = file.read_text("utf-8")
    assert "who:               # ask Ann" in text
    assert f"tags: [x{', y' * bool(tags)}] " in text
    assert "secrets" not in text
    assert text.endswith("\nThe disk is full.\n")


@pytest.mark.parametrize("command", ["remember", "new"])
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("", "the template was not changed"),
        ("path.write_text(text + '\\n\\n', 'utf-8')", "the template was not changed"),
        ("path.write_text(' \\n', 'utf-8')", "the text is empty"),
        ("path.unlink()", "the text is empty"),
        ("sys.exit(1)", "exit code 1"),
    ],
    ids=["unchanged", "blank lines", "empty", "deleted", "failed"],
)
def test_remember_discards_empty_draft(
    folder: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch, command: str, code: str, said: str
) -> None:
    """An unchanged template or an empty draft leaves no memory, no draft and no log entry."""
    write(folder, "templates/issue.md", "# {{title}}\n\n## Cause\n")
    scripted(folder, monkeypatch, code)
    exit_code, shown = at_terminal(folder, command, "Ferry is late", "--type", "issue")
    assert (exit_code, said in shown) == (1, True), shown
    assert vault.call("memory_list")["total"] == 1
    assert vault.call("memory_log")["changes"] == []
    assert not list((folder / ".memvault/drafts").iterdir())


def test_remember_keeps_draft_after_failure(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the editor fails or the content is refused, the error shows a draft's path."""
    scripted(folder, monkeypatch, "path.write_text('Pier 4.\\n', 'utf-8')\nsys.exit(1)")
    code, shown = at_terminal(folder, "remember", "Ferry")
    (draft,) = (folder / ".memvault/drafts").iterdir()
    assert (code, "your text was saved in" in shown) == (1, True), shown
    succeeded(run("remember", "Ferry", f"@{draft}"))
    assert "Pier 4." in succeeded(run("show", "Ferry")).out


def test_remember_does_not_open_editor_for_programs(folder: Path, run: Run, editor: None) -> None:
    """In a pipe and with --json missing content is refused, and empty content needs no editor."""
    words = [sys.executable, "-m", "memvault", "remember", "One"]
    done = subprocess.run(
        words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert (done.returncode, b"needs `CONTENT`" in done.stderr) == (2, True), done
    code, shown = at_terminal(folder, "remember", "Two", "--json")
    assert code == 2, shown
    code, shown = at_terminal(folder, "remember", "Three", "")
    assert code == 0, shown
    assert all(b"Go on." not in text for text in contents(folder).values())
    assert succeeded(run("list", "--json")).json["total"] == 2


LONG = (
    "---\nid: services-7k2m9q\n---\n\n# Services\n\nOn one machine.\n\n## Cache\n\nIt is Redis.\n"
)
PRINTS = 'import sys\nprint("opened", *sys.argv[1:])\n'


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("vim", "opened +11 {}"),
        ("code", "opened --goto {}:11"),
        ("hx", "opened {}:11"),
        ("kate", "opened --line 11 {}"),
        ("my-editor", "opened {}"),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="scripts with a #! line are POSIX-only")
def test_open_starts_editor_at_line_of_recall_result(
    run: Run,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    said: str,
) -> None:
    """Recall shows a passage's line, and --open N opens the editor there."""
    file = write(folder, "services.md", LONG).resolve()
    program = write(tmp_path, f"programs/{name}", f"#!{sys.executable}\n{PRINTS}")
    program.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(program))
    found = succeeded(run("recall", "Redis", "--json")).json["memories"][0]
    assert (found["filePath"], found["line"]) == ("services.md", 11)
    assert "services.md:11" in run("recall", "Redis").out
    assert said.format(file) in succeeded(run("recall", "Redis", "--open", "1")).out
    none = refused(run("recall", "Redis", "--open", "9"), 1)
    assert none == "error: There is no result 9; the search found 2 results"
    beyond = refused(run("recall", "Redis", "-n", "2", "--open", "5"), 2)
    assert "`--open 5` is beyond `--limit 2`" in beyond
    assert "`--open` must be at least 1, not 0" in refused(run("recall", "Redis", "--open", "0"), 2)
