"""Results are printed in the requested form: by template, as CSV, or paged on a terminal."""

from __future__ import annotations

import csv
import io
import os
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from conftest import Run, soak_only, succeeded, write
from memvault.cli import output, terminal
from terminal import TerminalStream, at_terminal


@pytest.fixture(autouse=True)
def notes(folder: Path) -> None:
    """A vault with a few memories."""
    for number in range(40):
        text = f'---\nid: n{number}-7k2m9q\ntitle: "Note, {number}"\ntags: [a, b]\n---\n\n'
        write(folder, f"n{number:02}.md", f"{text}# Head\n\n**Bold** sparrows, number {number}.\n")


def test_format_template_prints_each_entry(run: Run) -> None:
    """Keys are in braces, with Python's format syntax, and lists are joined with commas."""
    ran = succeeded(run("list", "-n", "2", "--format", r"{memId:>12}|{title}\t{tags}"))
    lines = ran.out.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(("n", " ")) for line in lines)
    assert lines[0].endswith("\ta,b")


def test_csv_output_round_trips(run: Run) -> None:
    """The first line has the keys, and a comma in a title does not split the field."""
    rows = list(csv.DictReader(io.StringIO(succeeded(run("list", "--csv")).out)))
    assert len(rows) == 40
    assert {row["title"] for row in rows} == {f"Note, {number}" for number in range(40)}
    assert rows[0]["tags"] == "a,b"
    assert run("recall", "sparrows", "--csv").out.splitlines()[0].startswith("memId,title,")


def test_format_optional_key_is_empty_if_missing(run: Run) -> None:
    """A template can use a key that only some entries have, such as supersededBy."""
    ran = succeeded(run("list", "-n", "2", "--format", "{memId}|{supersededBy}|{problem}"))
    assert all(line.endswith("||") for line in ran.out.splitlines())


def test_output_neutralizes_control_characters_and_formulas(run: Run, folder: Path) -> None:
    """A tag or title never starts a new line, sends terminal codes or acts as a CSV formula."""
    text = '---\ntitle: "=1+1\\e[31m"\ntags: ["a\\nb"]\n---\n\nTwo\nlines.\n'
    write(folder, "n.md", text)
    ran = succeeded(run("list", "--filter", "tags != ['a', 'b']", "--format", "{title}|{tags}"))
    assert ran.out == "=1+1␛[31m|a␊b\n"
    assert "a␊b\n" in succeeded(run("tags", "--format", "{tag}")).out
    rows = succeeded(run("list", "--filter", "tags != ['a', 'b']", "--csv")).out
    (row,) = csv.DictReader(io.StringIO(rows))
    assert (row["title"], row["tags"]) == ("'=1+1␛[31m", "a\nb")
    assert run("show", "n.md", "--format", "{content}").out.strip("\n") == "Two\nlines."
    succeeded(run("compound", "n.md", "A third."))
    assert "\n+A third.\n" in succeeded(run("diff", "n.md", "--format", "{diff}")).out


def shown_at(folder: Path, *words: str, **environment: str) -> str:
    """Run a command on a terminal; return its output."""
    code, shown = at_terminal(folder, *words, environment=environment)
    assert code == 0, shown
    return shown


def test_long_output_goes_to_the_pager(folder: Path, tmp_path: Path) -> None:
    """On a terminal, output too long for the screen goes to PAGER, except with --no-pager."""
    write(
        tmp_path,
        "pager",
        f"#!/bin/sh\necho paged\nexec {sys.executable} -c 'print(len(open(0).read()))'\n",
    )
    (tmp_path / "pager").chmod(0o755)
    pager = {"PAGER": str(tmp_path / "pager")}
    assert shown_at(folder, "list", **pager).startswith("paged\n")
    assert "paged" not in shown_at(folder, "list", "-n", "2", **pager)
    assert "paged" not in shown_at(folder, "list", "--no-pager", **pager)


def test_show_renders_markdown_on_terminal(folder: Path, run: Run) -> None:
    """Markdown is rendered in color on a terminal and is plain text everywhere else."""
    shown = shown_at(folder, "show", "n1-7k2m9q", PAGER="cat")
    assert "**Bold**" not in shown
    assert "\x1b[1mBold\x1b[0m" in shown
    assert "**Bold** sparrows" in run("show", "n1-7k2m9q").out


def test_show_preserves_markdown_source(folder: Path) -> None:
    """HTML, comments and link definitions are shown to a person just as an agent reads them."""
    hidden = (
        "<div>one</div>\n\n<!-- two -->\n\n[x]: http://a.example 'three'\n\nfour <b>five</b>\nsix"
    )
    write(folder, "odd.md", f"# Odd\n\n{hidden}\n")
    shown = shown_at(folder, "show", "odd.md", PAGER="cat")
    for line in filter(None, hidden.splitlines()):
        assert f"\n{line}" in shown


