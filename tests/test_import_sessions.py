"""Sessions of agents become one episode each, with requests, actions and decisions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, succeeded, write
from import_sources import opencode as opencode_source
from memvault.importers.sessions import Session
from memvault.vault import markdown

_FIRST = "10000000-0000-4000-8000-000000000000"


def line(kind: str, minute: int, content: Any, session: str = "s1", **more: Any) -> dict[str, Any]:
    """Return an entry of Claude Code's record, with an id based on its minute."""
    message = {"role": kind, "content": content, **more.pop("message", {})}
    return {
        "type": kind,
        "uuid": f"u{minute}",
        "parentUuid": f"u{minute - 1}" if minute else None,
        "sessionId": session,
        "isSidechain": False,
        "cwd": "/home/ana/shop",
        "timestamp": f"2026-11-18T09:{minute:02}:00.000Z",
        "message": message,
        **more,
    }


def text(said: str) -> list[dict[str, Any]]:
    """Return an answer's content."""
    return [{"type": "text", "text": said}]


def record(folder: Path, name: str, *entries: dict[str, Any]) -> Path:
    """Write a record of a project."""
    lines = "".join(f"{json.dumps(entry)}\n" for entry in entries)
    return write(folder, f"projects/shop/{name}.jsonl", lines)


class Episodes:
    """The episodes of an import, and its result."""

    def __init__(self, run: Run, vault: Path, source: Path, kind: str = "claude-code") -> None:
        self.found = succeeded(run("import", str(source), "--from", kind, "--yes", "--json")).json
        self.omitted = {one["name"]: one["count"] for one in self.found.get("notConverted", ())}
        self.texts = [path.read_text("utf-8") for path in sorted((vault / "episode").iterdir())]

    @property
    def body(self) -> str:
        """The text of the only episode below its header."""
        [whole] = self.texts
        return whole.split("---\n", 2)[2].strip()


def test_episode_sentences_are_unique(run: Run, folder: Path, tmp_path: Path) -> None:
    """The last answer is the reflection, earlier decisions are outcomes, and neither is JSON."""
    earlier = "We decided to round prices to cents. That took long."
    last = "Prices are exact now. We will use decimals from now on."
    made = record(
        tmp_path,
        "s1",
        line("user", 0, "Let's use decimals for all prices. Fix the tests."),
        line("assistant", 1, text(f'{earlier}\n\n{{"we decided": "instead of this"}}')),
        line("user", 2, "continue"),
        line("user", 3, "continue"),
        line("assistant", 4, text(last)),
    )
    assert Episodes(run, folder, made).body == (
        "## Context\n\n- In /home/ana/shop\n"
        "- Asked: Let's use decimals for all prices. Fix the tests.\n- Asked: continue\n\n"
        "## Outcomes\n\n- decision: We decided to round prices to cents.\n"
        f"- answer: given without tools\n\n## Reflection\n\n{last}"
    )
    shown = succeeded(run("episode", "recall", "decimals for prices", "--json")).json["episodes"][0]
    assert "decision, We decided to round prices to cents." in shown["summary"]


def test_episode_markdown_characters_are_escaped(run: Run, folder: Path, tmp_path: Path) -> None:
    """No tag, link, comment or open fence of a session changes its episode or the vault."""
    source = record(
        tmp_path,
        "a",
        line("user", 0, "Look <!-- c --> at [[x]] and #tag `<pre>` ```"),
        line(
            "assistant",
            1,
            [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "[[ -f a ]]"}}],
        ),
        line("assistant", 2, text("We decided on #one here <!-- open\n\n# Two\n\n```\n#code")),
    )
    body = Episodes(run, folder, source.parent).body
    assert "Asked: Look \\<!-- c --> at \\[[x]] and \\#tag `<pre>` ```" in body
    assert "Ran \\[[ -f a ]]" in body
    assert body.endswith("We decided on \\#one here \\<!-- open\n\n### Two\n\n```\n#code\n```")
    assert not list(markdown.tags(body))


