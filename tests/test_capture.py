"""Capturing a thought without a title: in today's note, as a memory, or in another note."""

from __future__ import annotations

import json
import re
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Run, examples, refused, succeeded, user_in, write
from made_secrets import made
from memvault import Vault, clock, open_vault
from memvault.memories import daily_notes, tasks
from memvault.model import FileState
from memvault.vault import document, memory_file
from racing import Racing, raced
from terminal import at_terminal

TODAY = clock.today().isoformat()
DAILY = f"daily/{TODAY}.md"
EDITOR = 'import sys\nwith open(sys.argv[-1], "a") as file:\n    file.write("- by hand\\n")\n'


def items(folder: Path, path: str = DAILY) -> list[str]:
    """Return the items of a note's list, without times."""
    text = (folder / path).read_text("utf-8")
    return [line[8:] for line in text.splitlines() if line.startswith("- ") and ":" in line[:6]]


def test_capture_appends_to_todays_note(run: Run, folder: Path) -> None:
    """Each entry is a list item with the time; the note is created, dated and undone as one."""
    said = succeeded(run("today", "bought", "the", "tickets", "--json")).json
    assert (said["filePath"], said["isNew"]) == (DAILY, True)
    said = succeeded(run("today", "Ann called:\n\nthe plan is off", "--json")).json
    assert items(folder) == ["bought the tickets", "Ann called:"]
    lines = (folder / DAILY).read_text("utf-8").splitlines()
    assert lines[said["line"] - 1].endswith("Ann called:")
    assert lines[-2:] == ["", "  the plan is off"]
    assert "bought the tickets" in succeeded(run("today")).out
    assert TODAY in succeeded(run("recall", "what about the tickets today")).out
    succeeded(run("undo"))
    assert items(folder) == ["bought the tickets"]
    succeeded(run("undo"))
    assert not (folder / DAILY).exists()


def test_daily_accepts_another_day(run: Run, folder: Path) -> None:
    """A day can be words or numbers, and showing a day without a note creates none."""
    day = date.fromisoformat(TODAY) - timedelta(days=1)
    assert f"There is no note for {day} yet" in succeeded(run("today", "--date", "yesterday")).out
    assert not (folder / f"daily/{day}.md").exists()
    succeeded(run("today", "slept", "--date", day.isoformat()))
    assert items(folder, f"daily/{day}.md") == ["slept"]
    assert "date must be a date" in refused(run("today", "x", "--date", "someday"), 2)


@pytest.mark.parametrize(
    ("files", "path"),
    [
        ({"memvault.toml": 'version = 1\n[daily]\npath = "log/{{date:YYYY/MM-DD}}.md"\n'},
         "log/{day:%Y/%m-%d}.md"),
        ({".obsidian/daily-notes.json": '{"folder": "Days", "format": "YYYYMMDD"}'},
         "Days/{day:%Y%m%d}.md"),
        ({".obsidian/daily-notes.json": "{broken"}, "daily/{day}.md"),
        ({"journals/2024_01_31.md": "- x\n"}, "journals/{day:%Y_%m_%d}.md"),
        ({"Journal/plans.md": "# Plans\n"}, "daily/{day}.md"),
    ],
)  # fmt: skip
def test_daily_note_folder_is_detected(
    run: Run, folder: Path, files: dict[str, str], path: str
) -> None:
    """The folder comes from the settings, Obsidian's settings or existing daily notes."""
    for name, text in files.items():
        write(folder, name, text)
    day = date.fromisoformat(TODAY)
    assert succeeded(run("today", "x", "--json")).json["filePath"] == path.format(day=day)


def test_daily_note_starts_from_the_template(run: Run, folder: Path) -> None:
    """Placeholders are filled in and the template's header is kept, as in Obsidian."""
    write(
        folder,
        "Templates/Day.md",
        "---\ntags: [daily]\ncssclasses: wide\nweek: '{{date:WW}}'\n---\n# {{date}}\n\n## Log\n",
    )
    write(folder, ".obsidian/daily-notes.json", '{"template": "Templates/Day"}')
    said = succeeded(run("today", "x", "--json")).json
    text = (folder / said["filePath"]).read_text("utf-8")
    assert said["filePath"] == f"{TODAY}.md"
    assert "cssclasses: wide\n" in text
    assert "tags: [daily]\n" in text
    assert f"\n# {TODAY}\n\n## Log\n\n- " in text


