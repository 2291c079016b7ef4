"""Snippets and excerpts consist of whole sentences and sections of texts of any length."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, explained, index_of, refused, sampled, succeeded, write
from growth import Steps, check_growth
from memvault import Vault, open_vault
from memvault.files.lock import FileLock
from memvault.index.protocol import COMPLETE, MatchLocation
from memvault.recall.snippets import beginning, units
from memvault.workspace import Workspace

BODY = """# Services

The cluster has three services. Each has a port of its own, which the firewall
opens. Ask Mara for more. %%The password is in the safe.%%

| Service  | Port | Owner |
| :------- | ---: | ----- |
| database | 5432 | Ana   |
| cache\\|x | 6379 |       |

- [ ] Rotate the keys of the database
  on the first Monday
- Renew the certificate
1. Call the plumber

> A quote of Zoe goes here.
> It goes on.

```sh
# restart the queue
systemctl restart   rabbitmq
```

owner:: Bea
"""

SHOWN = {
    "which port does each service have": "The cluster has three services. "
    "Each has a port of its own, which the firewall opens. Ask Mara for more. …",
    "port": "Each has a port of its own, which the firewall opens. Ask Mara for more. …",
    "5432": "database | 5432 | Ana",
    "owner cache 6379": "Service | Port | Owner / database | 5432 | Ana / cache|x | 6379",
    "certificate": "Renew the certificate",
    "rotate keys": "[ ] Rotate the keys of the database on the first Monday",
    "rotate certificate plumber": "[ ] Rotate the keys of the database on the first Monday"
    " / Renew the certificate / Call the plumber",
    "Zoe": "A quote of Zoe goes here. It goes on. …",
    "rabbitmq": "systemctl restart rabbitmq",
    "Bea": "owner:: Bea",
}


@pytest.mark.parametrize("query", SHOWN)
def test_snippet_starts_at_sentence_start(vault: Vault, folder: Path, query: str) -> None:
    """Rows show their cells; items and code lines are shown alone unless others match better."""
    file = write(folder, "a.md", f"---\ntags: [x]\n---\n\n{BODY}")
    (found,) = vault.call("memory_recall", query=query, type="keyword")["memories"]
    assert found["snippet"] == SHOWN[query]
    line = file.read_text("utf-8").splitlines()[found["line"] - 1]
    assert found["snippet"].removeprefix("[ ] ").split()[0] in line


def test_snippet_omits_comments(vault: Vault, folder: Path) -> None:
    """Text that Obsidian hides from readers is found but not shown."""
    write(folder, "a.md", BODY)
    (found,) = vault.call("memory_recall", query="password", type="keyword")["memories"]
    assert "safe" not in found["snippet"]
    assert "safe" not in beginning(BODY)
    assert units("50%% of `%%` a ```%%x%%``` ~~~")[0].text.startswith("50%% of `%%`")


@pytest.mark.parametrize(
    "head", ["<!-- zebra: generated, do not edit -->", "%% zebra %%", "[![zebra](b.svg)](c.html)"]
)
def test_snippet_omits_comment_before_first_heading(vault: Vault, folder: Path, head: str) -> None:
    """A comment or badge at the top of a file is not shown, even if it has the word."""
    write(folder, "a.md", f"{head}\n\n# Zebra\n\nThe project counts stripes in Kenya.\n")
    (found,) = explained(vault, "zebra")
    assert found["snippet"] == "The project counts stripes in Kenya."


def test_snippet_of_long_sentence_surrounds_the_words(vault: Vault, folder: Path) -> None:
    """An ellipsis marks omitted text, and words near the start are shown from the start."""
    filler = " ".join(f"w{number}" for number in range(100))
    write(folder, "a.md", f"# A\n\nAll bees {filler} wasps {filler}\n")

    def shown(query: str) -> str:
        (found,) = vault.call("memory_recall", query=query, type="keyword")["memories"]
        assert len(found["snippet"]) < 250
        return str(found["snippet"])

    assert shown("bees").startswith("All bees w0 ")
    assert shown("bees").endswith(" …")
    assert shown("wasps").startswith("… w")
    assert " wasps w0 " in shown("wasps")


def test_listing_starts_with_first_words() -> None:
    """Listings show the first words of tables and lists too, without cutting a word."""
    assert (
        beginning("# T\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- x\n- y\n") == "a | b / 1 | 2 / x / y"
    )
    assert beginning("# Only\n") == "Only"
    assert beginning("") == ""
    assert beginning("word " * 100).endswith("word …")


@pytest.mark.parametrize(
    "piece", ["- ", "> ", "| ", "%%", ". ", "A: ", "- a\n  b\n", "```\n", "\\|", "a.\n"]
)
def test_snippet_splitting_takes_linear_time(piece: str) -> None:
    """Half a megabyte of punctuation is split in linear time."""

    def work(size: int) -> Steps:
        yield lambda: units(piece * (size // len(piece)))

    check_growth(work, 50_000)


SAID = "The lighthouse keeper at Aldern is called Ismene."
ASKED = "what is the lighthouse keeper at Aldern called"
LIKE = "person in charge of the beacon on the coast"
OTHERS = {
    "Keeper": "The keeper of the archive counts its sheets at Aldern.",
    "Light": "A light is called a lamp in this house.",
    "Goal": "Our goalkeeper is called Tom.",
}


def paragraphs(characters: int, first: int = 0) -> str:
    """Paragraphs without relevant content, all different."""
    text = "Entry {0} tells of bread, of rain on day {0}, and of cooks who slept till noon.\n\n"
    found, number = [], first
    while characters > 0:
        found.append(text.format(number))
        characters -= len(found[-1])
        number += 1
    return "".join(found)


def others(folder: Path) -> None:
    """Write short memories that share words with the question."""
    for title, body in OTHERS.items():
        write(folder, f"{title.lower()}.md", f"# {title}\n\n{body}\n")


def best(vault: Vault, query: str) -> dict[str, Any]:
    """Recall; return the first result."""
    return explained(vault, query)[0]


PLACES = {
    "last paragraph": (1_000_000, 0),
    "middle": (500_000, 500_000),
    "first paragraph": (0, 1_000_000),
}


@sampled(9)
@pytest.mark.parametrize("place", PLACES)
def test_recall_searches_all_of_a_one_megabyte_memory(
    folder: Path, vault: Vault, place: str
) -> None:
    """A sentence in a 1 MB note is found by its words, fully matched and displayed."""
    others(folder)
    before, after = PLACES[place]
    text = f"{paragraphs(before)}{SAID}\n\n{paragraphs(after, 90_000)}"
    write(folder, "long.md", f"# Diary\n\n{text}")
    found = best(vault, ASKED)
    assert (found["title"], found["strength"]) == ("Diary", "strong")
    assert found["why"]["coverage"] == 1
    assert "Ismene" in found["snippet"]


@pytest.mark.parametrize("block", [0, 3, 4, 9, 19])
@pytest.mark.parametrize("query", [ASKED, LIKE], ids=["words", "meaning"])
def test_recall_matches_any_passage_of_long_memory(
    folder: Path, vault: Vault, block: int, query: str
) -> None:
    """Any of a memory's twenty passages can match, by words or by meaning."""
    others(folder)
    pieces = [paragraphs(5_900, 1_000 * number) for number in range(20)]
    pieces[block] += f"## Coast\n\n{SAID}\n\n## Bread\n\n"
    write(folder, "long.md", f"# Diary\n\n{''.join(pieces)}")
    found = best(vault, query)
    assert found["title"] == "Diary"
    assert "Ismene" in found["snippet"]