@pytest.mark.parametrize(
    "more",
    [
        {"isApiErrorMessage": True},
        {"message": {"model": "<synthetic>"}},
        {},
    ],
)
def test_session_api_errors_are_not_answers(
    more: dict[str, Any], run: Run, folder: Path, tmp_path: Path
) -> None:
    """An API error is not an answer; the episode states that the session ended with an error."""
    error = 'API Error: 529 {"type":"error","error":{"type":"overloaded_error"}}'
    made = record(
        tmp_path,
        "s1",
        line("user", 0, "Fix the tax"),
        line("assistant", 1, text("Half of it is done.")),
        line("assistant", 2, text(error), **more),
    )
    body = Episodes(run, folder, made).body
    assert "529" not in body
    assert "- action_error: It ended with a program error\n" in body
    assert body.endswith("Half of it is done.")
    record(
        tmp_path,
        "s1",
        line("user", 0, "Fix the tax"),
        line("assistant", 1, text(error), **more),
        line("assistant", 2, text("All done.")),
    )
    body = Episodes(run, folder, made).body
    assert "action_error" not in body
    assert body.endswith("All done.")


@pytest.mark.parametrize(
    "written",
    [
        "<task-notification>\n<task-id>b1</task-id>\nThe task is done\n</task-notification>",
        "<command-name>/fix</command-name>\n<command-args>it</command-args>",
        "<local-command-stdout>4 files</local-command-stdout>",
        "<bash-input>ls</bash-input>",
        "<bash-stdout>4 files</bash-stdout><bash-stderr></bash-stderr>",
        "[Request interrupted by user for tool use]",
        "This session is being continued from a previous conversation that ran out of context.",
        "Caveat: The messages below were generated by the user while running local commands.",
        "Stop hook feedback:\nrun the tests",
        "<user-prompt-submit-hook>remember</user-prompt-submit-hook>",
        "<system-reminder>be brief",
        "/compact",
        "# AGENTS.md instructions for /home/ana/shop\n\n<INSTRUCTIONS>x</INSTRUCTIONS>",
    ],
)
def test_session_messages_from_the_program_are_not_prompts(written: str) -> None:
    """Notifications, commands, their output, hooks and summaries are not user prompts."""
    session = Session("claude-code", "s")
    session.add_prompt(written)
    assert session.prompts == []


@pytest.mark.parametrize(
    "written",
    ["Caveat: mind the gap", "/home/ana/shop is broken", "# AGENTS.md needs a line", "<b>x</b>"],
)
def test_session_prompts_resembling_commands_are_imported(written: str) -> None:
    """Prompts that start with a path, a heading or a program's keyword are imported."""
    session = Session("claude-code", "s")
    session.add_prompt(written)
    assert session.prompts == [written]


def test_session_meta_messages_are_not_prompts(run: Run, folder: Path, tmp_path: Path) -> None:
    """Meta messages, summaries and subagents are counted; a queued prompt counts as asked."""
    queued = {"type": "queued_command", "prompt": "Also the docs", "commandMode": "prompt"}
    told = {"type": "queued_command", "prompt": "Task done", "commandMode": "task-notification"}
    made = record(
        tmp_path,
        "s1",
        line("user", 0, "Caveat", isMeta=True),
        line("user", 1, "Fix the tax"),
        line("user", 2, "A summary", isCompactSummary=True),
        line("user", 3, [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]),
        line("user", 4, "Sub-task", isSidechain=True),
        {**line("attachment", 5, ""), "message": None, "attachment": queued},
        {**line("attachment", 6, ""), "message": None, "attachment": told},
        {"type": "progress", "uuid": "p"},
        line("assistant", 7, [{"type": "thinking", "thinking": "…"}, *text("Done.")]),
        line("assistant", 8, text("No response requested."), message={"model": "<synthetic>"}),
    )
    write(
        tmp_path,
        "projects/shop/agent-1.jsonl",
        json.dumps(line("user", 1, "Sub", isSidechain=True)),
    )
    got = Episodes(run, folder, made.parent)
    assert got.body.count("Asked:") == 2
    assert "- Asked: Also the docs" in got.body
    assert got.body.endswith("- answer: given without tools\n\n## Reflection\n\nDone.")
    assert got.omitted == {
        "message from the program": 3,
        "subagent message": 1,
        "subagent session": 1,
        "entry attachment": 1,
        "entry progress": 1,
        "block thinking": 1,
    }


