"""A listing has at most 50 entries by default, states the total, and can be continued."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, refused, sampled, succeeded
from memvault import Vault, open_vault
from memvault.tools.core.registry import Tool, all_tools

MANY = 52
WHOLE = {"memory_list_types", "get_available_tools"}
"""Lists that a client needs completely: types and tools."""
ARGUMENTS: dict[str, dict[str, Any]] = {
    "memory_recall": {"isAll": True},
    "memory_show": {"memId": "m0"},
    "memory_diff": {"memId": "m0"},
    "memory_log": {},
    "memory_search": {"query": "digging"},
    "context": {"task": "digging"},
    "recall_memory": {"observations": ["digging"]},
    "recall_procedure": {"context": "digging", "minSuccessRate": 0},
    "recall_similar_experience": {"query": "digging"},
    "recall_fact": {"query": "digging"},
    "get_episodes_with_skill": {"skillId": "a0.b0.c"},
    "list_subcategories": {"categoryId": "one"},
    "list_skills": {"subcategoryId": "one.same"},
    "get_recent_episodes": {"days": 100_000},
    "memory_undo": {"list": True},
    "memory_links": {"memId": "hub"},
    "memory_backlinks": {"memId": "hub"},
}
"""Arguments with which each listing tool returns many entries."""
LISTS = {
    "memory_recall": "memories",
    "memory_list": "memories",
    "memory_log": "changes",
    "memory_undo": "changes",
    "trash_list": "trash",
    "memory_active": "memories",
    "get_memories": "memories",
    "get_goals": "goals",
    "get_plans": "plans",
    "read_messages": "messages",
    "get_recent_episodes": "episodes",
    "get_episodes_with_skill": "episodes",
    "list_skill_categories": "categories",
    "list_subcategories": "subcategories",
    "list_skills": "skills",
    "vault_doctor": "findings",
    "memory_links": "links",
    "memory_backlinks": "backlinks",
    "memory_orphans": "orphans",
    "tag_list": "tags",
    "list_inbox": "events",
    "list_spaces": "spaces",
    "list_agents": "agents",
}
"""Every listing tool, and the key of its list."""
SEARCHES = {"memory_search", "recall_similar_experience", "recall_fact", "enter_space"}
"""Tools whose offset skips entries within their limit, as tested in test_budget.py."""
HEAD = "---\nid: {id}\nmemory_type: {type}\ncreated: 2026-01-01T00:00:00.000Z\n"


def write(folder: Path, name: str, kind: str, more: str = "") -> None:
    """Write a memory about digging as a person would."""
    (folder / kind).mkdir(exist_ok=True)
    text = f"{HEAD.format(id=name, type=kind)}{more}---\n\nDigging again, as {name} says.\n"
    (folder / kind / f"{name}.md").write_text(text, "utf-8")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    """A vault with more than 50 entries of everything that can be listed."""
    folder = tmp_path_factory.mktemp("crowded")
    (folder / "memvault.toml").write_text("version = 1\n", "utf-8")
    for number in range(MANY):
        write(folder, f"m{number}", "context", f"supersedes: gone-{number}\n")
        write(folder, f"f{number}", "fact")
        write(folder, f"l{number}", "context", f"tags: [l{number}]\nsupersedes: hub\n")
        write(folder, f"t{number}", "learning")
        write(folder, f"e{number}", "episode", "skills_used: [a0.b0.c]\n")
        write(folder, f"p{number}", "procedure", f"skill_id: a{number}.b.c\n")
        write(folder, f"q{number}", "procedure", f"skill_id: one.b{number}.c\n")
        write(folder, f"r{number}", "procedure", f"skill_id: one.same.c{number}\n")
    links = "".join(f"[[m{number}]]\n" for number in range(MANY))
    (folder / "hub.md").write_text(f"---\nid: hub\n---\n\n{links}", "utf-8")
    with open_vault(folder) as vault:
        names = [f"{number:03}" for number in range(MANY)]
        vault.call("memory_delete", ids=[f"t{number}" for number in range(MANY)])
        vault.call("set_memories", memories=[{"key": name, "value": "v"} for name in names])
        vault.call("set_goals", goals=[{"id": name, "description": "Dig"} for name in names])
        due = {"instruction": "Dig", "scheduledAt": "2999-01-01"}
        vault.call("set_plans", plans=[{"name": name, **due} for name in names])
        for name in names:
            vault.call("push_service", name="ci", message=name)
            (folder / "agents" / f"a{name}" / "goals").mkdir(parents=True)
            vault.call("enter_space", spaceId=name)
        vault.call("enter_space", spaceId="team")
        for number in range(MANY):
            vault.call("send_message", text=f"message {number}")
            vault.call("memory_load", memId=f"m{number}")
            vault.call("memory_compound", query="m0", modifications=f"and {number}")
        yield vault


def read(vault: Vault, name: str, **more: Any) -> dict[str, Any]:
    """Call a tool with arguments that produce a long list."""
    return vault.call(name, **ARGUMENTS.get(name, {}), **more)


def listings(value: Any) -> Iterator[list[Any]]:
    """Yield every list in a result."""
    if isinstance(value, list):
        yield value
        for entry in value:
            yield from listings(entry)
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from listings(entry)


def can_read(tool: Tool) -> bool:
    """Return whether a tool is read-only and can be called here."""
    return tool.read_only and tool.group != "world" and not tool.open_world


def test_listing_default_limit_is_50(crowded: Vault) -> None:
    """Without a limit, no read-only tool returns a list of more than 50 entries."""
    readers = [tool.name for tool in all_tools() if can_read(tool) and tool.name not in WHOLE]
    longest = {
        name: max(map(len, listings(read(crowded, name))), default=0)
        for name in readers
        if name not in ("model_list", "model_verify", "context")  # not a list, or cut to a budget
    }
    assert {name: most for name, most in longest.items() if most > 50} == {}
    assert sum(most >= 50 for most in longest.values()) > 10


@sampled(4)
@pytest.mark.parametrize("name", LISTS)
def test_listing_next_returns_each_entry_once(crowded: Vault, name: str) -> None:
    """Following next from page to page returns each entry in a listing exactly once."""
    seen: list[str] = []
    offset, total = 0, -1
    while True:
        found = read(crowded, name, offset=offset)
        seen += [str(entry) for entry in found[LISTS[name]]]
        assert total in (-1, found["total"])
        total = found["total"]
        if "next" not in found:
            break
        assert found["next"] > offset
        offset = found["next"]
    assert len(seen) == len(set(seen)) == total >= MANY


def test_every_tool_with_offset_has_listing_tests() -> None:
    """Every tool with an offset and a limit is among the listings tested here."""
    paged = {
        tool.name
        for tool in all_tools()
        if {"limit", "offset"} <= {parameter.key for parameter in tool.parameters}
    }
    others = {"get_available_tools", "memory_load", "list_tasks", "memory_receipt", "vault_review"}
    assert paged - others - SEARCHES == set(LISTS)


@sampled(3)
@pytest.mark.parametrize("name", sorted(LISTS))
def test_listing_offset_past_end_is_empty_with_note(crowded: Vault, name: str) -> None:
    """An offset past the end returns an empty list and reports the total."""
    found = read(crowded, name, offset=5_000)
    assert found[LISTS[name]] == []
    assert "next" not in found
    assert found["message"].startswith(f"There are only {found['total']:,}")


def test_listing_in_shell_ends_with_next_command(crowded: Vault, run: Run) -> None:
    """In the shell, the last line of a partial listing gives the command for the rest."""
    here = ("--vault", crowded.call("vault_status")["vault"])
    first = run("goals", "get", *here)
    assert first.out.splitlines()[-1] == f"50 of {MANY}; `--offset 50` shows more"
    last = run("goals", "get", "--offset", "50", *here)
    assert last.out.count("Dig") == MANY - 50
    assert "shows more" not in last.out
    many = run("list", *here)
    assert many.out.splitlines()[-1].startswith("50 of ")


def test_listing_returns_all_requested_keys(crowded: Vault) -> None:
    """A request for 51 keys returns 51 values, without a hint to ask again."""
    names = [f"{number:03}" for number in range(51)]
    found = crowded.call("get_memories", keys=names)
    assert [entry["key"] for entry in found["memories"]] == names
    assert "next" not in found


def test_restore_trash_listing_shows_next_command(crowded: Vault) -> None:
    """Restore shows part of a long trash, and its note gives the command for the rest."""
    found = crowded.call("memory_restore")
    assert (len(found["trash"]), found["total"]) == (50, MANY)
    assert "run `trash_list(offset=50)` to see the rest" in found["warnings"]


def test_listing_format_error_still_reports_written_memory(folder: Path, run: Run) -> None:
    """A written memory is reported even if --format has an unknown key."""
    for spec in (">9999999999", "9999999999", ".9999999999"):
        ran = run("remember", "S", "x", "--format", f"{{memId:{spec}}}")
        assert "Invalid `--format`" in refused(ran, 2)
        assert "a width is at most 1,000" in ran.err
    assert not (folder / "context/s.md").exists()
    assert succeeded(run("list", "--format", "{memId:>1000}"))
    ran = succeeded(run("remember", "T", "x", "--format", "{nope}"))
    assert "Remembered" in ran.out
    assert "There is no key 'nope'" in ran.err
    assert (folder / "context/t.md").exists()


def test_listing_pages_add_up_to_full_list(folder: Path, vault: Vault) -> None:
    """Pages are sorted newest first, ties by path, and add up to all memories."""
    for number in range(12):
        text = f"---\nmodified: 2026-01-0{number % 4 + 1}\n---\n# Note {number}\n"
        (folder / f"{number}.md").write_text(text, "utf-8")
    by_filter = vault.call("memory_list", filter="true", limit=50)["memories"]
    assert len(by_filter) == 12
    pages = [vault.call("memory_list", limit=5, offset=offset) for offset in (0, 5, 10)]
    assert [entry for page in pages for entry in page["memories"]] == by_filter
    assert {page["total"] for page in pages} == {12}
    (folder / "new.md").write_text("---\nmodified: 2026-02-01\n---\n# New\n", "utf-8")
    assert vault.call("memory_list", limit=1)["memories"][0]["filePath"] == "new.md"


@pytest.fixture(scope="module")
def harbors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    """A vault with more memories about harbors than a search returns."""
    folder = tmp_path_factory.mktemp("harbors")
    (folder / "memvault.toml").write_text('version = 1\n[embedder]\ndeep = "off"\n', "utf-8")
    for number in range(1_020):
        (folder / f"n{number}.md").write_text(f"# Note {number}\n\nA harbor.\n", "utf-8")
    with open_vault(folder) as vault:
        yield vault


@pytest.mark.parametrize(
    ("name", "arguments", "key"),
    [
        ("memory_recall", {"limit": 5_000}, "memories"),
        ("memory_recall", {"offset": 1_005}, "memories"),
        ("memory_search", {"limit": 5_000}, "results"),
        ("memory_load", {"limit": 5_000, "threshold": 0.001}, "memories"),
        ("memory_load", {"offset": 1_005, "threshold": 0.001}, "memories"),
    ],
)
def test_search_reports_its_maximum(
    harbors: Vault, name: str, arguments: dict[str, int], key: str
) -> None:
    """A search says that it returns at most 1,000 results, not that there are only 1,000."""
    found = harbors.call(name, query="harbor", **arguments)
    assert found["warnings"] == ["a search returns at most 1,000 results; more may match"]
    if "offset" in arguments:
        assert found[key] == []
        message = "The offset is after the last of the 1,000 results that a search returns"
        assert found["message"] == message
    else:
        assert len(found[key]) == 1_000
        assert "message" not in found


def test_search_offset_past_end_reports_number_of_results(crowded: Vault) -> None:
    """An offset past the results of a smaller search reports how many there are."""
    for name in ("memory_recall", "memory_load"):
        found = crowded.call(name, query="[[m1]]", offset=5_000, threshold=0.001)
        assert found["message"].startswith("There are only "), name
    found = crowded.call("memory_search", query="digging", limit=3, offset=5)
    assert found["message"] == "The result has only 3 entries"
