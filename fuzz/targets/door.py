"""Any JSON passed to a read-only tool yields a result or a clear failure; no file is changed."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from memvault.arguments.binding import read_object
from memvault.errors import Bug, MemvaultError
from memvault.sanitize import safe_json
from memvault.tools.core import invoke, registry
from memvault.workspace import Workspace
from targets.arguments import JSON_TOKENS, KEYS, object_of
from targets.shapes import first_line, folder, text_of

TOOLS = tuple(
    "memory_recall memory_list memory_show memory_search memory_active memory_list_types "
    "get_memories "
    "get_goals get_plans recall_similar_experience get_recent_episodes get_episodes_with_skill "
    "recall_fact recall_procedure recall_memory list_skill_categories list_subcategories "
    "list_skills "
    "read_messages get_available_tools vault_status".split()
)
"""Fast read-only tools."""
TOKENS = (*JSON_TOKENS, *KEYS, *(f"{name}\n" for name in TOOLS))
_FILES = {
    "alpha.md": "---\nid: m1\ntags: [x]\nb: 1\n---\n\n# Alpha\n\nThe zebra sleeps.\n",
    "beta.md": "---\nid: m2\n---\n\n# Beta\n\n## When\n\nThe zebra eats in May 2023.\n",
    "fact/zebras.md": "---\nid: m3\nmemory_type: fact\nsupersedes: m1\n---\n\nZebras sleep.\n",
    "episode/fed.md": "---\nid: m4\nmemory_type: episode\nactions: [Fed it]\n---\n\nFed it.\n",
    "agents/main/goals/g.md": "---\nid: g\n---\n\nHand in the report\n",
    "spaces/team/messages/a.md": "---\nfrom: bob\n---\n\nHello\n",
}


def check(data: bytes) -> None:
    """Call the tool in the first line with the JSON that follows."""
    name, rest = first_line(data)
    tool = name if name in TOOLS else TOOLS[sum(map(ord, name)) % len(TOOLS)]
    try:
        given = object_of(rest) or read_object(text_of(rest), "The arguments are", "")
        result = invoke.call(vault(), tool, given).result
    except MemvaultError as error:
        assert not isinstance(error, Bug)
        assert error.message
        result = error.result()
    told = json.loads(safe_json(result), parse_constant=_no_number)
    assert safe_json(told) == safe_json(result)
    safe_json(result).encode()
    assert result["success"] is ("error" not in result)
    assert registry.find(tool).read_only
    changed = [path for path, text in _FILES.items() if (folder() / path).read_text() != text]
    assert not changed


def _no_number(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


@cache
def vault() -> Workspace:
    """Return a small vault that stays open."""
    fill(folder())
    return Workspace(folder())


def fill(root: Path) -> None:
    """Write the files of a small vault."""
    for path, text in _FILES.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