def test_session_resumed_is_one_episode(run: Run, folder: Path, tmp_path: Path) -> None:
    """A copy with another session id, or a fork, updates the episode, even if imported alone."""
    first = [line("user", 0, "Fix the tax"), line("assistant", 1, text("Tax is fixed."))]
    made = record(tmp_path, "s1", *first)
    assert Episodes(run, folder, made).found["new"] == 1
    copied = [{**one, "sessionId": "a2"} for one in first]
    more = [line("user", 2, "And the docs", "a2"), line("assistant", 3, text("Docs too."), "a2")]
    resumed = record(tmp_path, "a2", *copied, *more)
    got = Episodes(run, folder, resumed)
    assert (got.found["new"], got.found["changed"]) == (0, 1)
    assert got.body.count("Asked: ") == 2
    origin = {"sessionId": "a2", "messageUuid": ""}
    forked = [
        {
            **one,
            "sessionId": "f3",
            "uuid": f"f{one['uuid']}",
            "forkedFrom": {**origin, "messageUuid": one["uuid"]},
        }
        for one in [*copied, *more]
    ]
    record(tmp_path, "f3", *forked, line("user", 9, "And the changelog", "f3"))
    got = Episodes(run, folder, made.parent)
    assert (got.found["new"], got.found["changed"]) == (0, 1)
    assert got.body.count("Asked: ") == 3
    assert got.body.count("Fix the tax") == 1
    again = Episodes(run, folder, made.parent).found
    assert (again["new"], again["changed"], again["unchanged"]) == (0, 0, 1)


def test_edited_episode_is_not_updated(run: Run, folder: Path, tmp_path: Path) -> None:
    """A user's edits to an episode are kept and reported."""
    first = [line("user", 0, "Fix the tax"), line("assistant", 1, text("Tax is fixed."))]
    made = record(tmp_path, "s1", *first)
    Episodes(run, folder, made)
    [path] = (folder / "episode").iterdir()
    path.write_text(path.read_text("utf-8") + "\nMine.\n", "utf-8")
    record(tmp_path, "s1", *first, line("user", 2, "More"))
    got = Episodes(run, folder, made)
    assert got.found["edited"] == [f"episode/{path.name}"]
    assert got.body.endswith("Mine.")


