"""The command line accepts what people and agents type: unquoted, piped, short, misspelled."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, called, refused, sampled, some_of, succeeded, titles, write
from memvault import Vault
from memvault.arguments.parameters import Parameter, kebab, normal_key
from memvault.cli import typer_app
from memvault.cli.options import GlobalOptions
from memvault.command_table import COMMANDS
from memvault.tools.core import registry
from memvault.tools.core.registry import Tool
from tool_calls import typed


@pytest.fixture
def notes(folder: Path) -> Path:
    """A vault with three memories."""
    write(folder, "issue/crows.md", "---\ntags: [bird]\n---\n\n# Crows\n\nThey fly at night.\n")
    write(folder, "issue/owls.md", "---\ntags: [bird]\n---\n\n# Owls\n\nThey hunt at night.\n")
    write(folder, "fact/moles.md", "# Moles\n\nThey dig.\n")
    return folder


@pytest.mark.usefixtures("notes")
@pytest.mark.parametrize(
    "command",
    ["recall", "search", "context", "experience", "episode recall", "fact recall"],
)
def test_query_needs_no_quotes(run: Run, command: str) -> None:
    """The words in a query, situation or task are joined, with options in any position."""
    quoted = succeeded(run(*command.split(), "what - flies at night", "--json"))
    unquoted = succeeded(run(*command.split(), "what", "-", "flies", "--json", "at", "night"))
    assert unquoted.json == quoted.json


@pytest.mark.usefixtures("notes")
def test_short_options_are_consistent(run: Run) -> None:
    """-n is --limit, -t is --type and -T is --tags, in every command that has them."""
    assert len(titles(run("recall", "night", "-n", "1", "--json").json)) == 1
    assert titles(run("recall", "they", "-t", "fact", "--json").json) == ["Moles"]
    assert len(titles(run("list", "-T", "bird", "-n9", "--json").json)) == 2
    made = run("remember", "Bats", "They hear.", "-t", "fact", "-T", "a,b", "--json").json
    assert (made["memoryType"], made["tags"]) == ("fact", ["a", "b"])
    for tool in registry.all_tools():
        letters = {"--limit": "-n", "--type": "-t", "--tags": "-T"}
        for entry in tool.shell_parameters:
            if not entry.arg.positional and entry.flag in letters:
                command = typer_app.build_command(tool, tool.name, GlobalOptions())
                spelled = [param.opts for param in command.params]
                assert [entry.flag, letters[entry.flag]] in spelled


def test_recall_with_filters_only_lists_matches(notes: Path, run: Run, vault: Vault) -> None:
    """Without a query, recall lists the memories that pass the filters, newest change first."""
    os.utime(notes / "issue/crows.md", (1_000_000_000, 1_000_000_000))
    ran = succeeded(run("recall", "--type", "issue", "--json"))
    assert titles(ran.json) == ["Owls", "Crows"]
    assert titles(vault.call("memory_recall", tags=["bird"], limit=1)) == ["Owls"]
    assert titles(vault.call("memory_recall", since="2 days", memoryType="issue")) == ["Owls"]
    assert titles(vault.call("memory_recall", filter="type == 'fact'")) == ["Moles"]


PIPED = (
    "remember Title | create Title | save | fact store | procedure store name | talk user | "
    "talk agent bob | talk log info | plans set p --at 2999-01-01"
).split(" | ")


@pytest.mark.parametrize("command", PIPED)
def test_piped_text_is_the_content(run: Run, folder: Path, command: str) -> None:
    """Content that is missing on the command line is read from a pipe."""
    succeeded(run(*command.split(), stdin="The wombat\nsleeps.\n"))
    said = [*folder.rglob("*.md"), *folder.rglob("*.jsonl")]
    assert any("The wombat" in file.read_text("utf-8") for file in said)


@pytest.mark.parametrize("command", PIPED)
def test_remember_refuses_empty_pipe(run: Run, folder: Path, command: str) -> None:
    """With an empty pipe nothing is written, and the hint suggests the next step."""
    ran = run(*command.split(), stdin=" \n")
    assert "standard input is empty" in refused(ran, 2)
    assert "@file" in ran.err
    assert not list(folder.rglob("*.md"))


def test_text_argument_leaves_stdin_unread(run: Run, folder: Path) -> None:
    """A content argument is used even if it is empty, and no pipe is read."""
    succeeded(run("remember", "One", "written", stdin="piped"))
    succeeded(run("remember", "Two", "", stdin="piped"))
    succeeded(run("remember", "Three", "--content", "", stdin="piped"))
    succeeded(run("inbox", "push", "hook", stdin="piped"))
    assert not [file for file in folder.rglob("*.md") if "piped" in file.read_text("utf-8")]


def _remembered(folder: Path, title: str, stdin: Any) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys\nfrom memvault.cli import stdin\nfrom memvault.__main__ import main\n"
        "stdin._SILENCE, stdin._PATIENCE = 0.1, 0.3\nsys.exit(main(sys.argv[1:]))\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, "remember", title],
        cwd=folder,
        stdin=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_remember_reads_redirected_file_but_not_dev_null(folder: Path) -> None:
    """A redirected file is the content; /dev/null has no content and is refused."""
    text = write(folder.parent, "text.txt", "The wombat sleeps.\n")
    with text.open("rb") as file:
        assert _remembered(folder, "Read", file).returncode == 0
    assert _remembered(folder, "Plain", subprocess.DEVNULL).returncode == 2
    assert "wombat" in (folder / "context/read.md").read_text("utf-8")
    assert not (folder / "context/plain.md").exists()


def test_remember_in_shell_loop_keeps_remaining_lines(folder: Path) -> None:
    """In a shell's read loop, no command consumes the remaining lines of the file."""
    list_of = write(folder.parent, "titles.txt", "One\nTwo\nThree\n")
    memvault = f'"{sys.executable}" -m memvault'
    script = f'while read -r t; do {memvault} remember "$t"; {memvault} remember "$t" ""; done'
    with list_of.open("rb") as file:
        subprocess.run(["sh", "-c", script], cwd=folder, stdin=file, check=True)
    assert {file.name for file in folder.glob("context/*.md")} == {"one.md", "two.md", "three.md"}


