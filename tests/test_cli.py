"""The command line and its completion: the same tools and results, and clean standard output."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from conftest import Ran, Run, refused, succeeded, write
from memvault.cli import complete
from memvault.cli.complete import candidates
from memvault.cli.registry import find_command
from memvault.command_table import COMMANDS
from memvault.tools.core import registry
from shells import completing_shell, hostile_names, typed_in_shell
from tool_calls import normal, typed

COMMAND = [sys.executable, "-m", "memvault"]
NOTE = "---\nid: wombats-are-nocturnal-abc123\ntags: [animal]\n---\n\n# Wombats\n\nThey dig.\n"


@pytest.fixture
def notes(folder: Path) -> Path:
    """A vault with memories, a received talk, an entered space, and a place."""
    write(folder, "fact/wombats.md", NOTE)
    write(folder, "issue/crows.md", "# Crows\n\nThey fly over the harbour.\n")
    header = "type: talk\ntimestamp: 2026-01-31T12:00:00.000Z\nfrom: bob\ntalkId: 7"
    write(folder, "agents/main/inbox/asked.md", f"---\n{header}\n---\n\nReady?\n")
    write(folder, "spaces/team/space.md", "---\nname: Team\n---\n")
    write(folder, ".memvault/agents/main/space", "team\n")
    write(folder, "memvault.toml", "version = 1\nworld.enabled = true\n")
    write(folder, "places/wood.md", "---\nx: 0\ny: 0\nresources: {wood: 3}\n---\n")
    write(folder, "agents/bob.md", "---\nx: 1\n---\n")
    return folder


def _same(root: Path, ran: Ran) -> str:
    assert (ran.code, ran.err) == (0, ""), ran
    return normal(root, ran.json).replace(root.name, "copy")


SPELLINGS = {
    "remember Bilbies x --type fact --tags a,b --tags c": {
        "title": "Bilbies",
        "content": "x",
        "memoryType": "fact",
        "tags": ["a", "b", "c"],
    },
    "save x --metadata n=1 --metadata k=a,b": {"text": "x", "metadata": {"n": 1, "k": "a,b"}},
    "delete m3 no,none": {"ids": "m3,no,none"},
    "memories set k=v 'l=a b'": {
        "memories": [{"key": "k", "value": "v"}, {"KEY": "l", "value": "a b"}]
    },
    "plans set Report 'Do it' --at 2999-01-01": {
        "plans": [{"name": "Report", "instruction": "Do it", "scheduled_at": "2999-01-01"}]
    },
    "talk log INFO Hello": {"severity": "Info", "message": "Hello"},
    "wait for hook:x TIME:0 --timeout 5": {
        "events": [{"eventType": "Hook", "parameter": "x"}, {"eventType": "time", "parameter": 0}],
        "timeout": 5,
    },
    "procedure outcome zebra --failure": {"procedureName": "zebra", "success": False},
    """episode store --context 'Rain, again' --action Dug --action 'Slept, dry'
    --outcome done:deep,wide --outcome '{"type": "action_error", "n": [1]}' --skill a,b""": {
        "context": ["Rain, again"],
        "actions": ["Dug", "Slept, dry"],
        "skills_used": ["a", "b"],
        "outcomes": [{"type": "done", "text": "deep,wide"}, {"type": "action_error", "n": [1]}],
    },
}
"""Commands as people type them, with the resulting arguments."""


@pytest.mark.parametrize("line", SPELLINGS, ids=lambda line: line.split(" --")[0])
def test_cli_accepts_comma_lists_and_key_value_pairs(
    filled: Path, tmp_path: Path, run: Run, line: str
) -> None:
    """Comma lists, key=value pairs, and any-case choices and words equal their JSON forms."""
    given = shlex.split(line)
    name = next(tool.name for tool in registry.all_tools() if line.startswith(f"{tool.command} "))
    found = []
    for number, form in enumerate(
        [["--json", *given], ["call", name, json.dumps(SPELLINGS[line])]]
    ):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(filled, copy)
        found.append(_same(copy, run(*form, cwd=copy)))
    assert found[0] == found[1]


def test_cli_call_reads_json_from_argument_stdin_or_file(notes: Path, run: Run) -> None:
    """Call accepts JSON as an argument, on standard input or in a file, with keys in any style."""
    asked = '{"QUERY": "dig", "memory_type": "fact", "type": "Keyword"}'
    write(notes, "asked.json", f"\ufeff{asked}")
    ways = [
        run("call", "memory_recall", asked),
        run("call", "memory_recall", "-", stdin=asked),
        run("call", "memory_recall", "@asked.json"),
        run("call", "Memory-Recall", asked, "--json"),
    ]
    assert len({_same(notes, ran) for ran in ways}) == 1
    assert ways[0].json["count"] == 1
    for wrong in ("{", "[]", '"x"', '{"query": "a", "limit": "many"}', '{"no": 1}', "@nowhere"):
        ran = run("call", "memory_recall", wrong)
        assert (ran.code, ran.err, ran.json["success"]) == (2, "", False)
    ran = run("call", "memory_recal", "{}")
    assert (ran.code, ran.json["error"]["hint"]) == (2, "did you mean memory_recall?")


def test_cli_call_without_json_reports_unread_input(notes: Path, run: Run) -> None:
    """Without JSON, call does not read a pipe or a file; an error says that - would read it."""
    unread = "standard input was not read; pass `-` to read the JSON arguments from it"
    asked = '{"query": "dig", "limit": 1}'
    failed = run("call", "memory_recall", stdin=asked)
    assert failed.code == 2
    assert failed.json["error"]["hint"].startswith("pass search words")
    assert failed.json["error"]["hint"].endswith(f"; {unread}")
    unknown = run("call", "memory_recal", stdin=asked)
    assert unknown.json["error"]["hint"] == "did you mean memory_recall?"
    assert succeeded(run("call", "memory_list", stdin=asked)).json["count"] > 1
    for arguments, given in ((("{}",), asked), (("-",), '{"limit": 1}'), ((), "")):
        assert succeeded(run("call", "memory_list", *arguments, stdin=given)).err == ""


def test_cli_call_without_json_never_waits_for_input(notes: Path) -> None:
    """An inherited pipe that stays open and silent neither delays a call nor adds a note."""
    reader, writer = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "memvault", "call", "memory_list"],
            cwd=notes,
            stdin=reader,
            capture_output=True,
            check=True,
            timeout=30,
        )
    finally:
        os.close(reader)
        os.close(writer)
    assert done.stderr == b""


MISSING = {
    "edit": ("memvault edit needs MEMORY", 'memvault edit "Deploy notes"'),
    "edit ''": ("memvault edit needs MEMORY", 'memvault edit "Deploy notes"'),
    "vaults add": ("memvault vaults add needs NAME", "memvault vaults add work ."),
    "vaults add work": ("memvault vaults add needs DIR|ADDRESS", "memvault vaults add work ."),
    "rename": ("memvault rename needs MEMORY", "memvault rename "),
    "fact recall": ("memvault fact recall needs QUERY", "memvault fact recall "),
    "call": ("memvault call needs NAME", "memvault call memory_recall "),
    "call memory_list '{}' '{}'": (
        "Got unexpected extra argument(s) ({})",
        "see memvault call --help",
    ),
}
"""Command lines with missing or extra arguments, with the message and hint."""


@pytest.mark.parametrize("line", MISSING)
def test_cli_reports_missing_argument(notes: Path, run: Run, line: str) -> None:
    """The error for a missing argument uses its name from the help and shows an example."""
    message, hint = MISSING[line]
    ran = run(*shlex.split(line))
    if line.startswith("call"):
        assert (ran.code, ran.err) == (2, "")
        assert ran.json["error"]["message"].replace("`", "") == message
        assert ran.json["error"]["hint"].replace("`", "").startswith(hint)
    else:
        refused(ran, 2)
        assert ran.err.replace("`", "").startswith(f"error: {message}\nhint: {hint}")


def test_cli_reads_text_from_stdin_or_file(notes: Path, run: Run) -> None:
    """Content and modifications can come from standard input, a file, or @@ escaped text."""
    text = "Ein Wörtchen\n\n```\n-- dash\n```\n"
    write(notes, "text.txt", text)
    assert run("remember", "A", "-", stdin=text).code == 0
    assert run("remember", "B", "@text.txt").code == 0
    assert run("remember", "C", "@@home").code == 0
    assert run("compound", "C", "-", stdin=text).code == 0
    write(notes, "-", "of the file")
    assert succeeded(run("remember", "F", "@-", stdin="of the input")).code == 0
    assert run("show", "F", "--json").json.get("content") == "\nof the file\n"
    shown = [run("show", name, "--json").json.get("content") for name in "ABC"]
    assert shown == [f"\n{text}", f"\n{text}", f"\n@home\n\n{text}"]
    assert "nowhere.txt" in run("remember", "D", "@nowhere.txt").err


def test_cli_global_options_match_environment_variables(
    notes: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vault and output format can be set before or after the command, or by variables."""
    vault = str(notes)
    expected = run("list", "--json").out
    for arguments in (
        ["--vault", vault, "--json", "list"],
        ["list", "--vault", vault, "--json"],
        ["--json", "list", f"--vault={vault}", "--agent", "x", "--quiet"],
    ):
        assert run(*arguments, cwd=tmp_path) == (0, expected, "")
    assert run("list", "--json", cwd=notes / "fact").out == expected
    monkeypatch.setenv("MEMVAULT_JSON", "1")
    assert run("list").out == expected
    monkeypatch.setenv("MEMVAULT_VAULT", vault)
    monkeypatch.setenv("MEMVAULT_AGENT", "someone")
    assert run("list", cwd=tmp_path).out == expected
    assert run("list", "--vault", str(tmp_path), cwd=notes).code == 3
    monkeypatch.setenv("MEMVAULT_JSON", "0")
    assert run("list", cwd=tmp_path).out != expected


