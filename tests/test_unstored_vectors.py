"""A memory that was just changed ranks as it will once its transformer vectors are stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import explained, index_of, write
from memvault import Vault, open_vault
from memvault.files.lock import FileLock
from memvault.index.embedding.token_vectors import TextVectors
from memvault.index.embedding.transformer import BuiltinTransformer
from memvault.index.local.background_embedding import BACKGROUND_LOCK
from memvault.index.local.local_index import LocalIndex
from memvault.index.local.unstored_vectors import UnstoredVectors, with_unstored_codes

EVERYDAY = Path(__file__).parents[1] / "bench" / "everyday" / "everyday-home"


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that searches embed in this process."""
    texts: list[str] = []
    embed = BuiltinTransformer.embed_few_tokens

    def recorded(model: BuiltinTransformer, given: Sequence[str]) -> list[TextVectors]:
        texts.extend(given)
        return embed(model, given)

    monkeypatch.setattr(BuiltinTransformer, "embed_few_tokens", recorded)
    return texts


@pytest.fixture
def without_worker(
    folder: Path, deep_now: None, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], FileLock]:
    """A function that stores all vectors and returns a lock that blocks the background process."""

    def stop() -> FileLock:
        monkeypatch.setenv("MEMVAULT_DEEP", "now")
        with open_vault(folder) as vault:
            assert vault.call("memory_recall", query="green")["success"]
        monkeypatch.setenv("MEMVAULT_DEEP", "auto")
        return FileLock(index_of(folder) / "deep" / BACKGROUND_LOCK)

    return stop


def _lines(name: str) -> list[dict[str, Any]]:
    return list(map(json.loads, (EVERYDAY / name).read_text("utf-8").splitlines()))


def _write_lamps(folder: Path, count: int) -> None:
    for number in range(count):
        write(folder, f"n/{number}.md", f"# Note {number}\n\nThe green lamp {number} is here.\n")


def _rank(vault: Vault, question: str, path: str) -> tuple[int, float]:
    found = explained(vault, question, limit=10)
    paths = [entry["filePath"] for entry in found]
    return paths.index(path), found[paths.index(path)]["why"]["chance"]


def test_recall_ranks_changed_memory_as_with_stored_vectors(
    folder: Path, without_worker: Callable[[], FileLock], embedded: list[str]
) -> None:
    """A memory that was just tagged has the same rank as once its vectors are stored."""
    answers = dict(
        line.split("\t")[:2] for line in (EVERYDAY / "qrels.tsv").read_text().splitlines()
    )
    for document in _lines("corpus.jsonl"):
        write(folder, f"{document['_id']}.md", f"# {document['title']}\n\n{document['text']}\n")
    asked = [
        (entry["text"], f"{answers[entry['_id']]}.md") for entry in _lines("queries.jsonl")[1:9]
    ]
    with without_worker(), open_vault(folder) as vault:
        for _, path in asked:
            text = (folder / path).read_text("utf-8")
            write(folder, path, f"---\ntags: [kept]\n---\n{text}")
        early = [_rank(vault, question, path) for question, path in asked]
        assert vault.call("vault_status")["deep"]["waiting"] > 0
        count = len(embedded)
        assert count >= len({path for _, path in asked})
        assert [_rank(vault, question, path) for question, path in asked] == early
        assert len(embedded) == count
    without_worker()
    with open_vault(folder) as vault:
        assert vault.call("vault_status")["deep"]["waiting"] == 0
        late = [_rank(vault, question, path) for question, path in asked]
    for (rank, chance), (later_rank, later_chance) in zip(early, late, strict=True):
        assert rank == later_rank
        assert chance == pytest.approx(later_chance, abs=0.03)


def test_recall_embeds_few_changed_passages(
    folder: Path, without_worker: Callable[[], FileLock], embedded: list[str]
) -> None:
    """After many changes, a search embeds at most 1,500 characters, and a repeated one none."""
    _write_lamps(folder, 30)
    with without_worker(), open_vault(folder) as vault:
        for number in range(12):
            write(folder, f"n/{number}.md", f"# Tides\n\n{'Salt water rises here. ' * number}\n")
        write(folder, "n/3.md", "# Harbor\n\nThe ferry to the island leaves at seven.\n")
        found = explained(vault, "when does the ferry leave")
        assert found[0]["filePath"] == "n/3.md"
        assert embedded[0].startswith("Harbor")
        assert sum(map(len, embedded)) <= 1_500
        count = len(embedded)
        assert explained(vault, "when does the ferry leave") == found
        assert len(embedded) == count