def test_unindexed_memory_passages_are_scored_equally(folder: Path) -> None:
    """A long memory read from its file has the same passages as in the index."""
    others(folder)
    write(
        folder, "long.md", f"# Diary\n\n{paragraphs(40_000)}{SAID}\n\n{paragraphs(40_000, 9_000)}"
    )
    with open_vault(folder) as vault:
        indexed = explained(vault, ASKED)
    text = (folder / "long.md").read_bytes()
    (folder / "long.md").unlink()
    with open_vault(folder) as vault:
        assert len(explained(vault, ASKED)) == len(OTHERS)
    with FileLock(index_of(folder) / "lock"), open_vault(folder) as vault:
        write(folder, "long.md", text)
        read = explained(vault, ASKED)
    assert [entry["title"] for entry in read] == [entry["title"] for entry in indexed]
    for one, other in zip(read, indexed, strict=True):
        assert one["why"]["coverage"] == other["why"]["coverage"]
        assert one["score"] == pytest.approx(other["score"], abs=0.05)
        assert one["snippet"] == other["snippet"]


def test_recall_reads_bounded_number_of_passages(folder: Path) -> None:
    """A comparison reads only the first, the best and the nearest passages."""
    write(folder, "long.md", f"# Diary\n\n{paragraphs(1_000_000)}")
    view = Workspace(folder).index.refresh(True, COMPLETE)
    (uid,) = (record.uid for record in view.records() if record.title == "Diary")
    every = view.passages(uid, MatchLocation(tuple(range(400)), None))
    some = view.passages(uid, MatchLocation((7, 90), 700))
    assert len(every) > 800
    assert len(some) < len(every) / 10
    assert {number for number, _ in some} > {0, 700}
    assert [number for number, _ in every] == list(range(len(every)))
    spans = [(passage.start, passage.end) for _, passage in some]
    assert spans == sorted(spans)