@pytest.mark.parametrize("text", ["- a list\n- of two\n", "---\n\nruled\n", "-1 degree\n"])
def test_cli_text_can_start_with_a_dash(notes: Path, run: Run, text: str) -> None:
    """Markdown that starts with a dash and contains a space is text, not an option."""
    assert run("remember", "Dashed", text)[::2] == (0, "")
    assert text in run("show", "Dashed", "--json").json["content"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "--limit", "- many"], "'- many' is not"),
        (["stats", "-5"], "extra argument(s) (-5)"),
        (["stats", *(f"- {number}" for number in range(12))], "extra argument(s) (- 0 - 1 - 2 "),
        (["stats", *(f"- {number}" for number in range(12))], " - 10 - 11)"),
        (["stats", "--", "- it's\nme"], "extra argument(s) (- it's me)"),
        (["recall", "x", "--mode", "- best"], "'- best'"),
        (["- a command"], "'- a command'"),
        (["-1"], "-1"),
        (["model", "- a command"], "'- a command'"),
        (["list", "--vault", "- my vault"], "- my vault"),
        (["active", "--agent", "- me"], "'- me'"),
        (["show", "- nothing"], "'- nothing'"),
        (["list", "--tags"], "--tags"),
        (["show", "- one", "- two"], "extra argument(s) (- two)"),
        (["list", "--json=- x"], "--json"),
        (["init", "- a", "- b"], "extra argument(s) (- b)"),
    ],
)
def test_cli_errors_quote_dash_text_as_typed(
    notes: Path, run: Run, arguments: list[str], said: str
) -> None:
    """Every error quotes an argument that starts with a dash exactly as it was typed."""
    for form in ([], ["--json"]):
        ran = run(*form, *arguments)
        assert ran.code in (1, 2, 3), ran
        assert said in (ran.json["error"]["message"] if form else ran.err), ran
        assert "fdd" not in f"{ran.out}{ran.err}".lower().replace("\ufdd0", "fdd")


