"""Imported conversations keep their documents, files, code and structure."""

from __future__ import annotations

import importlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from conftest import Run, succeeded, write
from imported import Imported
from memvault.importers.archives import open_source
from memvault.importers.chat_text import fenced, message
from memvault.vault import markdown


def claude_message(sender: str, *blocks: Any, **more: Any) -> dict[str, Any]:
    """Return a message of Claude's export; a text is a text block."""
    content = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
    return {"sender": sender, "text": "", "content": content, "attachments": [], **more}


def claude(folder: Path, *messages: dict[str, Any], **more: Any) -> Path:
    """Write Claude's export with one conversation."""
    chat = {"uuid": "c1", "name": "Pump", "chat_messages": list(messages), **more}
    return write(folder, "data/conversations.json", json.dumps([chat])).parent


def artifact(**given: Any) -> dict[str, Any]:
    """Return a use of Claude's artifact tool."""
    return {"type": "tool_use", "name": "artifacts", "input": given}


def said(role: str, *parts: Any, to: str = "all", **more: Any) -> dict[str, Any]:
    """Return a message of ChatGPT's export."""
    content = more.pop("content", {"content_type": "text", "parts": list(parts)})
    author = {"role": role, "name": more.pop("name", None)}
    return {"author": author, "content": content, "recipient": to, "metadata": more}


def chatgpt(folder: Path, *messages: dict[str, Any], **more: Any) -> Path:
    """Write ChatGPT's export with one conversation of consecutive messages."""
    mapping = {
        str(number): {"message": one, "parent": str(number - 1) if number else None}
        for number, one in enumerate(messages)
    }
    chat = {
        "conversation_id": "g1",
        "title": "Poem",
        "mapping": mapping,
        "current_node": str(len(messages) - 1),
        **more,
    }
    return write(folder, "export/conversations.json", json.dumps([chat])).parent


