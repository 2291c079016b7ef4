"""Imports from Logseq and Roam keep links, tasks, code and days, and count the rest."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, succeeded, write
from import_sources import logseq as logseq_source
from import_sources import roam as roam_source
from imported import Imported
from memvault.importers import detection, formats, outlines
from memvault.importers.archives import open_source
from memvault.importers.items import ImportedNote, SkippedItem, TypeCount


def counts(source: Path, kind: str) -> dict[str, dict[str, int]]:
    """Return the numbers of converted and of omitted parts of a source, by type."""
    found: dict[str, dict[str, int]] = {"converted": {}, "omitted": {}}
    for item in formats.find_format(kind).read(open_source(str(source))):
        if isinstance(item, TypeCount):
            found["converted" if item.is_converted else "omitted"][item.type_name] = item.number
    return found


def logseq_page(tmp_path: Path, text: str, **files: str) -> str:
    """Return the markdown of a Logseq page; ``files`` is the content of other pages by name."""
    made = tmp_path / "graph"
    write(made, "logseq/config.edn", "{}")
    for name, other in files.items():
        write(made, f"pages/{name}.md", other)
    write(made, "pages/page.md", text)
    items = formats.find_format("logseq").read(open_source(str(made)))
    return next(i.text for i in items if isinstance(i, ImportedNote) and "page.md" in i.key)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("MMM do, yyyy", "Mar 22nd, 2024"),
        ("MMMM do, yyyy", "March 22nd, 2024"),
        ("EEEE, dd.MM.yyyy", "Friday, 22.03.2024"),
        ("E, MM/dd/yyyy", "Fri, 03/22/2024"),
        ("yyyy年MM月dd日", "2024年03月22日"),
        ("yyyy_MM_dd", "2024_03_22"),
        ("'Day' d MMM yyyy", "Day 22 Mar 2024"),
    ],
)
def test_day_formats_are_written_and_parsed(form: str, text: str) -> None:
    """Days in any of Logseq's formats are recognized, in any case."""
    day = outlines.DayFormat(form)
    assert day.written(date(2024, 3, 22)) == text
    assert day.parsed(text.upper()) == date(2024, 3, 22)
    assert day.parsed("Mar 32nd, 2024") is None


def test_logseq_day_links_resolve_to_journals(run: Run, folder: Path, tmp_path: Path) -> None:
    """Links to days follow the graph's formats, and commented settings do not count."""
    got = Imported(run, folder, logseq_source.make_settings(tmp_path), "logseq")
    assert 'aliases: ["Monday, 04.03.2024"]' in got.text("journals/2024-03-04.md")
    assert "created: 2024-03-04T" in got.text("journals/2024-03-04.md")
    links = succeeded(run("links", "in/notes/The Bees.md", "--json")).json["links"]
    assert "in/journals/2024-03-04.md" in {link.get("filePath") for link in links}
    back = succeeded(run("backlinks", "in/notes/The Bees.md", "--json")).json
    assert "in/journals/2024-03-04.md" in str(back)


def test_logseq_link_to_a_day_without_journal_has_its_date(tmp_path: Path) -> None:
    """A link to a day without a journal points to the path of that day's future daily note."""
    assert logseq_page(tmp_path, "- [[Mar 4th, 2024]]") == "- [[2024-03-04|Mar 4th, 2024]]"


