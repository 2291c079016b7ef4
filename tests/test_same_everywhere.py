"""A tool's result is the same on every front end, and a call sees one state of the folder."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from jsonschema import Draft202012Validator

from children import in_child
from conftest import Run, called, index_of, sampled, titles, write
from episodes import WEEK, put_all
from memvault import Vault, open_vault
from memvault.arguments.binding import Coercion
from memvault.arguments.parameters import Arg, Parameter, bounds, input_schema, kebab
from memvault.call import Call
from memvault.errors import NotFound, UsageError, VaultNotFound
from memvault.files.lock import FileLock
from memvault.index.local.manifest import Manifest
from memvault.mcp.profiles import parse_selection, tool_definition
from memvault.recall.answer import RecallRequest
from memvault.tools.core import reference, registry
from memvault.tools.core.registry import Tool
from memvault.workspace import Workspace
from plain_arguments import exactly, named, plain_arguments, try_tools
from tool_calls import call_of, typed

TOOLS = registry.all_tools()

WORDS = ["zebra", "Alpha", "beta.md", "m2", "k", "main", "bob", "team", "7d", "2 hours", "b == 1"]
WORDS += ["life.dig.deep", "life.dig", "life", "wood", "memory_list_types", "m3"]
WORDS += ["builtin", "0 9 * * *", "a=b", "ä", "x, y", "-x y", "--all", "@@", "", " "]
TEXTS = st.sampled_from(WORDS) | st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cn"]), max_size=6
)
PLAIN = st.sampled_from(["zebra", "Alpha", "m2", "m3", "k", "g", "p", "x", "life.dig.deep"])
"""Strings without commas, which separate a list's entries on the command line."""
NUMBERS: SearchStrategy[Any] = st.integers(-2, 12) | st.floats(-1, 2, width=16)


def drawn(parameter: Parameter) -> SearchStrategy[Any]:
    """Generate a value for a parameter that options can also express."""
    kinds: list[SearchStrategy[Any]] = []
    for kind in parameter.types:
        if parameter.choices:
            kinds.append(st.sampled_from(parameter.choices))
        elif parameter.items:  # a command line can set only one
            kinds.append(st.lists(objects(parameter.items), min_size=1, max_size=1))
        elif kind is str:
            kinds.append(TEXTS.filter(lambda text: text != "-" and not text.startswith("@")))
        elif kind is list:
            kinds.append(st.lists(PLAIN, min_size=1, max_size=3))
        elif kind is bool:
            kinds.append(st.booleans())
        elif kind is dict:
            kinds.append(st.dictionaries(PLAIN, PLAIN | NUMBERS | st.booleans(), min_size=1))
        else:
            least = parameter.arg.minimum if parameter.arg.minimum is not None else -2
            most = parameter.arg.maximum if parameter.arg.maximum is not None else 12
            whole = st.integers(int(least), int(min(most, 12)))
            kinds.append(whole if kind is int else whole | st.floats(least, min(most, 12)))
    return st.one_of(kinds)


def objects(parameters: tuple[Parameter, ...]) -> SearchStrategy[dict[str, Any]]:
    """Generate a tool's arguments: all required ones, and some others."""
    needed = {entry.key: drawn(entry) for entry in parameters if entry.required}
    optional = {entry.key: drawn(entry) for entry in parameters if not entry.required}
    return st.fixed_dictionaries(needed, optional=optional)


class Thing(TypedDict):
    """An object in a list."""

    name: Annotated[str, Arg("A name")]
    size: NotRequired[Annotated[int | float, Arg("A size", maximum=9)]]


def anything(
    call: Call,
    number: Annotated[float, Arg("A number without bounds")],
    count: Annotated[int | None, Arg("A whole number", minimum=0)] = None,
    either: Annotated[bool | list[str] | None, Arg("One of two kinds")] = None,
    choice: Annotated[Literal["One", "two"], Arg("A choice")] = "One",
    things: Annotated[list[Thing] | None, Arg("Objects")] = None,
    data: Annotated[dict[str, Any] | None, Arg("Whatever")] = None,
) -> dict[str, Any]:
    """A tool with arguments of every kind, as a future tool may have."""
    return {}


