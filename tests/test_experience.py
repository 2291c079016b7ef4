"""Episodes are stored exactly, and found by similarity, time and skill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run, refused, write
from memvault import Vault, open_vault
from memvault.experience import episodes
from memvault.vault.document import plain_text
from memvault.workspace import Workspace

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=5,
)
outcomes = st.lists(
    st.builds(
        lambda kind, more: {**more, "type": kind},
        st.sampled_from(["success", "action_error", "`a`"]),
        st.dictionaries(st.text(max_size=8), values, max_size=3),
    ),
    max_size=4,
)
entries = st.lists(
    st.text(max_size=30)
    | st.sampled_from(["- x", "1. x", "# H", "```", '`"x"`', "a\nb", " x ", ""]),
    max_size=4,
)
reflections = st.lists(
    st.text(max_size=20)
    | st.sampled_from(["## Context", "# Reflection", "- a", "---", "```", "From [[x]]", ""]),
    max_size=6,
).map("\n".join)
rates = st.floats(0, 1)


@given(entries, entries, outcomes, entries, reflections, rates)
def test_episode_fields_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    context: list[str],
    actions: list[str],
    outcomes: list[dict[str, Any]],
    skills: list[str],
    reflection: str,
    importance: float,
) -> None:
    """Every field with any content is read back exactly, except for trimmed ends."""
    if not (context or actions or outcomes or reflection.strip()):
        return
    root = tmp_path_factory.mktemp("vault")
    (root / "memvault.toml").write_text("version = 1\n")
    store = Workspace(root).store
    told = episodes.EpisodeInput(context, actions, outcomes, skills, reflection, importance)
    made = episodes.add(store, told, "main")
    read = episodes.episode_of(store.read(made.path))
    assert read.context == context
    assert read.actions == actions
    assert json.dumps(read.outcomes) == json.dumps(outcomes)
    assert read.skills_used == [kept for skill in skills if (kept := plain_text(skill).strip())]
    assert read.reflection == plain_text(reflection).strip()
    assert (read.importance, read.agent) == (importance, "main")
    assert read.success == episodes.succeeded(outcomes)


@given(st.integers(0, 40), st.integers(0, 40))
def test_episode_succeeds_with_under_30_percent_errors(errors: int, others: int) -> None:
    """Without an outcome, or with 30 % errors or more, an episode did not succeed."""
    told = [{"type": "action_error"}] * errors + [{"type": "done"}] * others
    assert episodes.succeeded(told) == (errors + others > 0 and errors * 10 < (errors + others) * 3)


def test_store_episode_reports_episode_success(vault: Vault) -> None:
    """Storing a failed episode succeeds, and episodeSuccess is false."""
    good = vault.call("store_episode", actions=["Asked Kai"], outcomes=[{"type": "answered"}])
    bad = vault.call("store_episode", actions=["Jumped"], outcomes=[{"type": "action_error"}])
    empty = vault.call("store_episode")
    assert (good["success"], bad["success"], empty["success"]) == (True, True, False)
    assert (good["episodeSuccess"], bad["episodeSuccess"]) == (True, False)
    assert vault.call("memory_show", memId=bad["episodeId"])["memoryType"] == "episode"
    assert empty["error"]["code"] == "usage"
    told = vault.call("get_recent_episodes")["episodes"]
    assert [entry["metadata"]["success"] for entry in told] == [False, True]


FAILED = [
    ("failed: door stuck", "door stuck"),
    (["it failed"], "it failed"),
    (["failed"], None),
    ([{"type": "Failed"}], None),
    ([{"type": "failure", "text": "stuck"}], "stuck"),
    ([{"type": "error"}], None),
    ({"type": "fail"}, None),
    ([{"success": False, "text": "stuck"}], "stuck"),
    ([{"result": "failure"}], None),
    ([{"status": "done", "success": False}], None),
]


@pytest.mark.parametrize(("told", "text"), FAILED, ids=str)
def test_failure_outcomes_are_recognized(vault: Vault, told: Any, text: str | None) -> None:
    """A sentence that reports a failed step becomes an outcome of the type action_error."""
    made = vault.call("store_episode", action="Pushed the door", outcome=told, skills="doors.open")
    assert made["episodeSuccess"] is False, made
    (entry,) = vault.call("get_recent_episodes")["episodes"]
    (outcome,) = entry["metadata"]["outcomes"]
    assert (outcome["type"], outcome.get("text")) == ("action_error", text)
    assert entry["metadata"]["actions"] == ["Pushed the door"]
    assert entry["metadata"]["skillsUsed"] == ["doors.open"]


@pytest.mark.parametrize(
    "told", ["it worked", "succeeded: at last", [{"success": True}], "success", ["opened"]], ids=str
)
def test_success_outcomes_are_recognized(vault: Vault, told: Any) -> None:
    """A sentence that states success counts as success; other words do not count as failure."""
    assert vault.call("store_episode", actions="Pushed", outcomes=told)["episodeSuccess"] is True


@pytest.mark.parametrize("told", ["the door", "it did not fail", "no error, success", 5, [": x"]])
def test_episode_unclear_outcome_is_refused(vault: Vault, told: Any) -> None:
    """A sentence that states neither success nor failure is refused with a hint on the format."""
    error = vault.call("store_episode", actions="Pushed", outcomes=told)["error"]
    assert error["code"] == "usage"
    assert "action_error" in error["hint"]


def test_store_episode_accepts_words_for_failure(run: Run) -> None:
    """On the command line, any type or sentence that expresses failure counts as a failure."""
    for told in ("failed:door stuck", "it failed", '{"type": "failure"}'):
        done = run("episode", "store", "--action", "Pushed", "--outcome", told, "--json")
        assert done.json["episodeSuccess"] is False


def test_store_episode_accepts_repeated_options(run: Run) -> None:
    """Strings keep their commas, and an outcome is a JSON object or a type and its text."""
    done = run(
        "episode", "store", "--context", "Market, noon", "--context", "Rain",
        "--action", "Asked Kai, twice", "--actions", "Left",
        "--outcome", "answered: yes, or so", "--outcome", '{"type": "gained", "item": "map, old"}',
        "--outcomes", "action_error", "--skill", "social.talk,trade", "--skills-used", "trade.buy",
        "--reflection", "-", "--importance", "0.75", "--json", stdin="# Well\n\nAsk earlier.\n",
    )  # fmt: skip
    assert (done.code, done.json["success"], done.json["episodeSuccess"]) == (0, True, False)
    (found,) = run("episode", "recent", "--json").json["episodes"]
    said = found["metadata"]
    assert said["context"] == ["Market, noon", "Rain"]
    assert said["actions"] == ["Asked Kai, twice", "Left"]
    assert said["outcomes"] == [
        {"type": "answered", "text": "yes, or so"},
        {"type": "gained", "item": "map, old"},
        {"type": "action_error"},
    ]
    assert said["skillsUsed"] == ["social.talk", "trade", "trade.buy"]
    assert (said["reflection"], said["importance"]) == ("# Well\n\nAsk earlier.", 0.75)
    assert "did not succeed" in run("episode", "with-skill", "SOCIAL.talk").out


def test_invalid_episode_is_refused(run: Run, folder: Path) -> None:
    """An outcome without a type, invalid JSON or an out-of-range number writes nothing."""
    for option in (
        ("--outcome", ": text"),
        ("--outcome", "{broken"),
        ("--outcome", '{"kind": "x"}'),
        ("--outcome", '{"type": []}'),
        ("--outcome", '{"type": "x", "n": NaN}'),
        ("--importance", "1.5", "--action", "x"),
        ("--skill", "x" * 300, "--action", "x"),
        (),
    ):
        refused(run("episode", "store", *option), 2)
    assert list(folder.rglob("*.md")) == []


def test_similar_experiences_have_a_distance(vault: Vault) -> None:
    """The most similar episode comes first, with a distance that reflects its meaning."""
    wolf = vault.call(
        "store_episode", context=["A forest at night"], actions=["Fought a wolf with a sword"]
    )["episodeId"]
    vault.call("store_episode", context=["The market"], actions=["Sold apples to Kai"])
    found = vault.call("recall_similar_experience", query="a wolf attacks in the forest")
    first = found["episodes"][0]
    assert first["episodeId"] == wolf
    assert 0 <= first["distance"] < 0.7
    assert "Fought a wolf" in first["summary"]
    same = vault.call("recall_similar_experience", query=first["summary"])["episodes"][0]
    assert same["distance"] < first["distance"]
    nothing = vault.call("recall_similar_experience", query="quantum chromodynamics")
    assert nothing["episodes"] == []
    assert "or search with `memory_recall`" in nothing["message"]
    plain = vault.call("memory_recall", query="quantum chromodynamics")["memories"]
    assert [entry["strength"] for entry in plain] == ["weak", "weak"]
    assert vault.call("recall_similar_experience", query=" ")["error"]["code"] == "usage"


def test_archived_and_low_importance_episodes_are_omitted(folder: Path, vault: Vault) -> None:
    """The minimum importance is inclusive, a missing one is 0.5, and recall finds the rest."""
    for importance in (0.29, 0.3, 0.9):
        vault.call("store_episode", actions=[f"Fed the wombat {importance}"], importance=importance)
    write(folder, "episode/by-hand.md", "# Fed the wombat\n\nBy hand.\n")
    write(folder, "episode/old.md", "---\nstatus: archived\n---\n# Fed the wombat before\n")

    def importances(**arguments: Any) -> list[float]:
        found = vault.call("recall_similar_experience", query="Fed the wombat", **arguments)
        return sorted(entry["metadata"]["importance"] for entry in found["episodes"])

    assert importances() == [0.3, 0.5, 0.9]
    assert importances(minImportance=0) == [0.29, 0.3, 0.5, 0.9]
    assert importances(minImportance=0.6) == [0.9]
    assert len(importances(limit=2)) == 2
    assert vault.call("memory_recall", query="Fed the wombat")["count"] == 5
    assert len(vault.call("get_recent_episodes")["episodes"]) == 4


def test_recent_episodes_respect_days_and_limit(folder: Path, vault: Vault) -> None:
    """Episodes are newest first, within the requested days and limit."""
    write(folder, "episode/old.md", "---\ncreated: 2020-01-01\n---\n# Long ago\n")
    ids = [vault.call("store_episode", actions=[f"Step {n}"])["episodeId"] for n in range(3)]
    recent = vault.call("get_recent_episodes")["episodes"]
    assert [entry["episodeId"] for entry in recent] == ids[::-1]
    assert len(vault.call("get_recent_episodes", limit=2)["episodes"]) == 2
    assert len(vault.call("get_recent_episodes", limit=10**30)["episodes"]) == 3
    assert vault.call("get_recent_episodes", days=0)["message"]
    every = vault.call("get_recent_episodes", days=100_000)["episodes"]
    assert every[-1]["summary"] == "Long ago"
    assert vault.call("get_recent_episodes", days=10**12)["error"]["code"] == "usage"


def test_episodes_match_the_complete_skill_id(folder: Path, vault: Vault) -> None:
    """A skill matches in any case, even if handwritten, but never by only its prefix."""
    vault.call("store_episode", actions=["A"], skillsUsed=["combat.melee.swords"])
    vault.call("store_episode", actions=["B"], skillsUsed=["combat.melee"])
    write(folder, "episode/c.md", "---\nskills_used: Combat.Melee\ncreated: 2020-01-01\n---\n# C\n")
    found = vault.call("get_episodes_with_skill", skillId="combat.melee")["episodes"]
    assert [entry["metadata"]["title"] for entry in found] == ["B", "C"]
    assert vault.call("get_episodes_with_skill", skillId="cooking")["episodes"] == []


def test_handwritten_episode_is_parsed(folder: Path, vault: Vault) -> None:
    """Numbered lists, wrapped lines, paragraphs and the template's headings are understood."""
    write(
        folder,
        "episode/tidying.md",
        "---\nimportance: high\nsuccess: maybe\n---\r\n# Tidying up\r\n\r\n"
        "## Situation\r\n\r\nMany old notes\r\nfrom an import.\r\n\r\nIn one folder.\r\n\r\n"
        "## Actions\r\n\r\n1. Sorted\r\n   them\r\n2. Merged\r\n\r\n"
        '## Outcome\r\n\r\n- Fewer files\r\n- `{"type": "action_error"}`\r\n\r\n'
        "## Reflection\r\n\r\nImport less.\r\n\r\n## Actions\r\n\r\n- none\r\n",
    )
    (found,) = vault.call("get_recent_episodes")["episodes"]
    said = found["metadata"]
    assert said["context"] == ["Many old notes from an import.", "In one folder."]
    assert said["actions"] == ["Sorted them", "Merged"]
    assert said["outcomes"] == [{"type": "note", "text": "Fewer files"}, {"type": "action_error"}]
    assert said["reflection"].startswith("Import less.")
    assert said["reflection"].endswith("- none")
    assert (said["importance"], said["success"]) == (0.5, False)


