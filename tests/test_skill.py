"""The documentation for agents is correct, and skills form a tree of procedures."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import frontmatter
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run, called, succeeded, write
from memvault import Vault
from memvault.cli.options import GLOBAL_OPTIONS
from memvault.command_table import COMMANDS
from memvault.experience import skill_tree
from memvault.tools.core import agent_guide, registry

TEXTS = (
    agent_guide.agents_page,
    agent_guide.instructions,
    agent_guide.claude_skill,
    agent_guide.plain_text,
)
NAMES = {command.words for command in COMMANDS}


def command_of(words: list[str]) -> str:
    """Return the command at the beginning of a line, which must exist."""
    found = [" ".join(words[:count]) for count in (1, 2) if " ".join(words[:count]) in NAMES]
    assert found, words
    return found[-1]


@pytest.mark.parametrize("text", TEXTS)
def test_skill_text_uses_only_existing_commands(text: Callable[[], str]) -> None:
    """Each command in the skill exists and has the options shown."""
    shared = {flag for _, flag, *_ in GLOBAL_OPTIONS} | {"--help"}
    lines = re.findall(r"(?:`|^\$ )memvault ((?:\w|-)+[^`\n]*)", text(), re.MULTILINE)
    assert lines or text is agent_guide.plain_text
    for line in lines:
        words = shlex.split(line)
        if words[0] == "COMMAND":
            continue
        name = command_of(words)
        tool = registry.lookup(name.replace(" ", "_"))
        known = (
            {word for entry in tool.shell_parameters for word in entry.flag.split("/")}
            if tool
            else set()
        )
        for word in words:
            if word.startswith("--"):
                assert word.partition("=")[0] in known | shared, line


def test_skill_for_claude_meets_its_specification(tmp_path: Path, run: Run) -> None:
    """The skill's name and description are within the limits of the specification."""
    succeeded(run("skill", "--as", "claude", "--out", str(tmp_path)))
    file = tmp_path / "memvault" / "SKILL.md"
    found = frontmatter.load(str(file))
    assert re.fullmatch(r"[a-z0-9-]{1,64}", str(found["name"]))
    assert file.parent.name == found["name"]
    assert 0 < len(str(found["description"])) <= 1_024
    assert not {"<", ">"} & set(str(found["description"]))
    assert len(found.content.splitlines()) < 500


def test_skill_plain_text_has_no_markdown() -> None:
    """The plain form is the same text without markdown syntax."""
    text = agent_guide.plain_text()
    assert not re.search(r"^#|^\||\*\*|`", text, re.MULTILINE)
    assert "memvault recall " in text
    assert "Five ways to write" in text


def test_skill_instructions_over_mcp_use_tool_names() -> None:
    """Instructions over MCP contain the exact tool names and no commands."""
    text = agent_guide.mcp_instructions()
    assert "{" not in text
    assert "memvault " not in text
    for name in re.findall(r"\bmemory_\w+", text):
        assert registry.lookup(name), name


def test_skill_never_overwrites_a_file(tmp_path: Path, run: Run) -> None:
    """An existing file is kept, and the printed text equals the written one."""
    printed = succeeded(run("skill")).out
    assert run("skill", "--json").json["text"] == printed
    succeeded(run("skill", "--out", str(tmp_path)))
    assert (tmp_path / "AGENTS.md").read_text("utf-8") == printed


parts = st.sampled_from(["a", "B", "b", "ab", "é", "a-b", "a_b", "7"])
ids = st.lists(st.lists(parts, min_size=1, max_size=4).map(".".join), max_size=12)


def learn(vault: Vault, name: str, skill_id: str, rate: float = 0.5) -> str:
    """Store a procedure with a skill; return its memId."""
    result = called(
        vault,
        "store_procedure",
        procedureName=name,
        procedurePrompt=f"How to {name}.",
        initialSuccessRate=rate,
        skillId=skill_id,
    )
    return str(result["procedureId"])


def use(vault: Vault, skill_id: str, action: str = "Parry", **more: Any) -> dict[str, Any]:
    """Use a skill."""
    result: dict[str, Any] = vault.call(
        "use_skill", skillId=skill_id, actionDescription=action, **more
    )
    return result


def test_skill_tree_contains_every_skill(folder: Path, vault: Vault) -> None:
    """Categories, subcategories and skills come from procedures, in any letter case."""
    learn(vault, "parry", "combat.melee.swords")
    learn(vault, "thrust", "Combat.melee.spears")
    learn(vault, "shoot", "combat.archery")
    learn(vault, "cook", "cooking")
    vault.call("store_procedure", procedureName="no skill", procedurePrompt="Rest.")
    write(folder, "procedure/old.md", "---\nskill_id: magic.fire\nstatus: archived\n---\nOld.\n")
    write(folder, "procedure/odd.md", "---\nskill_id: [a, b]\n---\nOdd.\n")
    assert vault.call("list_skill_categories")["categories"] == [
        {"categoryId": "combat", "skills": 3},
        {"categoryId": "cooking", "skills": 1},
    ]
    assert vault.call("list_subcategories", categoryId="COMBAT")["subcategories"] == [
        {"subcategoryId": "combat.archery", "skills": 1},
        {"subcategoryId": "Combat.melee", "skills": 2},
    ]
    found = vault.call("list_skills", subcategoryId="combat.melee")["skills"]
    assert [entry["skillId"] for entry in found] == ["Combat.melee.spears", "combat.melee.swords"]
    assert [entry["name"] for entry in found] == ["thrust", "parry"]
    assert len(vault.call("list_skills", subcategoryId="combat")["skills"]) == 3
    assert [e["name"] for e in vault.call("list_skills", subcategoryId="cooking")["skills"]] == [
        "cook"
    ]
    assert "cooking" in vault.call("list_subcategories", categoryId="cooking")["message"]
    for tool, key in (("list_subcategories", "categoryId"), ("list_skills", "subcategoryId")):
        nothing = called(vault, tool, **{key: "comb"})
        assert nothing["message"]
        assert vault.call(tool, **{key: " "})["error"]["code"] == "usage"


