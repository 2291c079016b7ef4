"""What an agent is told of memvault is true, in every form."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import frontmatter
import pytest

from conftest import ROOT, Run, succeeded
from memvault.cli.options import GLOBAL_OPTIONS
from memvault.command_table import COMMANDS
from memvault.tools.core import agent_guide, registry

TEXTS = (
    agent_guide.agents_page,
    agent_guide.instructions,
    agent_guide.claude_skill,
    agent_guide.plain_text,
)
NAMES = {command.words for command in COMMANDS}


def command_of(words: list[str]) -> str:
    """Return the command that a line begins with; it must be one."""
    found = [" ".join(words[:count]) for count in (1, 2) if " ".join(words[:count]) in NAMES]
    assert found, words
    return found[-1]


@pytest.mark.parametrize("text", TEXTS)
def test_every_command_that_is_named_exists(text: Callable[[], str]) -> None:
    """Each command in the text is one, and has the options that the text gives it."""
    shared = {flag for _, flag, *_ in GLOBAL_OPTIONS} | {"--help"}
    lines = re.findall(r"(?:`|^\$ )memvault ((?:\w|-)+[^`\n]*)", text(), re.MULTILINE)
    assert lines or text is agent_guide.plain_text
    for line in lines:
        words = shlex.split(line)
        if words[0] == "COMMAND":
            continue
        name = command_of(words)
        tool = registry.lookup(name.replace(" ", "_"))
        known = (
            {word for entry in tool.shell_parameters for word in entry.flag.split("/")}
            if tool
            else set()
        )
        for word in words:
            if word.startswith("--"):
                assert word.partition("=")[0] in known | shared, line


def test_the_template_says_the_same() -> None:
    """A new vault's AGENTS.md is the page that the program prints."""
    assert (ROOT / "vault-template/AGENTS.md").read_text("utf-8") == agent_guide.agents_page()


def test_a_skill_for_claude_keeps_its_limits(tmp_path: Path, run: Run) -> None:
    """The skill's name and description are as its specification wants them."""
    succeeded(run("skill", "--as", "claude", "--out", str(tmp_path)))
    file = tmp_path / "memvault" / "SKILL.md"
    found = frontmatter.load(str(file))
    assert re.fullmatch(r"[a-z0-9-]{1,64}", str(found["name"]))
    assert file.parent.name == found["name"]
    assert 0 < len(str(found["description"])) <= 1_024
    assert not {"<", ">"} & set(str(found["description"]))
    assert len(found.content.splitlines()) < 500


def test_plain_text_has_no_marks() -> None:
    """The plain form is the same text without what markdown adds."""
    text = agent_guide.plain_text()
    assert not re.search(r"^#|^\||\*\*|`", text, re.MULTILINE)
    assert "memvault recall " in text
    assert "Five ways to write" in text


def test_instructions_over_mcp_name_tools() -> None:
    """An MCP client is told the tools' exact names, and no command."""
    text = agent_guide.mcp_instructions()
    assert "{" not in text
    assert "memvault " not in text
    for name in re.findall(r"\bmemory_\w+", text):
        assert registry.lookup(name), name


def test_a_file_that_is_there_stays(tmp_path: Path, run: Run) -> None:
    """Nothing is written over, and the same text is printed or written."""
    printed = succeeded(run("skill")).out
    assert run("skill", "--json").json["text"] == printed
    succeeded(run("skill", "--out", str(tmp_path)))
    assert (tmp_path / "AGENTS.md").read_text("utf-8") == printed
