"""The rules of consolidation and an extractor's proposals, for any episodes."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run, called, is_alive, refused, until
from episodes import WEEK, put, put_all
from memvault import Vault
from memvault.consolidation import rules
from memvault.consolidation.extractor import extract
from memvault.consolidation.proposals import ConsolidationInput, Proposals
from memvault.consolidation.rules import normalize_action, parts
from memvault.errors import Refused, TimedOut
from memvault.experience.episodes import Episode
from memvault.experience.facts import TYPE
from memvault.index.embedding.calibrate import ANCHORS
from memvault.index.embedding.embedder import Calibration
from memvault.index.embedding.static import open_table
from memvault.index.embedding.text_clustering import (
    RELATED,
    SAME,
    STEP,
    EmbeddedTexts,
    Meaning,
    nearest_pairs,
)
from memvault.index.embedding.transformer import load_embedder
from memvault.index.text.analyzer import analyzer
from memvault.model import Memory
from memvault.process import run as run_command

ENGLISH = analyzer("english")
NOW = datetime(2026, 11, 22, tzinfo=UTC)

_WORDS = "cache build limit Docker is the not slow fast 12 60 old".split()
SENTENCES = st.one_of(
    st.sampled_from(
        [
            "The build needs the Docker daemon",
            "build requires the Docker daemon running",
            "The API limit is 100 a minute",
            "The API limit is 60 a minute",
            "Never push to the main branch",
            "Push to the main branch",
            "缓存总是在周一早上变慢",
            "The cache is very slow on Monday mornings",
            "On Monday mornings the cache is slow",
            "The slow cache on Monday mornings",
            "On Tuesday mornings the cache is slow",
            "The build no longer needs the Docker daemon",
        ]
    ),
    st.lists(st.sampled_from(_WORDS), min_size=3, max_size=6).map(" ".join),
)
ACTIONS = st.lists(
    st.sampled_from(
        "Run tests/run the tests./Run all tests/Commit/Push/Ask Ana/---/"
        "Commit the change/Push the commit/Push the branch".split("/")
    ),
    max_size=7,
)
EPISODES = st.lists(
    st.builds(
        lambda said, context, actions, success, skills: (said, context, actions, success, skills),
        st.lists(SENTENCES, max_size=3).map(". ".join),
        st.lists(SENTENCES, max_size=2),
        ACTIONS,
        st.booleans(),
        st.lists(st.sampled_from(["git.push", "talk"]), max_size=2, unique=True),
    ),
    max_size=7,
).map(
    lambda made: [
        Episode(
            f"e{place}",
            f"episode/e{place}.md",
            "",
            "",
            context,
            actions,
            [],
            skills,
            said,
            0.5,
            success,
            "",
        )
        for place, (said, context, actions, success, skills) in enumerate(made)
    ]
)


def held(mem_id: str, text: str, confidence: float, archived: bool = False) -> Memory:
    """A fact in the vault."""
    header = {"confidence": confidence, **({"status": "archived"} if archived else {})}
    return Memory(f"fact/{mem_id}.md", mem_id, "", TYPE, (), "", "2026-01-01", header, text, "")


FACTS = st.lists(st.tuples(SENTENCES, st.sampled_from([0.5, 0.9]), st.booleans()), max_size=4).map(
    lambda made: [
        held(f"f{place}", text, sure, archived) for place, (text, sure, archived) in enumerate(made)
    ]
)


def proposed(found: ConsolidationInput) -> Proposals:
    """The result of the rules."""
    return rules.propose(found, ENGLISH, NOW, None, Meaning(open_table()))


def held_after(
    found: ConsolidationInput, proposals: Proposals, facts: int, procedures: int
) -> ConsolidationInput:
    """The vault after some of the proposals were written, with facts merged if all were."""
    made = [
        held(f"n{place}", new.text, new.confidence)
        for place, new in enumerate(proposals.facts[:facts])
    ]
    gone = set()
    if facts >= len(proposals.facts):
        gone = {merge.other.mem_id for merge in proposals.merged}
    kept = [
        memory._replace(metadata={**memory.metadata, "status": "archived"})
        if memory.mem_id in gone
        else memory
        for memory in found.facts
    ]
    learned = [
        Memory("", "", new.name, "procedure", (), "", "", {"skill_id": new.skill}, new.prompt, "")
        for new in proposals.procedures[:procedures]
    ]
    return found._replace(facts=[*kept, *made], procedures=[*found.procedures, *learned])


@given(EPISODES, FACTS, st.randoms(use_true_random=False))
def test_consolidate_does_not_depend_on_file_order(
    episodes: list[Episode], facts: list[Memory], chance: random.Random
) -> None:
    """Machines that list files in a different order propose the same."""
    one = proposed(ConsolidationInput(episodes, facts, [], []))
    chance.shuffle(mixed := list(episodes))
    chance.shuffle(others := list(facts))
    other = proposed(ConsolidationInput(mixed, others, [], []))
    assert one == other


@given(EPISODES, FACTS)
def test_consolidate_proposal_lists_its_episodes(
    episodes: list[Episode], facts: list[Memory]
) -> None:
    """Every proposal is based on at least two episodes."""
    found = proposed(ConsolidationInput(episodes, facts, [], []))
    known = {episode.episode_id: episode for episode in episodes}
    sources = [new.episodes for new in found.facts] + [new.episodes for new in found.procedures]
    for named in sources:
        assert len(set(named)) == len(named) >= rules.MIN_EPISODES
        assert known.keys() >= set(named)
    for procedure in found.procedures:
        went_well = sum(known[name].success for name in procedure.episodes)
        assert procedure.success_rate == round(went_well / len(procedure.episodes), 4) > 0.5
    quoted = [(new.quotes, new.episodes) for new in found.facts]
    quoted += [(new.quotes, new.episodes) for new in found.procedures]
    for quotes, named in quoted:
        assert not quotes or {quote.episode for quote in quotes} == set(named)
        for quote in quotes:
            source = known[quote.episode]
            assert quote.text in " ".join((source.reflection, *source.context, *source.actions))
    ids = [new.proposal for new in found.facts] + [new.proposal for new in found.procedures]
    ids += [merge.proposal for merge in found.merged]
    assert len(set(ids)) == len(ids)
    names = [entry.name.casefold() for entry in found.procedures]
    assert len(set(names)) == len(names)


@given(EPISODES, FACTS, st.integers(0, 6), st.integers(0, 4))
def test_consolidate_proposes_only_remaining_facts(
    episodes: list[Episode], facts: list[Memory], done: int, learned: int
) -> None:
    """After some proposals are applied, only the rest is proposed, and finally nothing."""
    start = ConsolidationInput(episodes, facts, [], [])
    first = proposed(start)
    part = proposed(held_after(start, first, done, learned))
    assert part.facts == first.facts[done:]
    assert part.procedures == first.procedures[learned:]
    whole = proposed(held_after(start, first, len(first.facts), len(first.procedures)))
    assert (whole.facts, whole.procedures, whole.merged) == ([], [], [])


@given(EPISODES)
def test_consolidate_proposes_only_longest_sequence(episodes: list[Episode]) -> None:
    """The longest sequence replaces its parts."""
    found = [
        tuple(
            normalize_action(line.partition(" ")[2], ENGLISH) for line in entry.prompt.splitlines()
        )
        for entry in proposed(ConsolidationInput(episodes, [], [], [])).procedures
    ]
    for place, whole in enumerate(found):
        assert not set(parts(whole)).intersection(found[:place] + found[place + 1 :])


_KILLED = """
import os, sys
left = int(sys.argv[1])
for name in ("link", "replace", "rename"):
    def dying(source, target, *rest, real=getattr(os, name), **more):
        global left
        if str(target).endswith(".md") and ".memvault" not in str(target):
            left -= 1
            if left < 0:
                os._exit(9)
        return real(source, target, *rest, **more)
    setattr(os, name, dying)