FAILURES = [
    ("show nothing", 1, "not_found"),
    ("show ../outside.md", 1, "not_found"),
    ("remember x y --file-path ../../etc/passwd", 1, "not_found"),
    ("compound They x", 1, "ambiguous"),
    ("forget Wombats --confirm 0000", 1, "conflict"),
    ("recall ''", 2, "usage"),
    ("recall x --mode fuzzy", 2, "usage"),
    ("list --limit some", 2, "usage"),
    ("list --limit 0", 2, "usage"),
    ("list --vault /nowhere", 3, "vault_not_found"),
]


@pytest.mark.parametrize(("arguments", "code", "word"), FAILURES, ids=str)
def test_cli_failure_is_a_message_or_json(
    notes: Path, run: Run, arguments: str, code: int, word: str
) -> None:
    """With --json a failure is JSON on standard output; otherwise it is a message and a hint."""
    plain = run(*shlex.split(arguments))
    assert (plain.code, plain.out) == (code, "")
    sentence, hint = plain.err.splitlines()[:2]
    assert sentence.startswith("error: ")
    assert not sentence.endswith(".")
    assert hint.startswith("hint: ")
    ran = run(*shlex.split(arguments), "--json")
    assert (ran.code, ran.err) == (code, "")
    error = ran.json["error"]
    assert ran.json["success"] is False
    assert error["code"] == word
    assert f"error: {error['message']}\nhint: {error['hint']}\n" in plain.err