def test_episode_values_invalid_in_json_are_read_as_text(folder: Path, run: Run) -> None:
    """NaN, lone surrogates and endless brackets in a file do not break answers."""
    odd = [
        '{"type": "x", "n": NaN}',
        '{"type": "x", "n": 1e999}',
        '{"type": "x", "n": ' + "[" * 100_000,
        '{"type": "\\ud800"}',
    ]
    lists = "".join(f"- `{text}`\n" for text in odd)
    write(folder, "episode/odd.md", f'## Outcomes\n\n{lists}\n## Context\n\n- `"\\ud800"`\n')
    done = run("episode", "recent", "--json")

    def refuse(text: str) -> None:
        raise AssertionError(text)

    (found,) = json.loads(done.out, parse_constant=refuse)["episodes"]
    told = found["metadata"]["outcomes"]
    assert [outcome["type"] for outcome in told] == ["note", "note", "note", "?"]
    assert found["metadata"]["context"] == ["?"]


def test_episode_recall_leaves_git_clean(folder: Path) -> None:
    """No recall changes a file outside .memvault."""
    with open_vault(folder) as vault:
        vault.call("store_fact", fact="The bridge is closed")
        vault.call("store_episode", actions=["Crossed the bridge"])
        vault.call(
            "store_procedure", procedureName="cross a bridge", procedurePrompt="Look.",
            initialSuccessRate=0.9, skillId="travel.bridge",
        )  # fmt: skip

        def files() -> dict[str, tuple[bytes, int]]:
            return {
                str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
                for path in folder.rglob("*")
                if path.is_file() and ".memvault" not in path.parts
            }

        before = files()
        for tool, arguments in (
            ("recall_fact", {"query": "bridge"}),
            ("recall_similar_experience", {"query": "bridge"}),
            ("recall_procedure", {"context": "bridge"}),
            ("recall_memory", {"observations": ["the bridge"]}),
            ("use_skill", {"skillId": "travel.bridge", "actionDescription": "cross"}),
        ):
            assert vault.call(tool, **arguments)["success"], tool
        assert files() == before


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"---\ntags: [x]\nskills_used: [a.b]\n---\n",
        bytes(range(256)) * 2,
        b"quetzal\n\x0c## Context\n- x\n",
        b"Foo\x0c\nbar\n",
        "Met Bob\u2029".encode(),
        b"\0",
    ],
)
def test_invalid_episode_file_does_not_block_others(
    vault: Vault, folder: Path, data: bytes
) -> None:
    """An empty or broken note is at most an empty episode, and other episodes are read."""
    write(folder, "episode/todo.md", data)
    write(folder, "episode/real.md", "## Actions\n\n- Fed the quetzal\n")
    for tool, arguments in (
        ("get_recent_episodes", {}),
        ("recall_similar_experience", {"query": "quetzal"}),
        ("get_episodes_with_skill", {"skillId": "a.b"}),
        ("consolidate_memories", {}),
    ):
        assert vault.call(tool, **arguments)["success"]