@pytest.mark.parametrize(
    ("settings", "title"),
    [
        ({"format": "YYYYMMDD", "template": "Templates/Day.md"}, "{day:%Y%m%d}"),
        ({"format": "YYYY/MM/YYYY-MM-DD dddd", "template": "Templates/Day"}, "{day:%Y-%m-%d %A}"),
        ({"folder": "Days", "template": "Day"}, "{day}"),
    ],
)
def test_daily_template_title_is_the_file_name(
    run: Run, folder: Path, settings: dict[str, str], title: str
) -> None:
    """{{title}} is the note's file name, as in Obsidian, and {{date}} is its day."""
    for path in ("Templates/Day.md", "Day.md"):
        write(folder, path, "# {{title}}\n\n{{date}}\n")
    write(folder, ".obsidian/daily-notes.json", json.dumps(settings))
    said = succeeded(run("today", "x", "--json")).json
    text = (folder / said["filePath"]).read_text("utf-8")
    assert f"# {title.format(day=date.fromisoformat(TODAY))}\n\n{TODAY}\n" in text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "\n## Log\n\n- T\n"),
        ("# Day\n\ntext\n", "# Day\n\ntext\n\n## Log\n\n- T\n"),
        ("## log\n", "## log\n\n- T\n"),
        ("## Log\n\n- a\n", "## Log\n\n- a\n- T\n"),
        ("## Log ^log\n\n- a\n", "## Log ^log\n\n- a\n- T\n"),
        ("## Log\n\n- a\n\n## Next\n\n- b\n", "## Log\n\n- a\n- T\n\n## Next\n\n- b\n"),
        ("## Log\n## Next\n- T\n", "## Log\n\n- T\n\n## Next\n- T\n"),
        ("## Log\ntext\n### Part\nx", "## Log\ntext\n\n- T\n\n### Part\nx"),
        ("```\n## Log\n```\n", "```\n## Log\n```\n\n## Log\n\n- T\n"),
        ("## Log\r\n\r\n- a\r\n\r\n# B\r\n", "## Log\r\n\r\n- a\r\n- T\r\n\r\n# B\r\n"),
    ],
)
def test_capture_appends_below_configured_heading(
    vault: Vault, folder: Path, before: str, after: str
) -> None:
    """With [daily] heading an entry is added at the end of that section, created if missing."""
    write(folder, "memvault.toml", 'version = 1\n[daily]\nheading = "## Log"\n')
    if before:
        (folder / "daily").mkdir()
        (folder / DAILY).write_bytes(before.encode())
    said = vault.today("T")
    text = (folder / DAILY).read_bytes().decode()
    body = text.partition("\n---\n")[2] if text.startswith("---") else text
    assert re.sub(r"- \d\d:\d\d T", "- T", body, count=1) == after
    assert re.fullmatch(r"- \d\d:\d\d T", text.splitlines()[said["line"] - 1])


def test_capture_finds_heading_with_block_id(vault: Vault, folder: Path) -> None:
    """A configured heading with a block id is added to the note only once."""
    write(folder, "memvault.toml", 'version = 1\n[daily]\nheading = "## Log ^log"\n')
    vault.today("a")
    vault.today("b")
    lines = (folder / DAILY).read_text("utf-8").splitlines()
    assert lines.count("## Log ^log") == 1
    assert [line[-1] for line in lines[-2:]] == ["a", "b"]


