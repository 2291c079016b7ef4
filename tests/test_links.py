"""What Obsidian follows from a note is a link, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import write
from growth import Steps, check_growth
from memvault import Vault
from memvault.vault.markdown import links, mask_code, tags
from wrong_vaults import examined, told

LINKS = {
    "[[Bees]]": ("Bees", "", ""),
    "[[Bees|the hive]]": ("Bees", "", "the hive"),
    "[[Bees#Two]]": ("Bees", "Two", ""),
    "[[Bees#^x1|so]]": ("Bees", "^x1", "so"),
    "| a [[Bees\\|so]] |": ("Bees", "", "so"),
    "![[bee.png|100]]": ("bee.png", "", "100"),
    "[the hive](notes/Bees.md)": ("notes/Bees.md", "", "the hive"),
    "[the `hive`](my%20bees.md#Two)": ("my bees.md", "Two", "the `hive`"),
    '![a [b] c](<my bees.md> "so")': ("my bees.md", "", "a [b] c"),
    "> [a](b_(c).md)": ("b_(c).md", "", "a"),
}


@pytest.mark.parametrize("text", LINKS)
def test_a_link_is_read_as_obsidian_reads_it(text: str) -> None:
    """Target, heading and what is shown are told apart, and where both stand."""
    (link,) = links(f"See: {text} and more.")
    assert (link.target, link.heading, link.shown) == LINKS[text]
    assert link.is_embed == ("!" in text)
    assert link.is_wikilink == ("[[" in text)
    whole = f"See: {text} and more."[slice(*link.span)]
    assert whole in text
    assert whole.endswith(("]]", ")"))
    written = f"See: {text} and more."[slice(*link.target_span)]
    assert written.replace("%20", " ") == link.target


@pytest.mark.parametrize(
    "text",
    [
        "`[[a]]` and ``a ` [[a]]`` and `two\nlines [[a]]`",
        "```\n[[a]]\n~~~\n[[a]]\n```",
        "- ~~~~ py\n  [[a]]\n  ~~~\n  [a](a.md)\n  ~~~~",
        "> ```\n> [[a]]\n> ```",
        "%%[[a]]%% and %%\n[[a]]\n%%",
        "[[#here]] [x](#here) [x](https://a.md) [x](mailto:a@b.md) [x](//a.md) [[ -f x ]]",
        "[[]] [[|a]] []() [a] (a.md) [a](a b.md)",
        "",
    ],
)
def test_what_is_no_link_to_another_note_is_none(text: str) -> None:
    """Code, comments, places in the same note, other places, and brackets of a shell."""
    assert list(links(text)) == []


def test_what_is_not_prose_is_blank_and_all_else_stands_where_it_stood() -> None:
    """Backticks that nothing closes in their paragraph are text, as a fence with text behind."""
    text = "a ` b\r\n\r\n`c` ``d` e\n\n```x``` f\n~~~\ncode\n"
    assert mask_code(text) == "a ` b\r\n\r\n    ``d` e\n\n        f\n   \n    \n"
    assert len(mask_code(text)) == len(text)


def test_a_fence_ends_with_the_quote_or_the_entry_that_it_stands_in() -> None:
    """What nobody closed there hides nothing of what follows."""
    for text in ("> ~~~\n> #a\n#b", "- ```\n  #a\n\n  #a\n#b\n", "  1. ```\n     #a\n- #b"):
        assert [tag[1] for tag in tags(text)] == ["b"]
    assert list(tags("```\n> #a\n- #a\n")) == []


@pytest.mark.parametrize(
    "piece",
    ["[", "[a", "[[", "![[x", "`a``b```c ", "](", "[x](", "%%", "[a](<", "```\n", "(("],
)
def test_any_text_is_read_in_time(piece: str) -> None:
    """Nobody keeps a program busy with brackets and backticks that nothing closes."""

    def work(size: int) -> Steps:
        yield lambda: mask_code(piece * size)
        yield lambda: list(links(piece * size + "[["))

    check_growth(work, 5_000)
    assert len(mask_code(piece * 5_000)) == len(piece) * 5_000


def test_doctor_follows_links_in_markdown_to_notes(vault: Vault, folder: Path) -> None:
    """One to a note that is missing is told; one to a picture, or out of the vault, is not."""
    write(folder, "notes/a.md", "[b](b.md), [c](../c.md#x), [d](d.png), [e](../../e.md), [f](f/)\n")
    write(folder, "c.md", "Here: [a](notes/a.md) and ![[notes/a]].\n")
    found = examined(vault)
    assert told(found) == {("link-broken", "notes/a.md")}
    assert found["findings"][0]["message"] == "[b](b.md) leads to no file"