def test_logseq_tasks_have_days_priorities_and_repeaters(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """A deadline becomes the due day; scheduled days, priorities and repeaters are imported."""
    got = Imported(run, folder, logseq_source.make_settings(tmp_path), "logseq")
    text = got.text("notes/The Bees.md")
    task = "10:30 ⏫ 🔁 every 2 weeks when done ⏳ 2024-03-06 📅 2024-03-09\n"
    assert f"- [ ] feed them, see [[2024-03-04|monday, 04.03.2024]] {task}" in text
    assert "- [/] count, `TODO ((x))` and [[Hives|HIVES]]" in text.replace("in/notes/", "")
    assert "LOGBOOK" not in text
    assert "CLOCK" not in text
    tasks = succeeded(run("tasks", "--json")).json["tasks"]
    assert [one["due"] for one in tasks if "feed" in one["text"]] == ["2024-03-09"]


def test_logseq_code_is_untouched(run: Run, folder: Path, tmp_path: Path) -> None:
    """Tasks, properties, links and drawers in code are unchanged, with their indentation."""
    text = Imported(run, folder, logseq_source.make_settings(tmp_path), "logseq").text(
        "notes/The Bees.md"
    )
    code = "- ```js\n  - TODO in code [[Hives]]\n  collapsed:: true\n    kept\n  ```\n"
    assert code in text
    assert '- ```python\n  - TODO = "#+BEGIN_QUOTE"\n  ```\n' in text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("- `{{query x}}` and `((65f0a1b2-0000-4000-8000-000000000001))`", None),
        ("- ``a ` [[x]]`` and `SCHEDULED: <2024-03-06 Wed>`", None),
        ("- ~~~\n  #+BEGIN_QUOTE\n  :LOGBOOK:\n  :END:\n  ~~~", None),
        (
            "- ```\n  - a fence that never ends\n- TODO x",
            "- ```\n\t- a fence that never ends\n- [ ] x",
        ),
        ("- #+BEGIN_QUOTE\n  never ends\n- DONE x", "- #+BEGIN_QUOTE\n  never ends\n- [x] x"),
        (
            "- #+BEGIN_TIP\n  ```\n  [[a, b]](((x\n  ```\n  #+END_TIP",
            "- > [!tip]\n  > ```\n  > [[a, b]](((x\n  > ```",
        ),
        ("- a ^^light^^ `^^x^^`", "- a ==light== `^^x^^`"),
        ("---\ntags:\n  - a\n---\n- TODO b\n", "---\ntags:\n  - a\n---\n- [ ] b\n"),
        ("- id:: 1\n  3. text\n  todo:: 1621908710666", "- 3. text"),
        ("- a\n- todo:: later", None),
        (
            "- #+BEGIN_QUOTE\n  a\n\t- b [[x]]\n  #+END_QUOTE\n- TODO c",
            "- > a\n  > - b [[x]]\n- [ ] c",
        ),
        ("- #+BEGIN_QUOTE\n  a\n  #+END_QUOTE\n  b", "- > a\n\n  b"),
        ("- #+BEGIN_CENTER\n  #+END_CENTER\n  b", "- b"),
        ("- LATER\n- CANCELED [#B] x", "- [ ]\n- [-] x 🔼"),
        ("- ## TODO heading", "- [ ] heading"),
        ("- TODOS and DONE.", None),
        ("-\n- - x", None),
        ("# Title\n\ntext\n- a\n\n  b\n\nc", None),
        ("- a\n    - b\n        - c", "- a\n\t- b\n\t\t- c"),
        ("- {{youtube-timestamp 12}} {{cloze hidden}}", "- `{{youtube-timestamp 12}}` hidden"),
        ("- {{query (and {{x}})}} {{", "- `{{query (and {{x}})}}` {{"),
        ("- [a](https://example.org/a_(b)) ![b](../assets/c.png)", None),
        ("- a [[b\n  c]] ]] [[", None),
        ("- x\n  std::vector is no property", None),
        ("- x\n  collapsed:: true\n  note:: [[y]]\n  id:: 1", "- x\n  note:: [[y]]"),
        ("- due\n  DEADLINE: <2024-03-06 Wed +1m>", "- due 🔁 every month 📅 2024-03-06"),
    ],
)
def test_logseq_block_is_converted(given: str, expected: str | None, tmp_path: Path) -> None:
    """Markup of a block becomes markdown; code and unknown markup are unchanged."""
    assert logseq_page(tmp_path, given) == (given if expected is None else expected)


