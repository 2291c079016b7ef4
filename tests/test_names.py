"""A memory is found by the names that people use, and none is changed by mistake."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import made_secrets
from conftest import Run, contents, refused, succeeded, write
from memvault import Vault
from terminal import at_terminal


@pytest.fixture
def ferries(folder: Path) -> Path:
    """A vault whose titles share no word, but for two."""
    write(folder, "travel/ship.md", "---\nid: crossing-1a2b3c\n---\n\n# ferry at noon\n\nPier 4.\n")
    write(folder, "travel/café.md", "---\nid: cafe-4d5e6f\n---\n\n# Café on the pier\n\nCrêpes.\n")
    write(folder, "travel/bus.md", "---\nid: bus-7a8b9c\n---\n\n# Bus to the town\n\nLine 5.\n")
    write(folder, "travel/train.md", "---\nid: rails-1d2e3f\n---\n\n# Train to Town\n\nLine 6.\n")
    return folder


@pytest.mark.usefixtures("ferries")
@pytest.mark.parametrize(
    ("name", "mem_id"),
    [
        ("Ferry", "crossing-1a2b3c"),  # a word of one title
        ("FERRY AT", "crossing-1a2b3c"),  # its beginning
        ("at noon", "crossing-1a2b3c"),
        ("cafe", "cafe-4d5e6f"),
        ("[[Ferry at noon]]", "crossing-1a2b3c"),
        ("[[ship|the boat]]", "crossing-1a2b3c"),
        ("[[travel/bus#Line 5|it]]", "bus-7a8b9c"),
        ("[[travel/bus.md]]", "bus-7a8b9c"),
        ("travel/train", "rails-1d2e3f"),
        ("Travel/Train.MD", "rails-1d2e3f"),
        ("train.md", "rails-1d2e3f"),
    ],
)
def test_a_part_of_a_title_and_a_link_are_names(vault: Vault, name: str, mem_id: str) -> None:
    """Reading tools take a part of a title, a wikilink, and a path without .md."""
    assert vault.call("memory_show", memId=name)["memId"] == mem_id
    assert vault.call("memory_links", memId=name)["success"]
    assert vault.call("memory_log", memId=name)["memId"] == mem_id


@pytest.mark.usefixtures("ferries")
@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("town", ["bus-7a8b9c", "rails-1d2e3f"]),  # in two titles
        ("fery", ["crossing-1a2b3c"]),
        ("Trian to Town", ["rails-1d2e3f"]),
        ("on the peer", ["cafe-4d5e6f"]),
        ("zzzzzz", []),
        ("[[", []),
        ("?", []),
    ],
)
def test_an_unknown_name_is_answered_with_the_closest(
    vault: Vault, name: str, near: list[str]
) -> None:
    """A name that no memory has lists up to five memories with similar titles, nearest first."""
    failed = vault.call("memory_show", memId=name)
    found = [entry["memId"] for entry in failed.get("candidates", [])]
    assert (failed["success"], failed["error"]["code"]) == (False, "not_found")
    assert sorted(found[: len(near)]) == near, failed
    assert len(found) <= 5
    assert ("did you mean" in failed["error"]["hint"]) is bool(found)


def test_a_word_that_begins_with_an_unknown_name_is_close(folder: Path, vault: Vault) -> None:
    """The first letters of a word of a title are enough to be shown the memory's name."""
    write(folder, "db.md", "---\nid: db-1a2b3c\n---\n\n# Use PostgreSQL\n")
    failed = vault.call("memory_show", memId="post")
    assert "'Use PostgreSQL' (db-1a2b3c)" in failed["error"]["hint"]


def test_nothing_is_changed_by_a_part_of_a_title(ferries: Path, vault: Vault, run: Run) -> None:
    """Without a terminal a writing tool refuses an inexact name and names the memory it is near."""
    before = contents(ferries)
    for tool, more in (
        ("memory_rename", {"title": "Boat"}),
        ("tag_add", {"tags": ["sea"]}),
        ("tag_remove", {"tags": ["sea"]}),
        ("memory_load", {}),
    ):
        failed = vault.call(tool, memId="Ferry", **more)
        assert failed["error"]["code"] == "not_found"
        assert "'ferry at noon' (crossing-1a2b3c)" in failed["error"]["hint"]
        assert [entry["memId"] for entry in failed["candidates"]] == ["crossing-1a2b3c"]
    for command in (("edit",), ("path",), ("rename", "Boat")):
        assert "There is no memory 'Ferry'" in refused(run(command[0], "Ferry", *command[1:]), 1)
    assert vault.call("memory_delete", ids=["Ferry"])["missing"] == ["Ferry"]
    after = contents(ferries)
    assert {path: after[path] for path in before} == before


