"""A hook prints matching memories in its program's format and never blocks the program."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, Ran, Run, contents, index_of, sooner_or_later, succeeded, write
from git_clones import git
from made_secrets import made
from memvault import Vault, open_vault
from memvault.cli import hook
from memvault.cli.hook import EVENTS
from memvault.git import project
from memvault.index.embedding import tokenizer

EVENT_FILES = sorted((ROOT / "tests/integrations").glob("*/events.json"))
CASES = [
    (file.parent.name, case["event"], case)
    for file in EVENT_FILES
    for case in json.loads(file.read_text("utf-8"))
]
ASKED = json.dumps({"prompt": "which database do we use"})
SLOW = """
import os, time

def slow(path, *rest, inner=os.open, **more):
    if str(path).endswith(".md"):
        time.sleep(600)  # no test waits that long for a process
    return inner(path, *rest, **more)

os.open = slow
"""
HOLDER = """
import sys
from pathlib import Path
from memvault.files.lock import FileLock

with FileLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def known(folder: Path) -> Path:
    """A vault with memories and a current index."""
    with open_vault(folder) as vault:
        for title, text in (
            ("Use PostgreSQL", "PostgreSQL is our database; SQLite stays for tests."),
            ("Deploys", "We deploy on Mondays before ten."),
            ("Two heads", '`alembic merge heads` if "Multiple head revisions are present".'),
        ):
            assert vault.call("memory_remember", title=title, content=text)["success"]
        assert vault.call("memory_recall", query="database")["success"]
    return folder


def session(path: Path, calls: int, said: str = "") -> Path:
    """Write the record of a session in which tools were called."""
    line = json.dumps({"message": {"content": [{"type": "tool_use", "name": "Bash"}]}})
    path.write_text("\n".join([*[line] * calls, said]), "utf-8")
    return path


def same_form(form: Any, found: Any) -> bool:
    """Return whether an answer has a form, in which TEXT matches any words."""
    if isinstance(form, dict) and isinstance(found, dict):
        return form.keys() == found.keys() and all(same_form(form[key], found[key]) for key in form)
    return bool(found.strip()) if form == "TEXT" else bool(form == found)


@pytest.mark.parametrize(("program", "event", "case"), CASES, ids=lambda part: str(part)[:20])
def test_hook_answers_each_event_in_the_program_format(
    program: str, event: str, case: dict[str, Any], known: Path, run: Run, tmp_path: Path
) -> None:
    """The hook parses each program's events and answers in the format that program reads."""
    record = session(tmp_path / "session.jsonl", 20)
    given = json.dumps(case["given"]).replace("TRANSCRIPT", str(record))
    words = ("hook", event, "--for", program)
    out = sooner_or_later(lambda: succeeded(run(*words, stdin=given)).out)
    found = out.strip() if case["answer"] == "TEXT" else json.loads(out)
    assert same_form(case["answer"], found), out
    if event in ("before-tool", "after-tool"):
        assert "Two heads" in out
    if event == "prompt":
        assert "Use PostgreSQL" in out
        assert "Deploys" not in out


def test_hook_cases_cover_every_event() -> None:
    """The cases cover every event of each program."""
    assert {event for _, event, _ in CASES} == set(EVENTS)


@pytest.mark.parametrize(
    "prompt",
    [
        "what is the weather like on the moon",
        "/compact",
        "",
        "<hook_context>which database do we use</hook_context>",
    ],
)
def test_hook_prints_nothing_without_a_match(prompt: str, known: Path, run: Run) -> None:
    """A prompt without a match, a command or the program's own text produces no output."""
    ran = run("hook", "prompt", "--for", "claude-code", stdin=json.dumps({"prompt": prompt}))
    assert succeeded(ran).out.strip() == ""
    assert ran.err == ""


