"""Plain command lines are parsed without Typer, with the same result, and exit quickly."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conftest import ROOT, examples, sampled, write
from loaded_modules import all_loaded
from memvault.arguments.parameters import Parameter
from memvault.cli import command_line, typer_app
from memvault.cli.command_line import SHORT_FLAGS, option_names
from memvault.cli.options import GLOBAL_OPTIONS, GlobalOptions
from memvault.cli.registry import CliCommand, find_command
from memvault.command_table import COMMANDS, TOOLS
from memvault.errors import UsageError

WORDS = sorted({command.words for command in COMMANDS})
VALUES = (
    *("word", "two words", "", "ä", "\udcff", "3", "0.5", "1e3", "1_0", " 7 ", "nan", "many", "٣"),
    *("a,b", "[1, 2]", '["a"]', "{}", "k=v", "=", "@file", "@@x", "true", "2026-01-01", "\ufdd00"),
    *("-", "--", "-5", "-0.5", "-x", "- a list", "--limit", "--limit=3 x", "-n5"),
)
"""Values typed on the command line: valid, invalid and unusual."""
OTHERS = ("--help", "-h", "-V", "--version", "--nope", "--nope=1", "-x", "-nT", "---", "-=", "--=x")


def lines(words: str) -> st.SearchStrategy[list[str]]:
    """Generate lines of a command, with valid and invalid options and values."""
    command = find_command(words)
    assert command is not None
    flags = [flag for _, flag, *_ in GLOBAL_OPTIONS]
    values = [*VALUES]
    for parameter in command.shell_parameters:
        forms, negative = option_names(parameter)
        values += map(str, parameter.choices)
        flags += [*forms, *filter(None, (negative, f"--{parameter.key}", f"--{parameter.name}"))]
    value = st.one_of(st.sampled_from(values), st.sampled_from(values), st.text(max_size=3))
    flag = st.sampled_from([*flags, *flags, *SHORT_FLAGS.values()])
    piece = st.one_of(
        value.map(lambda text: [text]),
        flag.map(lambda name: [name]),
        st.builds(lambda *pair: [*pair], flag, value),
        st.builds(lambda *pair: ["=".join(pair)], flag, value),
        st.builds(lambda *pair: ["".join(pair)], flag, value),
        st.sampled_from([*OTHERS, "--"]).map(lambda name: [name]),
    )
    before = st.sampled_from([[], [], [], ["--json"], ["--vault", "x"], ["--agent=bob"], ["-"]])
    names = [words.split(" "), [words], *([entry.tool] for entry in TOOLS if entry.words == words)]

    def joined(named: list[str], early: list[list[str]], rest: list[list[str]]) -> list[str]:
        parts = [[*option, word] for option, word in zip(early, named, strict=False)]
        return [word for part in (*parts, *rest) for word in part]

    return st.builds(
        joined,
        st.sampled_from(names),
        st.lists(before, min_size=3, max_size=3),
        st.lists(piece, max_size=5),
    )


class Parsed:
    """Typer's result for a line: the command, the values of its parameters, the options."""

    def __init__(self, line: list[str]) -> None:
        self.options = GlobalOptions.from_environment()
        parsed = typer_app.parse(line, self.options)
        assert parsed is not None
        self.command, self.name = parsed.command, parsed.name
        self.options.update(**parsed.shared)
        self.values: dict[str, Any] = {}
        for parameter in parsed.command.shell_parameters:
            value = parsed.values[parameter.name]
            if isinstance(value, list):
                value = [self.options.unescape(text) for text in value]
            elif isinstance(value, str):
                value = self.options.unescape(value)
            self.values[parameter.name] = value


def _state(options: GlobalOptions) -> dict[str, Any]:
    return {name: value for name, value in vars(options).items() if not name.startswith("_")}


@sampled(8)
@pytest.mark.parametrize("words", WORDS)
def test_plain_command_line_parses_as_with_typer(words: str) -> None:
    """A plain line yields the same values, types and order as Typer, or is passed to Typer."""

    @settings(max_examples=examples(80))
    @example([*words.split(), "-ntwo words"])
    @example([*words.split(), "-T=two words"])
    @given(lines(words))
    def agree(line: list[str]) -> None:
        plain = command_line.parse(line)
        if plain is None:
            return
        options = GlobalOptions.from_environment()
        if plain.shared["vault"] == "":
            with pytest.raises(UsageError):
                options.update(**plain.shared)
            with pytest.raises(UsageError):
                Parsed(line)
            return
        parsed = Parsed(line)
        options.update(**plain.shared)
        if isinstance(plain.command, CliCommand):
            options.json = options.json or plain.command.always_json
        assert (plain.command, plain.name) == (parsed.command, parsed.name)
        assert repr(plain.values) == repr(parsed.values)  # nan is not equal to itself
        assert _state(options) == _state(parsed.options)

    agree()


@pytest.mark.parametrize("words", WORDS)
def test_every_parameter_is_parsed_without_typer(words: str) -> None:
    """A line with one value for each parameter of a command needs no Typer."""
    command = find_command(words)
    assert command is not None
    line = words.split()
    for parameter in command.shell_parameters:
        names, negative = option_names(parameter)
        if parameter.arg.positional:
            line.append("1")
        elif parameter.types == (bool,):
            line.append(negative or names[0])
        else:
            line += [names[-1], "1", f"{names[0]}=2"]
    plain = command_line.parse(line)
    assert plain is not None
    assert all(value is not None for value in plain.values.values())
    assert [entry.key for entry in command.shell_parameters if _is_lost(entry, plain.values)] == []