@pytest.mark.parametrize("name", ["n", "no", "notes-about", "./notes-about-ca"])
def test_nothing_is_changed_by_the_beginning_of_a_slug(
    folder: Path, vault: Vault, run: Run, name: str
) -> None:
    """A memId's beginning changes a memory only if it contains the whole slug."""
    mem_id = vault.call("memory_remember", title="Notes about cats", content="Purr")["memId"]
    before = contents(folder)
    assert vault.call("memory_show", memId=name)["memId"] == mem_id
    for tool, arguments in (
        ("memory_remember", {"filePath": name, "title": "Dogs", "content": "Bark"}),
        ("tag_add", {"memId": name, "tags": ["x"]}),
        ("memory_rename", {"memId": name, "title": "Dogs"}),
    ):
        failed = vault.call(tool, **arguments)
        assert failed["error"]["code"] == "not_found", (tool, failed)
        assert [entry["memId"] for entry in failed["candidates"]] == [mem_id]
    assert vault.call("memory_delete", ids=[name])["missing"] == [name]
    assert run("tag", "add", name, "x").code == 1
    assert contents(folder) == before
    for whole in ("notes-about-cats", mem_id[:-2], mem_id):
        assert vault.call("tag_add", memId=whole, tags=[f"t{len(whole)}"])["success"], whole


def test_exact_names_change_a_memory(ferries: Path, vault: Vault) -> None:
    """A wikilink, a path without .md and a file's name say exactly which memory is to change."""
    for name, tag in (("[[ship]]", "a"), ("travel/ship", "b"), ("ship.md", "c")):
        assert vault.call("tag_add", memId=name, tags=[tag])["memId"] == "crossing-1a2b3c"
    assert vault.call("memory_compound", query="[[travel/ship]]", modifications="So.")["success"]
    assert vault.call("memory_delete", ids="[[bus]]")["deleted"] == ["bus-7a8b9c"]


def test_a_former_title_still_names_a_memory(ferries: Path, vault: Vault) -> None:
    """After a rename the old title is an alias in the header, which Obsidian finds too."""
    vault.call("memory_rename", memId="ferry at noon", title="Boat")
    vault.call("memory_rename", memId="Boat", title="Night boat")
    for name in ("ferry at noon", "BOAT", "Night boat"):
        assert vault.call("tag_add", memId=name, tags=["sea"])["memId"] == "crossing-1a2b3c"
    shown = vault.call("memory_show", memId="Boat")["metadata"]["aliases"]
    assert shown == ["Night boat", "ferry at noon", "Boat"]
    vault.call("memory_rename", memId="Boat", title="Ferry at noon")
    shown = vault.call("memory_show", memId="Boat")["metadata"]["aliases"]
    assert shown == ["Ferry at noon", "Boat", "Night boat"]
    vault.call("memory_undo")
    assert vault.call("memory_show", memId="Boat")["title"] == "Night boat"
    moved = vault.call("memory_rename", memId="crossing-1a2b3c", to="archive/")
    assert "Night boat" in (ferries / moved["filePath"]).read_text("utf-8")


def test_a_former_title_with_a_secret_is_not_kept(folder: Path, vault: Vault) -> None:
    """A rename that takes a secret out of a title leaves it nowhere in the file."""
    _, secret = made_secrets.made("GitHub token")
    write(folder, "note.md", f"# Key {secret}\n\nText.\n")
    vault.call("memory_rename", memId="note.md", title="Key of the shop")
    assert secret not in (folder / "note.md").read_text("utf-8")


@pytest.mark.parametrize("command", ["rename", "tag add", "delete"])
def test_a_person_is_asked_whether_a_memory_is_meant(ferries: Path, command: str) -> None:
    """On a terminal a writing command asks about an inexact name; only y changes the memory."""
    rest = {"rename": ["Boat"], "tag add": ["sea"], "delete": []}[command]
    words = [*command.split(), "Ferry", *rest]
    before = contents(ferries)
    code, shown = at_terminal(ferries, *words, answer="n\n")
    assert code == 1
    assert "'ferry at noon' (crossing-1a2b3c)" in shown
    assert "Nothing was changed" in shown
    after = contents(ferries)
    assert {path: after[path] for path in before} == before
    code, shown = at_terminal(ferries, *words, answer="y\n")
    assert code == 0, shown
    assert contents(ferries).get(ferries / "travel/ship.md") != before[ferries / "travel/ship.md"]