@pytest.mark.parametrize(
    "prompt", ['"which database do we use"', "Why “the” «database»?", "database \ud800 we use"]
)
def test_hook_ignores_query_syntax_in_prompt(prompt: str, known: Path, run: Run) -> None:
    """Quotes, such as those opencode run adds, and broken characters do not hide memories."""
    given = json.dumps({"prompt": prompt})
    assert "Use PostgreSQL" in sooner_or_later(lambda: run("hook", "prompt", stdin=given).out)


def test_hook_marks_memory_with_newer_one_on_its_subject(folder: Path, run: Run) -> None:
    """A memory's line includes the id of a newer memory on the same subject."""
    for name, day, ttl in (
        ("old", "2025-01-15", "30 minutes"),
        ("new", "2026-06-02", "2 hours"),
    ):
        header = f"---\nid: {name}-aaaaaa\ntags: [cache]\ncreated: {day}\nmodified: {day}\n---\n\n"
        text = f"# Redis session TTL\n\nThe TTL of session keys in Redis is {ttl}.\n"
        write(folder, f"{name}.md", header + text)
    given = json.dumps({"prompt": "how long do session keys in Redis live?"})
    out = sooner_or_later(lambda: succeeded(run("hook", "prompt", stdin=given)).out)
    assert "(old-aaaaaa; newer: new-aaaaaa)" in out
    assert "(new-aaaaaa)" in out


def test_hook_line_of_memory_without_more_text_ends_with_its_id(folder: Path, run: Run) -> None:
    """The line of a memory whose text is its title has no colon without text after it."""
    text = "The bridge at Aldern is closed"
    fact = succeeded(run("fact", "store", text, "--json")).json
    given = json.dumps({"prompt": "is the bridge at Aldern closed?"})
    out = sooner_or_later(lambda: succeeded(run("hook", "prompt", stdin=given)).out)
    assert f"{text} ({fact['factId']})\n" in out


def test_hook_output_is_short_fenced_and_current(folder: Path, run: Run, vault: Vault) -> None:
    """Output has at most five memories and under 400 tokens, no secrets and nothing expired."""
    secret, _ = made("GitHub token")
    for number in range(9):
        long = f"The zebra {number} sleeps. " * 200
        vault.call("memory_remember", title=f"Zebra {number}", content=long)
    vault.call("memory_remember", title="Zebra key", content=f"The zebra token is {secret} today.")
    old = "---\nvalid_to: 2001-01-01\n---\n\n# Zebra old\n\nThe zebra sleeps.\n"
    write(folder, "old.md", old)

    def asked(prompt: str) -> str:
        given = json.dumps({"prompt": prompt})
        return sooner_or_later(lambda: run("hook", "prompt", stdin=given).out)

    for prompt in ("where does the zebra sleep", "what is the zebra token"):
        out = asked(prompt)
        assert tokenizer.count_tokens(out) <= 400
        lines = out.splitlines()
        assert 0 < sum(line.startswith("> ") for line in lines) <= 5
        assert lines[0] == "<memory-data>"
        assert lines[-1] == "</memory-data>"
        assert secret not in out
        assert "Zebra old" not in out
    assert "masked" in out


def test_hook_session_starts_with_context_and_reminder(known: Path, run: Run, vault: Vault) -> None:
    """A session starts with the context, including the agent's own values, and the reminder."""
    vault.call("set_memories", memories=[{"key": "deadline", "value": "28 February"}])
    out = succeeded(run("hook", "session-start", "--for", "cursor", stdin="{}")).out
    said = json.loads(out)["additional_context"]
    assert "28 February" in said
    assert "memory_remember" in said
    assert "28 February" not in run("hook", "session-start", "--agent", "bob", stdin="{}").out