MANUAL = """Begun in May.

# Setup

Ask Mira for the key.

## Linux

Install the driver with apt.

### Kernel modules

Load snd_usb first.

## Windows

Take the signed driver from the share.

# Calibration

Warm it up for an hour, then measure the white tile.

```
# not a heading
```

# Faults

A red light means that the lamp is old.

## Linux

Restart udev.
"""


@pytest.fixture
def manual(vault: Vault) -> str:
    """A memory with sections."""
    kept = vault.call(
        "memory_remember", title="Spectrometer", content=MANUAL, memoryType="procedure"
    )
    return str(kept["memId"])


def part(vault: Vault, name: str, **asked: Any) -> dict[str, Any]:
    """Show a part of a memory; check that it is at the reported position."""
    whole = vault.call("memory_show", memId=name)
    found = vault.call("memory_show", memId=name, **asked)
    assert found["etag"] == whole["etag"]
    assert found["wholeLength"] == len(whole["content"])
    pieces = [
        whole["content"][entry["offset"] : entry["offset"] + entry["length"]].strip("\n")
        for entry in found["parts"]
    ]
    assert found["content"] == "\n…\n".join(pieces)
    return found


def test_section_is_paged_by_its_own_length(vault: Vault, manual: str, run: Run) -> None:
    """A page's total is the length of the section, and following next shows all of it."""
    whole = part(vault, manual, section="Setup")
    first = vault.call("memory_show", memId=manual, section="Setup", length=30)
    assert (first["next"], first["totalLength"]) == (30, len(whole["content"]))
    assert first["wholeLength"] == whole["wholeLength"] > whole["totalLength"]
    rest = vault.call("memory_show", memId=manual, section="Setup", offset=30)
    assert first["content"] + rest["content"] == whole["content"]
    assert rest["totalLength"] == len(whole["content"])
    assert "next" not in rest
    shown = run("show", manual, "--section", "Setup", "--length", "30").out
    assert f"`--offset 30` shows the rest of {len(whole['content'])} characters" in shown
    assert f"of {whole['wholeLength']} characters" in shown


def test_block_id_is_not_part_of_title_or_heading(folder: Path, vault: Vault) -> None:
    """A block id in a heading is not part of the title or of a section's name."""
    text = "# Spectrometer ^spec\n\n## Setup ^setup1 ##\n\nMira aligns the grating.\n\n## 2 ^\n"
    write(folder, "spectrometer.md", text)
    asked = ({"section": "setup"}, {"section": "Setup ^setup1"}, {"around": "grating"})
    for wanted in asked:
        (place,) = part(vault, "Spectrometer", **wanted)["parts"]
        assert place["heading"].endswith("Setup")
    vault.call("memory_rename", memId="spectrometer.md", title="Prism", confirm=True)
    assert text.replace("Spectrometer", "Prism") in (folder / "prism.md").read_text("utf-8")


