"""A hook says what fits, in its program's form, and never stands in anybody's way."""

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
    """A vault that knows something, whose index is current."""
    with open_vault(folder) as vault:
        for title, text in (
            ("Use PostgreSQL", "PostgreSQL is our database; SQLite stays for tests."),
            ("Deploys", "We deploy on Mondays before ten."),
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
    """Say whether an answer has a form, in which TEXT stands for some words."""
    if isinstance(form, dict) and isinstance(found, dict):
        return form.keys() == found.keys() and all(same_form(form[key], found[key]) for key in form)
    return bool(found.strip()) if form == "TEXT" else bool(form == found)


@pytest.mark.parametrize(("program", "event", "case"), CASES, ids=lambda part: str(part)[:20])
def test_each_event_is_answered_in_its_programs_form(
    program: str, event: str, case: dict[str, Any], known: Path, run: Run, tmp_path: Path
) -> None:
    """What a program sends at an event is understood, and the answer has the form it reads."""
    record = session(tmp_path / "session.jsonl", 20)
    given = json.dumps(case["given"]).replace("TRANSCRIPT", str(record))
    words = ("hook", event, "--for", program)
    out = sooner_or_later(lambda: succeeded(run(*words, stdin=given)).out)
    found = out.strip() if case["answer"] == "TEXT" else json.loads(out)
    assert same_form(case["answer"], found), out
    if event == "prompt":
        assert "Use PostgreSQL" in out
        assert "Deploys" not in out


def test_every_event_of_each_program_is_tried() -> None:
    """The cases above are all the events there are."""
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
def test_no_output_without_a_match(prompt: str, known: Path, run: Run) -> None:
    """A prompt that no memory fits, a command and the program's own words bring nothing."""
    ran = run("hook", "prompt", "--for", "claude-code", stdin=json.dumps({"prompt": prompt}))
    assert succeeded(ran).out.strip() == ""
    assert ran.err == ""


@pytest.mark.parametrize(
    "prompt", ['"which database do we use"', "Why “the” «database»?", "database \ud800 we use"]
)
def test_marks_in_a_prompt_are_no_conditions(prompt: str, known: Path, run: Run) -> None:
    """Quotes, which opencode run writes around a prompt, and half characters hide nothing."""
    given = json.dumps({"prompt": prompt})
    assert "Use PostgreSQL" in sooner_or_later(lambda: run("hook", "prompt", stdin=given).out)


def test_what_is_recalled_is_short_safe_and_current(folder: Path, run: Run, vault: Vault) -> None:
    """Five memories at most, under 400 tokens, fenced; no secret, and nothing that is past."""
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


def test_a_session_starts_with_what_is_known(known: Path, run: Run, vault: Vault) -> None:
    """The block of the context, with the agent's own values, and the reminder come first."""
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
def test_the_end_is_held_up_once_if_much_was_done_and_nothing_kept(
    calls: int, said: str, active: bool, reminded: bool, known: Path, run: Run, tmp_path: Path
) -> None:
    """Only a session with many calls, in which nothing was kept or asked before, is reminded."""
    record = session(tmp_path / "session.jsonl", calls, said)
    given = {"transcript_path": str(record), "stop_hook_active": active}

    def asked() -> str:
        return succeeded(run("hook", "stop", "--for", "codex", stdin=json.dumps(given))).out

    assert ("block" in (sooner_or_later(asked) if reminded else asked())) == reminded


def silent(ran: Ran) -> None:
    """Check that a hook ended with 0 and without output."""
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
        (["session-start", "--vault", "/nowhere"], "{}"),
        (["session-end", "--vault", "/nowhere"], "{}"),
        (["pre-compact", "--vault", "/nowhere"], "{}"),
    ],
)
def test_whatever_is_wrong_it_says_nothing(
    words: list[str], stdin: str | bytes, known: Path, run: Run
) -> None:
    """No vault, no JSON, no such event, program or agent: code 0, and not a word anywhere."""
    silent(run("hook", *words, stdin=stdin))


def test_options_may_stand_before_the_command(known: Path, run: Run, tmp_path: Path) -> None:
    """With --vault before ``hook`` it answers as with --vault behind it."""
    behind = run("hook", "prompt", "--vault", str(known), stdin=ASKED, cwd=tmp_path)
    assert "PostgreSQL" in behind.out
    assert run("--vault", str(known), "hook", "prompt", stdin=ASKED, cwd=tmp_path) == behind


def test_without_a_vault_it_says_nothing(tmp_path: Path, run: Run) -> None:
    """In a folder that is no vault every event is silent."""
    for event in EVENTS:
        silent(run("hook", event, stdin=ASKED, cwd=tmp_path))


@pytest.mark.parametrize(
    "text", ["version = ", "version = 99\n", 'version = 1\n[recall]\nx = "y"\n']
)
def test_broken_settings_stop_nothing(text: str, known: Path, run: Run) -> None:
    """A vault whose settings make no sense brings nothing, and no error."""
    write(known, "memvault.toml", text)
    ran = run("hook", "prompt", stdin=ASKED)
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize("endless", [b"", b"x" * 4096])
def test_an_input_without_an_end_is_given_up(endless: bytes, known: Path) -> None:
    """A program that never closes its pipe, or writes without end, waits a second and no more."""
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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
def test_a_record_that_nobody_writes_is_given_up(known: Path, run: Run, tmp_path: Path) -> None:
    """A pipe in the record's place, which would never open, takes a second and no more."""
    os.mkfifo(tmp_path / "pipe")
    silent(run("hook", "stop", stdin=json.dumps({"transcript_path": str(tmp_path / "pipe")})))