def test_skill_tree_of_empty_vault_is_empty(run: Run) -> None:
    """Without skills, the lists are empty and the call succeeds."""
    done = run("skills", "categories")
    assert (done.code, done.out) == (0, "No procedure has a skill id yet\n")


@given(ids)
def test_skill_tree_counts_add_up(named: list[str]) -> None:
    """The counts of the categories add up to all skills, and each branch has its own count."""
    categories = skill_tree.branches(named, 1)
    assert sum(categories.values()) == len(named)
    for category, count in categories.items():
        within = skill_tree.below(named, category)
        assert len(within) == count
        deeper = skill_tree.branches(within, 2)
        assert sum(deeper.values()) == sum("." in entry for entry in within)
        for branch, number in deeper.items():
            assert len(skill_tree.below(named, branch)) == number


def test_skill_returns_best_procedure_without_counting_use(vault: Vault) -> None:
    """The best procedure for the ID is returned with its statistics, which stay unchanged."""
    learn(vault, "parry badly", "combat.melee.swords", 0.2)
    best = learn(vault, "parry", "combat.melee.swords", 0.75)
    for _ in range(2):
        found = use(vault, "Combat.Melee.Swords", "Parry a blow", difficultyModifier=0.25)
        assert found["skillResult"] == {
            "skillId": "combat.melee.swords",
            "name": "parry",
            "procedureId": best,
            "successRate": 0.75,
            "usageCount": 0,
            "prompt": "How to parry.",
            "action": "Parry a blow",
            "difficultyModifier": 0.25,
            "expectedSuccess": 0.5,
        }
    assert use(vault, "combat.melee.swords", difficultyModifier=-1)["skillResult"][
        "expectedSuccess"
    ] == 1.0  # fmt: skip


def test_skill_request_is_created_once_for_unknown_skill(
    folder: Path, run: Run, vault: Vault
) -> None:
    """The error refers to a request that can be answered, one file per skill and action."""
    first = use(vault, "combat.melee.swords", "Parry a blow")
    assert first["success"] is False
    assert first["error"]["code"] == "not_found"
    assert first["skillRequestSubmitted"] is True
    (path,) = (folder / "agents" / "main" / "skill-requests").iterdir()
    text = path.read_text("utf-8")
    assert path.stem == first["requestId"]
    assert "skill_id: combat.melee.swords" in text
    assert "Parry a blow" in text
    again = run("skills", "use", "combat.melee.swords", "Parry a blow", "--json")
    second = again.json
    for hint, failed in (("store_procedure", first), ("memvault procedure store", second)):
        # Each caller sees its own terms.
        assert failed["error"].pop("hint").startswith(f"answer it with `{hint}")
    assert (again.code, second) == (1, first)
    assert path.read_text("utf-8") == text
    other = use(vault, "combat.melee.swords", "Strike first")
    assert other["requestId"] != first["requestId"]
    assert run("--agent", "kai", "skills", "use", "cooking", "Boil").code == 1
    assert len(list(folder.rglob("skill-requests/*.md"))) == 3
    assert vault.call("memory_list")["count"] == 0
    learn(vault, "parry", "combat.melee.swords")
    assert use(vault, "combat.melee.swords", "Parry a blow")["success"]


def test_manually_edited_skill_request_is_kept(folder: Path, vault: Vault) -> None:
    """A renamed or edited request counts as the same one; a deleted one is created again."""
    first = use(vault, "cooking", "Boil an egg")
    path = folder / "agents" / "main" / "skill-requests" / f"{first['requestId']}.md"
    mine = path.with_name("eggs.md")
    path.rename(mine)
    mine.write_text(mine.read_text("utf-8").replace("status: open", "status: later"), "utf-8")
    before = mine.read_text("utf-8")
    assert use(vault, "cooking", "Boil an egg")["requestId"] == first["requestId"]
    assert [entry.name for entry in path.parent.iterdir()] == ["eggs.md"]
    assert mine.read_text("utf-8") == before
    mine.unlink()
    assert use(vault, "cooking", "Boil an egg")["requestId"] == first["requestId"]
    assert path.exists()


def test_skill_invalid_request_is_refused(folder: Path, vault: Vault) -> None:
    """An invalid ID, an empty action or a symlink in the path is refused, creating nothing."""
    for skill_id in ("", "a..b", ".a", "a b", "../../x", "a/b", "x" * 200, "a\nb"):
        assert use(vault, skill_id)["error"]["code"] == "usage", skill_id
    assert use(vault, "cooking", " ")["error"]["code"] == "usage"
    assert list(folder.rglob("*.md")) == []
    (folder / "agents" / "main").mkdir(parents=True)
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    (folder / "agents" / "main" / "skill-requests").symlink_to(elsewhere)
    assert use(vault, "cooking", "Boil")["error"]["code"] == "refused"
    assert list(elsewhere.iterdir()) == []
