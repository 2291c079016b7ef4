"""A memory is found by the names that people use, and never changed by mistake."""

from __future__ import annotations

import difflib
import json
import random
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

import made_secrets
from conftest import Run, called, contents, refused, succeeded, write
from memvault import Vault
from memvault.index.protocol import MemoryName
from memvault.index.text.analyzer import fold
from memvault.recall import resolve
from memvault.vault.header_links import link_target
from memvault.vault.names import name_key
from terminal import at_terminal


@pytest.fixture
def ferries(folder: Path) -> Path:
    """A vault in which only two titles have a word in common."""
    write(folder, "travel/ship.md", "---\nid: crossing-1a2b3c\n---\n\n# ferry at noon\n\nPier 4.\n")
    write(folder, "travel/café.md", "---\nid: cafe-4d5e6f\n---\n\n# Café on the pier\n\nCrêpes.\n")
    write(folder, "travel/bus.md", "---\nid: bus-7a8b9c\n---\n\n# Bus to the town\n\nLine 5.\n")
    write(folder, "travel/train.md", "---\nid: rails-1d2e3f\n---\n\n# Train to Town\n\nLine 6.\n")
    return folder


def test_path_with_parent_folders_is_a_name_inside_the_vault(ferries: Path, run: Run) -> None:
    """A path with . or .. selects the file it leads to, unless that is outside the vault."""
    for path in ("travel/../travel/ship.md", "./x/../travel/./ship", "travel/x/../ship.md"):
        for name in (path, f"[[{path}|it]]"):
            assert "Pier 4." in succeeded(run("show", name, cwd=ferries)).out
    for path in ("travel/../../vault/travel/ship.md", "travel/..", "travel/../.hidden/ship.md"):
        assert "There is no memory" in refused(run("show", path, cwd=ferries), 1)
    changed = run("compound", "x/../travel/ship.md", "Pier 5 now.", cwd=ferries)
    assert "Compounded crossing-1a2b3c" in succeeded(changed).out
    succeeded(run("forget", "x/../travel/ship.md", "--yes", cwd=ferries))
    assert not (ferries / "travel/ship.md").exists()
    assert "crossing-1a2b3c" in succeeded(run("log", "x/../travel/ship.md", cwd=ferries)).out
    succeeded(run("restore", "x/../travel/ship.md", cwd=ferries))
    assert (ferries / "travel/ship.md").exists()


@pytest.mark.usefixtures("ferries")
@pytest.mark.parametrize(
    ("name", "mem_id"),
    [
        ("Ferry", "crossing-1a2b3c"),  # a word of one title
        ("FERRY AT", "crossing-1a2b3c"),  # the beginning of the title
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
def test_names_accept_partial_title_and_wikilink(vault: Vault, name: str, mem_id: str) -> None:
    """Read-only tools accept a partial title, a wikilink and a path without .md."""
    assert vault.call("memory_show", memId=name)["memId"] == mem_id
    assert vault.call("memory_links", memId=name)["success"]
    assert vault.call("memory_log", memId=name)["memId"] == mem_id


@pytest.mark.parametrize(
    "given", ["{}/travel/ship.md", "../travel/ship.md", "{}/sub/../travel/ship.md"]
)
def test_names_accept_paths_of_the_file_system(ferries: Path, run: Run, given: str) -> None:
    """Commands accept an absolute path, and one from the current folder with .."""
    (place := ferries / "sub").mkdir()
    path = given.format(ferries)
    for words in (["show"], ["links"], ["path"], ["tag", "add"], ["compound"], ["delete"]):
        rest = {"add": ["pier"], "compound": ["Pier 5."]}.get(words[-1], [])
        succeeded(run(*words, path, *rest, cwd=place))
    assert not (ferries / "travel/ship.md").exists()
    assert "There is no memory" in refused(run("show", "/etc/passwd", cwd=place), 1)
    (ferries / "loop").symlink_to("loop")
    assert "There is no memory" in refused(run("show", f"{ferries}/loop/x", cwd=place), 1)


@pytest.mark.usefixtures("ferries")
@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("town", ["bus-7a8b9c", "rails-1d2e3f"]),  # a word in two titles
        ("fery", ["crossing-1a2b3c"]),
        ("Trian to Town", ["rails-1d2e3f"]),
        ("on the peer", ["cafe-4d5e6f"]),
        ("zzzzzz", []),
        ("[[", []),
        ("?", []),
    ],
)
def test_names_unknown_name_lists_similar_titles(vault: Vault, name: str, near: list[str]) -> None:
    """An unknown name lists up to five memories with similar titles, most similar first."""
    failed = vault.call("memory_show", memId=name)
    found = [entry["memId"] for entry in failed.get("candidates", [])]
    assert (failed["success"], failed["error"]["code"]) == (False, "not_found")
    assert sorted(found[: len(near)]) == near, failed
    assert len(found) <= 5
    assert ("did you mean" in failed["error"]["hint"]) is bool(found)