def test_session_title_ignores_other_summaries_and_errors(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """A summary of another session or an error is not a title; the user's own title wins."""
    said = [line("user", 0, "/clear"), line("user", 1, "Fix the tax")]
    other = {"type": "summary", "summary": "Another session", "leafUuid": "elsewhere"}
    record(tmp_path, "a", other, *said)
    own = {"type": "summary", "summary": "Tax of books", "leafUuid": "u11"}
    record(tmp_path, "b", own, line("user", 11, "Fix it"))
    named = {"type": "custom-title", "customTitle": "My tax", "sessionId": "c"}
    record(tmp_path, "c", {**own, "leafUuid": "u21"}, line("user", 21, "Fix it"), named)
    failed = {"type": "summary", "summary": "API Error: 401", "leafUuid": "u31"}
    record(tmp_path, "d", failed, line("user", 31, "Fix that"))
    Episodes(run, folder, tmp_path / "projects")
    names = {path.stem for path in (folder / "episode").iterdir()}
    assert {name.partition(" ")[2] or name for name in names} == {
        "Fix the tax",
        "Tax of books",
        "My tax",
        "Fix that",
    }


def rollout(folder: Path, name: str, *entries: tuple[str, dict[str, Any]]) -> Path:
    """Write a Codex record."""
    lines = [
        json.dumps(
            {"timestamp": f"2026-11-19T10:00:{number:02}.000Z", "type": kind, "payload": one}
        )
        for number, (kind, one) in enumerate(entries)
    ]
    return write(folder, f"sessions/rollout-{name}.jsonl", "\n".join(lines))


def said(kind: str, text: str) -> tuple[str, dict[str, Any]]:
    """Return a Codex event."""
    return "event_msg", {"type": f"{kind}_message", "message": text}


def test_codex_forked_sessions_are_one_episode(run: Run, folder: Path, tmp_path: Path) -> None:
    """A session and its fork, which repeats its lines, are one episode in either import order."""
    meta = ("session_meta", {"id": "a", "cwd": "/home/ana/shop", "source": "cli"})
    first = [said("user", "Round prices"), said("agent", "Prices are rounded.")]
    made = rollout(tmp_path, "1-a", meta, *first)
    Episodes(run, folder, made, "codex")
    fork = ("session_meta", {"id": "b", "forked_from_id": "a", "cwd": "/home/ana/shop"})
    more = [said("user", "Also taxes"), ("event_msg", {"type": "error", "message": "x"})]
    alone = rollout(tmp_path, "2-b", fork, meta, *first, *more)
    agent = ("session_meta", {"id": "c", "forked_from_id": "a", "source": {"subagent": "review"}})
    rollout(tmp_path, "3-c", agent, *first, said("user", "Review it"))
    for source in (alone, made.parent):
        got = Episodes(run, folder, source, "codex")
        assert got.found["new"] == 0
        assert got.body.count("Asked: ") == 2
        assert got.body.count("Round prices") == 1
        assert "- action_error: It ended with a program error" in got.body
    assert got.omitted["subagent session"] == 1


def test_gemini_session_files_become_one_episode(run: Run, folder: Path, tmp_path: Path) -> None:
    """A session continued in another file is one episode; checkpoints and logs are ignored."""
    about = {"sessionId": "g1", "projectHash": "h", "startTime": "2026-11-20T08:00:00.000Z"}

    def asked(key: str, text: str) -> dict[str, Any]:
        return {"id": key, "type": "user", "content": [{"text": text}]}

    failed = {"id": "9", "type": "error", "content": "429"}
    chats = tmp_path / "tmp/h/chats"
    one = {**about, "messages": [asked("1", "Write a changelog")]}
    write(chats, "session-1.json", json.dumps(one))
    referenced = "And docs @a.md\n--- Content from referenced files ---\nlong"
    two = {**about, "messages": [*one["messages"], asked("2", referenced), failed]}
    write(chats, "session-2.json", json.dumps(two))
    write(tmp_path, "tmp/h/checkpoint-x.json", "[]")
    write(tmp_path, "tmp/h/logs.json", json.dumps([{"sessionId": "g1", "message": "x"}]))
    got = Episodes(run, folder, tmp_path / "tmp", "gemini")
    assert got.body.startswith(
        "## Context\n\n- Asked: Write a changelog\n- Asked: And docs @a.md\n\n"
    )
    assert got.omitted == {"checkpoint": 1, "message error": 1}
    assert "unreadable" not in got.found


def test_opencode_inserted_text_is_skipped(run: Run, folder: Path, tmp_path: Path) -> None:
    """Inserted text, compaction summaries and subagent sessions are counted."""
    messages: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        (
            {"role": "user"},
            [
                {"type": "text", "text": "Add a rate"},
                {"type": "text", "text": "Called the Read tool", "synthetic": True},
                {"type": "text", "text": "hidden", "ignored": True},
            ],
        ),
        ({"role": "assistant"}, [{"type": "text", "text": "Added."}, {"type": "step-finish"}]),
        ({"role": "assistant", "summary": True}, [{"type": "text", "text": "In short"}]),
        ({"role": "assistant", "error": {"name": "APIError"}}, []),
    ]
    titles = {"ses_1": "New session - 2026", "ses_2": "Sub"}
    opencode_source.write_sessions(tmp_path / "opencode.db", titles, messages)
    got = Episodes(run, folder, tmp_path / "opencode.db", "opencode")
    assert got.body.count("Asked") == 1
    assert got.body.endswith("Added.")
    assert "- action_error: It ended with a program error" in got.body
    assert (folder / "episode/2025-11-19 Add a rate.md").is_file()
    assert got.omitted == {
        "subagent session": 1,
        "message from the program": 3,
        "part step-finish": 1,
    }