def test_remember_times_out_on_silent_pipe(folder: Path) -> None:
    """An open pipe without data causes a note and an error, and nothing is written."""
    reading, writing = os.pipe()
    done = _remembered(folder, "Never", reading)
    os.close(writing)
    os.close(reading)
    assert done.returncode == 2
    note, error, hint = done.stderr.splitlines()
    assert note == "note: waiting for CONTENT on standard input"
    assert "No data on standard input" in error
    assert hint.startswith("hint: ")
    assert not list(folder.rglob("*.md"))


def _values(tool: Tool) -> Iterator[tuple[Parameter, list[str]]]:
    """Yield the options of a command with possible values."""
    for entry in tool.shell_parameters:
        if entry.types == (bool,):
            yield entry, []
        elif str in entry.types or list in entry.types or dict in entry.types:
            yield entry, ["--limit"]  # a value that looks like an option
        else:
            yield entry, ["3"]


def test_option_accepts_any_spelling_of_its_key(subtests: pytest.Subtests) -> None:
    """Every argument's key works as an option, ignoring case, hyphens and underscores."""
    for tool in registry.all_tools():
        with subtests.test(tool=tool.name):
            _may_be_spelled_otherwise(tool)


def _may_be_spelled_otherwise(tool: Tool) -> None:
    command = typer_app.build_command(tool, tool.name, GlobalOptions())
    flags = {normal_key(entry.flag) for entry in tool.shell_parameters}

    def parsed(*line: str) -> dict[str, Any]:
        found: dict[str, Any] = command.make_context(tool.name, list(line)).params
        return found

    for entry, value in _values(tool):
        expected = parsed(entry.flag.split("/")[0], *value)
        assert expected != parsed()
        key = entry.flag.removeprefix("--").split("/")[0] if "=" in entry.key else entry.key
        if normal_key(key) != normal_key(entry.flag) and normal_key(key) in flags:
            continue  # here, ``type`` is the option of another argument
        snake = kebab(key).replace("-", "_")
        for spelled in {key, kebab(key), snake, snake.upper(), key.lower()}:
            assert parsed(f"--{spelled}", *value) == expected
            if value:
                assert parsed(f"--{spelled}={value[0]}") == expected