def test_logseq_links_resolve_to_their_pages(run: Run, folder: Path, tmp_path: Path) -> None:
    """Aliases, titles and names in any case resolve to pages, and references to blocks."""
    got = Imported(run, folder, logseq_source.make_settings(tmp_path), "logseq")
    hives = got.text("notes/Hives.md")
    rest = "“Let it rest, deep [[in/notes/Hives|Hives]]” ([[The Bees]])"
    assert f"- see {rest}, [[The Bees|the rest]]\n- {rest} and ((65f0" in hives
    bees = got.text("notes/The Bees.md")
    assert "- > Be good to [[The Bees|honey bees]].\n- > [!warning]\n  > They sting.\n" in bees
    assert "- ![[in/notes/Hives|Hives]]\n" in bees
    assert "- #two-words [[a, b]] [[in/notes/Hives|shown]]\n" in bees
    assert "- | [[in/notes/a/Hives\\|a/Hives]] | ((x)) |\n" in bees
    assert "![a hive|200](../assets/a%20hive.png)" in bees
    assert got.data("assets/a hive.png") == b"a hive.png"
    links = succeeded(run("links", "in/notes/The Bees.md", "--json")).json["links"]
    assert {link.get("filePath") for link in links} >= {"in/notes/Hives.md", "in/notes/a/Hives.md"}


def test_logseq_reference_to_code_shows_its_first_line(tmp_path: Path) -> None:
    """A reference to a code block or a quote shows its text, not the line that begins it."""
    key = logseq_source.BLOCK
    other = f"- #+BEGIN_QUOTE\n  Be good.\n  #+END_QUOTE\n  id:: {key}\n"
    text = logseq_page(tmp_path, f"- (({key}))", other=other)
    assert text == "- “Be good.” ([[import:pages/other.md]])"
    other = f"- id:: {key}\n  ```js\n  x = 1\n  ```\n"
    text = logseq_page(tmp_path, f"- (({key}))", other=other)
    assert text == "- “x = 1” ([[import:pages/other.md]])"


def test_logseq_properties_and_lists_are_kept(run: Run, folder: Path, tmp_path: Path) -> None:
    """Properties are stored in the header, under another name if memvault uses the key."""
    text = Imported(run, folder, logseq_source.make_settings(tmp_path), "logseq").text(
        "notes/The Bees.md"
    )
    for line in ('aliases: ["Apis, honey", honey bees]', "tags: [bee-house, insects]"):
        assert f"{line}\n" in text
    assert "logseq_type: book\nread_on: 2024-03-04\n" in text
    assert "\t1. first\n\t2. second\n\t\t- below\n" in text
    assert "- ## heading of two\n" in text
    assert "\n  effort:: 3\n" in text


def test_logseq_highlights_have_page_and_color(run: Run, folder: Path, tmp_path: Path) -> None:
    """PDF highlights keep their page and color, and area highlights their image."""
    got = Imported(run, folder, logseq_source.make_settings(tmp_path), "logseq")
    text = got.text("notes/hls__bees_1.md")
    assert "[bees.pdf](../assets/bees_1.pdf)\n\n- They tell the way. (p. 12, yellow)\n" in text
    assert "- ![](../assets/bees_1/3_65f0" in text
    assert succeeded(run("show", "Highlights in bees.pdf", "--json")).json


def test_logseq_import_reports_converted_and_omitted_counts_by_type(tmp_path: Path) -> None:
    """The import lists how many parts were converted, and each type that was not."""
    made = logseq_source.make_settings(tmp_path)
    found = counts(made, "logseq")
    for name, number in {"page": 4, "journal": 1, "task": 2, "block quote": 1, "video": 1}.items():
        assert found["converted"][name] == number
    assert found["omitted"] == {
        "query": 1,
        "renderer": 1,
        'macro "poem"': 1,
        "logbook": 1,
        'block property "background-color"': 1,
        'page property "icon"': 1,
        'page property "public"': 1,
        "reference to a missing block": 1,
    }
    listed = {
        item.what: item.reason
        for item in formats.find_format("logseq").read(open_source(str(made)))
        if isinstance(item, SkippedItem)
    }
    assert set(listed) == {"notes/old.org", "whiteboards/plan.edn"}
    assert "Org" in listed["notes/old.org"]


