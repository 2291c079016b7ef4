"""One call of each tool for experience and skills: as options, and as JSON.

``BEFORE`` are commands that make what a tool needs to be there.
"""

from __future__ import annotations

__all__ = ["BEFORE", "CALLS"]

_STORED = ("procedure", "store", "dig", "Use paws.", "--skill-id", "life.dig.deep")
_DUG = ("episode", "store", "--action", "Dug a burrow", "--skill", "life.dig")

CALLS = {
    "store_episode": (
        """--context 'Rain, again' --action Dug --action 'Slept, dry' --outcome done:deep,wide
        --outcome '{"type": "action_error", "n": [1]}' --skill a,b --importance 0.25
        --reflection '## Well'""",
        """{"context": ["Rain, again"], "actions": ["Dug", "Slept, dry"], "outcomes":
        [{"type": "done", "text": "deep,wide"}, {"type": "action_error", "n": [1]}],
        "skills_used": ["a", "b"], "Importance": 0.25, "reflection": "## Well"}""",
    ),
    "recall_similar_experience": (
        "dig --limit 2 --min-importance 0.1",
        '{"query": "dig", "limit": 2, "minImportance": 0.1}',
    ),
    "get_recent_episodes": ("--days 2 --limit 1", '{"days": 2, "limit": 1}'),
    "get_episodes_with_skill": ("life.dig --limit 1", '{"skillId": "life.dig", "limit": 1}'),
    "store_fact": (
        "'Crows dig, too' --category zoo --confidence 0.5 --source 'a, b'",
        """{"fact": "Crows dig, too", "category": "zoo", "confidence": 0.5,
        "source": "a, b"}""",
    ),
    "recall_fact": (
        "dig --limit 2 --category General",
        '{"query": "dig", "limit": 2, "category": "General"}',
    ),
    "update_fact": (
        "Wombats --new-text 'They sleep.' --new-confidence 0.5",
        '{"factId": "Wombats", "newText": "They sleep.", "newConfidence": 0.5}',
    ),
    "store_procedure": (
        "fly 'Flap, glide.' --initial-success-rate 0.25 --skill-id life.fly",
        """{"procedureName": "fly", "procedurePrompt": "Flap, glide.",
        "initialSuccessRate": 0.25, "skillId": "life.fly"}""",
    ),
    "recall_procedure": (
        "dig --min-success-rate 0.5",
        '{"context": "dig", "minSuccessRate": 0.5}',
    ),
    "update_success_rate": ("dig --failure", '{"procedureName": "dig", "success": false}'),
    "recall_memory": ("'a wombat' 'digs, now'", '{"observations": ["a wombat", "digs, now"]}'),
    "list_skill_categories": ("", "{}"),
    "list_subcategories": ("life", '{"categoryId": "life"}'),
    "list_skills": ("life.dig", '{"subcategoryId": "life.dig"}'),
    "use_skill": (
        "life.dig.deep 'Dig, now' --difficulty-modifier 0.25",
        """{"skillId": "life.dig.deep", "actionDescription": "Dig, now",
        "difficultyModifier": 0.25}""",
    ),
}

BEFORE = {
    "recall_similar_experience": _DUG,
    "get_recent_episodes": _DUG,
    "get_episodes_with_skill": _DUG,
    "recall_procedure": _STORED,
    "update_success_rate": _STORED,
    "list_skill_categories": _STORED,
    "list_subcategories": _STORED,
    "list_skills": _STORED,
    "use_skill": _STORED,
}