def test_capture_text_with_checkbox_is_a_task(run: Run, folder: Path) -> None:
    """Content such as "[ ] call Ann" is added as a task, and tasks lists it."""
    for text in (
        "[ ] call Ann",
        "- [ ] buy paper",
        "* [x] slept",
        "[ ] plan\n[ ] part",
        "[a](b) c",
    ):
        succeeded(run("today", text))
    lines = (folder / DAILY).read_text("utf-8").splitlines()
    assert lines[-6:-1] == [
        "- [ ] call Ann", "- [ ] buy paper", "- [x] slept", "- [ ] plan", "  - [ ] part"
    ]  # fmt: skip
    assert lines[-1].endswith(" [a](b) c")
    found = succeeded(run("tasks", "--json")).json["tasks"]
    assert [task["text"] for task in found] == ["call Ann", "buy paper", "plan", "part"]


def test_tasks_are_filtered_by_due_date(run: Run, folder: Path) -> None:
    """--due overdue, today and week list exactly the tasks due on those days."""
    day = date.fromisoformat(TODAY)
    days = {"late": -1, "now": 0, "soon": 3, "last": 7, "then": 8}
    lines = (f"- [ ] {name} 📅 {day + timedelta(days=at)}\n" for name, at in days.items())
    write(folder, "plan.md", f"{''.join(lines)}- [ ] some day\n- [x] done due: {day}\n")

    def due(*words: str) -> list[str]:
        found = succeeded(run("tasks", "--json", *words)).json["tasks"]
        return [task["text"].split(" ")[0] for task in found]

    assert due("--due", "overdue") == ["late"]
    assert due("--due", "today") == ["now"]
    assert due("--due", "week") == ["now", "soon", "last"]
    assert due("--due", "today", "--all") == ["now", "done"]
    assert "overdue" in refused(run("tasks", "--due", "someday"), 2)


def test_tasks_canceled_task_is_shown_as_canceled(run: Run, folder: Path) -> None:
    """[-] keeps its mark in the listing and is neither open nor done."""
    write(folder, "plan.md", NOTE)
    shown = succeeded(run("tasks", "--all")).out
    assert "[-] canceled  canceled" in shown
    assert "[x] buy paper\n" in shown
    assert "[ ] call Ann" in shown
    assert "[/] half done" in shown
    said = succeeded(run("tasks", "--done", "--json")).json["tasks"]
    assert [task.get("isCancelled", False) for task in said] == [False, True]
    assert "is canceled" in refused(run("task", "done", "plan.md:11"), 2)