@pytest.mark.parametrize(
    ("calls", "said", "active", "reminded"),
    [
        (20, "", False, True),
        (19, "", False, False),
        (20, "", True, False),
        (20, '{"name": "mcp__memvault__memory_remember"}', False, False),
        (20, '{"command": "memvault --vault x compound a b"}', False, False),
        (20, "Before you end: Keep", False, False),
        (90_000, "Before you end: Keep", False, False),
    ],
)
def test_hook_reminds_once_at_end_of_long_unsaved_session(
    calls: int, said: str, active: bool, reminded: bool, known: Path, run: Run, tmp_path: Path
) -> None:
    """Only a session with many calls that stored nothing gets a reminder, and only once."""
    record = session(tmp_path / "session.jsonl", calls, said)
    given = {"transcript_path": str(record), "stop_hook_active": active}

    def asked() -> str:
        return succeeded(run("hook", "stop", "--for", "codex", stdin=json.dumps(given))).out

    assert ("block" in (sooner_or_later(asked) if reminded else asked())) == reminded


def silent(ran: Ran) -> None:
    """Check that a hook exited with 0 and without output."""
    assert (ran.code, ran.out.strip(), ran.err) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["prompt"], "no JSON"),
        (["prompt"], b"\xff\xfe"),
        (["prompt"], "[" * 100_000),
        (["prompt"], "[1]"),
        (["prompt"], '{"prompt": {"a": 1}}'),
        (["prompt"], '{"prompt": "' + "database " * 200_000 + '"}'),
        (["prompt", "--for", "nothing"], ASKED),
        (["prompt", "--vault", "/nowhere"], ASKED),
        (["session-start", "--agent", "../x"], "{}"),
        (["nothing"], ASKED),
        ([], ""),
        (["--json"], "{}"),
        (["stop"], '{"transcript_path": "/nowhere"}'),
        (["stop"], '{"transcript_path": "/"}'),
        (["session-end", "--vault", "/nowhere"], "{}"),
        (["pre-compact", "--vault", "/nowhere"], "{}"),
    ],
)
def test_hook_is_silent_on_any_error(
    words: list[str], stdin: str | bytes, known: Path, run: Run
) -> None:
    """After the start of a session, a failing hook exits with 0 and no output."""
    silent(run("hook", *words, stdin=stdin))


def test_hook_accepts_options_before_the_command(known: Path, run: Run, tmp_path: Path) -> None:
    """The option --vault has the same effect before ``hook`` as after it."""
    behind = run("hook", "prompt", "--vault", str(known), stdin=ASKED, cwd=tmp_path)
    assert "PostgreSQL" in behind.out
    assert run("--vault", str(known), "hook", "prompt", stdin=ASKED, cwd=tmp_path) == behind


def test_hook_is_silent_without_vault(tmp_path: Path, run: Run) -> None:
    """In a folder that is not a vault, every event produces no output."""
    for event in EVENTS:
        silent(run("hook", event, stdin=ASKED, cwd=tmp_path))