def test_a_slow_disk_is_given_up(
    known: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a memory takes minutes to open, a prompt waits a second and no more."""
    write(tmp_path, "slow/sitecustomize.py", SLOW)
    paths = [str(tmp_path / "slow"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    silent(run("hook", "prompt", stdin=ASKED))


def test_a_locked_index_delays_nothing(known: Path, run: Run) -> None:
    """While another process indexes, a prompt is answered from what is there."""
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


def test_a_path_at_the_beginning_is_no_command(known: Path, run: Run) -> None:
    """A prompt that begins with a path is recalled with; a command of the program's is not."""
    for prompt, is_asked in (
        ("/usr/bin/psql: which database do we use", True),
        ("/help db", False),
    ):
        said = json.dumps({"prompt": prompt})

        def answer(said: str = said) -> str:
            return run("hook", "prompt", stdin=said).out.strip()

        assert known.is_dir()
        assert bool(sooner_or_later(answer) if is_asked else answer()) is is_asked


def test_nobody_reading_stops_nothing(known: Path) -> None:
    """A program that has gone away, or closed the output, makes no error."""
    for ending in ("| true", ">&-", "2>&- >&-", "<&-"):
        line = f"echo '{ASKED}' | \"$0\" -m memvault hook prompt {ending}"
        if ending == "<&-":
            line = '"$0" -m memvault hook prompt <&-'
        ran = subprocess.run(
            ["sh", "-c", line, sys.executable], cwd=known, capture_output=True, check=False
        )
        assert (ran.returncode, ran.stderr) == (0, b"")


def test_a_person_finds_out_what_it_is(run: Run) -> None:
    """With --help it explains itself as other commands do."""
    assert "EVENT is session-start" in succeeded(run("hook", "--help")).out


def test_its_limits_are_those_that_its_help_names(run: Run) -> None:
    """It gives up a session's start within 5 seconds, and any other event within one."""
    said = " ".join(succeeded(run("hook", "--help")).out.split())
    assert "at session-start within 5 seconds, else within one" in said
    assert hook._LIMIT < 1
    assert 1 < hook._SESSION_START <= 5


@pytest.fixture
def shop(known: Path, tmp_path: Path, vault: Vault) -> Path:
    """A project's repository, of which the vault knows something by each of its traits."""
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


def test_a_session_recalls_by_remote_branch_and_commits(shop: Path, run: Run) -> None:
    """What fits the remote's name, the words of the branch or a last commit is recalled."""
    out = begun(run, shop)
    assert all(text in out for text in ("two people in Lyon", "caches its", "numbered by year"))
    assert "Cats" not in out
    git(shop, "pack-refs", "--all")
    assert "numbered by year" in begun(run, shop)
    git(shop, "worktree", "add", "--quiet", "../tree", "-b", "other")
    assert "numbered by year" in begun(run, shop.parent / "tree")
    git(shop, "checkout", "--quiet", "--detach")
    assert "numbered by year" in begun(run, shop)


def test_a_session_starts_without_git(
    shop: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a git program the names are read; without a repository the folder's name is used."""
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
def test_a_session_runs_nothing_of_a_repository(shop: Path, run: Run, tmp_path: Path) -> None:
    """No program that a project's git settings or hooks name is run, and nothing is changed."""
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
def test_of_a_remote_only_its_name_is_used(url: str, expected: str, tmp_path: Path) -> None:
    """No host, user, password, token or folder of a remote's URL becomes part of a task."""
    root = tmp_path / "checkout"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "config", "remote.origin.url", url)
    assert project.project_topics(root)[0] == expected
    assert not {"token", "ken@host", "private"}.intersection(
        " ".join(project.project_topics(root)).split()
    )


def test_secrets_of_a_project_are_no_task(tmp_path: Path) -> None:
    """A secret in a branch's name, a commit or a remote is masked before anything is recalled."""
    _, secret = made("GitHub token")
    root = tmp_path / "checkout"
    root.mkdir()
    git(root, "init", "--quiet", f"--initial-branch={secret}")
    git(root, "commit", "--quiet", "--allow-empty", "-m", f"{'word ' * 14}{secret} for now")
    git(root, "remote", "add", "origin", f"https://host.example/{secret}/webshop")
    assert not any(secret[4:15] in topic for topic in project.project_topics(root))
    assert len(project.project_topics(root)) > 1


def test_each_line_of_a_task_is_recalled(shop: Path, vault: Vault) -> None:
    """Context for a task of a few lines has the memories that fit any of them, each once."""
    task = "webshop\n\nferry timetable\nthe ferry timetable and its departures\n"
    text = vault.call("context", task=task)["context"]
    assert "two people in Lyon" in text
    assert text.count("caches its departures") == 1
    assert "numbered by year" in vault.call("context", task="invoices\n" * 20)["context"]
