"""The example world consists of files that people edit, and its rules apply to everyone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run, refused, write
from memvault import open_vault
from memvault.errors import Refused
from memvault.vault import document
from memvault.world import Character, parse_character, walk

FOREST = """\
---
# where deer are
x: 10
y: 0
radius: 3
terrain: forest   # oak
climate: 'mild'
resources:
  wood: 5   # dry
  berries: 1
---

# The forest
"""
SPRING = "---\nx: 12\ny: 0\nradius: 1\nterrain: rocks\nresources: [water]\n---\n"


@pytest.fixture
def world(folder: Path) -> Path:
    """A vault with a small world of two places."""
    write(folder, "memvault.toml", "version = 1\n[world]\nenabled = true\n")
    write(folder, "places/forest.md", FOREST)
    write(folder, "places/spring.md", SPRING)
    return folder


def call(folder: Path, agent: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool as an agent."""
    with open_vault(folder, agent) as vault:
        return vault.call(tool, **arguments)


def failed(result: dict[str, Any], code: str = "refused") -> str:
    """Check that a call was refused with a hint; return its message."""
    assert result["success"] is False, result
    assert result["error"]["code"] == code
    assert result["error"]["hint"]
    return str(result["error"]["message"])


def test_world_is_off_by_default(folder: Path, run: Run) -> None:
    """Without the setting, world tools are not listed, and a call explains how to enable them."""
    assert "observe_location" not in run("tools", "list").out
    for line in (["world", "observe"], ["move_to", "1", "1"], ["call", "gather_resource"]):
        ran = run(*line)
        assert ran.code == 1
        assert "enabled = true" in ran.err + ran.out
    with open_vault(folder) as vault:
        failed(vault.call("observe_location"))
        write(folder, "memvault.toml", "version = 1\n[world]\nenabled = true\n")
        assert vault.call("observe_location")["success"]
        names = [entry["name"] for entry in vault.call("get_available_tools")["tools"]]
    assert "move_to" in names


def test_world_observe_lists_everything_in_radius(world: Path) -> None:
    """Places, resources and agents within the radius are listed, nearest first."""
    at_first = call(world, "alice", "observe_location")
    assert (at_first["terrain"], at_first["resources"]) == ("", [])
    assert not (world / "agents/alice.md").exists()
    write(world, "agents/bob.md", "---\nx: 13\ny: 4\ntype: guide\n---\n")
    write(world, "agents/zoe.md", "Zoe is at the origin.\n")
    write(world, "agents/eve.md", "---\nbroken: [\n---\n")
    call(world, "alice", "move_to", x=10, y=0)
    seen = call(world, "alice", "observe_location")
    assert (seen["terrain"], seen["climate"]) == ("forest", "mild")
    assert seen["resources"] == [
        {"name": "wood", "amount": 5, "place": "The forest"},
        {"name": "berries", "amount": 1, "place": "The forest"},
        {"name": "water", "place": "spring"},
    ]
    assert seen["nearbyAgents"] == [{"name": "bob", "type": "guide", "distance": 5.0}]
    assert "agents/eve.md is skipped" in seen["warnings"][0]
    wide = call(world, "alice", "observe_location", radius=10)["nearbyAgents"]
    assert [entry["name"] for entry in wide] == ["bob", "zoe"]
    assert call(world, "alice", "observe_location", radius=4.9)["nearbyAgents"] == []
    assert call(world, "alice/planner", "observe_location")["position"] == {"x": 10, "y": 0}


def test_world_move_costs_stamina(world: Path, run: Run) -> None:
    """A cell costs 0.01 in a straight line, and a move beyond the stamina is refused."""
    moved = run("world", "move", "30", "-40", "--agent", "alice", "--json").json
    assert moved["newPosition"] == {"x": 30, "y": -40}
    assert (moved["staminaUsed"], moved["stamina"]) == (0.5, 0.5)
    assert "too little stamina" in refused(run("world", "move", "-30", "40", "--agent", "alice"), 1)
    assert call(world, "alice", "observe_location")["position"] == {"x": 30, "y": -40}
    assert call(world, "alice", "move_to", x=0, y=0)["stamina"] == 0
    assert call(world, "alice", "move_to", x=0, y=0)["staminaUsed"] == 0
    failed(call(world, "alice", "move_to", x=0.1, y=0))
    failed(call(world, "alice", "move_to", x=1e300, y=0), "usage")