from memvault.__main__ import main
sys.argv = ["memvault", "consolidate", "--apply", "--json"]
sys.exit(main())
"""


def test_consolidate_resumes_after_kill(run: Run, folder: Path) -> None:
    """After a kill before any write, the next run writes the rest and nothing twice."""
    put_all(folder, WEEK)
    put(folder, "forgettable", importance=0.1, days=200)
    kills = 0
    for writes in (0, 1, 1, 1, 1, 1, 1, 1, 1, 1):
        done = subprocess.run(
            [sys.executable, "-c", _KILLED, str(writes)],
            cwd=folder, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 9), done
        kills += done.returncode == 9
    assert kills == 7
    assert len(list((folder / "fact").glob("[!.]*"))) == 4
    assert len(list((folder / "procedure").glob("[!.]*"))) == 2
    left = run("consolidate", "--json").json
    assert left["facts"] == left["procedures"] == left["forgotten"] == []


@pytest.mark.parametrize(
    ("said", "proposed"),
    [
        ("Never deploy on Friday.", True),
        ("All good. Tests passed.", False),
        ("TODO: check the staging logs later.", False),
        ("See https://example.org/a/b for more.", False),
    ],
)
def test_consolidate_proposes_rules_but_not_remarks(
    vault: Vault, said: str, proposed: bool
) -> None:
    """A short repeated rule is proposed; tasks, links, remarks and situations are not."""
    for number in range(3):
        vault.call(
            "store_episode",
            context=["Meeting room 3 downstairs"],
            actions=[f"Did {number}"],
            reflection=said,
        )
    facts = vault.call("consolidate_memories")["facts"]
    assert [fact["factText"] for fact in facts] == ([said] if proposed else [])


FACT = {"fact": "Releases need a quiet hour.", "confidence": 0.8, "episodes": ["release-one-id"]}
PROCEDURE = {
    "procedure": "release",
    "prompt": "Run the tests, then push the tag.",
    "episodes": ["release-one-id", "release-three-id"],
}


def command(folder: Path, code: str) -> str:
    """Write a program and return the command that runs it."""
    path = folder.parent / "extract it.py"
    path.write_text(code, "utf-8")
    return shlex.join([sys.executable, str(path)])


def printing(folder: Path, *lines: object) -> str:
    """Return a command that prints lines, with objects as JSON, for any input."""
    told = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return command(folder, f"print({chr(10).join(told)!r})")


def test_extractor_receives_episodes_and_proposes(vault: Vault, folder: Path) -> None:
    """Facts and procedures come from the command, with rates measured over its episodes."""
    put_all(folder, WEEK)
    code = f"""