KINDS = [*TOOLS, Tool("anything", "anything", "test", anything, False, False)]


ANY_NUMBER = st.sampled_from(
    [0, 1, -1, 0.0, -0.0, 1.0, 2.5, -0.5, 1e9, 1e9 + 1, 1e300, -1e300, 1e301, 10**300, 10**301]
)
OFTEN = ["a,b", "1", 0, "TRUE", '["a"]', "{}"]
ANY_JSON: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | ANY_NUMBER | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def attempted(parameters: tuple[Parameter, ...]) -> SearchStrategy[Any]:
    """Generate nearly valid arguments: wrong types, too many, too few."""
    entries = {entry.key: near(entry) for entry in parameters}
    right = objects(parameters)
    loose = st.fixed_dictionaries({}, optional=entries)
    more = st.dictionaries(st.text(max_size=3), ANY_JSON, max_size=1)
    one_off = st.builds(lambda base, other: {**base, **other}, right, loose)
    return right | one_off | loose | st.builds(lambda base, other: {**other, **base}, right, more)


def near(parameter: Parameter) -> SearchStrategy[Any]:
    """Generate a value for a parameter that is valid, leniently valid, or invalid."""
    right = drawn(parameter)
    spelled = right.map(lambda value: value if isinstance(value, str) else json.dumps(value))
    respelled = spelled.map(str.swapcase) | spelled.map(lambda text: f" {text} ")
    loose = st.lists(st.text(max_size=3) | st.integers(-9, 9), max_size=3)
    kinds = [right, spelled, respelled, loose, ANY_JSON, ANY_NUMBER, st.sampled_from(OFTEN)]
    if parameter.items:
        kinds.append(st.lists(attempted(parameter.items), max_size=2))
        kinds.append(attempted(parameter.items))
    ends = [end for end in bounds(parameter) if end is not None]
    if ends:
        kinds.append(st.sampled_from([*ends, *(end + way for end in ends for way in (-1, 1, 0.5))]))
    return st.one_of(kinds)


def check_binding(tool: Tool, sent: dict[str, Any]) -> None:
    """Check that a tool accepts exactly arguments that fit its schema, with the coercions."""
    allows = Draft202012Validator(input_schema(tool.parameters)).is_valid
    used: set[Coercion] = set()
    plain = plain_arguments(tool.parameters, sent, used)
    if allows(sent):
        assert (plain, used) == (sent, set())
    if allows(plain):
        assert exactly(tool.bind(sent)) == exactly(named(tool.parameters, plain)), sent
    else:
        with pytest.raises(UsageError):
            tool.bind(sent)


def test_schema_accepts_exactly_valid_arguments(subtests: pytest.Subtests) -> None:
    """A tool accepts exactly the arguments that its schema and the coercion table allow."""

    def exact(tool: Tool, data: st.DataObject) -> None:
        check_binding(tool, data.draw(attempted(tool.parameters)))
        right = data.draw(objects(tool.parameters))
        for spell in (str.upper, str.lower, "_".join, "-{}_".format, kebab):
            respelled = {spell(key): value for key, value in right.items()}
            assert exactly(tool.bind(respelled)) == exactly(tool.bind(right))
        for key, value in right.items():
            with pytest.raises(UsageError):
                tool.bind({**right, f"{key}_": value})

    try_tools(subtests, KINDS, 6, exact)


def test_short_definition_accepts_every_valid_call(subtests: pytest.Subtests) -> None:
    """A client that checks calls against a short definition does not refuse a valid one."""

    def accepted(tool: Tool, data: st.DataObject) -> None:
        short = tool_definition(tool, is_short=True)["inputSchema"]
        full = tool_definition(tool)["inputSchema"]
        assert short["properties"].keys() <= full["properties"].keys()
        assert short.get("required") == full.get("required")
        assert {*short.get("required", ())} <= short["properties"].keys()
        sent = data.draw(objects(tool.parameters))
        assert Draft202012Validator(short).is_valid(sent), sent

    try_tools(subtests, [registry.find(name) for name in parse_selection("core")], 20, accepted)