def test_section_includes_its_subsections(vault: Vault, manual: str) -> None:
    """A section extends from its heading to the next one of its level or above."""
    found = part(vault, manual, section="setup")
    assert found["content"].startswith("# Setup\n\nAsk Mira")
    assert found["content"].endswith("Take the signed driver from the share.")
    assert [entry["heading"] for entry in found["parts"]] == ["Setup"]


@pytest.mark.parametrize(
    ("asked", "heading", "said"),
    [
        ("## setup / LINUX", "Setup/Linux", "Install the driver"),
        ("Faults/Linux", "Faults/Linux", "Restart udev"),
        ("Setup/Kernel modules", "Setup/Linux/Kernel modules", "snd_usb"),
    ],
)
def test_section_path_distinguishes_equal_headings(
    vault: Vault, manual: str, asked: str, heading: str, said: str
) -> None:
    """A path of headings selects one of several equal headings, in each tool with a section."""
    found = part(vault, manual, section=asked)
    assert [entry["heading"] for entry in found["parts"]] == [heading]
    assert said in found["content"]
    vault.call("memory_compound", query=manual, section=asked, modifications="Replaced.")
    again = part(vault, manual, section=asked)
    assert again["parts"][0]["heading"] == heading
    assert "Replaced." in again["content"]
    assert said not in vault.call("memory_show", memId=manual)["content"]


def test_section_with_ambiguous_heading_is_refused(vault: Vault, manual: str) -> None:
    """A section with an ambiguous heading is not shown or replaced; the error lists the paths."""
    before = vault.call("memory_show", memId=manual)["etag"]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("memory_show", {"memId": manual}),
        ("memory_compound", {"query": manual, "modifications": "Replaced."}),
    ]
    for tool, arguments in calls:
        refused = vault.call(tool, section="linux", **arguments)
        assert refused["error"]["code"] == "ambiguous"
        assert refused["sections"] == ["Setup/Linux", "Faults/Linux"]
        assert "Setup/Linux, Faults/Linux" in refused["error"]["hint"]
    assert vault.call("memory_show", memId=manual)["etag"] == before


def test_compound_adds_missing_section_below_its_parent(vault: Vault, folder: Path) -> None:
    """A new heading goes below its parent, and a slash in an existing heading is kept."""
    write(folder, "net.md", "# Net\r\n\r\n## A/B\r\n\r\nold\r\n\r\n# End\r\n\r\nlast\r\n")
    for section in ("Net/C", "B", "A/B", "Net/A/B"):
        text = f"Of {section}."
        vault.call("memory_compound", query="net.md", section=section, modifications=text)
    assert (folder / "net.md").read_bytes().decode() == (
        "# Net\r\n\r\n## A/B\r\n\r\nOf Net/A/B.\r\n\r\n## C\r\n\r\nOf Net/C.\r\n\r\n"
        "# End\r\n\r\nlast\r\n\r\n## B\r\n\r\nOf B.\r\n"
    )


@pytest.mark.parametrize("mode", ["append", "replace", "section"])
def test_compound_replaces_only_the_given_section(
    vault: Vault, run: Run, folder: Path, mode: str
) -> None:
    """With a section, compound replaces only that section's text, in every mode."""
    before = "# Net\r\n\r\nkept\r\n\r\n## Foo\r\n\r\nold\r\n\r\n## Bar\r\n\r\nkept too\r\n"
    ran = ["compound", "net.md", "new", "--section", "Foo", "--mode", mode]
    asked = {"query": "net.md", "modifications": "new", "section": "Foo", "mode": mode}
    for write_it in (lambda: run(*ran), lambda: vault.call("memory_compound", **asked)):
        write(folder, "net.md", before)
        write_it()
        assert (folder / "net.md").read_bytes().decode() == before.replace("old", "new")