def test_cli_json_after_double_dash_is_text(notes: Path, run: Run) -> None:
    """An error is printed as JSON only if --json is an option, not a name after --."""
    ran = run("show", "--", "--json")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: There is no memory '--json'")


def test_cli_confirming_commands_accept_yes(notes: Path, run: Run) -> None:
    """Each command that asks for confirmation accepts --yes; --confirm true is the same."""
    confirmed = set()
    for command in COMMANDS:
        found = find_command(command.words)
        assert found is not None
        names = {parameter.name for parameter in found.shell_parameters} & {"yes", "confirm"}
        assert names != {"confirm"}, command.words
        confirmed |= {command.words} if names else set()
    assert {"forget", "rename", "setup", "import", "trash empty", "git sync"} <= confirmed
    for number, option in enumerate((["--yes"], ["--confirm", "true"], ["--confirm=yes"])):
        succeeded(run("remember", f"Old {number}", "Gone soon."))
        assert run("forget", f"Old {number}", *option, "--json").json["deletedFiles"] == 1
    assert run("forget", "They", "--confirm", "no", "--json").json["confirmRequired"]


MISSPELT = {"lst": "list", "recal x": "recall", "model lst": "list", "--jsn list": "--json"}


@pytest.mark.parametrize("arguments", [*MISSPELT, "recall x --limt 3"])
def test_cli_suggests_the_closest_command_or_option(notes: Path, run: Run, arguments: str) -> None:
    """An unknown command or option is refused, and the error suggests the closest match."""
    ran = run(*arguments.split())
    assert (ran.code, ran.out) == (2, "")
    assert MISSPELT.get(arguments, "--limit") in ran.err
    assert len(ran.err.splitlines()) == 2


HELPED = [*dict.fromkeys(command.words for command in COMMANDS), "model", ""]


def test_cli_every_command_has_help(subtests: pytest.Subtests) -> None:
    """--help and -h print help to standard output, exit with 0 and list every argument."""
    for command in HELPED:
        with subtests.test(command=command):
            ran = typed(*command.split(), "--help")
            assert (ran.code, ran.err) == (0, "")
            assert ran.out.startswith("Usage: memvault")
            assert typed(*command.split(), "-h") == ran


def test_cli_help_states_number_ranges() -> None:
    """Help for a number states its range unless the help text does or the minimum is 0 or 1."""
    shown = " ".join(typed("serve", "--help").out.split())
    assert "concurrent requests per token (default 16)" in shown
    assert "request in megabytes; 1 to 64 (default 4)" in shown
    assert "From 0 to 1 --" in " ".join(typed("remember", "--help").out.split())


ALONE = """
import os, sys, traceback
import memvault, typer
import frontmatter, numpy, platformdirs, py_rust_stemmers, tokenizers, whoosh.index
own = [name for name in sys.modules if name.startswith("memvault.")]
assert own == [], own
for line in sys.argv[1:]:
    child = os.fork()
    if not child:
        code = 1
        try:
            from memvault.__main__ import main
            code = main([*line.split(), "--help"])
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    if os.waitpid(child, 0)[1]:
        print("FAILED:", line, file=sys.stderr)
"""


def test_command_modules_import_in_any_order(folder: Path) -> None:
    """Each command module can be imported first, before any other command module."""
    first = {command.module: command.words for command in COMMANDS}
    line = [sys.executable, "-c", ALONE, *first.values()]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "text", ["version = ", "types = 5", 'language = "klingon"', "[[types]]", 'ignore = "x"', "\xff"]
)
def test_cli_invalid_settings_exit_with_3(folder: Path, run: Run, text: str) -> None:
    """Invalid settings exit with code 3 and a message that contains the file's name."""
    write(folder, "memvault.toml", text.encode("latin-1"))
    ran = run("list")
    assert (ran.code, ran.out) == (3, "")
    assert "memvault.toml" in ran.err.splitlines()[0]
    assert len([line for line in ran.err.splitlines() if not line.startswith("hint: ")]) == 1