def test_names_suggest_titles_by_word_prefix(folder: Path, vault: Vault) -> None:
    """The first letters of a word in a title are enough to have the memory suggested."""
    write(folder, "db.md", "---\nid: db-1a2b3c\n---\n\n# Use PostgreSQL\n")
    failed = vault.call("memory_show", memId="post")
    assert "'Use PostgreSQL' (db-1a2b3c)" in failed["error"]["hint"]


def test_partial_title_changes_nothing(ferries: Path, vault: Vault, run: Run) -> None:
    """Without a terminal, a write tool refuses an inexact name and reports the closest memory."""
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
def test_partial_slug_changes_nothing(folder: Path, vault: Vault, run: Run, name: str) -> None:
    """A memId prefix changes a memory only if it contains the whole slug."""
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


def test_exact_name_match_allows_writes(ferries: Path, vault: Vault) -> None:
    """A wikilink, a path without .md and a file name each identify the memory to change."""
    for name, tag in (("[[ship]]", "a"), ("travel/ship", "b"), ("ship.md", "c")):
        assert vault.call("tag_add", memId=name, tags=[tag])["memId"] == "crossing-1a2b3c"
    assert vault.call("memory_compound", query="[[travel/ship]]", modifications="So.")["success"]
    assert vault.call("memory_delete", ids="[[bus]]")["deleted"] == ["bus-7a8b9c"]


def test_rename_keeps_old_title_as_alias(ferries: Path, vault: Vault) -> None:
    """After a rename, the old title is an alias in the header, which Obsidian uses too."""
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


def test_rename_removes_old_title_with_secret(folder: Path, vault: Vault) -> None:
    """A rename that removes a secret from a title leaves it nowhere in the file."""
    _, secret = made_secrets.made("GitHub token")
    write(folder, "note.md", f"# Key {secret}\n\nText.\n")
    vault.call("memory_rename", memId="note.md", title="Key of the shop")
    assert secret not in (folder / "note.md").read_text("utf-8")


@pytest.mark.parametrize("command", ["rename", "tag add", "delete"])
def test_names_inexact_match_asks_on_terminal(ferries: Path, command: str) -> None:
    """On a terminal, a write command asks about an inexact name; only y changes the memory."""
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


def test_delete_by_prefix_asks_only_on_terminal(ferries: Path, run: Run) -> None:
    """A person is asked to confirm a memId prefix; a program's prefix is accepted."""
    file = ferries / "travel/ship.md"
    code, shown = at_terminal(ferries, "tag", "add", "cross", "sea", answer="n\n")
    assert (code, "Do you mean 'ferry at noon'" in shown) == (1, True), shown
    code, shown = at_terminal(ferries, "delete", "crossing", "bus-7a8b9c", answer="n\n")
    assert (code, file.exists(), (ferries / "travel/bus.md").exists()) == (1, True, True), shown
    code, shown = at_terminal(ferries, "delete", "bus-7a8b9c", "Café on the pier")
    assert (code, "[y/N]" in shown) == (0, False), shown
    assert run("delete", "crossing").code == 0
    assert not file.exists()