def test_show_around_words_finds_best_passage(vault: Vault, manual: str) -> None:
    """The text around given words is the passage with most of them, in any word form."""
    found = part(vault, manual, around="which tiles are measured")
    assert "white tile" in found["content"]
    assert "signed driver from the share" not in found["content"]
    assert found["parts"][0]["heading"] == "Calibration"


def test_snippet_shows_two_equal_passages(vault: Vault) -> None:
    """If two passages match equally well, both are shown with a separator."""
    filler = "\n\n".join(f"# Day {day}\n\n{'Nothing of note. ' * 30}" for day in range(4))
    body = f"# First\n\nThe okapi slept.\n\n{filler}\n\n# Last\n\nThe okapi woke.\n"
    vault.call("memory_remember", title="Diary", content=body, memoryType="context")
    found = part(vault, "Diary", around="okapi")
    assert found["content"].count("okapi") == 2
    assert "\n…\n" in found["content"]
    assert len(found["content"]) < len(body) / 2


def test_show_section_prints_its_position(vault: Vault, manual: str, run: Run) -> None:
    """On the command line a section starts with its heading path and character range."""
    shown = run("show", manual, "--section", "Faults/Linux").out
    assert re.search(r"Faults/Linux  \d+ to \d+ of \d+ characters", shown)
    assert shown.endswith("Restart udev.\n")


def test_show_accepts_a_heading_after_the_name(folder: Path, run: Run) -> None:
    """A name or link may end with a heading; a link to a block shows the whole memory."""
    write(folder, "pump.md", "# Pump\n\n## Setup ^s1\n\nOil it.\n\n### Linux\n\nUdev.\n\n## Use\n")
    setup = run("show", "pump", "--section", "Setup").out
    for name in ("pump#Setup", "[[pump#Setup]]", "pump.md#setup", "[[Pump#Setup|its setup]]"):
        assert run("show", name).out == setup, name
    assert "Oil" not in run("show", "pump#Setup#Linux").out
    assert run("show", "pump#Setup", "--section", "Use").out.endswith("## Use\n")
    assert run("show", "[[pump#^s1]]").out == run("show", "pump").out
    assert "sections: Pump, Pump/Setup" in run("show", "pump#Nothing").err
    outdated = run("show", "[[pump#Nothing]]")
    assert outdated.out == run("show", "pump").out
    assert outdated.err == "note: there is no section 'Nothing'; the whole memory is shown\n"
    for name, unknown in (("nothing#Setup", "nothing"), ("[[no#Setup]]",) * 2, ("#Setup",) * 2):
        assert refused(run("show", name), 1) == f"error: There is no memory {unknown!r}"


def test_show_accepts_a_heading_that_contains_a_hash(folder: Path, run: Run) -> None:
    """The heading after a name may contain the character that separates them."""
    write(
        folder, "sharp.md", "# C# tips\n\n## C# 12\n\nNewer.\n\n### Issue #7\n\nOpen.\n\n## Use\n"
    )
    for heading in ("C# 12", "Issue #7"):
        shown = succeeded(run("show", "sharp", "--section", heading)).out
        for name in ("C# tips", "sharp", "sharp.md"):
            assert succeeded(run("show", f"{name}#{heading}")).out == shown, name
        assert run("show", f"[[sharp#{heading}]]").out == shown
    assert "C# 12" in run("show", "C# tips#None#C# 1").err
    many = f"none{'#' * 20_000}"
    assert refused(run("show", many), 1).startswith("error: ")


def test_show_accepts_a_heading_after_a_title_with_a_hash(folder: Path, run: Run) -> None:
    """The name before a heading may itself contain a hash."""
    write(folder, "sharp.md", "# C# notes\n\n## Setup\n\nInstall it.\n\n## Use\n")
    shown = run("show", "C# notes#Setup").out
    assert shown == run("show", "sharp", "--section", "Setup").out
    assert "Install it." in shown