def test_schema_limits_are_enforced() -> None:
    """An out-of-range number, a wrong type or choice, or a missing argument is refused."""
    for tool in TOOLS:
        right = call_of(tool)
        for entry in tool.parameters:
            edges = [end + step for end in bounds(entry) if end is not None for step in (-1, 0, 1)]
            others = (None, 1.5, True, "nothing", ["x", 1.5], {"x": None})
            for value in (*edges, *others):
                check_binding(tool, {**right, entry.key: value})
            check_binding(tool, {key: right[key] for key in right if key != entry.key})
            if {int, float} & set(entry.types):
                for value in (float("nan"), float("inf"), -float("inf")):
                    with pytest.raises(UsageError):
                        tool.bind({**right, entry.key: value})


def test_mcp_tool_listing_matches_protocol_schema(subtests: pytest.Subtests) -> None:
    """Each listed tool is valid under the Model Context Protocol's own schema."""
    types = pytest.importorskip("mcp_types", reason="the MCP SDK is not installed")
    for tool in TOOLS:
        with subtests.test(tool=tool.name):
            listed = types.Tool.model_validate(reference.described(tool), by_name=False)
            shown = listed.model_dump(by_alias=True, exclude_none=True)
            assert shown == reference.described(tool)
            Draft202012Validator.check_schema(shown["inputSchema"])
            for entry in shown["inputSchema"]["properties"].values():
                assert entry["description"]
                if "default" in entry:
                    assert Draft202012Validator(entry).is_valid(entry["default"])