def test_logseq_database_graph_hint_explains_export(run: Run, folder: Path, tmp_path: Path) -> None:
    """The folder of a graph with a database is recognized, and the hint says how to export it."""
    made = write(tmp_path, "graph/db.sqlite", b"")
    with closing(sqlite3.connect(made)) as database:
        database.execute("CREATE TABLE kvs (addr INTEGER, content TEXT, addresses JSON)")
        database.commit()
    assert detection.detect_format(open_source(str(made.parent))).name == "logseq"
    got = Imported(run, folder, made.parent, "logseq")
    assert "export the graph as Markdown" in str(got.unreadable)


def test_logseq_database_export_hint_explains_alternative(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """A database version's export is refused with a hint about the alternative."""
    made = write(tmp_path, "graph.edn", "{:properties {} :pages-and-blocks [{:page {}}]}")
    got = Imported(run, folder, made, "logseq")
    assert [what for what, _ in got.unreadable] == ["graph.edn"]
    assert "export the graph as Markdown" in str(got.unreadable)


def roam_block(tmp_path: Path, string: str, *children: dict[str, Any], **keys: Any) -> str:
    """Return the markdown of a Roam page with one block."""
    pages = [roam_source.page("P", roam_source.block(string, *children, **keys))]
    write(tmp_path, "graph.json", json.dumps([*pages, roam_source.page("Hive")]))
    items = formats.find_format("roam").read(open_source(str(tmp_path / "graph.json")))
    return next(item.text for item in items if isinstance(item, ImportedNote))


def test_roam_all_graphs_in_a_zip_are_imported(run: Run, folder: Path, tmp_path: Path) -> None:
    """Each graph of a zip has a folder, and a later, renamed export updates the same graph."""
    made = roam_source.make_graphs(tmp_path)
    got = Imported(run, folder, made, "roam")
    assert got.unreadable == set()
    assert got.found["new"] == 6
    assert "### Care\n\n- [ ] check the ==frames==\n" in got.text("bees/Bees.md")
    again = Imported(run, folder, made.rename(tmp_path / "Roam-Export-1763.zip"), "roam").found
    assert (again["new"], again["changed"], again["unchanged"]) == (0, 0, 6)


def test_roam_links_point_to_pages_days_and_blocks(run: Run, folder: Path, tmp_path: Path) -> None:
    """Date links point to daily notes; references and embeds point to the block's page."""
    got = Imported(run, folder, roam_source.make_graphs(tmp_path), "roam")
    text = got.text("honey/Honey.md")
    assert "- a “paint the **hive**” ([[hive-one]]) b\n" in text
    links = "[[hive-one|the hive]] and [[hive-one|honey]] on [[2024-06-03|June 3rd, 2024]]"
    assert f"- {links}\n" in text
    assert "- “paint the **hive**” ([[hive-one]]) ![[hive-one|Hive One]]\n" in text
    one = got.text("honey/hive-one.md")
    assert "- see [[One]] and Gone [[One]]\n- here “paint the **hive**”\n" in one
    found = succeeded(run("links", "in/honey/Honey.md", "--json")).json["links"]
    paths = {link.get("filePath") for link in found}
    assert paths >= {"in/honey/hive-one.md", "in/honey/daily/2024-06-03.md"}
    assert "tags: [sweet, bee-house]\n" in text
    assert "authors: [a@b.org]\n" in text
    assert "modified: 2025-11-04T10:15" in text  # the time of a block


def test_roam_code_and_tables_are_kept(run: Run, folder: Path, tmp_path: Path) -> None:
    """Code gets separate lines and is unchanged; nested cells become a table."""
    text = Imported(run, folder, roam_source.make_graphs(tmp_path), "roam").text("honey/Honey.md")
    assert "- ```javascript\n  - {{[[TODO]]}} [[x]] ^^y^^\n    # z\n  ```\n" in text
    assert "- `((hiveBlock)) {{[[TODO]]}}` #bee-house a#b\n" in text
    assert "\n\n| Name | Count |\n| --- | --- |\n| Buckfast\\|x | 3 |\n\n" in text
    assert "- Kanban\n  - To do\n    - feed\n" in text
    assert "- numbers\n  1. one\n  2. two\n" in text
    assert "- prose\n\n  para one\n\n  para two\n" in text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("# not a heading", "\\# not a heading"),
        ("- no list\n- nor this", "\\- no list\n  \\- nor this"),
        ("1. one", "1\\. one"),
        ("[[>]] a\nb", "> a\n  > b"),
        ("{{TODO}} - x", "[ ] - x"),
        ("__a__ **b** ^^c^^ ~~d~~", "*a* **b** ==c== ~~d~~"),
        ("`__a__ ^^b^^` ``c ` ((aaaaaaaaa))``", None),
        ("text ```js\nx = `1`\n``` after", "text\n  ```js\n  x = `1`\n  ```\n  after"),
        ("```plain text\nx```", "```plain-text\n  x\n  ```"),
        ("```x```", "```\n  x\n  ```"),
        ("{{[[query]]: {and: [[a]] {or: [[b]]}}}}", "`{{[[query]]: {and: [[a]] {or: [[b]]}}}}`"),
        ("{{iframe: https://a.org/b}} {{youtube: x}}", "https://a.org/b `{{youtube: x}}`"),
        ("{{Button:SmartBlock:x}}", "`{{Button:SmartBlock:x}}`"),
        ("{{ unclosed ((", None),
        ("((zzzzzzzzz))", "((zzzzzzzzz))"),
        ("wow![[Hive]]", "wow\\![[Hive]]"),
        ("[a](https://a.org/b_(c)) https://a.org/x_y_z", None),
        ("#tag, #a/b #[[Mar, x]]", "#tag, #a/b [[Mar, x]]"),
        ("Author:: [[Hive]]", "Author:: [[Hive]]"),
        ("[[Hive]]:: x", "[[Hive]]:: x"),
        ("$$x_1$$ is", "$x_1$ is"),
        ("[x](((aaaaaaaaa)))", "x"),
        ("[[June 3rd, 2024]]", "[[2024-06-03|June 3rd, 2024]]"),
    ],
)
def test_roam_string_is_converted(given: str, expected: str | None, tmp_path: Path) -> None:
    """Roam's markup becomes markdown, code is unchanged, and other characters are escaped."""
    made = re.sub(r"\[\[import:[^|\]]*\|([^\]]*)\]\]", r"[[\1]]", roam_block(tmp_path, given))
    assert made == f"- {given if expected is None else expected}"