README = """---
title: left over
tags:
  - imported
---
<!-- markdownlint-disable MD013 lorikeet -->
[![build](https://ci.example/b.svg)](https://ci.example) [![docs](d.svg)](https://d.example)

- [Install](docs/install.md)
- [Lorikeet guide](docs/lorikeet.md)
- [[Usage]] | [[Questions]]

Lorikeet syncs address books between phones. It needs a server.

```html
<!-- kept in code -->
```
"""


def test_unclosed_comment_hides_tags_and_snippets(vault: Vault, folder: Path) -> None:
    """An unclosed comment block hides the rest of a note; one within a line hides nothing."""
    write(folder, "draft.md", "The cassowary runs fast.\n\n<!-- #draft\nThe cassowary swims.\n")
    write(folder, "mark.md", "Write <!-- before a remark on the numbat. #shown\n")
    (draft, *_) = explained(vault, "cassowary swims")
    assert (draft["tags"], draft["snippet"]) == ([], "The cassowary runs fast.")
    (mark, *_) = explained(vault, "numbat")
    assert mark["tags"] == ["shown"]
    assert "numbat" in mark["snippet"]


def test_snippet_prefers_prose(vault: Vault, folder: Path) -> None:
    """Comments, badges, link lists and a pasted header are skipped if there is a sentence."""
    write(folder, "readme.md", README)
    write(folder, "links.md", "- [Cockatoo](a.md)\n- [[Galah]]\n\nNothing else to say here.\n")
    for query in ("lorikeet", "syncing address books", "markdownlint imported build"):
        found = [entry for entry in explained(vault, query) if entry["filePath"] == "readme.md"]
        assert found[0]["snippet"].startswith("Lorikeet syncs address books"), query
    assert beginning(README).startswith("Lorikeet syncs")
    assert "Galah" in explained(vault, "galah")[0]["snippet"]
    assert [unit.text for unit in units("<!-- all of it -->")] == ["<!-- all of it -->"]
    assert units("```\n<!-- kept -->\n```")[0].text == "<!-- kept -->"
    assert beginning("- [A](a.md)\n- [[B]]\n") == "[A](a.md) / [[B]]"


def test_snippet_prefers_rare_words(vault: Vault, folder: Path) -> None:
    """A snippet shows the sentence with the query's rare word rather than one with common words."""
    for number in range(20):
        write(folder, f"{number}.md", f"Shift {number} ends after week {number + 3}.\n")
    filler = "The form has many fields and boxes that nobody reads.\n\n" * 12
    body = f"The desk opens after week two.\n\n{filler}Donated leave goes to a colleague.\n"
    write(folder, "leave.md", f"# Program\n\n{body}\n{filler}Ask after week nine.\n")
    query = "who gets donated hours after a week"
    found = vault.call("memory_recall", query=query, type="keyword")["memories"]
    (snippet,) = [entry["snippet"] for entry in found if entry["filePath"] == "leave.md"]
    assert snippet.startswith("Donated leave")


def test_snippet_omits_link_targets(vault: Vault, folder: Path) -> None:
    """A snippet shows neither link definitions nor the middle of a long link target."""
    target = f"https://example.org/{'travel-' * 20}faq"
    prose = "The reimbursement reaches your account"
    definitions = "[guide]: https://example.org/reimbursement-after-a-trip\n[ana]: #trip 'After'"
    write(folder, "a.md", f"# A\n\n{prose}.\n\n{definitions}\n")
    sentence = f"{'First ' * 30}[stamp the form]({target}) and wait: {prose} {'soon ' * 28}."
    write(folder, "b.md", f"# B\n\n{sentence}\n")
    for path in ("a.md", "b.md"):
        found = vault.call("memory_recall", query="reimbursement after a trip", type="keyword")
        (snippet,) = [each["snippet"] for each in found["memories"] if each["filePath"] == path]
        assert re.match(rf"(?:… and wait: )?{prose}", snippet), snippet
    assert [unit.text for unit in units("[ERROR]: disk full\n[^1]: A/B note.")] == [
        "[ERROR]: disk full [^1]: A/B note."
    ]