def test_cli_search_reports_empty_vault(folder: Path, run: Run) -> None:
    """In an empty vault, a search suggests adding a memory, not other words or fewer filters."""
    write(folder, "memvault.toml", "version = 1\n")
    empty = "There are no memories yet; add one with `memvault remember`\n"
    for words in (["recall", "port"], ["recall", "--all"], ["search", "port"]):
        assert succeeded(run(*words)).out == empty
    write(folder, "fact/port.md", "# Port\n\nThe server listens on port 8080.\n")
    ran = run("recall", "zebra", "--mode", "keyword")
    assert ran.out.splitlines()[0] == "No memories found; try other words"
    ran = run("recall", "zebra", "--mode", "keyword", "--type", "fact")
    assert ran.out.splitlines()[0] == "No memories found; try other words or fewer filters"


def test_cli_tool_name_as_words_suggests_command(run: Run) -> None:
    """A tool's name typed as words suggests its command: for ``tag list``, ``memvault tags``."""
    assert refused(run("tag", "list"), 2) == "error: memvault tag has no command 'list'"
    assert run("tag", "list").err.endswith("hint: did you mean `memvault tags`?\n")


def test_cli_unknown_setting_only_adds_a_note(folder: Path, run: Run) -> None:
    """A setting unknown to this version only causes a note, which --quiet hides."""
    write(folder, "memvault.toml", "version = 1\nfuture = true\n")
    ran = run("list")
    assert (ran.code, ran.out) == (0, "No memories found\n")
    assert "future" in ran.err
    assert run("list", "--quiet").err == ""
    ran = run("list", "--json")
    assert ran.err == ""
    assert "future" in ran.json["warnings"][0]


@pytest.mark.parametrize("command", ["list", "list --json", "list --help", "--help", "call x {}"])
def test_cli_ends_quietly_on_closed_pipe(notes: Path, command: str) -> None:
    """A closed pipe, as after ``| head -1``, ends the command quietly."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*COMMAND, *command.split()], cwd=notes, stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert done.stderr == b""
    assert done.returncode == (2 if command.startswith("call") else 0)


@pytest.mark.parametrize("command", ["list", "list --json", "--help", "call x {}"])
@pytest.mark.parametrize("target", ["/dev/full", "closed"])
def test_cli_handles_full_or_closed_stdout(notes: Path, command: str, target: str) -> None:
    """If standard output is full or closed, a command reports it or completes its work."""
    redirected = ">&-" if target == "closed" else f"> {target}"
    shell = f"exec {sys.executable} -m memvault {command} {redirected}"
    done = subprocess.run(
        ["sh", "-c", shell], cwd=notes, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1, 2), done
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr


def _on_terminal(folder: Path, *arguments: str, **environment: str) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        stdout=theirs,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "1000", **environment},
    )
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # Linux reports a closed terminal as an error
        while data := os.read(ours, 65_536):
            seen += data
    os.close(ours)
    assert process.wait() == 0
    return seen.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("arguments", ["list", "recall wombats", "types"])
def test_cli_prints_the_same_text_to_terminal_and_pipe(
    notes: Path, run: Run, arguments: str
) -> None:
    """Except for ``show``, a wide terminal gets the same text as a pipe, plus color."""
    odd = "[bold]no markup[/bold] :smile: a\ttab, 数据库 👩‍💻 https://example.org  " + "long " * 60
    write(notes, "odd.md", f"# Odd\n\n{odd}\nwombats trail  \n\n\nend\n")
    plain = run(*arguments.split()).out
    assert "\x1b" not in plain
    assert _on_terminal(notes, *arguments.split(), NO_COLOR="1") == plain
    assert _on_terminal(notes, *arguments.split(), TERM="dumb") == plain
    colored = _on_terminal(notes, *arguments.split())
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain


def test_cli_path_with_unknown_home_is_reported(run: Run) -> None:
    """A path that starts with an unknown user's home fails with a clear message."""
    ran = run("--vault", "~no-such-user-here/x", "list")
    assert ran.code == 3
    assert "hit a bug" not in ran.err


