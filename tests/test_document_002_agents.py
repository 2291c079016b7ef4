"""The calls of the document on agents' memory and tools, as it writes them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, write
from memvault import Vault, open_vault

EPISODE: dict[str, Any] = {
    "context": ["Market of Aldern", "noon"],
    "actions": ["Greeted the miller", "Asked about the bridge"],
    "outcomes": [{"type": "success", "text": "The miller told of the flood"}],
    "skills_used": ["social.talk.greet"],
    "reflection": "Bread opens doors.",
    "importance": 0.8,
}
PLACE = "---\nx: 10\ny: 0\nradius: 3\nterrain: forest\nclimate: mild\nresources: [wood]\n---\n"


@pytest.fixture
def world(folder: Path) -> Iterator[Vault]:
    """A vault whose world is switched on."""
    write(folder, "memvault.toml", "version = 1\n[world]\nenabled = true\n")
    write(folder, "places/wood.md", PLACE)
    write(folder, "agents/bob.md", "---\nx: 12\ny: 0\ntype: guide\n---\n")
    with open_vault(folder) as opened:
        yield opened


def done(result: dict[str, Any]) -> dict[str, Any]:
    """Check that a call succeeded; return its result."""
    assert result["success"] is True, result
    return result


def test_an_episode_is_stored_and_found_again(vault: Vault) -> None:
    """Similar, recent and with a skill: each search gives the episode with what it says."""
    made = done(vault.call("store_episode", **EPISODE))["episodeId"]
    asked: list[tuple[str, dict[str, Any]]] = [
        ("recall_similar_experience", {"query": "talking to the miller", "min_importance": 0.3}),
        ("get_recent_episodes", {"days": 7, "limit": 10}),
        ("get_episodes_with_skill", {"skill_id": "social.talk.greet", "limit": 5}),
    ]
    for tool, arguments in asked:
        (found,) = done(vault.call(tool, **arguments))["episodes"]
        assert found["episodeId"] == made, tool
        assert "The miller told of the flood" in found["summary"]
        assert found["metadata"]["importance"] == 0.8
        assert found["metadata"]["success"] is True
    query = {"query": "talking to the miller", "min_importance": 0.9}
    assert done(vault.call("recall_similar_experience", **query))["episodes"] == []


@pytest.mark.parametrize(
    ("types", "success"),
    [
        ([], False),
        (["action_error"], False),
        (["success"], True),
        (["success"] * 7 + ["action_error"] * 3, False),
        (["success"] * 8 + ["action_error"] * 2, True),
    ],
)
def test_few_errors_are_a_success(vault: Vault, types: list[str], success: bool) -> None:
    """An episode went well with outcomes of which fewer than 30 % are an action_error."""
    outcomes = [{"type": kind} for kind in types]
    made = vault.call("store_episode", **{**EPISODE, "outcomes": outcomes})
    assert (made["success"], bool(made["episodeId"])) == (success, True)
    (found,) = done(vault.call("get_recent_episodes"))["episodes"]
    assert found["metadata"]["success"] is success


def test_a_fact_is_stored_searched_counted_and_corrected(vault: Vault) -> None:
    """Category, confidence and source come back; each search counts, and an update replaces."""
    fact = {"fact": "The bridge at Aldern is closed", "category": "places", "confidence": 0.9}
    made = done(vault.call("store_fact", **fact, source="told"))["factId"]
    done(vault.call("store_fact", fact="Rye keeps for a week"))
    for count in (1, 2):
        found = done(vault.call("recall_fact", query="is the bridge open", limit=5))["facts"]
        assert found[0]["factId"] == made
        assert (found[0]["category"], found[0]["confidence"]) == ("places", 0.9)
        assert (found[0]["source"], found[0]["accessCount"]) == ("told", count)
    assert done(vault.call("recall_fact", query="bridge", category="history"))["facts"] == []
    update = {"fact_id": made, "new_confidence": 0.5, "new_text": "The bridge is open again"}
    done(vault.call("update_fact", **update))
    (changed,) = done(vault.call("recall_fact", query="bridge", category="places"))["facts"]
    assert (changed["factText"], changed["confidence"]) == ("The bridge is open again", 0.5)
    rye = done(vault.call("recall_fact", query="rye", category="general"))["facts"][0]
    assert (rye["confidence"], rye["source"]) == (1.0, "experience")


def test_a_procedure_is_relevant_by_its_name_and_rated_by_outcomes(vault: Vault) -> None:
    """A word of the name makes it relevant, its rate must suffice, and outcomes move the rate."""
    prompt = "Smile, then say your name."
    done(
        vault.call(
            "store_procedure",
            procedure_name="greet_stranger",
            procedure_prompt=prompt,
            initial_success_rate=0.8,
        )
    )
    done(vault.call("store_procedure", procedure_name="greet_dog", procedure_prompt="Wait."))
    (found,) = done(vault.call("recall_procedure", context="A stranger comes"))["procedures"]
    assert (found["name"], found["prompt"], found["usageCount"]) == ("greet_stranger", prompt, 0)
    both = done(vault.call("recall_procedure", context="greet them", min_success_rate=0.5))
    assert [entry["successRate"] for entry in both["procedures"]] == [0.8, 0.5]
    outcome = {"procedure_name": "greet_stranger", "success": True}
    rated = done(vault.call("update_success_rate", **outcome))
    assert rated["successRate"] == pytest.approx(0.9 * 0.8 + 0.1)
    assert rated["usageCount"] == 1
    again = {"procedure_name": "greet_stranger", "procedure_prompt": "Bow."}
    done(vault.call("store_procedure", **again))
    (found,) = done(vault.call("recall_procedure", context="a stranger"))["procedures"]
    assert (found["prompt"], found["usageCount"]) == ("Bow.", 1)
    assert found["successRate"] == pytest.approx(0.82)


def test_a_situation_recalls_all_three_kinds(vault: Vault) -> None:
    """Observations give at most five facts, three experiences and the fitting procedures."""
    done(vault.call("store_fact", fact="The bridge at Aldern is closed"))
    done(vault.call("store_episode", **EPISODE))
    procedure = {"procedure_name": "ask_about_bridge", "procedure_prompt": "Ask the miller."}
    done(vault.call("store_procedure", **procedure, initial_success_rate=0.7))
    observations = ["A stranger asks", "the miller about the bridge at Aldern"]
    known = done(vault.call("recall_memory", observations=observations))["memoryContext"]
    assert known["facts"] == ["The bridge at Aldern is closed"]
    assert known["procedures"] == ["Ask the miller."]
    assert len(known["experiences"]) == 1
    assert "flood" in known["experiences"][0]


def test_memories_are_consolidated(vault: Vault) -> None:
    """A week's episodes are looked at for facts, procedures and what can be forgotten."""
    for _ in range(3):
        done(vault.call("store_episode", **EPISODE))
    found = done(vault.call("consolidate_memories"))
    assert found["applied"] is False
    assert any("Bread opens doors" in fact["factText"] for fact in found["facts"])
    assert found.keys() >= {"procedures", "forgotten"}