@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), max_size=20))
def test_world_remaining_and_used_stamina_add_up_to_one(ways: list[tuple[int, int]]) -> None:
    """For any moves, remaining and used stamina add up to one and are never negative."""
    me, used = parse_character("a", {}), 0.0
    for x, y in ways:
        try:
            me, more = walk(me, x, y)
        except Refused:
            break
        used += more
        assert 0 <= me.stamina <= 1
        assert abs(me.stamina + used - 1) < 1e-6


def test_world_changes_only_numbers_in_files(world: Path) -> None:
    """Moving and gathering change only numbers; comments, order and text are kept."""
    bag = "inventory:\n  # in the bag\n  rope: 1 # long"
    mine = f"---\ny: 0   # north\nx: 9\n{bag}\nowner: me\n---\nHi\n"
    write(world, "agents/alice.md", mine)
    call(world, "alice", "move_to", x=10, y=1)
    call(world, "alice", "gather_resource", resource="Wood", amount=2)
    call(world, "alice", "gather_resource", resource="wood")
    text = (world / "agents/alice.md").read_text("utf-8")
    for kept in ("y: 1   # north", "  # in the bag\n  rope: 1 # long\n  wood: 3\n", "owner: me"):
        assert kept in text
    assert text.endswith("---\nHi\n")
    forest = (world / "places/forest.md").read_text("utf-8")
    assert forest == FOREST.replace("wood: 5", "wood: 2")
    history = [path.read_text("utf-8") for path in (world / ".memvault/history").rglob("*.md")]
    assert mine in history
    assert FOREST in history


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("r:\n  a: 1 # c\n  b: 2\n", "r:\n  a: 5 # c\n  b: 2\n"),
        ("r: {a: 1, b: 2} # c\nz: 1\n", "r: {a: 5, b: 2} # c\nz: 1\n"),
        ("r: {b: 2,} # c\n", "r: {b: 2, a: 5} # c\n"),
        ("r:\n    b: 2 # c\n# d\nz: 1\n", "r:\n    b: 2 # c\n    a: 5\n# d\nz: 1\n"),
        ("r:\n  a:\n  b: 2\n", "r:\n  a: 5\n  b: 2\n"),
        ("r: # c\nz: 1\n", "r: {a: 5} # c\nz: 1\n"),
        ("z: 1\n", "z: 1\nr: {a: 5}\n"),
        ("r:\n  'a': \"1\" # c\n", "r:\n  'a': 5 # c\n"),
    ],
)
def test_world_sets_one_number_of_a_mapping(header: str, expected: str) -> None:
    """In any YAML style, one number of a mapping changes and nothing else does."""
    for newline in ("\n", "\r\n"):
        before = f"---\n{header}---\nx\n".replace("\n", newline).encode()
        after = f"---\n{expected}---\nx\n".replace("\n", newline).encode()
        assert document.edit_entry(before, "r", "a", 5) == after


def test_world_refuses_impossible_gathering(world: Path) -> None:
    """A resource that is too far away, too scarce or unknown is refused with the reason."""
    assert "There is no 'wood'" in failed(call(world, "a", "gather_resource", resource="wood"))
    call(world, "a", "move_to", x=11, y=0)
    before = (world / "agents/a.md").read_bytes()
    assert "only 5" in failed(call(world, "a", "gather_resource", resource="wood", amount=6))
    assert "no 'gold'" in failed(call(world, "a", "gather_resource", resource="gold"))
    failed(call(world, "a", "gather_resource", resource="wood", amount=0), "usage")
    assert (world / "agents/a.md").read_bytes() == before
    for _ in range(2):
        got = call(world, "a", "gather_resource", resource="water", amount=7)
        assert "left" not in got
    assert got["carried"] == 14
    assert (world / "places/spring.md").read_text("utf-8") == SPRING
    assert call(world, "a", "gather_resource", resource="berries")["left"] == 0
    failed(call(world, "a", "gather_resource", resource="berries"))
    names = [entry["name"] for entry in call(world, "a", "observe_location")["resources"]]
    assert sorted(names) == ["water", "wood"]


