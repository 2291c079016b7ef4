"""A prompt is judged by the part that asks, not by pasted material."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memvault.recall.request_text import request_lines

CODE = "def total(items):\n    return sum(items)"
LOG = "2026-03-02 11:04:21 ERROR the worker stopped\n2026-03-02 11:04:22 INFO restarting"
TRACE = (
    'Traceback (most recent call last):\n  File "a.py", line 3, in run\n    go()\nValueError: no'
)
TABLE = "| name | size |\n|---|---|\n| a | 1 |"
QUOTE = "> could we rename this\n> before Friday?"


@pytest.mark.parametrize("pasted", [CODE, LOG, TRACE, TABLE, QUOTE])
@pytest.mark.parametrize(
    "prompt",
    [
        "fix this:\n{}",
        "fix this:\n\n{}",
        "fix this:\n```py\n{}\n```",
        "fix this:\n~~~\n{}",
        "{}\n\nfix this:",
    ],
)
def test_pasted_material_is_removed_from_prompt(prompt: str, pasted: str) -> None:
    """Code, logs, stack traces, tables and quotes do not count, before or after the request."""
    assert request_lines(prompt.format(pasted)) == "fix this:"


@pytest.mark.parametrize(
    "prompt",
    [
        "which port does the gateway use",
        "Why does `src/parser.py:12` split at a semicolon?",
        "- rename the flag\n- write a test\n- update the changelog",
        "把数据库迁移到新服务器，然后告诉我端口是多少",
        LOG,
    ],
)
def test_prompt_without_pasted_material_is_unchanged(prompt: str) -> None:
    """A short prompt of prose keeps its words, and so does one that is nothing but a log."""
    assert request_lines(prompt).split() == prompt.split()


def test_long_prose_is_reduced_to_its_requests() -> None:
    """Long prose is reduced to its questions or, without one, to its start and end."""
    filler = "I read all of it yesterday and it looks good to me. " * 5
    text = f"Thanks a lot. {filler}Which port does it use? {filler}Is it open? Go on."
    assert request_lines(text) == "Which port does it use?\nIs it open?"
    text = f"Rename the flag. {filler}Write a test. Update the docs. Go on."
    assert request_lines(text) == "Rename the flag.\nWrite a test.\nUpdate the docs.\nGo on."
    filler = "昨天我看了所有的文件，觉得没有问题。" * 15
    assert request_lines(f"谢谢你。{filler}网关用哪个端口？{filler}") == "网关用哪个端口？"


@given(st.text(alphabet="a `~\n\t>|:{}?.1\\", max_size=300))
def test_any_prompt_yields_a_request(prompt: str) -> None:
    """Any text is accepted, and one with visible characters never becomes empty."""
    assert bool(request_lines(prompt).strip()) == bool(prompt.strip())


@pytest.mark.parametrize("line", ["```\n", "> \n", " ", "a:1: ", "|", "\t", "(", "a  a  ", "/"])
def test_huge_prompt_is_read_within_time_limit(line: str) -> None:
    """A prompt of a megabyte is read within the hook's time limit, with the request at its end."""
    text = line * (1_000_000 // len(line))
    started = time.monotonic()
    request_lines(text)
    assert time.monotonic() - started < 1
    prompt = f"{LOG}\n" * 20_000 + "\n\nwhich port does it use?"
    assert "which port does it use?" in request_lines(prompt).splitlines()[-1]