def test_positional_arguments_can_be_options(run: Run, folder: Path) -> None:
    """A positional argument can be an option, and the others fill the remaining positions."""
    ran = run("remember", "--Title", "By name", "--content", "text", "--memory_type", "fact")
    succeeded(ran)
    succeeded(run("remember", "the content", "--title", "Half"))
    assert "the content" in (folder / "context/half.md").read_text("utf-8")
    assert "text" in (folder / "fact/by-name.md").read_text("utf-8")
    assert titles(run("recall", "--query", "the content", "-n1", "--json").json) == ["Half"]
    assert succeeded(run("plan", "set", "p", "i", "--runAfter", "1 day", "--json")).json["plans"]
    assert "--title" not in run("remember", "--help").out


WORDS = [command.words for command in COMMANDS]


@sampled(1)
def test_help_shows_any_command(run: Run, subtests: pytest.Subtests) -> None:
    """``help COMMAND`` equals ``COMMAND --help``, even for groups; ``help`` shows the overview."""
    for line in some_of(sorted({*WORDS, *(words.split()[0] for words in WORDS)})):
        with subtests.test(line=line):
            page = typed(*line.split(), "--help")
            assert page.code == 0
            assert typed("help", *line.split()) == page
    assert run("help").out == run("--help").out == run("--json", "help").out


GROUPS = sorted({words.split()[0] for words in WORDS if " " in words} - {"experience"})


def test_command_group_without_command_lists_commands() -> None:
    """A group without a command prints its commands to standard output and succeeds."""
    for group in GROUPS:
        shown = typed(group)
        assert shown == (0, shown.out, ""), group
        assert shown.out
        assert typed(group, "--help") == shown


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("zzzzzz", "run `memvault help --all` to list the commands"),
        ("--zzzzzz", "see `memvault help --all`"),
        ("git zzzzzz", "run `memvault git --help` to list the commands"),
        ("list --zzzzzz", "see `memvault list --help`"),
    ],
)
def test_unknown_command_hint_shows_help_page(run: Run, line: str, hint: str) -> None:
    """If no name is close, the hint refers to the help page that lists the names."""
    ran = run(*line.split())
    refused(ran, 2)
    assert f"hint: {hint}" in ran.err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("type", "types"),
        ("goal get", "goals get"),
        ("memory get", "memories get"),
        ("plan get", "plans get"),
        ("models list", "model list"),
        ("tool lists", "tools list"),
        ("facts recall x", "fact recall x"),
    ],
)
def test_command_accepts_plural_or_singular(run: Run, typed: str, meant: str) -> None:
    """A command or group can be singular or plural, unless something else has that name."""
    assert succeeded(run(*typed.split())) == run(*meant.split())


def test_vault_tool_wins_over_singular_or_plural_command(run: Run, folder: Path) -> None:
    """A vault's tool takes precedence over a command in the other grammatical number."""
    write(
        folder,
        "tools/goal.md",
        "---\nname: goal\ndescription: Says a goal\ncommand: [echo, '{}']\n---\n",
    )
    assert "tools trust goal" in run("goal").err