def test_recall_with_filter_embeds_changed_memories(
    folder: Path, without_worker: Callable[[], FileLock], embedded: list[str]
) -> None:
    """A changed memory that passes the filter is embedded even if many others are nearer."""
    for number in range(250):
        write(folder, f"n/{number}.md", f"# Ferry {number}\n\nThe ferry {number} leaves at ten.\n")
    for number in range(12):
        write(folder, f"own/{number}.md", f"# Bread {number} #own\n\nBake bread {number}.\n")
    with without_worker(), open_vault(folder) as vault:
        write(folder, "own/3.md", "# Cake\n\n#own How to bake a cake.\n")
        explained(vault, "when does the ferry leave")
        assert embedded == []
        explained(vault, "when does the ferry leave", tags=["own"])
    assert [text.partition("\n")[0] for text in embedded] == ["Cake"]


def test_recall_reads_changed_memory_once(
    folder: Path, without_worker: Callable[[], FileLock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To embed several passages of a changed memory, a search reads its file once."""
    passages = "\n\n".join(f"The ferry {number} leaves at ten. " * 12 for number in range(20))
    _write_lamps(folder, 12)
    with without_worker(), open_vault(folder) as vault:
        write(folder, "n/3.md", f"# Ferries\n\n{passages}\n")
        read: list[str] = []
        texts = LocalIndex._texts  # counted, because its cost is the only visible effect

        def counted(index: LocalIndex, path: str) -> list[str]:
            read.append(path)
            return texts(index, path)

        monkeypatch.setattr(LocalIndex, "_texts", counted)
        explained(vault, "lamp")  # the first search also computes static vectors
        read.clear()
        explained(vault, "when does the ferry leave")
    assert read == ["n/3.md"]


def test_recall_does_not_embed_deleted_memory(
    folder: Path, without_worker: Callable[[], FileLock], embedded: list[str]
) -> None:
    """A deleted memory is neither embedded nor found."""
    _write_lamps(folder, 6)
    with without_worker(), open_vault(folder) as vault:
        write(folder, "n/0.md", "# Harbor\n\nThe ferry leaves at seven.\n")
        assert explained(vault, "ferry")[0]["filePath"] == "n/0.md"
        (folder / "n/0.md").unlink()
        assert "n/0.md" not in [entry["filePath"] for entry in explained(vault, "ferry")]
    assert len(embedded) == 1


def test_remember_does_not_embed_changed_memories(
    folder: Path, without_worker: Callable[[], FileLock], embedded: list[str]
) -> None:
    """To list similar memories, remember embeds neither the new memory nor other changed ones."""
    _write_lamps(folder, 6)
    with without_worker(), open_vault(folder) as vault:
        for text in ("The green lamp is broken.", "The green lamp is repaired."):
            written = vault.call("memory_remember", title=text, content=text, memory_type="fact")
            assert written["similar"]
        assert embedded == []
        assert (
            explained(vault, "which lamp was repaired")[0]["title"] == "The green lamp is repaired."
        )
    assert len(embedded) == 2


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8)
)
def test_token_codes_of_unstored_texts_are_inserted(
    texts: list[tuple[bool, int, int]],
) -> None:
    """Each text gets its stored token codes, or its computed ones if none are stored, in order."""
    stored, known, expected = [], {}, []
    for number, (is_stored, stored_count, count) in enumerate(texts):
        codes = np.full((stored_count * is_stored, 3), number, np.uint8)
        computed = np.full((count, 3), 100 + number, np.uint8)
        known[number] = UnstoredVectors(0, np.zeros(3, np.float32), computed)
        stored.append(codes)
        expected.append(codes if len(codes) else computed)
    codes, lengths = with_unstored_codes(
        known,
        np.arange(len(texts), dtype=np.uint64),
        np.concatenate(stored),
        np.array([len(part) for part in stored]),
    )
    assert lengths.tolist() == [len(part) for part in expected]
    assert np.array_equal(codes, np.concatenate(expected))
