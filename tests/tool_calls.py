"""One call of each tool: as options, and as JSON.

``PREPARED`` are commands that make what a tool needs to be there.
"""

from __future__ import annotations

__all__ = ["FORMS", "PREPARED"]

_STORED = ("procedure", "store", "dig", "Use paws.", "--skill-id", "life.dig.deep")
_DUG = ("episode", "store", "--action", "Dug a burrow", "--skill", "life.dig")

_EXPERIENCE = {
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

_BEFORE = {
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

FORMS = {
    "memory_list_types": ("", "{}"),
    "memory_remember": (
        "Bilbies 'They dig too.' --type fact --tags a,b --tags c",
        '{"title":"Bilbies","content":"They dig too.","memoryType":"fact","tags":["a","b","c"]}',
    ),
    "memory_recall": (
        "dig --type fact --tags animal --limit 3 --mode keyword",
        '{"query":"dig","memoryType":"fact","tags":["animal"],"limit":3,"type":"keyword"}',
    ),
    "memory_compound": (
        "fact/wombats.md 'At night' --mode append",
        '{"query": "fact/wombats.md", "modifications": "At night", "mode": "append"}',
    ),
    "memory_forget": ("Wombats --threshold 0.8", '{"query": "Wombats", "threshold": 0.8}'),
    "memory_create": (
        "Bilbies 'They dig too.' --type fact --tags a,b",
        '{"name":"Bilbies","value":"They dig too.","memoryType":"fact","tags":["a","b"]}',
    ),
    "memory_load": (
        "Wombats --offset 2 --length 4",
        '{"MemId": "Wombats", "Offset": 2, "Length": 4}',
    ),
    "memory_evict": ("crows", '{"memId": "crows"}'),
    "memory_mutate": ("crows 'They walk.'", '{"memId": "crows", "value": "They walk."}'),
    "memory_search": (
        "dig --mode keyword --limit 2",
        '{"query": "dig", "type": "Keyword", "limit": 2}',
    ),
    "memory_active": ("--full", '{"full": true}'),
    "memory_save": (
        "'They dig.' --area zoo --metadata n=1 --metadata k=a,b",
        '{"text": "They dig.", "area": "zoo", "metadata": {"n": 1, "k": "a,b"}}',
    ),
    "memory_delete": ("Wombats no,none", '{"ids": "Wombats,no,none"}'),
    "context": ("'who digs' --budget 300", '{"task": "who digs", "budget": 300}'),
    "memory_show": ("Wombats", '{"memId": "Wombats"}'),
    "memory_list": (
        """--type fact --filter "'animal' in tags" --since 9d --limit 1""",
        """{"memoryType": "fact", "filter": "'animal' in tags", "since": "9d", "limit": 1}""",
    ),
    "memory_restore": ("", "{}"),
    "talk_user": ("Hello", '{"message": "Hello"}'),
    "talk_agent": ("bob Hello", '{"agent": "bob", "message": "Hello"}'),
    "talk_brain": ("planner Hello", '{"subbrain": "planner", "message": "Hello"}'),
    "talk_log": ("INFO Hello", '{"severity": "Info", "message": "Hello"}'),
    "reply": ("7 Hello", '{"talkId": 7, "message": "Hello"}'),
    "wait_for": (
        "hook:x TIME:0 --timeout 5",
        """{"events": [{"eventType": "Hook", "parameter": "x"},
        {"eventType": "time", "parameter": 0}], "timeout": 5}""",
    ),
    "peek_inbox": ("--count 2 --filter talk", '{"count": 2, "filter": "talk"}'),
    "push_service": ("x Hello", '{"name": "x", "message": "Hello"}'),
    "enter_space": ("team --limit 1", '{"spaceId": "team", "limit": 1}'),
    "send_message": ("Hello", '{"text": "Hello"}'),
    "read_messages": ("--space team", '{"spaceId": "team"}'),
    **dict.fromkeys(("vault_status", "vault_reindex", "model_list"), ("", "{}")),
    "model_use": ("builtin", '{"name": "builtin"}'),
    "model_verify": ("builtin", '{"name": "builtin"}'),
    "set_memories": (
        "k=v 'l=a b'",
        '{"memories": [{"key": "k", "value": "v"}, {"KEY": "l", "value": "a b"}]}',
    ),
    "get_memories": ("", '{"keys": []}'),
    "delete_memories": ("a b", '{"keys": ["a", "b"]}'),
    "consolidate_memories": ("--days 30", '{"DAYS": 30}'),
    "set_goals": (
        "g Ship --status later",
        '{"goals": [{"id": "g", "description": "Ship", "status": "later"}]}',
    ),
    "get_goals": ("--status active", '{"status": "Active"}'),
    "delete_goals": ("g", '{"goalIds": ["g"]}'),
    "set_plans": (
        "Report 'Do it' --at 2999-01-01",
        '{"plans": [{"name": "Report", "instruction": "Do it", "scheduled_at": "2999-01-01"}]}',
    ),
    "get_plans": ("--status active", '{"status": "active"}'),
    "delete_plans": ("p", '{"planIds": ["p"]}'),
    **_EXPERIENCE,
    "get_available_tools": ("", '{"schema": false}'),
    "register_tool": (
        "tool.json",
        '{"name": "hi", "description": "Says hi", "command": "echo hi"}',
    ),
    "call_tool": ("memory_list", '{"toolName": "memory_list"}'),
    "observe_location": ("--radius 3", '{"radius": 3}'),
    "move_to": ("-3 4.5", '{"x": -3, "y": 4.5}'),
    "gather_resource": ("wood --amount 2", '{"resource": "Wood", "amount": 2}'),
    "interact_with_agent": ("bob Hello", '{"agent": "bob", "message": "Hello"}'),
}
PREPARED = {**_BEFORE, **dict.fromkeys(("memory_evict", "memory_mutate"), ("load", "Crows"))}
