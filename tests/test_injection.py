"""Prompts that only steer the current work recall no memories."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from conftest import Run, succeeded, write
from judged import make_vault, read_lines, read_set
from memvault import Vault
from memvault.index.embedding import generic_prompts
from memvault.index.embedding.embedder import MULTILINGUAL

BENCH = Path(__file__).resolve().parents[1] / "bench"
PROMPTS = read_lines(BENCH / "prompts" / "generic.jsonl")


def prompts(part: str, *languages: str) -> list[str]:
    """The generic prompts of a part in several languages."""
    wanted = [entry for entry in PROMPTS if entry["metadata"]["part"] == part]
    return [entry["text"] for entry in wanted if entry["metadata"]["language"] in languages]


@pytest.mark.parametrize(("deep", "kept"), [("off", 0.5), ("now", 0.6)])
def test_generic_prompts_rarely_recall_memories(
    deep: str, kept: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 3 of 60 generic prompts have a specific memory, and most questions keep theirs."""
    monkeypatch.setenv("MEMVAULT_DEEP", deep)
    ops = read_set(BENCH / "everyday" / "everyday-ops")
    make_vault(tmp_path / "ops", ops.documents)
    with Vault(tmp_path / "ops") as vault:

        def share(texts: list[str]) -> float:
            found = [bool(vault.recall(text, specific=True)["memories"]) for text in texts]
            return sum(found) / len(found)

        assert share(prompts("test", "en")[::2][:60]) <= 3 / 60
        assert share([query["text"] for query in ops.queries[::2]]) >= kept


@pytest.fixture
def notes(folder: Path) -> Path:
    """A vault with a note about tests, and notes about bridges."""
    text = (
        "# Flaky tests\n\nThe payment tests fail on Mondays, because the bank's sandbox restarts."
    )
    write(folder, "flaky.md", f"{text}\n")
    for number in range(20):
        write(folder, f"{number}.md", f"# Note {number}\n\nThe bridge number {number} is open.\n")
    return folder


@pytest.mark.usefixtures("notes")
def test_context_recalls_only_for_specific_tasks(run: Run) -> None:
    """Memories are not added for a task that fits any project; a note counts them."""
    task = "find out why the payment tests fail on mondays"
    assert "Flaky tests" in run("context", task).out
    for generic in ("run the tests again", "continue", "fix the failing test"):
        said = succeeded(run("context", generic))
        assert said.out.strip() == ""
        assert "unlikely matches omitted: " in said.err
    # Each line of a task is judged on its own.
    assert "Flaky tests" in run("context", f"continue\n{task}\nrun the tests again").out


def test_specific_recall_pages_match_unpaged_result(folder: Path, vault: Vault) -> None:
    """The pages of a multi-line recall have the same memories, in the same order, as one page."""
    subjects = ("deploy pipeline", "payment tests", "bridge inspection", "database backup")
    details = ("cron", "monday", "retry", "timeout", "budget", "review", "owner", "shard")
    for number in range(80):
        subject, detail = subjects[number % 4], details[number % 8]
        text = f"The {subject} of team {number} uses the {detail} of {details[number // 4 % 8]}."
        write(folder, f"n{number}.md", f"# {subject.capitalize()} {number}\n\n{text}\n")
    for first, second in zip(subjects, details, strict=False):
        query = "\n".join(f"which {second} does the {name} {first} use" for name in details[:3])
        whole = vault.recall(query, specific=True, limit=15)["memories"]
        pages = [
            vault.recall(query, specific=True, limit=3, offset=start)["memories"]
            for start in range(0, 15, 3)
        ]
        assert [entry["memId"] for page in pages for entry in page] == [
            entry["memId"] for entry in whole
        ]


@pytest.mark.usefixtures("notes")
def test_specific_recall_searches_each_line(run: Run) -> None:
    """Lines about different subjects each find their memory once, and generic lines find none."""
    lines = ["why do the payment tests fail on mondays", "continue", "is the bridge number 7 open"]
    query = "\n".join([*lines, lines[0]])
    found = succeeded(run("recall", query, "--specific", "--json")).json["memories"]
    assert {"Flaky tests", "Note 7"} <= {memory["title"] for memory in found}
    assert len({memory["memId"] for memory in found}) == len(found)
    assert run("recall", "continue\ngo on", "--specific", "--json").json["memories"] == []


@pytest.mark.usefixtures("notes")
def test_hook_is_silent_on_generic_prompt(run: Run) -> None:
    """The prompt hook adds a memory about tests to a question about them, not to an instruction."""

    def hook(prompt: str) -> str:
        return succeeded(run("hook", "prompt", stdin=json.dumps({"prompt": prompt}))).out

    assert "Flaky tests" in hook("why do the payment tests fail on mondays")
    for prompt in ("run the tests again", "continue", "fix the failing test", "commit this"):
        assert hook(prompt).strip() == ""


@pytest.mark.parametrize("embedder", generic_prompts.FILES)
def test_generic_prompt_vectors_match_packaged_embedders(embedder: str) -> None:
    """The stored vectors are those that the embedders in the package compute for the prompts."""
    languages = {entry["metadata"]["language"] for entry in PROMPTS}
    texts = prompts("fit", *(languages if embedder == MULTILINGUAL else ["en"]))
    stored = np.load(generic_prompts.FILES[embedder]).astype(np.float32)
    for text in texts[:3]:
        cosines = stored @ generic_prompts.embed(text, embedder)
        assert cosines.max() == pytest.approx(1, abs=0.01)