def test_claude_artifacts_keep_rewrites_and_final_version(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Created and rewritten artifacts are code blocks; partial edits end with the full version."""
    made = claude(
        tmp_path,
        claude_message("human", "Write it"),
        claude_message(
            "assistant",
            artifact(command="create", id="p", title="Pump", language="python", content="a = 1\nb"),
            artifact(command="update", id="p", old_str="a = 1", new_str="a = '''\n```\n'''"),
            artifact(command="create", id="q", title="Doc", type="text/markdown", content="# One"),
            artifact(command="rewrite", id="q", content="# Two"),
        ),
    )
    got = Imported(run, folder, made, "claude")
    assert "**Pump**\n\n```python\na = 1\nb\n```\n" in got.chat
    assert "**Pump** (changed)\n\n````python\na = '''\n```\n'''\n````\n" in got.chat
    assert "**Doc**\n\n```markdown\n# One\n```\n\n**Doc**\n\n```markdown\n# Two\n```\n" in got.chat
    assert got.chat.endswith("## Pump, last version\n\n````python\na = '''\n```\n'''\nb\n````\n")
    assert got.contents["artifact version"] == 4


def test_claude_tool_and_user_files_are_imported(run: Run, folder: Path, tmp_path: Path) -> None:
    """Created files become code, given files a quote or a name; the rest is counted."""
    made = claude(
        tmp_path,
        claude_message(
            "human",
            "compare",
            attachments=[{"file_name": "a_b.md", "extracted_content": "# A\n\n```py\nx\n```\n"}],
            files=[{"file_name": "plan.pdf"}, {"file_name": "a_b.md"}],
        ),
        claude_message(
            "assistant",
            {"type": "thinking", "thinking": "secretly"},
            {
                "type": "tool_use",
                "name": "create_file",
                "input": {"path": "/home/claude/m.py", "file_text": "  x = 1\n"},
            },
            {"type": "tool_use", "name": "web_search", "input": {"query": "x"}},
            {"type": "tool_result", "content": [{"type": "text", "text": "OK"}]},
            {"type": "hologram"},
            {
                "type": "text",
                "text": "Done.",
                "citations": [
                    {"details": {"type": "web_search_citation", "url": "https://a.example/x_y"}},
                    {"title": "B [1]", "url": "https://b.example/"},
                    {"details": {"url": "javascript:1"}},
                ],
            },
            mood="happy",
        ),
        hue="blue",
    )
    got = Imported(run, folder, made, "claude")
    assert "````md\n# A\n\n```py\nx\n```\n````" in got.chat
    assert "**plan.pdf** (a file)" in got.chat
    assert got.chat.count("a\\_b.md") + got.chat.count("a_b.md") == 1
    assert "**m.py**\n\n```py\n  x = 1\n```" in got.chat
    assert "[a.example](<https://a.example/x_y>), [B \\[1\\]](<https://b.example/>)" in got.chat
    assert "javascript" not in got.chat
    assert got.omitted == {
        "block thinking": 1,
        "block tool_result": 1,
        "block hologram": 1,
        'tool use "web_search"': 1,
        "file missing from the export": 1,
        'message property "mood"': 1,
        'conversation property "hue"': 1,
    }


def test_claude_shows_the_branch_of_the_last_edit(run: Run, folder: Path, tmp_path: Path) -> None:
    """Of an edited message the last version is imported, and other branches are counted."""
    root = "00000000-0000-4000-8000-000000000000"
    links = [("m1", root), ("m2", "m1"), ("m3", "m1"), ("m4", "m3")]
    messages = [
        claude_message(
            "human" if key in "m1" else "assistant", key, uuid=key, parent_message_uuid=up
        )
        for key, up in links
    ]
    got = Imported(run, folder, claude(tmp_path, *messages), "claude")
    assert got.chat.endswith("## You\n\nm1\n\n## Claude\n\nm3\n\nm4\n")
    assert got.omitted == {"message on another branch": 1}
    chosen = claude(tmp_path, *messages, current_leaf_message_uuid="m2")
    assert Imported(run, folder, chosen, "claude").chat.endswith("m1\n\n## Claude\n\nm2\n")


def test_claude_export_split_into_folders_is_imported(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Projects and memories in separate files become notes; design chats are reported."""
    project = {
        "uuid": "p",
        "name": "Garden",
        "description": "beds",
        "prompt_template": "# Answer\n\nbriefly",
        "docs": [
            {"uuid": "d", "filename": "bees.md", "content": "# Bees"},
            {"uuid": "e", "filename": "x.csv", "content": "a,b\n1,#2"},
            {"uuid": "f", "filename": "y.pdf", "content": "# no heading"},
        ],
    }
    made = tmp_path / "export"
    write(made, "projects/p.json", json.dumps(project))
    write(made, "design_chats/d1.json", json.dumps({"uuid": "d1", "messages": []}))
    memory = {"account_uuid": "a", "memory_files": [{"path": "/work/tea.md", "content": "Green"}]}
    write(made, "memories/a.json", json.dumps(memory))
    write(made, "users.json", "[]")
    got = Imported(run, folder, made, "claude")
    assert succeeded(run("import", str(made), "--json")).json["kind"] == "claude"
    assert got.unreadable == set()
    assert got.found["otherFiles"] == ["design_chats/d1.json"]
    assert "beds\n\n## Instructions\n\n### Answer\n\nbriefly\n" in got.notes["projects/Garden.md"]
    assert got.notes["projects/Garden/bees.md"].endswith("# Bees\n")
    assert got.notes["projects/Garden/x.csv.md"].endswith("```csv\na,b\n1,#2\n```\n")
    assert got.notes["projects/Garden/y.pdf.md"].endswith("\\# no heading\n")
    assert got.notes["memory/work/tea.md"].endswith("Green\n")


def test_chatgpt_canvas_keeps_its_versions(run: Run, folder: Path, tmp_path: Path) -> None:
    """A canvas is shown as created and as rewritten; after partial edits, its last version."""
    create = {"name": "roses", "type": "document", "content": "Roses sleep.\nBeside (it)."}
    part = {"updates": [{"pattern": r"sleep\.", "multiple": False, "replacement": "wake\\1!"}]}
    unknown = {"updates": [{"pattern": "w.*e", "replacement": "x"}]}
    whole = {"updates": [{"pattern": ".*", "replacement": "All new"}]}
    steps = [
        said("user", "write"),
        said("assistant", json.dumps(create), to="canmore.create_textdoc"),
        said("tool", "ok", name="canmore.create_textdoc"),
        said("assistant", json.dumps(part), to="canmore.update_textdoc"),
        said("assistant", '{"updates": [{"pat', to="canmore.update_textdoc"),
    ]
    got = Imported(run, folder, chatgpt(tmp_path, *steps), "chatgpt")
    assert "**roses**\n\n```markdown\nRoses sleep.\nBeside (it).\n```" in got.chat
    assert '```\n{"updates": [{"pat\n```' in got.chat
    assert got.chat.endswith(
        "## roses, last version\n\n```markdown\nRoses wake\\1!\nBeside (it).\n```\n"
    )
    steps += [
        said("assistant", json.dumps(unknown), to="canmore.update_textdoc"),
        said("assistant", json.dumps(whole), to="canmore.update_textdoc"),
    ]
    got = Imported(run, folder, chatgpt(tmp_path, *steps), "chatgpt")
    assert got.chat.endswith("**roses**\n\n```markdown\nAll new\n```\n")
    assert got.omitted == {"canvas edit by regular expression": 1}


def test_chatgpt_code_and_citations_are_converted(run: Run, folder: Path, tmp_path: Path) -> None:
    """Code and its output become code blocks, and citations become links."""
    cite = "\ue200cite\ue202turn0search1\ue201"
    page = {"url": "https://a.example/", "title": "A [x]"}
    answer = (
        f"\ue203Bees\ue204 {cite}dance\ue200filecite\ue202x\ue201, says "
        '\ue200entity\ue202["people","Ada_L","x"]\ue201【3†source】【重点】.\n\n'
        f"```\n【1†a】\n```"
    )
    references = [{"matched_text": cite, "type": "grouped_webpages", "items": [page]}]
    code = {"content_type": "code", "language": "unknown", "text": "print('```')"}
    output = {"content_type": "execution_output", "text": "  ``` \n"}
    got = Imported(
        run,
        folder,
        chatgpt(
            tmp_path,
            said("user", "Do"),
            said("assistant", content=code, to="python"),
            said("tool", content=output, name="python"),
            said("assistant", answer, content_references=references),
            said("assistant", "Noted: tea", to="bio"),
            said("assistant", "search('x')", to="web"),
            said("tool", "a page", name="web"),
            said("assistant", content={"content_type": "thoughts", "thoughts": []}),
            said("assistant", content={"content_type": "super_widget", "text": "odd"}),
        ),
        "chatgpt",
    )
    assert "````python\nprint('```')\n````\n\n(output)\n\n````\n  ``` \n````" in got.chat
    link = "[A \\[x\\]](<https://a.example/>)"
    assert f"Bees ({link})dance, says Ada_L【重点】.\n\n```\n【1†a】\n```" in got.chat
    assert "**Remembered:** Noted: tea" in got.chat
    assert "```\nodd\n```" in got.chat
    assert not set(got.chat) & set("\ue200\ue201\ue202\ue203\ue204")
    assert got.omitted == {
        'tool use "web"': 1,
        "tool result web": 1,
        "message thoughts": 1,
        "message super_widget": 1,
    }


def test_chatgpt_files_are_found_by_their_ids(run: Run, folder: Path, tmp_path: Path) -> None:
    """Pictures and files in the zip are embedded or linked; missing ones are counted."""
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_0000abcd"}
    gone = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-Gone12"}
    voice = {"content_type": "audio_transcription", "text": "Spoken *words*"}
    sound = {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file_0000sound"}
    drawn = {
        "content_type": "multimodal_text",
        "parts": [
            {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_0000draw"}
        ],
    }
    attachments = [
        {"id": "file_0000abcd", "name": "me.png"},
        {"id": "file-Plan123", "name": "the [plan].pdf"},
        {"id": "file-Lost123", "name": "lost.pdf"},
    ]
    asked = said(
        "user",
        content={"content_type": "multimodal_text", "parts": [picture, gone, voice, sound, "Why?"]},
        attachments=attachments,
    )
    made = chatgpt(tmp_path, asked, said("tool", content=drawn, name="dalle.text2im"))
    write(made, "file_0000abcd.dat", b"picture")
    write(made, "user-1/file_0000draw-1.webp", b"drawn")
    write(made, "file-Plan123-plan.pdf", b"plan")
    write(made, "conversation_asset_file_names.json", json.dumps({"file_0000abcd.dat": "me.png"}))
    write(made, "chat.html", "<html>")
    feedback = [{"rating": "thumbs_up"}, {"rating": "thumbs_down"}]
    write(made, "message_feedback.json", json.dumps(feedback))
    got = Imported(run, folder, made, "chatgpt")
    assert "![[file_0000abcd-me.png|(a picture)]]\n\n(a picture)\n\nSpoken *words*\n" in got.chat
    assert "Why?\n\n[[file-Plan123-plan.pdf|the -plan-.pdf]]\n\n**lost.pdf** (a file)" in got.chat
    assert "## ChatGPT\n\n![[file_0000draw-1.webp|(a picture)]]" in got.chat
    assert (folder / "in/files/file_0000abcd-me.png").read_bytes() == b"picture"
    assert got.omitted == {
        "rating of a message": 2,
        "image missing from the export": 1,
        "voice recording missing from the export": 1,
        "file missing from the export": 1,
    }
    assert got.unreadable == set()


def test_chatgpt_instructions_and_memories_are_notes(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Repeated custom instructions become one note, and so do memories."""
    context = {
        "content_type": "user_editable_context",
        "user_profile": "I keep bees",
        "user_instructions": "Be brief",
    }
    memories = {"content_type": "model_editable_context", "model_set_context": "1. Likes tea"}
    hidden = said("user", content=context, is_visually_hidden_from_conversation=True)
    made = chatgpt(tmp_path, hidden, said("system", content=memories), said("user", "Hi"))
    whole = json.loads((made / "conversations.json").read_text("utf-8"))
    whole.append({**whole[0], "conversation_id": "g2", "gizmo_id": "g-p-7", "is_archived": True})
    whole[1]["mapping"] = dict(whole[1]["mapping"])
    write(made, "conversations-001.json", json.dumps(whole[1:]))
    got = Imported(run, folder, made, "chatgpt")
    assert (
        set(got.notes)
        == {
            "ChatGPT-s custom instructions.md",
            "What ChatGPT remembers.md",
            "Poem.md",
            "Poem-2.md",
        }
        or len(got.notes) == 4
    )
    [instructions] = [text for text in got.notes.values() if "I keep bees" in text]
    assert "## About the user\n\nI keep bees\n\n## How to answer\n\nBe brief\n" in instructions
    assert any("1. Likes tea" in text for text in got.notes.values())
    assert any("project: g-p-7" in text and "archived" in text for text in got.notes.values())
    again = Imported(run, folder, made, "chatgpt").found
    assert (again["new"], again["changed"]) == (0, 0)


def test_chatgpt_counts_the_other_branches(run: Run, folder: Path, tmp_path: Path) -> None:
    """The branch shown last is imported, and answers on other branches are counted."""
    made = chatgpt(tmp_path, said("user", "One"), said("assistant", "Two"), said("assistant", "3"))
    whole = json.loads((made / "conversations.json").read_text("utf-8"))
    whole[0]["mapping"]["2"]["parent"] = "0"
    write(made, "conversations.json", json.dumps(whole))
    got = Imported(run, folder, made, "chatgpt")
    assert got.chat.endswith("One\n\n## ChatGPT\n\n3\n")
    assert got.omitted == {"message on another branch": 1}


def test_chats_show_speakers_and_times(run: Run, folder: Path, tmp_path: Path) -> None:
    """Consecutive messages of a speaker have one heading with the time of the first."""
    times = ("2026-03-01T10:00:00Z", "2026-03-01T10:01:00Z")
    made = claude(
        tmp_path,
        claude_message("human", "# Look\n\n#include <x.h>\n[[y]]\n- [ ] z", created_at=times[0]),
        claude_message(
            "assistant", "# Title\n\nText\n===\n\n`#no` #yes\n```\n# code", created_at=times[1]
        ),
        claude_message("assistant", "More", created_at=times[1]),
    )
    text = Imported(run, folder, made, "claude").chat
    headings = [(level, title) for _, _, level, title in markdown.headings(text)]
    assert headings == [
        (2, "You (2026-03-01 10:00 UTC)"),
        (2, "Claude (2026-03-01 10:01 UTC)"),
        (3, "Title"),
        (3, "Text"),
    ]
    assert "\\# Look\n\n\\#include \\<x.h>\n\\[[y]]\n" in text
    assert "`#no` \\#yes\n```\n# code\n```\n\nMore\n" in text


_LINES = st.sampled_from(
    "|# A|## B|text|```|````py|~~~|  ```|- ```|> ```|<!-- x|-->|<script>|<pre>|%%|$$|===|---"
    "|#tag|[[link]]|[[1]](http://a.b)|`#x`|    # code|\t#t|<div>|</div>|- a|1. b|| a | b |"
    "||-|-||<?x|<![CDATA[|[a]: <b|\\|*|![[x]]".split("|")
)


@given(st.lists(_LINES, max_size=12), st.booleans())
def test_message_does_not_change_following_structure(lines: list[str], is_plain: bool) -> None:
    """A message cannot break the next heading; headings inside a message have a lower level."""
    made = message("\n".join(lines), is_plain)
    body = f"## You\n\n{made}\n\n## Claude\n\n#shown [[link]]\n"
    upper = [title for _, _, level, title in markdown.headings(body) if level < 3]
    assert upper == ["You", "Claude"]
    assert [match[1] for match in markdown.tags(body)][-1:] == ["shown"]


_TAGS = "<script>|</script>|<style>|<pre>|<textarea>|<!-- a -->|<?x|<!DOCTYPE x>|<img src=x>|<b>"
_BEFORE = (
    "",
    "b ",
    "C:\\",
    "a\\\\",
    "`x` ",
    "> ",
    "- C:\\",
    "a\n    b\\",
    "a ` b\nc `",
    "- a\n    - ",
)


@pytest.mark.parametrize("tag", _TAGS.split("|"))
@pytest.mark.parametrize("before", _BEFORE)
def test_typed_message_escapes_html(tag: str, before: str) -> None:
    """HTML typed by a person is shown as text, including after backslashes."""
    given_text = f"{before}{tag} x"
    tokens = [
        inner
        for token in MarkdownIt("commonmark").parse(message(given_text, is_plain=True))
        for inner in (token, *(token.children or ()))
    ]
    assert not [token for token in tokens if token.type.startswith("html")]
    shown = "".join(token.content for token in tokens if token.type in ("text", "code_inline"))
    last_line = f"{before}{tag} x".rpartition("\n")[2].strip(">- ")
    blanks_and_code = str.maketrans("", "", " `")
    assert shown.translate(blanks_and_code).endswith(last_line.translate(blanks_and_code))


@pytest.mark.parametrize("sign", ["<!-- a", "<script>", "[[a]]"])
def test_message_markdown_after_escaped_backslashes_is_escaped(sign: str) -> None:
    """Markup after two backslashes is escaped once; after one backslash it already is."""
    assert message(f"\\\\{sign}") == f"\\\\\\{sign}"
    assert message(f"\\{sign}") == f"\\{sign}"


def test_message_markdown_is_escaped_in_indented_text_but_not_in_code() -> None:
    """An indented line is text in a paragraph or list, and code after a blank line."""
    given_text = "My code:\n    #include <x>\n\n    #define y\n\n- a\n    - #b [[c]] \\#d"
    assert message(given_text, is_plain=True) == (
        "My code:\n    \\#include \\<x>\n\n    #define y\n\n- a\n    - \\#b \\[[c]] \\#d"
    )


@given(st.text("`~ab\n # ", max_size=60))
def test_fences_are_longer_than_those_inside(text: str) -> None:
    """A code block contains the unchanged text, even if the text contains fences."""
    made = fenced(text)
    code = [bool(is_code) for _, is_code in markdown.lines_with_code(f"{made}\n\nx\n")]
    assert all(code[:-2])
    assert not code[-1]
    assert made.split("\n", 1)[1].rsplit("\n", 1)[0] == text.strip("\n")


def test_old_chatgpt_zip_matches_its_folder(tmp_path: Path, run: Run, folder: Path) -> None:
    """A zip of the export gives the same notes as its folder."""
    made = chatgpt(tmp_path, said("user", "One"), said("assistant", "Two"))
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as whole:
        whole.write(made / "conversations.json", "conversations.json")
    got = Imported(run, folder, tmp_path / "export.zip", "chatgpt")
    again = Imported(run, folder, made, "chatgpt").found
    assert got.found["new"] == again["unchanged"] == 1


@pytest.mark.parametrize(
    ("module", "unclaimed"),
    [
        ("claude", set()),
        ("chatgpt", set()),
        ("bookmarks", set()),
        ("claude_code", {"shop/memory/a.md"}),
        ("codex", {"notes.md"}),
        ("opencode", set()),
        ("gemini", {"GEMINI.md"}),
    ],
)
def test_format_claims_only_files_of_its_program(
    module: str, unclaimed: set[str], tmp_path: Path
) -> None:
    """A format claims all files that its program writes, and no other notes."""
    fixture = importlib.import_module(f"import_sources.{module}")
    reader = importlib.import_module(f"memvault.importers.{module}")
    for number, name in enumerate(sorted(vars(fixture))):
        if name.startswith("make"):
            folder = tmp_path / str(number)
            folder.mkdir()
            made = getattr(fixture, name)(folder)
            if made.is_dir():
                for path in unclaimed:
                    write(made, path, "A note")
            source = open_source(str(made))
            left = unclaimed if made.is_dir() else set()
            assert set(source.names) - set(reader.claims(source)) == left
            source.close()