def test_world_concurrent_gathering_never_duplicates(world: Path) -> None:
    """If six agents gather five items concurrently, no item goes to two agents."""
    code = (
        "import json, sys\nfrom memvault import open_vault\nv = open_vault('.', sys.argv[1])\n"
        "v.call('move_to', x=10, y=0)\n"
        "print(json.dumps(v.call('gather_resource', resource='wood')))"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, name], cwd=world, stdout=subprocess.PIPE)
        for name in ("a1", "a2", "a3", "a4", "a5", "a6")
    ]
    results = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    assert sorted(result["success"] for result in results) == [False] + [True] * 5
    assert sorted(result["left"] for result in results if result["success"]) == [0, 1, 2, 3, 4]
    assert "wood: 0   # dry" in (world / "places/forest.md").read_text("utf-8")


def test_world_talk_needs_agents_within_five_cells(world: Path) -> None:
    """A message within five cells arrives as a talk; farther away it fails."""
    assert "not in this world" in failed(
        call(world, "alice", "interact_with_agent", agent="bob", message="Hi"), "not_found"
    )
    call(world, "bob", "move_to", x=3, y=4)
    said = call(world, "alice", "interact_with_agent", agent="bob", message="Hi")
    assert said["distance"] == 5.0
    (event,) = call(world, "bob", "peek_inbox")["events"]
    assert event["data"] == {"from": "alice", "talkId": said["talkId"], "message": "Hi"}
    assert call(world, "bob", "reply", talkId=said["talkId"], message="Yes")["success"]
    call(world, "bob", "move_to", x=3, y=4.1)
    far = call(world, "alice", "interact_with_agent", agent="bob", message="Hi")
    assert "out of reach" in failed(far)
    failed(call(world, "alice", "interact_with_agent", agent="alice", message="Hi"))
    failed(call(world, "alice", "interact_with_agent", agent="../x", message="Hi"), "usage")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("---\nx: [\n---\n", "is broken"),
        ("---\nx: true\ny: [1]\nstamina: {a: 1}\n---\n", ""),
        ("---\nx: far\nstamina: lots\ninventory: none\n---\n", ""),
    ],
    ids=["broken", "odd", "words"],
)
def test_world_tolerates_invalid_handwritten_files(world: Path, text: str, said: str) -> None:
    """A broken file is refused and left unchanged; invalid values count as defaults."""
    write(world, "agents/a.md", text)
    moved = call(world, "a", "move_to", x=10, y=0)
    if said:
        assert said in failed(moved)
        assert (world / "agents/a.md").read_text("utf-8") == text
    else:
        assert moved["success"]
        assert call(world, "a", "gather_resource", resource="wood")["carried"] == 1


def test_world_reports_invalid_places(world: Path) -> None:
    """A place without numbers, a broken file or a symlink is reported and skipped."""
    write(world, "places/a.md", "---\nx: here\nterrain: sea\n---\n")
    write(world, "places/b.md", "---\nx: [\n---\n")
    write(world, "places/README.md", "# About places\n")
    (world / "places/c.md").symlink_to(world / "places/forest.md")
    seen = call(world, "a", "observe_location", radius=20)
    assert len(seen["warnings"]) == 3
    assert [entry["name"] for entry in seen["resources"]] == ["wood", "berries", "water"]
    (world / "agents").symlink_to(world / "places")
    failed(call(world, "a", "move_to", x=1, y=1))


def test_world_agent_without_file_has_defaults() -> None:
    """An agent without a file starts at the origin with full stamina and an empty inventory."""
    assert parse_character("a", {}) == Character("a", 0, 0, 1, "agent", {})