import json, sys
seen = [json.loads(line) for line in sys.stdin]
assert len(seen) == 7 and seen[0]["episodeId"] == "cache-bug-id", seen
assert seen[0]["actions"][0] == "Look at the logs" and seen[0]["success"] is True
print({json.dumps(FACT)!r})
print()
print({json.dumps(PROCEDURE)!r})
"""
    result = called(vault, "consolidate_memories", extractor=command(folder, code), apply=True)
    (fact,), (procedure,) = result["facts"], result["procedures"]
    assert (fact["factText"], fact["confidence"]) == (FACT["fact"], 0.8)
    assert (procedure["name"], procedure["successRate"]) == ("release", 0.5)
    shown = vault.call("memory_show", memId=fact["factId"])
    assert shown["content"].strip().endswith("From [[release-one]]")
    again = vault.call("consolidate_memories", extractor=command(folder, code), apply=True)
    assert again["facts"] == again["procedures"] == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("Here are the facts:", "it is not JSON"),
        ("[1]", "it is not a JSON object"),
        ("[" * 100_000, "it is not JSON"),
        ({"episodes": ["release-one-id"]}, "it needs either fact or procedure"),
        ({**FACT, **PROCEDURE}, "it needs either fact or procedure"),
        ({**FACT, "confidence": 1.5}, "confidence must be a number from 0 to 1"),
        ({**FACT, "confidence": True}, "confidence must be a number from 0 to 1"),
        ('{"fact": "a b", "confidence": NaN, "episodes": ["release-one-id"]}', "confidence must"),
        ({**FACT, "episodes": ["nobody"]}, "'nobody' is not one of the episodes"),
        ({**FACT, "episodes": [["release-one-id"]]}, "is not one of the episodes"),
        ({**FACT, "episodes": []}, "episodes must list the source episodes"),
        ({**FACT, "fact": " "}, "fact must be a string"),
        ({**FACT, "fact": "\ud800 x"}, "fact is not valid Unicode"),
        ({**FACT, "importance": 1}, "unknown key 'importance' in a fact"),
        ({**PROCEDURE, "prompt": 3}, "prompt must be a string"),
        ({**PROCEDURE, "skillId": "not a skill id!!"}, "is not a valid skill id"),
        ({**PROCEDURE, "skillId": "x" * 200}, "is not a valid skill id"),
        ({**PROCEDURE, "procedure": "name " * 500}, "procedure is longer than 200 characters"),
        ({**FACT, "category": "c" * 5_000}, "category is longer than 200 characters"),
    ],
)
def test_extractor_invalid_lines_are_reported(
    vault: Vault, folder: Path, line: object, problem: str
) -> None:
    """An invalid line is shown with its number, and applying refuses the whole run."""
    put_all(folder, WEEK)
    extractor = printing(folder, FACT, line)
    preview = vault.call("consolidate_memories", extractor=extractor)
    assert [entry["factText"] for entry in preview["facts"]] == [FACT["fact"]]
    (shown,) = preview["refused"]
    assert shown["line"] == 2
    assert problem in shown["problem"]
    applied = vault.call("consolidate_memories", extractor=extractor, apply=True)
    assert applied["error"]["code"] == "refused"
    assert applied["refused"] == preview["refused"]
    assert not (folder / "fact").exists()


def test_extractor_control_characters_are_removed(vault: Vault, folder: Path) -> None:
    """Proposals are shown as written, without control characters or newlines in names."""
    put_all(folder, WEEK)
    fact = {**FACT, "fact": "Releases need\0 a quiet hour.", "category": " ops \n rules "}
    procedure = {**PROCEDURE, "procedure": "rel\0ease\nit", "prompt": "Run\0 the tests\r\nPush"}
    extractor = printing(folder, fact, {**procedure, "skillId": " git.release\n"})
    result = vault.call("consolidate_memories", extractor=extractor, apply=True)
    (made,), (done,) = result["facts"], result["procedures"]
    assert (made["factText"], made["category"]) == (FACT["fact"], "ops rules")
    assert (done["name"], done["skillId"]) == ("release it", "git.release")
    assert done["prompt"] == "Run the tests\nPush"
    written = (folder / done["filePath"]).read_text("utf-8")
    assert "\nRun the tests\nPush\n" in written
    assert "\0" not in written


def test_extractor_failure_includes_its_error(run: Run, folder: Path) -> None:
    """The message includes the last line that the command wrote to standard error."""
    put_all(folder, WEEK)
    failing = command(folder, "import sys; print('x'); sys.exit('first\\nno key for the model')")
    told = refused(run("consolidate", "--extractor", failing), 1)
    assert told.endswith("exited with code 1: no key for the model")
    assert "it is not installed" in refused(run("consolidate", "--extractor", "no-such-thing"), 2)
    refused(run("consolidate", "--extractor", "'open"), 2)
    refused(run("consolidate", "--extractor", " "), 2)


def test_extractor_command_is_not_run_by_shell(vault: Vault, folder: Path) -> None:
    """Shell syntax in the command is passed as ordinary arguments."""
    touched = folder.parent / "touched"
    extractor = f"{printing(folder, FACT)} ; touch {shlex.quote(str(touched))} $(touch {touched})"
    put_all(folder, WEEK)
    assert len(vault.call("consolidate_memories", extractor=extractor)["facts"]) == 1
    assert not touched.exists()


def test_extractor_timeout_kills_all_its_processes(folder: Path) -> None:
    """After the timeout, no process of the extractor is left."""
    note = folder.parent / "pid"
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"with open({str(note)!r}, 'w') as file: print(child.pid, file=file)\n"
        "time.sleep(600)\n"
    )
    seconds = 1.0
    while not note.exists() or not note.read_text("utf-8").endswith("\n"):  # it was too slow
        seconds *= 2
        assert seconds < 300
        with pytest.raises(TimedOut, match=f"did not finish within {seconds:g} s"):
            extract(command(folder, code), [], seconds=seconds)
    until(lambda: not is_alive(int(note.read_text("utf-8"))))


def test_extractor_with_endless_output_is_killed(folder: Path) -> None:
    """Output beyond the limit ends the command before memory fills up."""
    code = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    with pytest.raises(Refused, match="printed more than"):
        extract(command(folder, code), [], seconds=300)


def test_extractor_may_ignore_its_input(folder: Path) -> None:
    """A command that reads none or only the start of a long input does not fail."""
    text = "ä" * 1_500_000
    for code, output in (
        ("print('done')", "done"),
        ("import sys; print(sys.stdin.buffer.read(3) == 'ä'.encode() + b'\\xc3')", "True"),
        ("import sys; print(len(sys.stdin.buffer.read()))", "3000000"),
    ):
        ended = run_command([sys.executable, "-c", code], text, 60, 1_000)
        assert ended == (0, f"{output}\n".encode(), "", False, False)


def test_consolidate_thresholds_are_anchor_quantiles() -> None:
    """Similarity thresholds come from labeled pairs and are valid for the built-in model."""
    pairs = [json.loads(line) for line in ANCHORS.read_text("utf-8").splitlines()]
    texts = [pair[side] for pair in pairs for side in "ab"]
    space = Meaning(open_table(), load_embedder("builtin", None)).space(texts)
    found: dict[str, list[float]] = {}
    for place, pair in enumerate(pairs):
        found.setdefault(pair["kind"], []).append(space.mean([2 * place], [2 * place + 1]))
    same, near, far = (sorted(found[kind]) for kind in ("same", "near", "far"))
    assert sum(value >= SAME for value in same) / len(same) == pytest.approx(0.9, abs=0.03)
    assert sum(value >= RELATED for value in near) / len(near) == pytest.approx(0.5, abs=0.06)
    assert max(far) < STEP


@pytest.mark.parametrize("count", [1, 5, 600, 1_100])
def test_nearest_texts_are_found_among_many(count: int) -> None:
    """Each text is paired with its most similar others, as in a comparison of all pairs."""
    vectors = np.random.default_rng(count).standard_normal((count, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -2.0)
    expected = {
        (min(row, other), max(row, other))
        for row, others in enumerate(np.argsort(-cosines, axis=1)[:, :3].tolist())
        for other in others
        if row != other
    }
    space = EmbeddedTexts(vectors, Calibration(1.0, 0.0))
    assert nearest_pairs(space, 3) == sorted(expected)