def test_a_delete_by_a_prefix_asks_on_a_terminal_only(ferries: Path, run: Run) -> None:
    """The beginning of a memId is confirmed by a person, and taken as it is from a program."""
    file = ferries / "travel/ship.md"
    code, shown = at_terminal(ferries, "tag", "add", "cross", "sea", answer="n\n")
    assert (code, "Do you mean 'ferry at noon'" in shown) == (1, True), shown
    code, shown = at_terminal(ferries, "delete", "crossing", "bus-7a8b9c", answer="n\n")
    assert (code, file.exists(), (ferries / "travel/bus.md").exists()) == (1, True, True), shown
    code, shown = at_terminal(ferries, "delete", "bus-7a8b9c", "Café on the pier")
    assert (code, "[y/N]" in shown) == (0, False), shown
    assert run("delete", "crossing").code == 0
    assert not file.exists()


def test_a_delete_of_unknown_ids_compares_no_titles(
    ferries: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids of memories that are gone cost no search for similar titles, which nobody would see."""
    compared: list[str] = []

    def record(word: str, *_: object) -> list[str]:
        compared.append(word)
        return []

    monkeypatch.setattr("difflib.get_close_matches", record)
    assert vault.call("memory_delete", ids=["fery", "[[bus]]"])["missing"] == ["fery"]
    assert not (ferries / "travel/bus.md").exists()
    assert compared == []
    assert not vault.call("memory_show", memId="fery")["success"]
    assert compared == ["fery"]


@pytest.mark.parametrize(
    "words", ["forget crossing-1a2b3c", "rename bus-7a8b9c Coach", "tag rename road street"]
)
def test_a_preview_is_confirmed_by_a_person(ferries: Path, run: Run, words: str) -> None:
    """On a terminal the preview ends in a question; programs get a token to confirm with."""
    write(ferries, "log.md", "---\ntags: [road]\n---\n\nSee [[Bus to the town]].\n")
    before = contents(ferries)
    piped = run(*words.split())
    assert "confirm with `--confirm " in piped.out
    code, shown = at_terminal(ferries, *words.split(), answer="\n")
    assert (code, "--confirm" in shown.partition("[y/N]")[0]) == (1, False), shown
    assert {path: contents(ferries)[path] for path in before} == before
    code, shown = at_terminal(ferries, *words.split(), "--json")
    assert (code, '"confirmToken"' in shown, "[y/N]" in shown) == (0, True, False)
    code, shown = at_terminal(ferries, *words.split(), answer="y\n")
    assert code == 0, shown
    assert {path: contents(ferries).get(path) for path in before} != before


def test_what_changed_before_the_answer_is_not_forgotten(ferries: Path) -> None:
    """A memory that is saved while the question stands is not deleted by the answer."""
    file = ferries / "travel/ship.md"
    code, shown = at_terminal(
        ferries, "forget", "crossing-1a2b3c", answer="y\n",
        meanwhile=lambda: file.write_text("# ferry at noon\n\nPier 9.\n", "utf-8"),
    )  # fmt: skip
    assert (code, file.exists()) == (1, True), shown


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ("decision", "architectural-decision or design-decision"),
        ("lerning", "learning"),
        ("Decison", "architectural-decision or design-decision"),
        ("Preferences", "user-preference or project-preference"),
        ("bug", "issue"),
    ],
)
def test_a_type_close_to_a_known_one_is_corrected_by_its_note(
    folder: Path, run: Run, given: str, known: str
) -> None:
    """A memory of a new type close to a known one is written, and its note changes the type."""
    first = known.split(" or ")[0]
    commands = {
        "remember": ["remember", "Ferry", "Pier 4.", "--type", given],
        "create": ["create", "Ferry", "Pier 4.", "--type", given],
        "new": ["new", "Ferry", "--no-edit", "--type", given],
    }
    for command, line in commands.items():
        made = succeeded(run(*line, "--json")).json
        assert made["filePath"] == f"{given.lower()}/ferry.md"
        (note,) = made["warnings"]
        assert note == (
            f"there was no memory type {given.lower()!r}; if you mean {known}, "
            f'`memvault compound {made["memId"]} "" --type {first}` changes it'
        )
        text = (folder / made["filePath"]).read_text("utf-8")
        words = shlex.split(note.partition("`memvault ")[2].partition("`")[0])
        moved = succeeded(run(*words, "--json")).json
        assert (moved["memoryType"], "warnings" in moved) == (first, False), command
        after = (folder / moved["filePath"]).read_text("utf-8")
        assert after.partition("\n---\n")[2] == text.partition("\n---\n")[2]
        succeeded(run("forget", made["memId"], "--confirm", "true"))
    arguments = {"name": "A", "value": "b", "memoryType": given}
    made = run("call", "memory_create", json.dumps(arguments)).json
    change = f'memory_compound query={made["memId"]} modifications="" memoryType={first}'
    assert made["warnings"][0].endswith(f"`{change}` changes it")


@pytest.mark.parametrize("given", ["contact", "project", "reference", "issue", "Design Decision"])
def test_a_type_that_is_no_slip_is_taken_as_it_is(folder: Path, run: Run, given: str) -> None:
    """Neither a known type nor one that is like no other is questioned."""
    assert "warnings" not in run("remember", "Ferry", "Pier 4.", "--type", given, "--json").json


def test_a_type_of_the_vault_is_never_questioned(folder: Path, run: Run) -> None:
    """What a memory, a template or memvault.toml has as its type is not taken for a slip."""
    write(folder, "a.md", "---\nmemory_type: Bug\n---\n\n# A\n")
    write(folder, "templates/lesson.md", "What was learnt\n")
    write(folder, "memvault.toml", 'version = 1\n[[types]]\nname = "decision"\n')
    for given in ("bug", "lesson", "decision"):
        found = run("remember", f"Ferry {given}", "Pier 4.", "--type", given, "--json").json
        assert (found["memoryType"], "warnings" in found) == (given, False)
    write(folder, "b.md", "---\nmemory_type: design-decision\n---\n\n# B\n")
    write(folder, "memvault.toml", "version = 1\n")
    note = run("remember", "Ferry", "Pier 4.", "--type", "decisions", "--json").json["warnings"][0]
    assert "decision` " in note  # the vault's own


@pytest.mark.parametrize("command", ["remember", "create", "compound", "new"])
def test_a_person_chooses_between_a_type_and_a_known_one(
    folder: Path, run: Run, command: str
) -> None:
    """On a terminal the known type is offered before anything is written; no keeps the own."""
    lines = {
        "remember": ["remember", "Ferry", "Pier 4."],
        "create": ["create", "Ferry", "Pier 4."],
        "compound": ["compound", "Harbour", "Pier 4."],
        "new": ["new", "Ferry", "--no-edit"],
    }
    write(folder, "x/harbour.md", "# Harbour\n\nOpen.\n")
    before = contents(folder)
    unchanged: list[bool] = []
    code, shown = at_terminal(
        folder,
        *lines[command],
        *("--type", "bug"),
        answer="\n",
        asked="Use issue? n keeps bug [Y/n]",
        meanwhile=lambda: unchanged.append(contents(folder).items() >= before.items()),
    )
    assert (code, unchanged, "note:" in shown) == (0, [True], False), shown
    assert types_in(run) >= {"issue"}
    assert "bug" not in types_in(run)
    code, shown = at_terminal(folder, *lines[command], "--type", "bug", answer="n\n", asked="[Y/n]")
    assert (code, "note:" in shown) == (0, False), shown
    assert "bug" in types_in(run)


@pytest.mark.parametrize("option", ["--quiet", "--json"])
def test_nobody_is_asked_for_a_type_in_quiet(folder: Path, run: Run, option: str) -> None:
    """With --quiet or --json no question interrupts a command, and the type is taken."""
    code, shown = at_terminal(folder, "remember", "Ferry", "Pier 4.", "--type", "bug", option)
    assert (code, "[Y/n]" in shown, "bug" in types_in(run)) == (0, False, True), shown


def types_in(run: Run) -> set[str]:
    """Return the types of the memories of a vault."""
    return {entry["memoryType"] for entry in run("list", "--json").json["memories"]}


@pytest.mark.parametrize(
    ("given", "known"), [("decision", "decision"), ("lerning", "learning"), ("bug", "issue")]
)
def test_a_filter_by_an_unknown_type_suggests_a_known_one(
    folder: Path, run: Run, given: str, known: str
) -> None:
    """Where nothing has the type of a filter, a note names the type that is meant."""
    write(folder, "x/harbour.md", "# Harbour\n\nOpen.\n")
    for command in ("list", "recall harbour", "recall --all", "forget harbour"):
        note = run(*command.split(), "--type", given, "--json").json["warnings"][0]
        assert note.startswith(f"there is no memory type {given!r}; did you mean "), command
        assert known in note


def test_a_partial_title_is_asked_about_once(folder: Path) -> None:
    """Rename asks whether a memory is meant before its preview, and not again after it."""
    write(folder, "crossing.md", "# Ferry at noon\n\nIt runs.\n")
    write(folder, "other.md", "# Other\n\nSee [[Ferry at noon]].\n")
    code, shown = at_terminal(folder, "rename", "Ferry", "Boat at noon", answer="y\ny\n")
    assert code == 0, shown
    assert shown.count("Do you mean 'Ferry at noon'") == 1
    assert "[[Boat at noon]]" in (folder / "other.md").read_text("utf-8")