def test_delete_of_unknown_ids_skips_title_search(
    ferries: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleting IDs of missing memories does not search for similar titles."""
    compared: list[str] = []

    def record(matcher: difflib.SequenceMatcher[str], name: str) -> None:
        compared.append(name)
        set_name(matcher, name)

    set_name = difflib.SequenceMatcher.set_seq2
    monkeypatch.setattr("difflib.SequenceMatcher.set_seq2", record)
    assert vault.call("memory_delete", ids=["fery", "[[bus]]"])["missing"] == ["fery"]
    assert not (ferries / "travel/bus.md").exists()
    assert compared == []
    assert not vault.call("memory_show", memId="fery")["success"]
    assert compared == ["fery"]


@pytest.mark.parametrize(
    "words", ["forget crossing-1a2b3c", "rename bus-7a8b9c Coach", "tag rename road street"]
)
def test_preview_of_approximate_name_asks_on_terminal(ferries: Path, run: Run, words: str) -> None:
    """On a terminal, the preview ends with a question; programs get a confirmation token."""
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


def test_forget_keeps_memory_changed_before_confirmation(ferries: Path) -> None:
    """A memory saved while the question is open is not deleted by the answer."""
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
def test_remember_note_corrects_mistyped_type(
    folder: Path, run: Run, given: str, known: str
) -> None:
    """A memory with a type close to a known one is written, and its note can change the type."""
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
            f"{given.lower()!r} is a new memory type; if you mean {known}, "
            f'run `memvault compound {made["memId"]} "" --type {first}`'
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
    change = f'memvault compound {made["memId"]} "" --type {first}'
    assert made["warnings"][0].endswith(f"run `{change}`")


@pytest.mark.parametrize("kinds", [("bug-report", "test-report"), ("test-report", "bug-report")])
def test_remember_suggests_equally_frequent_types_by_name(
    folder: Path, run: Run, kinds: tuple[str, str]
) -> None:
    """The order of suggested types does not depend on the order of files."""
    for name, kind in zip("ab", kinds, strict=True):
        write(folder, f"{name}.md", f"---\nmemory_type: {kind}\n---\n\n# {name}\n")
    made = succeeded(run("remember", "Ferry", "Pier 4.", "--type", "report", "--json")).json
    assert "if you mean bug-report or test-report," in made["warnings"][0]


@pytest.mark.parametrize("given", ["contact", "project", "reference", "issue", "Design Decision"])
def test_remember_accepts_distinct_new_type(folder: Path, run: Run, given: str) -> None:
    """Neither a known type nor a clearly different type causes a question."""
    assert "warnings" not in run("remember", "Ferry", "Pier 4.", "--type", given, "--json").json


def test_remember_accepts_existing_type_without_asking(folder: Path, run: Run) -> None:
    """A type used in a memory, a template or memvault.toml is not treated as a typo."""
    write(folder, "a.md", "---\nmemory_type: Bug\n---\n\n# A\n")
    write(folder, "templates/lesson.md", "What was learnt\n")
    write(folder, "memvault.toml", 'version = 1\n[[types]]\nname = "decision"\n')
    for given in ("bug", "lesson", "decision"):
        found = run("remember", f"Ferry {given}", "Pier 4.", "--type", given, "--json").json
        assert (found["memoryType"], "warnings" in found) == (given, False)
    write(folder, "b.md", "---\nmemory_type: design-decision\n---\n\n# B\n")
    write(folder, "memvault.toml", "version = 1\n")
    note = run("remember", "Ferry", "Pier 4.", "--type", "decisions", "--json").json["warnings"][0]
    assert note.endswith("--type decision`")  # the vault's own type


@pytest.mark.parametrize("command", ["remember", "create", "compound", "new"])
def test_remember_offers_known_type_on_terminal(folder: Path, run: Run, command: str) -> None:
    """On a terminal, the known type is offered before writing; answering no keeps the new one."""
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
def test_remember_asks_nothing_with_quiet_or_json(folder: Path, run: Run, option: str) -> None:
    """With --quiet or --json no question interrupts a command, and the type is accepted."""
    code, shown = at_terminal(folder, "remember", "Ferry", "Pier 4.", "--type", "bug", option)
    assert (code, "[Y/n]" in shown, "bug" in types_in(run)) == (0, False, True), shown


def types_in(run: Run) -> set[str]:
    """Return the types of the memories in a vault."""
    return {entry["memoryType"] for entry in run("list", "--json").json["memories"]}


@pytest.mark.parametrize(
    ("given", "known"), [("decision", "decision"), ("lerning", "learning"), ("bug", "issue")]
)
def test_filter_by_unknown_type_suggests_known_type(
    folder: Path, run: Run, given: str, known: str
) -> None:
    """If no memory has the filter's type, a note suggests the type that was probably meant."""
    write(folder, "x/harbour.md", "# Harbour\n\nOpen.\n")
    for command in ("list", "recall harbour", "recall --all", "forget harbour"):
        note = run(*command.split(), "--type", given, "--json").json["warnings"][0]
        assert note.startswith(f"there is no memory type {given!r}; did you mean "), command
        assert known in note


def test_rename_asks_about_partial_title_once(folder: Path) -> None:
    """Rename asks whether the match is correct before its preview, and not again afterward."""
    write(folder, "crossing.md", "# Ferry at noon\n\nIt runs.\n")
    write(folder, "other.md", "# Other\n\nSee [[Ferry at noon]].\n")
    code, shown = at_terminal(folder, "rename", "Ferry", "Boat at noon", answer="y\ny\n")
    assert code == 0, shown
    assert shown.count("Do you mean 'Ferry at noon'") == 1
    assert "[[Boat at noon]]" in (folder / "other.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("travel/trian.md", ["travel/train.md"]),
        ("travel/trian", ["travel/train.md"]),
        ("trian.md", ["travel/train.md"]),
        ("travle/train.md", ["travel/train.md"]),
        ("trips/train.md", ["travel/train.md"]),
        ("./travel/trian.md", ["travel/train.md"]),
        ("travel/quite another one.md", []),
        ("unrelated.md", []),
    ],
)
def test_mistyped_path_is_reported(
    ferries: Path, vault: Vault, run: Run, path: str, near: list[str]
) -> None:
    """A path without a file is an error with similar paths in every command, never a search."""
    before = contents(ferries)
    results = [
        vault.call("memory_forget", query=path),
        vault.call("memory_compound", query=path, modifications="So."),
        vault.call("memory_show", memId=path),
        vault.call("memory_rename", memId=path, title="Boat"),
        vault.call("memory_log", memId=path),
        vault.call("memory_load", memId=path),
        vault.call("memory_evict", memId=path),
        vault.call("memory_mutate", memId=path, value="So."),
        vault.call("memory_links", memId=path),
        vault.call("memory_remember", title="A", content="B", supersedes=path),
        run("path", path, "--json").json,
    ]
    for failed in results:
        assert failed["error"]["code"] == "not_found"
        assert failed["error"]["message"] == f"There is no memory {path!r}"
        assert [entry["filePath"] for entry in failed.get("candidates", [])] == near
        assert not near or failed["error"]["hint"] == f"did you mean {near[0]!r}?"
    after = contents(ferries)
    assert {name: after[name] for name in before} == before