def looks(folder: Path, *arguments: str) -> int:
    """Run a command in a forked process; return how often it listed the vault's folder."""

    def work() -> tuple[int, int]:
        count, root = 0, folder.stat()

        def note(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal count
            if event == "os.scandir" and arguments:  # a path or a descriptor
                count += os.path.samestat(os.stat(arguments[0]), root)

        sys.addaudithook(note)
        return typed("--vault", str(folder), *arguments).code, count

    code, count = in_child(work)
    assert code == 0
    return int(count)


@pytest.fixture
def notes(folder: Path, vault: Vault) -> list[str]:
    """Ten memories that are indexed; their memIds."""
    found = []
    for number in range(10):
        body = f"The wombat digs burrow {number}."
        made = vault.call("memory_remember", title=f"N{number}", content=body, memoryType="fact")
        found.append(made["memId"])
    time.sleep(1.1)  # files edited within the last second are read twice
    assert vault.call("memory_recall", query="wombat")["count"] == 10
    return found


def test_recall_and_show_scan_the_folder_once(
    folder: Path, notes: list[str], subtests: pytest.Subtests
) -> None:
    """A query and a lookup by name each scan the folder once."""
    for line in (
        "recall wombat | recall wombat --mode keyword | list | types | show N1 | load N1 | "
        "context wombat | experience wombat"
    ).split(" | "):
        with subtests.test(line=line):
            assert looks(folder, *line.split()) == 1


@sampled(4)
@pytest.mark.parametrize(
    "line",
    (
        "remember New Bilby --type fact | remember New Bilby --type fact --supersedes N1 | "
        "compound N1 More. | compound 'the wombat digs which burrow 3' More."
    ).split(" | "),
)
def test_write_scans_the_folder_once(folder: Path, notes: list[str], line: str) -> None:
    """A write scans the folder once."""
    assert looks(folder, *shlex.split(line)) == 1


def test_lookup_of_many_names_scans_the_folder_once(folder: Path, notes: list[str]) -> None:
    """Any number of names needs one scan of the folder, or two if some are unknown."""
    preview = ["forget", ",".join(notes)]
    assert looks(folder, *preview) == 1
    assert looks(folder, *preview, "--confirm", "true") == 1
    assert looks(folder, "restore", notes[0]) <= 1
    assert looks(folder, "restore", notes[1]) <= 1
    assert looks(folder, "delete", *notes[:2]) == 1
    assert looks(folder, "delete", notes[2], *(f"gone-{number}abcde" for number in range(5))) == 2
    assert looks(folder, "status") == 1


def test_procedure_update_scans_the_folder_once(folder: Path, vault: Vault) -> None:
    """Recording an outcome scans once, and applying a consolidation scans one more time."""
    assert vault.call("store_procedure", procedureName="dig", procedurePrompt="Paws")["success"]
    assert looks(folder, "procedure", "outcome", "dig", "--success") == 1
    put_all(folder, WEEK)
    time.sleep(1.1)
    assert len(vault.call("consolidate_memories")["procedures"]) > 0
    assert looks(folder, "consolidate") == 1
    assert looks(folder, "consolidate", "--apply") == 2


@pytest.fixture
def call(folder: Path) -> Iterator[Call]:
    """A call that has looked up five memories by name only."""
    for number in range(5):
        header = f"---\nid: n{number}-11111{number}\n---\n\n"
        write(folder, f"n{number}.md", f"{header}# Note {number}\n\nThe wombat digs.\n")
    workspace = Workspace(folder)
    made = Call(workspace)
    assert made.engine.names.resolve("Note 1").path == "n1.md"
    yield made
    workspace.close()


def test_lookup_notices_file_replaced_after_scan(call: Call, folder: Path) -> None:
    """A memory moved over another's file after the scan is not mistaken for the other one."""
    (folder / "n3.md").replace(folder / "n2.md")
    assert call.engine.names.resolve("n3-111113").path == "n2.md"


def test_lookup_by_mem_id_finds_memory_moved_after_scan(call: Call, folder: Path) -> None:
    """A memory that another process moves during the call is still found by its full memId."""
    write(folder, "moved/late.md", "---\nid: late-9xyz12\n---\n\n# Late\n\nIt came late.\n")
    assert call.engine.names.resolve("late-9xyz12").path == "moved/late.md"
    with pytest.raises(NotFound):
        call.engine.names.resolve("nothing-9xyz12")


def test_lookup_prefers_title_over_mem_id_prefix(run: Run, folder: Path) -> None:
    """Every command resolves a name to the same memory: a title before a memId prefix."""
    write(folder, "kv.md", "---\nid: kv-123456\n---\n\n# Redis\n\nA store.\n")
    write(folder, "rc.md", "---\nid: redis-cache-abcdef\n---\n\n# Cache of redis\n\nA cache.\n")
    assert run("show", "redis", "--json").json["memId"] == "kv-123456"
    assert run("compound", "redis", "More.", "--json").json["memId"] == "kv-123456"
    assert run("show", "redis-c", "--json").json["memId"] == "redis-cache-abcdef"


def test_lookup_does_not_change_later_recall(call: Call, folder: Path) -> None:
    """A lookup by name while another process indexes does not change a later search."""
    request = RecallRequest("wombat", "vector")
    with FileLock(index_of(folder) / "lock"):
        after = call.engine.search(request)
        alone = Call(Workspace(folder)).engine.search(request)
    assert len(after.found) == len(alone.found) == 5


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no file size limits")
def test_index_survives_full_disk(folder: Path, run: Run) -> None:
    """If the disk is full, recall still works and the index is unchanged."""
    for number in range(5):
        write(folder, f"n{number}.md", f"# Note {number}\n\nThe wombat digs.\n")
    assert run("recall", "wombat", "--json").json["count"] == 5
    before = {path.name for path in index_of(folder).rglob("*") if path.is_file()}
    write(folder, "new.md", "# New\n\nThe wombat sleeps.\n")
    command = f"ulimit -f 1; exec {sys.executable} -m memvault forget 'wombat digs' --json"
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert '"n4.md"' in done.stdout, done
    assert {path.name for path in index_of(folder).rglob("*") if path.is_file()} >= before
    assert run("recall", "wombat", "--json").json["count"] == 6


def test_full_disk_is_not_mistaken_for_damaged_index(tmp_path: Path) -> None:
    """A full disk is reported as such, not as a broken index, and the manifest stays intact."""
    made = Manifest(tmp_path / "manifest.db", new=True)
    made.close()
    code = (
        "import resource, sys\nfrom pathlib import Path\n"
        "from memvault.index.local.manifest import Manifest\n"
        "found = Manifest(Path(sys.argv[1]) / 'manifest.db')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n"
        "try:\n    found.commit('x', {})\n"
        "except OSError as error:\n    print(type(error).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "OSError", done
    with sqlite3.connect(tmp_path / "manifest.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_consolidation_sees_changes_made_by_extractor(folder: Path, vault: Vault) -> None:
    """Changes made by others while an extractor runs are seen before its results are written."""
    write(folder, "episode/a.md", "---\nid: a-123456\ncreated: 2026-01-01T00:00:00Z\n---\n\nx\n")
    line = '{"fact": "Wombats like carrots", "confidence": 0.8, "episodes": ["a-123456"]}'
    other = write(folder.parent, "inner.sh", f"#!/bin/sh\ncat > /dev/null\necho '{line}'\n")
    outer = write(
        folder.parent,
        "outer.sh",
        "#!/bin/sh\ncat > /dev/null\n"
        f"{sys.executable} -m memvault --vault {folder} consolidate --days 9999 --apply "
        f"--extractor {other} > /dev/null\necho '{line}'\n",
    )
    for script in (other, outer):
        script.chmod(0o755)
    called(vault, "consolidate_memories", apply=True, days=9999, extractor=str(outer))
    assert len(list(folder.glob("fact/*.md"))) == 1, os.listdir(folder / "fact")


def test_open_vault_applies_changed_settings(vault: Vault, folder: Path) -> None:
    """An open vault follows the current memvault.toml."""
    write(folder, "drafts/a.md", "# A\n\nzebra\n")
    assert titles(vault.call("memory_list")) == ["A"]
    write(folder, "memvault.toml", 'version = 1\nignore = ["drafts"]\n')
    assert titles(vault.call("memory_list")) == []
    write(folder, "memvault.toml", "version = 1\nlanguage = \n")
    assert vault.call("memory_list")["error"]["code"] == "vault_unreadable"
    write(folder, "memvault.toml", "version = 1\n")
    assert titles(vault.call("memory_recall", query="zebra")) == ["A"]


def test_index_folder_in_place_of_lock_is_moved_aside(vault: Vault, folder: Path) -> None:
    """A file or folder in place of the index lock does not block writing the index."""
    write(folder, "a.md", "# A\n\nzebra\n")
    index = index_of(folder)
    (index / "lock").unlink()
    write(index, "lock/mine.txt", "mine")
    assert titles(vault.call("memory_recall", query="zebra")) == ["A"]
    assert vault.call("vault_status")["index"]["state"] == "current"


def test_recall_searches_file_names(vault: Vault, folder: Path) -> None:
    """A file's name is searched, even if its heading is different."""
    write(folder, "people/atticus.md", "# The lawyer\n\nLives in Maycomb.\n")
    assert titles(vault.call("memory_recall", query="atticus", type="keyword")) == ["The lawyer"]


def test_type_filter_accepts_any_spelling(vault: Vault, folder: Path) -> None:
    """A type filter means the same type however it is spelled."""
    write(folder, "design-decision/a.md", "# A\n\nzebra\n")
    for name in ("design-decision", "designDecision", "Design Decision"):
        assert titles(vault.call("memory_list", memoryType=name)) == ["A"]


def test_open_vault_on_other_folder_raises_error(tmp_path: Path) -> None:
    """Opening a folder that is not a vault raises an error with a hint."""
    with pytest.raises(VaultNotFound) as raised:
        open_vault(tmp_path)
    assert "memvault init" in raised.value.hint


def test_removed_vault_is_not_written_to(vault: Vault, folder: Path) -> None:
    """An open vault whose folder was removed raises an error and does not recreate it."""
    assert vault.call("memory_list")["success"]
    shutil.rmtree(folder)
    made = vault.call("memory_remember", title="T", content="x", memoryType="fact")
    assert made["error"]["code"] == "vault_not_found"
    assert not folder.exists()