@pytest.mark.parametrize(
    ("call", "note"),
    [
        (("memory_recall", {"query": "x", "memoryType": "bugs"}), "did you mean issue?"),
        (("memory_recall", {"query": "x", "memoryType": "Vector"}), "; pass `type=vector`"),
        (("memory_recall", {"memoryType": "isue"}), "did you mean issue?"),
        (
            ("memory_recall", {"query": "x", "tags": ["birds"]}),
            "no tag 'birds'; did you mean bird?",
        ),
        (("memory_recall", {"query": "brid", "type": "tag"}), "did you mean bird?"),
        (("memory_search", {"query": "brid", "type": "Tag"}), "did you mean bird?"),
        (("memory_list", {"memoryType": "decision"}), "architectural-decision or design-decision?"),
        (("memory_list", {"memoryType": "zzz"}), "memory_list_types"),
        (("memory_list", {"memoryType": "Issue", "tags": ["bird", "zzz"]}), "no tag 'zzz'"),
    ],
    ids=str,
)
@pytest.mark.usefixtures("notes")
def test_unknown_type_or_tag_suggests_the_closest(
    vault: Vault, call: tuple[str, dict[str, Any]], note: str
) -> None:
    """A search for an unused type or tag finds nothing and suggests an existing one."""
    found = called(vault, call[0], **call[1])
    assert [entry for entry in found["warnings"] if note in entry], found


@pytest.mark.usefixtures("notes")
def test_existing_type_gets_no_hint(vault: Vault) -> None:
    """An unused standard type, or a search with results, does not add a hint."""
    assert "warnings" not in vault.call("memory_list", memoryType="learning")
    assert "warnings" not in vault.call("memory_recall", query="x", memoryType="Issue")


def test_tag_keeps_inner_dash(vault: Vault) -> None:
    """Only a dash at the start of a line is a bullet; a dash inside a tag is kept."""
    kept = vault.call(
        "memory_remember", title="T", content="c", memoryType="fact", tags="- in - out\n* x"
    )
    assert vault.call("memory_show", memId=kept["memId"])["tags"] == ["in---out", "x"]


@pytest.mark.parametrize(
    ("line", "said"),
    {
        "talk agent plannre Hello": "plannre is a new agent; did you mean planner?",
        "talk brain dreams Hello": "'dreams' is a new brain; did you mean dream?",
        "talk brain primray Hello": "'primray' is a new brain; did you mean primary?",
        "memories get deadlien": "there is no memory 'deadlien'; did you mean deadline?",
        "recall @nihgt": "there is no saved search 'nihgt'; did you mean night?",
        "list tag:brid": "there is no tag 'brid'; did you mean bird?",
        "tags brid": "No memory has the tag 'brid'; did you mean bird?",
        "skills list life.dg": "There are no skills below 'life.dg'; did you mean life.dig?",
        "skills subcategories lief": "it has no skills; did you mean life?",
        "skills use life.dig.dep Now": "did you mean life.dig.deep? if not, answer it with",
        "searches delete nihgt": "did you mean night?",
        "recall owls --vaults wrk": "did you mean work?",
        "list --vault wrk": "did you mean work?",
        "tokens add ann --vaults wrk": "did you mean work?",
        "tokens remove an": "did you mean ann?",
    }.items(),
)
def test_unknown_name_suggests_the_closest(run: Run, known: Path, line: str, said: str) -> None:
    """An error, a note or an empty result about an unknown name suggests the closest known name."""
    ran = run(*line.split(), cwd=known)
    assert said in ran.out + ran.err
    assert "Traceback" not in ran.err


@pytest.fixture
def known(notes: Path, vault: Vault, run: Run) -> Path:
    """A vault with an agent, a brain, a value, a search and a skill, and a token for it."""
    called(vault, "talk_agent", agent="planner", message="Hello")
    called(vault, "talk_brain", subbrain="dream", message="Hello")
    called(vault, "set_memories", memories=[{"key": "deadline", "value": "Monday"}])
    called(vault, "save_search", name="night", query="night")
    skill = {"procedurePrompt": "Dig.", "skillId": "life.dig.deep"}
    called(vault, "store_procedure", procedureName="Dig", **skill)
    succeeded(run("vaults", "add", "work", "."))
    succeeded(run("tokens", "add", "ann", "--vaults", "work"))
    return notes