def test_matches_are_bold_on_terminal(folder: Path) -> None:
    """The query's words are bold in the displayed text, except for stop words."""
    write(folder, "ci.md", "# Ci\n\nThe CI is what the café at 東京駅前 has, said the cat.\n")
    shown = shown_at(folder, "recall", "sparrow number", PAGER="cat")
    assert "\x1b[1msparrows\x1b[0m" in shown
    shown = shown_at(folder, "recall", "what is the ci at the CAFE", "-n", "1", PAGER="cat")
    assert "The \x1b[1mCI\x1b[0m is what the \x1b[1mcafé\x1b[0m at" in shown
    shown = shown_at(folder, "show", "ci.md", "--around", "cafe 東京", PAGER="cat")
    assert "\x1b[1mcafé\x1b[0m" in shown
    assert "\x1b[1m東京駅前\x1b[0m" in shown


def test_diff_and_log_are_colored_on_terminal(folder: Path, run: Run) -> None:
    """A diff shows additions in green and deletions in red, and log colors each change."""
    succeeded(run("compound", "n1-7k2m9q", "A bird in the bush.\n", "--mode", "replace"))
    shown = shown_at(folder, "diff", "n1-7k2m9q", PAGER="cat")
    assert "\x1b[32m+A bird in the bush." in shown
    assert "\x1b[31m-" in shown
    assert "\x1b[36m@@" in shown
    change = run("log", "--json").json["changes"][0]
    shown = shown_at(folder, "log", PAGER="cat")
    assert f"\x1b[33m{change['changeId']}\x1b[0m" in shown
    assert f"\x1b[36m{change['tool']}\x1b[0m" in shown


def test_progress_bar_is_reused_and_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consecutive tasks share one bar, and another round never moves it back."""
    monkeypatch.setattr(sys, "stderr", TerminalStream())
    monkeypatch.setattr(output, "_PROGRESS_DELAY", 0.0)
    bar = output.ProgressBar(quiet=False)
    seen = []
    steps = [("indexing", 0, 9), ("indexing", 9, 9), ("embedding", 2, 4), ("embedding", 4, 4)]
    for step in [*steps, ("embedding", 0, 1), ("embedding", 1, 1)]:
        bar(*step)
        (task,) = bar._bar.tasks
        seen.append((task.description, task.completed, task.total))
    bar._bar.stop()
    assert seen == [
        ("Indexing", 0, 9),
        ("Indexing", 9, 9),
        ("Embedding", 2, 4),
        ("Embedding", 4, 4),
        ("Embedding", 4, 5),
        ("Embedding", 5, 5),
    ]


@soak_only
def test_progress_bar_never_moves_backward(folder: Path) -> None:
    """While thousands of memories are indexed, one bar counts them all and only advances."""
    for number in range(4_460):
        write(folder, f"m{number}.md", f"# Note {number}\n\n{'A word of many. ' * 60}\n")
    code, shown = at_terminal(folder, "reindex", environment={"MEMVAULT_DEEP": "off"})
    assert code == 0
    shown = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown)
    steps = re.findall(r"(\w*) [━╸╺ ]+ +([\d.]+)/([\d.]+) MB", shown)
    assert len({(work, total) for work, _, total in steps}) == 1
    counts = [float(done) for _, done, _ in steps]
    assert counts == sorted(counts)


def test_times_are_shown_in_local_time_zone(folder: Path, run: Run) -> None:
    """Messages, episodes, plans and status show times in the user's zone, even at midnight."""
    succeeded(run("inbox", "push", "ci", "Build 7 failed"))
    succeeded(run("episode", "store", "--reflection", "It held."))
    succeeded(run("plans", "set", "Launch", "Check all", "--at", "2999-01-01T00:00:00Z"))
    sent = datetime.fromisoformat(run("inbox", "list", "--json").json["events"][0]["timestamp"])
    here = (sent + timedelta(hours=14)).isoformat()
    for words, expected in (
        (("inbox", "list"), here[:19]),
        (("episode", "recent"), here[:10]),
        (("plans", "get"), "2999-01-01T14:00:00"),
        (("status",), f"since {here[:16]}, a plan due at 2999-01-01T14:00"),
    ):
        environment = {"TZ": "Pacific/Kiritimati", "COLUMNS": "200", "NO_COLOR": "1"}
        _, shown = at_terminal(folder, *words, environment=environment)
        assert expected in shown
        assert not re.search(r"T[\d:.]+Z", shown)


def test_status_shows_ignore_patterns_as_written(folder: Path, run: Run) -> None:
    """Status lists the vault's ignore patterns as they are written in the settings."""
    write(folder, "memvault.toml", 'version = 1\nignore = ["README.md", "old/"]\n')
    assert "settings: ignore README.md, old/\n" in succeeded(run("status")).out