def _is_lost(parameter: Parameter, values: Mapping[str, Any]) -> bool:
    """Return whether a list option has lost one of its two values."""
    is_option = list in parameter.types and not parameter.arg.positional
    return is_option and values[parameter.name] != ["1", "2"]


_BLOCK = re.compile(r"^```(?:console|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"[^\"$`\\]*\"")
_ENDS = re.compile(r"[|&;<>]")
_MARKS = {*"$`\\*?~{#"}
"""Characters that a shell interprets."""
NOT_PLAIN = (
    "memvault word_count",  # a vault's own tool
    "memvault world move -3 -4 ",  # negative numbers
    "memvault recal anything",  # a mistake that Typer explains
    "memvault recall anything --limit many",
)
"""Beginnings of common command lines that Typer must parse."""


def usual_lines() -> list[str]:
    """Return the commands in README, the guide and the transcripts, without shell syntax."""
    found = []
    pages = [
        ROOT / "README.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("tests/transcripts/*.md"),
    ]
    for page in pages:
        for block in _BLOCK.findall(page.read_text("utf-8")):
            shown = block.startswith("$ ")
            for line in block.splitlines():
                if shown and not line.startswith("$ "):
                    continue
                command = line.removeprefix("$ ")
                hidden = _QUOTED.sub(lambda text: "x" * len(text[0]), command)
                end = _ENDS.search(hidden)
                command = command[: end.start()] if end else command
                if command.startswith("memvault ") and not _MARKS & {*hidden[: len(command)]}:
                    found.append(command)
    return found


def test_documented_commands_are_parsed_without_typer() -> None:
    """Documented commands need no Typer, except for mistakes, negative numbers and custom tools."""
    usual = usual_lines()
    assert len(usual) > 250
    asked = [line for line in usual if command_line.parse(shlex.split(line)[1:]) is None]
    assert [line for line in asked if not line.startswith(NOT_PLAIN)] == []
    assert len(asked) <= 8


UNNEEDED = {"typer", "click", "inspect", "subprocess", "difflib", "uuid", "ast", "platformdirs"}


@pytest.mark.skipif(
    sys.platform != "linux", reason="platformdirs finds the folders on other systems"
)
def test_plain_command_line_does_not_import_typer(folder: Path, subtests: pytest.Subtests) -> None:
    """A plain command line imports neither Typer nor the modules that only Typer needs."""
    write(folder, "fact/a.md", "# Wombats\n\nThey dig.\n")
    all_loaded(folder, "recall", "wombats")  # indexes the existing files
    for line, more in (
        ("recall wombats --mode keyword", {"yaml", "decimal", "shutil"}),
        ("show Wombats", {"decimal", "shutil"}),
        ("list --limit 1", {"yaml", "decimal", "shutil"}),
        ("inbox peek", {"yaml", "decimal", "shutil", "hashlib"}),
        ("goals get", {"yaml", "decimal", "shutil", "hashlib"}),
    ):
        found = all_loaded(folder, *line.split())
        unneeded = UNNEEDED | more
        with subtests.test(line=line):
            assert found & unneeded == set()
    found = all_loaded(folder, "recall", "wombats")  # numpy itself loads inspect
    assert found & (UNNEEDED - {"inspect", "ast"} | {"yaml", "decimal", "shutil"}) == set()
    assert "numpy.ma" not in found
    assert "typer" in all_loaded(folder, "list", "--Limit", "1")


class Ended:
    """The result of a program that ran the command line: exit code, output, and kind of exit."""

    def __init__(self, folder: Path, code: str = "", words: tuple[str, ...] = ("goals", "get")):
        begin = f"import atexit, os, sys\nsys.argv = ['memvault', *{words!r}]"
        run = "from memvault.__main__ import main\nsys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-v", "-c", f"{begin}\n{code}\n{run}"],
            cwd=folder,
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        self.code, self.out = done.returncode, done.stdout
        self.was_taken_apart = "# cleanup" in done.stderr  # ``python -v`` prints this line


def test_command_exit_skips_interpreter_teardown(folder: Path) -> None:
    """A command runs exit handlers, flushes all output and exits with the right code."""
    handler = "atexit.register(print, 'handled')"
    ended = Ended(folder, handler)
    assert (ended.code, ended.out) == (0, "There are no goals\nhandled\n")
    assert not ended.was_taken_apart
    failed = Ended(folder, handler, ("show", "nothing"))
    assert (failed.code, failed.out, failed.was_taken_apart) == (1, "handled\n", False)


THREAD = """
import threading, time
threading.Thread(target=lambda: (time.sleep(0.5), print("worked"))).start()
"""


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (THREAD, "worked\n"),
        ("sys.setprofile(lambda *_: None)", ""),
        ("sys.settrace(lambda *_: None)", ""),
    ],
    ids=["thread", "profiler", "tracer"],
)
def test_command_exit_waits_for_threads_and_tracers(folder: Path, code: str, says: str) -> None:
    """Running threads, profilers and coverage tools finish before the process exits."""
    ended = Ended(folder, code)
    assert (ended.code, ended.out) == (0, f"There are no goals\n{says}")
    assert ended.was_taken_apart


def test_command_line_works_under_profiler(folder: Path) -> None:
    """A command can run under Python's profiler, which reports when the command ends."""
    line = [sys.executable, "-m", "cProfile", "-m", "memvault", "goals", "get"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("There are no goals\n")
    assert "function calls" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_command_line_reports_failed_flush_at_exit(folder: Path) -> None:
    """Output that can't be written at exit causes exit code 120, as in any Python program."""
    full = "os.dup2(os.open('/dev/full', os.O_WRONLY), 1)"
    assert Ended(folder, f"atexit.register(lambda: ({full}, print('late')))").code == 120