def test_compound_without_text_opens_the_editor(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal the content is written in the editor; elsewhere missing content is an error."""
    script = write(tmp_path, "editor.py", EDITOR)
    monkeypatch.setenv("VISUAL", f"{sys.executable} {script}")
    file = write(folder, "plan.md", "# Plan\n\nOne.\n")
    code, shown = at_terminal(folder, "compound", "Plan")
    assert (code, file.read_text("utf-8")) == (0, "# Plan\n\nOne.\n\n- by hand\n"), shown
    code, shown = at_terminal(folder, "compound", "Nothing like it")
    assert (code, "error: " in shown) == (1, True), shown
    code, shown = at_terminal(folder, "compound", "Plan one", "--mode", "replace")
    assert (code, "is not the name of a memory" in shown) == (1, True), shown
    code, shown = at_terminal(folder, "compound", "plan.md", "--type", "fact")
    texts = [path.read_text("utf-8") for path in folder.glob("*/plan.md")]
    assert (code, [text.count("by hand") for text in texts]) == (0, [1]), shown
    assert "is empty" in refused(run("compound", "Plan"), 2)


def test_daily_path_outside_vault_is_refused(run: Run, folder: Path) -> None:
    """A vault's settings cannot create a daily note outside it or in a hidden folder."""
    for path, said in (
        ("../{{date}}.md", "is outside"),
        (".git/{{date}}.md", "is not a memory path"),
    ):
        write(folder, "memvault.toml", f'version = 1\n[daily]\npath = "{path}"\n')
        ran = run("today", "x")
        assert ran.code in (1, 2)
        assert said in ran.err
    assert not list(folder.parent.glob("20*.md"))


@given(thought=st.text(min_size=1).filter(lambda text: document.plain_text(text).strip()))
@settings(max_examples=examples(40))
def test_capture_keeps_every_entry_separate(
    tmp_path_factory: pytest.TempPathFactory, thought: str
) -> None:
    """An entry with any characters is completely in the note, as one list item."""
    root = tmp_path_factory.mktemp("vault")
    write(root, "memvault.toml", "version = 1\n")
    with open_vault(root) as vault:
        vault.today("before")
        vault.today(thought)
        vault.today("after")
        memory = daily_notes.find(vault._workspace.store, date.fromisoformat(TODAY))
        assert memory is not None
        words = document.plain_text(thought).encode("utf-8", "replace").decode().split()
        shown = memory.body.split()
        assert [word for word in words if word not in shown and word not in "-*+[ ][x]"] == []
        assert items(root)[0] == "before"
        assert items(root)[-1] == "after"


WRITER = """
from memvault import open_vault
def work(who):
    with open_vault(".") as vault:
        for number in range(8):
            vault.today(f"thought {who} {number}")
"""


def test_capture_by_two_processes_loses_nothing(folder: Path, racing: Racing) -> None:
    """Entries from both processes are kept, and the note is created once."""
    assert raced(racing.run(folder, WRITER, [[who] for who in range(3)])) == [[]] * 3
    assert len(set(items(folder))) == len(items(folder)) == 24


def test_daily_opens_todays_note_in_the_editor(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal, a note without content is created and opened, and undo covers the edit."""
    script = write(tmp_path, "editor.py", EDITOR)
    monkeypatch.setenv("VISUAL", f"{sys.executable} {script}")
    code, shown = at_terminal(folder, "today")
    assert (code, "by hand" in (folder / DAILY).read_text("utf-8")) == (0, True), shown
    assert (folder / DAILY).read_text("utf-8").endswith("- by hand\n")


def test_capture_creates_a_memory(run: Run, folder: Path) -> None:
    """The first words become the title, all words the body, and type and tags are applied."""
    thought = "The printer needs the old driver. Else it prints garbage."
    said = succeeded(run("capture", thought, "--tags", "office", "--type", "issue", "--json")).json
    assert said["filePath"] == "issue/the-printer-needs-the-old-driver.md"
    text = (folder / said["filePath"]).read_text("utf-8")
    assert text.endswith(f"\n{thought}\n")
    assert "tags: [office]" in text
    succeeded(run("capture", "Found at the vendor.", "--to", said["memId"]))
    assert (folder / said["filePath"]).read_text("utf-8").endswith("\n\nFound at the vendor.\n")
    token, _ = made("GitHub token")
    said = succeeded(run("capture", f"{token} is the key", "--json")).json
    assert token not in said["filePath"]


def test_capture_reads_pipe_or_clipboard(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--clip runs only the system's clipboard program and reports if there is none."""
    said = succeeded(run("capture", "--json", stdin="# From a pipe\n\nAll of it.\n")).json
    assert said["filePath"] == "context/from-a-pipe.md"
    empty = tmp_path / "empty"
    empty.mkdir()
    write(folder, "bin/xsel", "#!/bin/sh\ntouch ran\n").chmod(0o755)
    monkeypatch.setenv("PATH", f"{empty}:{folder}/bin")
    assert "clipboard cannot be read" in refused(run("capture", "--clip"), 1)
    assert not (folder / "ran").exists()
    if sys.platform == "linux":
        write(tmp_path, "bin/xsel", "#!/bin/sh\nprintf 'copied words'\n").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin")
        assert "copied-words" in succeeded(run("capture", "--clip")).out
    assert "`--clip` cannot be combined" in refused(run("capture", "x", "--clip"), 2)
    assert "TEXT is missing" in refused(run("capture"), 2)


NOTE = """---
id: plan-7k2m9q
tags: [work]
---

# Plan

- [ ] call Ann due: 2026-11-30
  1. [x] buy paper
> - [/] half done
* [-] canceled

```
- [ ] in code
```
- [] no task
"""


def test_tasks_are_listed_with_line_numbers(run: Run, folder: Path) -> None:
    """Open tasks come first, by due date; others are listed on request; tasks in code are not."""
    write(folder, "plan.md", NOTE)
    write(folder, "other.md", "- [ ] later\n")
    said = succeeded(run("tasks", "--json")).json
    first = said["tasks"][0]
    assert (first["text"], first["line"]) == ("call Ann due: 2026-11-30", 8)
    assert {task["text"] for task in said["tasks"]} == {
        "call Ann due: 2026-11-30", "half done", "later"
    }  # fmt: skip
    assert first["due"] == "2026-11-30"
    done = succeeded(run("tasks", "--done", "--json")).json["tasks"]
    assert [task["mark"] for task in done] == ["x", "-"]
    assert succeeded(run("tasks", "--all", "--tags", "work", "--json")).json["total"] == 4
    assert "plan.md:8" in run("tasks").out


def test_tasks_done_marks_one_line(run: Run, folder: Path) -> None:
    """Only the mark changes, undo reverts it, and a line without an open task is reported."""
    file = write(folder, "plan.md", NOTE)
    assert "plan.md:8" in succeeded(run("task", "done", "plan.md:8")).out
    assert file.read_text("utf-8") == NOTE.replace("- [ ] call", "- [x] call")
    assert "done already" in refused(run("task", "done", "plan.md", "8"), 2)
    assert "has no task on line 6" in refused(run("task", "done", "plan.md:6"), 1)
    assert "No line number" in refused(run("task", "done", "plan.md"), 2)
    succeeded(run("undo"))
    assert file.read_text("utf-8") == NOTE


@given(text=st.text(alphabet="-[] xX*+1.>\t\n`~ab"))
@settings(max_examples=examples(200))
def test_tasks_report_the_right_line(text: str) -> None:
    """A task's line number and mark match the file, regardless of the surrounding text."""
    data = f"---\ntags: [x]\n---\n{text}".encode()
    memory = memory_file.read_memory(data, FileState("a.md", len(data), 0, 0, 0), frozenset())
    lines = data.decode().split("\n")
    for task in tasks.tasks_of(memory):
        assert f"[{task.mark}]" in lines[task.line - 1]
        assert lines[task.line - 1].strip().endswith(task.text)
        assert memory.body[task.mark_at] == task.mark


def test_tasks_nonexistent_due_date_is_ignored(run: Run, folder: Path) -> None:
    """A nonexistent date stays in the task's text and is refused as an option."""
    write(
        folder, "a.md", "# A\n\n- [ ] One due:2026-13-99\n- [ ] Two due:2026-02-30 📅 2026-03-01\n"
    )
    found = succeeded(run("tasks", "--json")).json["tasks"]
    assert [(task["text"], task.get("due")) for task in found] == [
        ("Two due:2026-02-30 📅 2026-03-01", "2026-03-01"),
        ("One due:2026-13-99", None),
    ]
    assert "must be a date" in refused(run("tasks", "--since", "2026-13-99"), 2)


@pytest.mark.parametrize("place", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_daily_supports_first_and_last_calendar_day(run: Run, folder: Path, place: str) -> None:
    """The first and the last possible day have daily notes in every time zone."""
    with user_in(place):
        for day in ("0001-01-01", "9999-12-31"):
            said = succeeded(run("today", "began", "--date", day, "--json")).json
            assert (said["filePath"], said["title"]) == (f"daily/{day}.md", day)


@pytest.mark.parametrize("text", ["\U0001f389\U0001f389", "!!!", "...", "?", "\u2014 \u2192"])
def test_capture_keeps_text_without_letters(run: Run, folder: Path, text: str) -> None:
    """Text that consists only of symbols is kept by capture, save and fact store."""
    for words in (("capture",), ("save",), ("fact", "store")):
        said = succeeded(run(*words, text, "--json")).json
        shown = succeeded(run("show", said["filePath"], "--json")).json
        assert shown["content"].strip() == text
        assert shown["title"]


def test_random_shows_a_memory(run: Run, folder: Path) -> None:
    """A random memory that passes the filters is shown in full; examples are never chosen."""
    for number in range(3):
        write(folder, f"fact/n{number}.md", f"# Note {number}\n\nText {number}.\n")
    write(folder, "context/other.md", "# Other\n")
    seen = {succeeded(run("random", "--type", "fact", "--json")).json["title"] for _ in range(20)}
    assert seen <= {"Note 0", "Note 1", "Note 2"}
    assert len(seen) > 1
    assert "No memory matches the filters" in refused(run("random", "--tags", "none"), 1)


def test_random_in_empty_vault_reports_it(run: Run, folder: Path) -> None:
    """The message says that the vault is empty and does not mention filters."""
    assert "The vault has no memories yet" in refused(run("random"), 1)


def test_saved_search_is_accepted_in_place_of_query(run: Run, folder: Path, vault: Vault) -> None:
    """Each command with a query accepts a saved search; its filters can be overridden."""
    write(folder, "issue/a.md", "# Disk full\n\nThe deploy is blocked by a full disk.\n")
    write(folder, "fact/b.md", "# Blocked\n\nA deploy is blocked on Fridays.\n")
    succeeded(run("searches", "save", "blockers", "deploy", "blocked", "--type", "issue"))
    said = succeeded(run("recall", "@blockers", "--json")).json
    assert [entry["title"] for entry in said["memories"]] == ["Disk full"]
    said = succeeded(run("recall", "@blockers", "--type", "fact", "--json")).json
    assert [entry["title"] for entry in said["memories"]] == ["Blocked"]
    assert "Disk full" in succeeded(run("context", "@blockers")).out
    assert "Disk full" in succeeded(run("search", "@blockers")).out
    assert vault.searches_list()["searches"] == [
        {"name": "blockers", "query": "deploy blocked", "memoryType": "issue"}
    ]
    assert succeeded(run("recall", "@husam", "--json")).json["success"]
    succeeded(run("searches", "delete", "blockers"))
    assert "no saved search" in refused(run("searches", "delete", "blockers"), 1)
    assert "is not a valid search name" in refused(run("searches", "save", "a b", "x"), 2)
    assert "is empty" in refused(run("searches", "save", "x"), 2)


def test_saved_search_filters_apply_in_every_tool(folder: Path, vault: Vault) -> None:
    """A saved search's filters apply even in tools without such arguments."""
    vault.episode_store(context=["A deploy is blocked on Mondays"])
    vault.fact_store("A deploy is blocked on Fridays")
    vault.procedure_store("free", "Free a blocked deploy on Sundays", initial_success_rate=0.9)
    write(folder, "issue/a.md", "# Disk full\n\nThe deploy is blocked by a full disk.\n")
    vault.searches_save("all", "deploy blocked")
    vault.searches_save("blockers", "deploy blocked", memory_type="issue")
    vault.searches_save("old", "deploy blocked", until="2001")
    vault.searches_save("issues", memory_type="issue")
    general = ("memory_search", "query"), ("memory_load", "query"), ("context", "task")
    own = (
        ("recall_fact", "query"),
        ("recall_similar_experience", "query"),
        ("recall_procedure", "context"),
    )
    for tool, key in (*general, *own):
        assert "days" in str(vault.call(tool, **{key: "@all"})), tool
        shown = str(vault.call(tool, **{key: "@blockers"}))
        assert "days" not in shown, tool
        assert ("full disk" in shown) == ((tool, key) in general), tool
        old = vault.call(tool, **{key: "@old"})
        assert old["success"], tool
        assert "locked" not in str(old), tool
        said = vault.call(tool, **{key: "@issues"})["error"]
        assert said["message"] == "@issues has filters but no search words", tool
    assert [entry["title"] for entry in vault.recall("@issues")["memories"]] == ["Disk full"]


def test_handwritten_saved_search_is_validated(run: Run, folder: Path) -> None:
    """A search in the file can be a string, and an invalid one is reported."""
    write(folder, "memvault.toml", 'version = 1\n[searches]\nhome = "the garden"\n')
    assert "@home  the garden" in succeeded(run("searches", "list")).out
    write(folder, "memvault.toml", 'version = 1\n[searches]\nhome = {run = "rm"}\n')
    assert "searches" in refused(run("searches", "list"), 3)