@pytest.mark.parametrize(
    "text", ["version = ", "version = 99\n", 'version = 1\n[recall]\nx = "y"\n']
)
def test_hook_ignores_broken_settings(text: str, known: Path, run: Run) -> None:
    """A vault with invalid settings produces no output and no error."""
    write(known, "memvault.toml", text)
    ran = run("hook", "prompt", stdin=ASKED)
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize("endless", [b"", b"x" * 4096])
def test_hook_times_out_on_endless_input(endless: bytes, known: Path) -> None:
    """A program that never closes its pipe or never stops writing waits one second at most."""
    process = subprocess.Popen(
        [sys.executable, "-m", "memvault", "hook", "prompt"],
        cwd=known,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    with contextlib.suppress(BrokenPipeError):
        while endless and process.poll() is None:
            process.stdin.write(endless)
    process.wait(30)
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.stdin = None
    out, err = process.communicate()
    silent(Ran(process.returncode, out.decode(), err.decode()))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_hook_times_out_on_silent_transcript_pipe(known: Path, run: Run, tmp_path: Path) -> None:
    """If the transcript is a pipe without a writer, the hook gives up after one second."""
    os.mkfifo(tmp_path / "pipe")
    silent(run("hook", "stop", stdin=json.dumps({"transcript_path": str(tmp_path / "pipe")})))


def test_hook_times_out_on_slow_disk(
    known: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a memory takes minutes to open, a prompt waits one second at most."""
    write(tmp_path, "slow/sitecustomize.py", SLOW)
    paths = [str(tmp_path / "slow"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    silent(run("hook", "prompt", stdin=ASKED))


def test_hook_answers_while_index_is_locked(known: Path, run: Run) -> None:
    """While another process is indexing, a prompt is answered from the existing index."""
    lock = str(index_of(known) / "lock")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        write(known, "new.md", "# New\n\nAnother database.\n")
        ran = succeeded(run("hook", "prompt", stdin=ASKED))
        assert ran.err == ""
        assert "PostgreSQL" in sooner_or_later(lambda: run("hook", "prompt", stdin=ASKED).out)


def test_hook_recalls_prompt_starting_with_path(known: Path, run: Run) -> None:
    """A prompt that starts with a path is used for recall; one with a slash command is not."""
    for prompt, is_asked in (
        ("/usr/bin/psql: which database do we use", True),
        ("/help db", False),
    ):
        said = json.dumps({"prompt": prompt})

        def answer(said: str = said) -> str:
            return run("hook", "prompt", stdin=said).out.strip()

        assert known.is_dir()
        assert bool(sooner_or_later(answer) if is_asked else answer()) is is_asked


def test_hook_ignores_closed_output(known: Path) -> None:
    """A program that has exited or closed its end of the output causes no error."""
    for ending in ("| true", ">&-", "2>&- >&-", "<&-"):
        line = f"echo '{ASKED}' | \"$0\" -m memvault hook prompt {ending}"
        if ending == "<&-":
            line = '"$0" -m memvault hook prompt <&-'
        ran = subprocess.run(
            ["sh", "-c", line, sys.executable], cwd=known, capture_output=True, check=False
        )
        assert (ran.returncode, ran.stderr) == (0, b"")


def test_hook_help_explains_the_command(run: Run) -> None:
    """The hook command explains itself with --help, like other commands."""
    assert "EVENT is session-start" in succeeded(run("hook", "--help")).out


def test_hook_help_states_actual_time_limits(run: Run) -> None:
    """The hook gives up at session start within 5 seconds and at other events within one."""
    said = " ".join(succeeded(run("hook", "--help")).out.split())
    assert "within 5 seconds at session-start, and within one second at other events" in said
    assert hook._LIMIT < 1
    assert 1 < hook._SESSION_START <= 5


@pytest.fixture
def shop(known: Path, tmp_path: Path, vault: Vault) -> Path:
    """A project's repository, with a memory for each of its properties."""
    for title, text in (
        ("Webshop", "The webshop is built by two people in Lyon."),
        ("Ferry timetable", "The ferry timetable caches its departures for ten minutes."),
        ("Invoices", "Invoices are numbered by year and never used twice."),
        ("Cats", "Cats sleep all day."),
    ):
        assert vault.call("memory_remember", title=title, content=text)["success"]
    root = tmp_path / "checkout"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=feature/ferry-timetable_7")
    git(root, "commit", "--quiet", "--allow-empty", "-m", "Number invoices by year\n\nBody.")
    url = "https://me:hunter2hunter2@example.com/acme/webshop.git?token=hunter2hunter2"
    git(root, "remote", "add", "origin", url)
    return root


def begun(run: Run, project: Path) -> str:
    """Start a session in a project, and return the hook's output."""
    ran = succeeded(run("hook", "session-start", stdin=json.dumps({"cwd": str(project)})))
    assert ran.err == ""
    return ran.out


def test_hook_session_recalls_by_remote_branch_and_commits(shop: Path, run: Run) -> None:
    """Memories that match the remote's name, the branch or a recent commit are recalled."""
    out = begun(run, shop)
    assert all(text in out for text in ("two people in Lyon", "caches its", "numbered by year"))
    assert "Cats" not in out
    git(shop, "pack-refs", "--all")
    assert "numbered by year" in begun(run, shop)
    git(shop, "worktree", "add", "--quiet", "../tree", "-b", "other")
    assert "numbered by year" in begun(run, shop.parent / "tree")
    git(shop, "checkout", "--quiet", "--detach")
    assert "numbered by year" in begun(run, shop)


def test_hook_session_works_without_git(
    shop: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If git hangs or is missing, names come from .git; without a repository, from the folder."""
    write(tmp_path, "bin/git", "#!/bin/sh\nexec /bin/sleep 60\n").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert "two people in Lyon" in begun(run, shop)
    (tmp_path / "bin/git").unlink()
    assert "two people in Lyon" in begun(run, shop)
    (tmp_path / "invoices").mkdir()
    assert "numbered by year" in begun(run, tmp_path / "invoices")
    empty = tmp_path / "empty/invoices"
    empty.mkdir(parents=True)
    assert "numbered by year" in begun(run, empty)


@pytest.mark.promise("S21")
def test_hook_session_does_not_run_repository_programs(
    shop: Path, run: Run, tmp_path: Path
) -> None:
    """No program from a project's git settings or hooks is run, and nothing is changed."""
    ran = tmp_path / "ran"
    evil = str(write(tmp_path, "evil.sh", f"#!/bin/sh\ntouch '{ran}'\n"))
    Path(evil).chmod(0o755)
    git(shop, "commit", "--quiet", "--allow-empty", "-m", "Cats")
    for name in (
        "core.fsmonitor", "core.pager", "core.sshCommand", "gpg.program", "diff.external",
        "core.alternateRefsCommand", "remote.origin.uploadpack", "pager.log", "alias.log",
    ):  # fmt: skip
        git(shop, "config", name, evil)
    git(shop, "config", "log.showSignature", "true")
    git(shop, "config", "core.hooksPath", str(tmp_path))
    before = contents(shop)
    assert "Cats sleep" in begun(run, shop)
    assert not ran.exists()
    assert contents(shop) == before


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://user:token@host.example/acme/webshop.git", "acme/webshop"),
        ("https://user:to/ken@host.example/webshop", "webshop"),
        ("https://host.example/acme/webshop?private_token=x#y", "acme/webshop"),
        ("git@host.example:acme/webshop.git", "acme/webshop"),
        ("ssh://git@host.example:22/acme/webshop/", "acme/webshop"),
        ("user:token@host.example:webshop", "webshop"),
        ("/home/me/private/webshop.git", "webshop"),
        ("file:///home/me/private/webshop", "webshop"),
        ("../webshop", "webshop"),
        ("https://user:token@host.example", "checkout"),
        ("", "checkout"),
    ],
)
def test_hook_uses_only_the_remote_name(url: str, expected: str, tmp_path: Path) -> None:
    """No host, user, password, token or folder from a remote's URL becomes part of a task."""
    root = tmp_path / "checkout"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "config", "remote.origin.url", url)
    assert project.project_topics(root)[0] == expected
    assert not {"token", "ken@host", "private"}.intersection(
        " ".join(project.project_topics(root)).split()
    )


def test_hook_masks_secrets_of_project(tmp_path: Path) -> None:
    """Secrets in a branch name, a commit or a remote are masked before recall."""
    _, secret = made("GitHub token")
    root = tmp_path / "checkout"
    root.mkdir()
    git(root, "init", "--quiet", f"--initial-branch={secret}")
    git(root, "commit", "--quiet", "--allow-empty", "-m", f"{'word ' * 14}{secret} for now")
    git(root, "remote", "add", "origin", f"https://host.example/{secret}/webshop")
    assert not any(secret[4:15] in topic for topic in project.project_topics(root))
    assert len(project.project_topics(root)) > 1


def test_context_recalls_for_each_line_of_task(shop: Path, vault: Vault) -> None:
    """Context for a task of several lines has the memories that match any line, each once."""
    task = "webshop\n\nferry timetable\nthe ferry timetable and its departures\n"
    text = vault.call("context", task=task)["context"]
    assert "two people in Lyon" in text
    assert text.count("caches its departures") == 1
    assert "numbered by year" in vault.call("context", task="invoices\n" * 20)["context"]