def test_roam_counts_each_type_once(tmp_path: Path) -> None:
    """The import lists how many parts were converted, and each type that was not."""
    found = counts(roam_source.make_graphs(tmp_path), "roam")
    for name, number in {"page": 4, "daily page": 2, "block": 35, "table": 1, "task": 3}.items():
        assert found["converted"][name] == number
    assert found["omitted"] == {
        'component "query"': 1,
        "hiccup": 1,
        'block property "text-align"': 1,
        'block property "emojis"': 1,
    }


def test_roam_export_without_blocks_at_its_start_is_recognized(tmp_path: Path) -> None:
    """Empty pages at the beginning of an export do not prevent its recognition."""
    pages = [{"title": f"P{n}", "edit-time": 1, "uid": f"u{n}"} for n in range(3_000)]
    write(tmp_path, "x.json", json.dumps(pages))
    source = open_source(str(tmp_path / "x.json"))
    assert detection.detect_format(source).name == "roam"


def test_roam_edn_hint_explains_alternative(run: Run, folder: Path, tmp_path: Path) -> None:
    """An EDN export is refused with the format to use instead."""
    made = write(tmp_path, "graph.edn", "#datascript/DB {:schema {}}")
    got = Imported(run, folder, made, "roam")
    assert got.unreadable == {("graph.edn", "EDN is not read: export the graph as JSON")}