def test_tools_are_listed_called_and_registered(folder: Path, run: Run, vault: Vault) -> None:
    """Tools come in MCP's form; one that is unknown, or called wrongly, is an error."""
    shown = done(vault.call("get_available_tools"))["tools"]
    schema = next(tool for tool in shown if tool["name"] == "use_skill")["inputSchema"]
    assert schema["type"] == "object"
    assert {"skillId", "actionDescription"} <= set(schema["required"])
    assert schema["properties"]["difficultyModifier"]["default"] == 0.0
    unknown = vault.call("call_tool", tool_name="no_such_tool", parameters={})
    assert unknown["success"] is False
    assert "no_such_tool" in unknown["error"]["message"]
    assert vault.call("call_tool", tool_name="recall_fact", parameters={})["success"] is False
    script = "import json, sys; print(json.dumps({'doubled': json.load(sys.stdin)['radius'] * 2}))"
    write(folder, "tools/double.py", script)
    radius = {"name": "radius", "type": "number", "description": "Radius in cells to observe"}
    done(
        vault.call(
            "register_tool",
            name="double",
            description="Doubles a radius",
            parameters=[{**radius, "required": False, "default": 5}],
            command=[sys.executable, "tools/double.py"],
        )
    )
    assert run("tools", "trust", "double", "--yes").code == 0
    assert done(vault.call("call_tool", tool_name="double", parameters={}))["doubled"] == 10


def test_skills_are_browsed_and_used(vault: Vault) -> None:
    """Category, subcategory and skill are listed; an unknown skill files a request."""
    missing = vault.call("use_skill", skill_id="combat.melee.swords", action_description="Parry")
    assert missing["success"] is False
    assert missing["skillRequestSubmitted"] is True
    assert missing["requestId"]
    procedure = {"procedure_name": "swords", "procedure_prompt": "Keep the guard up."}
    done(vault.call("store_procedure", **procedure, skillId="combat.melee.swords"))
    assert "combat" in str(done(vault.call("list_skill_categories"))["categories"])
    sub = done(vault.call("list_subcategories", category_id="combat"))
    assert "melee" in str(sub["subcategories"])
    skills = done(vault.call("list_skills", subcategory_id="combat.melee"))["skills"]
    assert "combat.melee.swords" in str(skills)
    used = done(
        vault.call(
            "use_skill",
            skill_id="combat.melee.swords",
            action_description="Parry the blow",
            difficulty_modifier=0.0,
        )
    )
    assert used["skillResult"]


def test_the_world_is_observed_walked_and_used(world: Vault) -> None:
    """A look, a way that costs a hundredth a cell, wood, and a word to who is near."""
    moved = done(world.call("move_to", x=10, y=0))
    assert moved["newPosition"] == {"x": 10, "y": 0}
    assert moved["staminaUsed"] == pytest.approx(0.1)
    seen = done(world.call("observe_location", radius=5))
    assert (seen["terrain"], seen["climate"]) == ("forest", "mild")
    assert "wood" in str(seen["resources"])
    assert seen["nearbyAgents"] == [{"name": "bob", "type": "guide", "distance": 2.0}]
    assert done(world.call("observe_location"))["nearbyAgents"] == seen["nearbyAgents"]
    done(world.call("gather_resource", resource="wood"))
    done(world.call("interact_with_agent", agent="bob", message="Which way?"))
    too_far = world.call("move_to", x=10_000, y=0)
    assert too_far["success"] is False
    assert "stamina" in too_far["error"]["message"]