def test_forget_reports_mistyped_path_in_a_list(ferries: Path, vault: Vault) -> None:
    """Forget selects nothing if one of several paths has no file, and selects all if they do."""
    for query in (
        "travel/bus.md,travel/trian.md",
        "travel/bus.md travel/trian.md",
        "travel/trian.md, travel/bsu.md",
        "everything about travel/trian.md",
    ):
        failed = vault.call("memory_forget", query=query)
        assert failed["error"]["message"] == "There is no memory 'travel/trian.md'", query
    failed = vault.call("memory_forget", query="Travel/Train.md")
    assert failed["error"]["hint"] == "did you mean 'travel/train.md'?"
    chosen = vault.call("memory_forget", query="bus.md, travel/train.md")["candidates"]
    assert {entry["filePath"] for entry in chosen} == {"travel/bus.md", "travel/train.md"}


@pytest.mark.parametrize(
    "query", ["TCP/IP", "https://example.com/ip", "notes on CLAUDE.md", "everything about TCP/IP"]
)
def test_query_with_slash_is_not_a_path(folder: Path, vault: Vault, query: str) -> None:
    """Words with a slash, a URL, and a sentence with a file name remain queries."""
    write(folder, "net.md", "# TCP/IP\n\nSee https://example.com/ip and CLAUDE.md for notes.\n")
    write(folder, "other.md", "# Bread\n\nFlour.\n")
    found = vault.call("memory_forget", query=query)["candidates"]
    assert [entry["filePath"] for entry in found] == ["net.md"]
    assert "no memory" not in str(vault.call("memory_compound", query=query, modifications="So."))