def test_no_color_disables_colors(folder: Path, tmp_path: Path) -> None:
    """With NO_COLOR a terminal shows plain text, still through the pager."""
    assert "\x1b[" not in shown_at(folder, "show", "n1-7k2m9q", NO_COLOR="1", PAGER="cat")
    script = write(tmp_path, "pager", "#!/bin/sh\necho paged\ncat > /dev/null\n")
    script.chmod(0o755)
    assert shown_at(folder, "list", NO_COLOR="1", PAGER=str(script)) == "paged\n"


@pytest.mark.parametrize("pager", ["", "cat", "no-such-pager"])
def test_output_is_complete_without_pager(folder: Path, pager: str) -> None:
    """With an empty PAGER, as in git, or a missing pager program, all output is printed."""
    assert shown_at(folder, "list", PAGER=pager).count("n0-7k2m9q") == 1


def test_pager_counts_wrapped_lines(folder: Path, tmp_path: Path) -> None:
    """A few long lines that wrap beyond the terminal's height go to the pager too."""
    write(folder, "long.md", f"# Long\n\n{'word ' * 600}\n")
    script = write(tmp_path, "pager", "#!/bin/sh\necho paged\ncat > /dev/null\n")
    script.chmod(0o755)
    words = ("show", "long.md")
    assert shown_at(folder, *words, NO_COLOR="1", PAGER=str(script)) == "paged\n"


@given(st.text(), st.integers(20, 200), st.text())
@example("[" * 3000, 80, "")
@example("> - " * 500, 20, "")
@example("|a|\n|-|\n|b|", 20, "a")
def test_terminal_rendering_accepts_any_text(text: str, width: int, query: str) -> None:
    """Any memory and any query can be rendered, and none sends terminal codes."""
    for line in terminal.markdown(text, width):
        assert "".join(piece for piece, _ in terminal.highlight(line, query)) == "".join(
            piece for piece, _ in line
        )
        assert "\x1b" not in "".join(piece for piece, _ in line)


def test_terminal_shows_deeply_nested_lists() -> None:
    """The items of a list are shown on a terminal however deeply they are nested."""
    text = "".join("  " * depth + f"- item-{depth}\n" for depth in range(40))
    shown = "".join(piece for line in terminal.markdown(text, 100) for piece, _ in line)
    assert all(f"item-{depth}" in shown for depth in range(40))


def test_vault_cannot_set_the_pager(folder: Path) -> None:
    """A program in the vault is never used as the pager; the output is printed directly."""
    write(folder, "my-pager", f"#!/bin/sh\ntouch {folder}/ran\n").chmod(0o755)
    for number in range(30):
        write(folder, f"n{number}.md", f"# Note {number}\n")
    path = f"{folder}:{os.environ['PATH']}"
    for pager in ("my-pager", "less '", "false"):
        shown = shown_at(folder, "list", PAGER=pager, PATH=path)
        assert "Note 29" in shown
        assert "Note 0" in shown
    assert not (folder / "ran").exists()


NAMES = {
    "wide": "漢字で書いた覚え書き、長い題名の一つ",
    "joined": "Trip 👨‍👩‍👧 ❤️ to the mountains with all of them",
    "marks": "Re\u0301sume\u0301 of a meeting that was re\u0301pe\u0301te\u0301",
}


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_rows_fit_the_terminal_width(folder: Path, columns: int) -> None:
    """Rows fit in any script, and a date, memId or path that fits is not split."""
    for name, title in NAMES.items():
        head = f"---\nid: {name}-abc123\ntitle: {title}\nmodified: 2026-03-04T12:00:00Z\n---\n"
        write(folder, f"projects/a b/{name}.md", f"{head}" + "A walk in the park. " * 20)
    environment = {"COLUMNS": str(columns), "MEMVAULT_PAGER": "cat", "TZ": "UTC"}
    for words in (("recall", "a walk in the park"), ("list",)):
        code, shown = at_terminal(folder, *words, environment=environment)
        assert code == 0, shown
        rows = re.sub(r"\x1b\[[0-9;]*m", "", shown).split("\n")
        assert [row for row in rows if cell_len(row) > columns] == []
        for name in NAMES:
            for whole in (f"{name}-abc123", f"projects/a b/{name}.md", "2026-03-04"):
                assert any(whole in row for row in rows), (whole, rows)


def test_format_widths_count_terminal_cells(folder: Path, run: Run) -> None:
    """Width and precision in --format count terminal cells, so columns line up."""
    for name, title in NAMES.items():
        write(folder, f"{name}.md", f"---\nid: {name}-abc123\ntitle: {title}\n---\n{title}\n")
    for spec in ("<60", ">60", "^60", "<12.10", "60"):
        rows = succeeded(run("list", "--format", f"{{title:{spec}}}|")).out.splitlines()
        assert {cell_len(row) for row in rows} == {61 if "60" in spec else 13}