def test_handwritten_episode_sections_are_merged(folder: Path) -> None:
    """A heading can occur twice, and an outcome can be written as on the command line."""
    outcomes = "## Outcomes\n- action_error: fell\n- see https://x.org\n"
    text = f"## Context\n- a\n{outcomes}## Context\n- b\n"
    write(folder, "episode/a.md", text)
    found = episodes.episode_of(Workspace(folder).store.read("episode/a.md"))
    assert found.context == ["a", "b"]
    assert found.outcomes == [
        {"type": "action_error", "text": "fell"},
        {"type": "note", "text": "see https://x.org"},
    ]
    assert not found.success


TITLES = [
    (
        ["Forest road"],
        ["Fought"],
        [{"type": "x", "text": "The sword broke."}],
        "Forest road: The sword broke",
    ),
    ([], ["Fought a wolf"], [{"type": "action_error"}], "Fought a wolf: went wrong"),
    (["-"], ["Ran"], [{"type": "success"}, {"type": "got_home", "n": 3}], "Ran: got home"),
    (["Night"], [], [], "Night"),
    ([], [], [{"type": "success"}], "went well"),
    (["word " * 30], [], [{"type": "x", "text": "other " * 30}], f"{'word ' * 8}: {'other ' * 6}"),
]


@pytest.mark.parametrize(("context", "actions", "outcomes", "title"), TITLES)
def test_episode_title_has_situation_and_outcome(
    vault: Vault, context: list[str], actions: list[str], outcomes: list[dict[str, Any]], title: str
) -> None:
    """The title is short, quotes the episode, and adds the outcome if the quote lacks it."""
    made = vault.call("store_episode", context=context, actions=actions, outcomes=outcomes)
    assert made["title"] == title.strip().replace(" :", ":")