def test_restore_suggests_names_from_the_trash(ferries: Path, vault: Vault) -> None:
    """A mistyped path or title of a deleted memory gets the closest one in the trash."""
    vault.call("memory_delete", ids=["travel/bus.md"])
    for name, meant in (
        ("travel/bsu.md", "'travel/bus.md'"),
        ("Bus to town", "'Bus to the town' (bus-7a8b9c)"),
    ):
        failed = vault.call("memory_restore", memId=name)
        assert failed["error"]["hint"] == f"did you mean {meant}?"
        assert [entry["memId"] for entry in failed["candidates"]] == ["bus-7a8b9c"]


@pytest.mark.parametrize("query", ["work/life balance", "home/chimney swept", "CI/CD of the shop"])
def test_query_with_slash_is_not_mistaken_for_path(folder: Path, vault: Vault, query: str) -> None:
    """Words with a slash are searched, even if a folder has the name before it."""
    write(folder, "work/job.md", "# Job\n\nCI/CD of the shop runs at night.\n")
    write(folder, "home/balance.md", "# Balance\n\nWork and life in balance.\n")
    write(folder, "home/chimney.md", "# Chimney\n\nThe chimney was swept in June.\n")
    called(vault, "memory_forget", query=query)


def test_suggestions_are_the_most_similar_names() -> None:
    """Names are suggested as difflib ranks them among all titles, words, paths and aliases."""
    rng = random.Random(7)
    words = ["".join(rng.choices("abcde é中", k=rng.randint(1, 9))) for _ in range(40)]
    names = [
        MemoryName(
            uid,
            f"{rng.choice(words)}{uid}/{'-'.join(rng.choices(words, k=2))}.md",
            f"{uid}-abc123",
            " ".join(rng.choices(words, k=rng.randint(1, 5))),
            tuple(rng.sample(words, rng.choice((0, 0, 2)))),
        )
        for uid in range(150)
    ]
    for _ in range(200):
        entry = rng.choice(names)
        text = rng.choice((entry.title, entry.path, *entry.aliases, *entry.title.split()))
        place = rng.randrange(len(text) + 1)
        name = text[:place] + rng.choice(("", "a", "xy")) + text[place + rng.randint(0, 2) :]
        assert resolve.closest(name, iter(names)) == _closest(name, names), name


def _closest(name: str, names: Sequence[MemoryName]) -> list[MemoryName]:
    """Return the entries that ``resolve.closest`` must return, from a table of all names."""
    near: list[MemoryName] = []
    if resolve.may_be_path(name):
        path = name_key(resolve.normalize(name))
        near = _near(path, [(name_key(entry.path), entry) for entry in names], 0.8)
        files = [(name_key(entry.path.rpartition("/")[2]), entry) for entry in names]
        near = near or _near(path.rpartition("/")[2], files, 0.8)
    if not near:
        parts = [
            (part, entry)
            for entry in names
            for text in map(fold, (entry.title, *entry.aliases))
            for part in (text, *re.findall(r"\w+", text))
        ]
        target = fold(link_target(name))
        near = _near(target, parts, 0.7)
        if len(target) >= 3:
            begun = dict.fromkeys(part for part, _ in parts if part.startswith(target))
            near += [entry for part in begun for key, entry in parts if key == part]
    return list(dict.fromkeys(near))[:5]


def _near(target: str, keyed: Sequence[tuple[str, MemoryName]], cutoff: float) -> list[MemoryName]:
    keys = difflib.get_close_matches(target, dict(keyed), 5, cutoff)
    return [entry for key in keys for other, entry in keyed if other == key]