@pytest.mark.parametrize("locale", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_cli_reads_utf8_arguments_in_any_locale(folder: Path, locale: dict[str, str]) -> None:
    """UTF-8 arguments are preserved in any locale."""
    done = subprocess.run(
        [sys.executable, "-m", "memvault", "remember", "Größe", "ключ 🎉"],
        cwd=folder,
        env={**os.environ, **locale},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    text = next(folder.glob("context/*.md")).read_text("utf-8")
    assert "title: Größe" in text
    assert "ключ 🎉" in text


def test_cli_reads_non_utf8_stdin_as_windows_1252(run: Run, folder: Path) -> None:
    """Standard input that is not UTF-8 is read as Windows-1252, as files are."""
    assert run("remember", "Old", "-", stdin=b"caf\xe9").code == 0
    assert "café" in next(folder.glob("context/*.md")).read_text("utf-8")


SHELLS = ["bash", "zsh", "fish"]
hostile_vault = pytest.fixture(hostile_names)


def offered(line: str) -> list[str]:
    """Return the completions at the end of a line."""
    *before, typed = line.split(" ")
    return [choice.word for choice in candidates(before[1:], typed)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("memvault rem", ["remember"]),
        ("memvault git ", ["init", "sync", "status"]),
        ("memvault --json git s", ["sync", "status"]),
        ("memvault --agent bob fact sto", ["store"]),
        ("memvault recall --mod", ["--mode"]),
        ("memvault recall --mode v", ["vector"]),
        ("memvault recall --mode=v", ["--mode=vector"]),
        ("memvault recall words --type field", ["field-note"]),
        ("memvault recall --type issu", ["issue"]),
        ("memvault recall --tags di", ["dig"]),
        ("memvault recall --tags dig,ani", ["dig,animals"]),
        ("memvault show use", ["use-quokkas-abc123", "use-wombats-abc123"]),
        ("memvault forget use-w", ["use-wombats-abc123"]),
        ("memvault delete a b use-w", ["use-wombats-abc123"]),
        ("memvault talk agent b", ["bob"]),
        ("memvault --agent b", ["bob"]),
        ("memvault space enter t", ["team"]),
        ("memvault completion z", ["zsh"]),
        ("memvault remember Title --ty", ["--type"]),
        ("memvault nothing ", []),
        ("memvault recall --nothing ", []),
        ("memvault doctor --fi", ["--fix"]),
        ("memvault recall words -t field", ["field-note"]),
        ("memvault recall -T dig,ani", ["dig,animals"]),
        ("memvault new Title --template min", ["minutes"]),
        ("memvault hel", ["help"]),
        ("memvault help git s", ["sync", "status"]),
        ("memvault help rem", ["remember"]),
    ],
)
def test_completion_offers_valid_words(hostile_vault: Path, line: str, words: list[str]) -> None:
    """Commands, options and the vault's names are offered only in valid positions."""
    assert offered(line) == words


def test_completion_offers_changes_and_trash(run: Run, folder: Path) -> None:
    """Undo completes changes, newest first; restore completes trashed memories first."""
    kept = run("remember", "Ferry at noon", "It waits for the mail.", "--json").json["memId"]
    gone = run("remember", "Ferry at nine", "It does not wait.", "--json").json["memId"]
    run("delete", gone)
    before = ["--vault", str(folder)]
    assert [entry.word for entry in candidates([*before, "restore"], "ferry")] == [gone, kept]
    changes = run("log", "--json").json["changes"]
    offer = candidates([*before, "undo"], "")
    assert [entry.word for entry in offer] == [change["changeId"] for change in changes]
    assert offer[0].about == "memory_delete Ferry at nine"
    run("undo")
    offer = candidates([*before, "undo"], "")
    assert changes[0]["changeId"] not in [entry.word for entry in offer]


def test_bash_completion_shows_titles(hostile_vault: Path, run: Run) -> None:
    """When bash lists several completions, each shows its title, which is never inserted."""
    line = ["memvault", "show"]
    listed = run("__complete", "bash:63", "2", *line, "use").out.splitlines()
    assert listed[1] == "use-wombats-abc123  (Use: wombats)"
    assert run("__complete", "bash:9", "2", *line, "use").out.split()[0] == "use-quokkas-abc123"
    assert run("__complete", "bash:63", "2", *line, "use-w").out == "use-wombats-abc123\n"


def test_completion_uses_vault_from_command_line(hostile_vault: Path, tmp_path: Path) -> None:
    """Completion offers names from the vault given on the command line."""
    assert offered(f"memvault --vault {hostile_vault} show use-w") == ["use-wombats-abc123"]
    assert offered(f"memvault --vault={hostile_vault} show use-w") == ["use-wombats-abc123"]
    for other in (tmp_path / "none", tmp_path):
        with pytest.raises(Exception, match=r"no folder|no memvault\.toml"):
            offered(f"memvault --vault {other} show use-w")


def test_completion_table_matches_the_commands() -> None:
    """The completion table contains every command and option of the program."""
    words = complete.read()
    assert "".join("\t".join(word) + "\n" for word in words) == complete.table()
    assert {"--type", "--tags"} <= {word.name for word in words if word.command == "remember"}


def test_completion_omits_shell_commands(hostile_vault: Path, run: Run) -> None:
    """Completion omits tags that contain shell commands, and titles do not send terminal codes."""
    shown = run("__complete", "zsh", "3", "memvault", "recall", "--tags", "").out
    assert "x" in shown.split()
    assert "touch" not in shown
    assert ";" not in shown
    shown = run("__complete", "fish", "2", "memvault", "show", "use").out
    assert "\x1b" not in shown
    assert "use-wombats-abc123\tUse: wombats\n" in shown


@pytest.mark.parametrize("words", [[], ["bash"], ["bash", "x", "memvault"], ["zsh", "99", "m"]])
def test_completion_of_invalid_input_prints_nothing(
    words: list[str], run: Run, tmp_path: Path
) -> None:
    """Completing invalid input, or completing outside a vault, prints nothing and succeeds."""
    assert run("__complete", *words).code == 0
    ran = run("__complete", "zsh", "2", "memvault", "show", "", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "")


def test_completion_works_in_interactive_bash(hostile_vault: Path, tmp_path: Path) -> None:
    """After completion install, the Tab key completes memIds in a new bash shell."""
    environment = completing_shell("bash", tmp_path)
    typed = typed_in_shell(["bash", "--noprofile", "-i"], environment, "memvault show use-w\t")
    assert "show use-wombats-abc123" in typed
    assert '"title": "Use: wombats"' in typed


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_install_is_idempotent_and_reversible(
    shell: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal, only --yes installs; a repeat changes nothing, and removal restores."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    before = b"# mine\nalias x=y"
    started = tmp_path / f".{shell}rc"
    started.write_bytes(before)
    shown = succeeded(run("completion", "install", "--json")).json
    assert (shown["changed"], bool(shown["diff"])) == ([], True)
    assert "--yes" in shown["message"]
    assert started.read_bytes() == before
    paths = run("completion", "install", "--yes", "--json").json["changed"]
    assert paths == shown["wouldChange"]
    assert run("completion", "install", "--json").json["changed"] == []
    assert run("completion", "install", "--remove", "--json").json["changed"] == []
    assert run("completion", "install", "--remove", "--yes", "--json").json["changed"]
    assert started.read_bytes().removesuffix(b"\n") == before
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {started.name, "memvault.toml"}


def test_completion_refuses_unknown_shell(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown or missing shell is reported with a clear message."""
    assert "no completion for csh" in refused(run("completion", "install", "csh"), 2)
    monkeypatch.delenv("SHELL", raising=False)
    assert "cannot be detected" in refused(run("completion", "install"), 2)
    assert "complete" in succeeded(run("completion", "bash")).out


def test_cli_refuses_memory_without_content(notes: Path) -> None:
    """Without content and without input, nothing is remembered, and an example shows how."""
    for words in (["remember", "Empty"], ["create", "Empty"], ["compound", "wombats-are"]):
        done = subprocess.run(
            [*COMMAND, *words],
            cwd=notes,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert (done.returncode, b"hint: `memvault" in done.stderr) == (2, True), done
    assert not list(notes.rglob("empty*"))


def test_cli_call_hints_at_commands(notes: Path, run: Run) -> None:
    """`memvault call` is typed in a shell, so its hints have commands and JSON keys."""
    assert (
        run("call", "nope").json["error"]["hint"] == "run `memvault tools list` to list all tools"
    )
    error = run("call", "memory_load", "{}").json["error"]
    assert "needs `memId` or `query`" in error["message"]
