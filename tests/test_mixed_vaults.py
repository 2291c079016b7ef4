"""An English vault and a multilingual one, with different models, answer as one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from conftest import (
    ROOT,
    Run,
    called,
    explained,
    parts,
    recalled,
    sampled,
    soak_only,
    some_of,
    succeeded,
    write,
)
from deep_share import stopped_at
from memvault import Vault, open_vault
from memvault.index.embedding.embedder import BUILTIN, MULTILINGUAL
from memvault.vault.document import encode_new
from test_current import aged, day
from test_multilingual import GERMAN as MORE

EVERYDAY = ROOT / "bench" / "everyday"
BOTH = ("english", "languages")
SETS = {"english": "everyday-ops", "languages": "everyday-languages"}
QUESTIONS = {
    "by when did we promise SAML to be ready": "Alvarado wants SAML",
    "styling approach that Lin insists on": "Lin: no CSS-in-JS",
    "how should I phrase the outcome of a bug for Ola": "How Ola wants bugs back",
    "how to get in when I have lost my YubiKey": "Reaching the cluster",
    "how much do we save since we left AWS": "Away from AWS",
    "quel vocabulaire faut-il éviter avec Madame Ferrand": "Madame Ferrand (Maison Ferrand)",
    "was kostet mich die Behandlung der Schulter": "Dr. Mertens wegen der Schulter",
    "worauf achtet Henrik bei schriftlichen Zusammenfassungen": "Wie Henrik Berichte mag",
    "idea para el cumpleaños de mi suegra": "A mi suegra",
    "为什么我们不用微服务": "先不拆微服务",
}
"""Questions that avoid the words of the memory that answers them, and its title."""
MOST = 40
"""The number of memories in each vault."""

SEARCHING = """
import json, sys
from pathlib import Path
from memvault import open_vault
folder, *vaults = sys.argv[1:]
with open_vault(folder) as vault:
    print("ready", flush=True)
    while True:
        for query in ("Wo liegt der Schlüssel?", "when is the boiler serviced"):
            result = vault.call("memory_recall", query=query, vaults=vaults)
            found = [entry["title"] for entry in result.get("memories", [])]
            print(json.dumps([result["success"], query, found[:1]]), flush=True)
        if Path(folder, "stop").exists():
            break
"""
ENGLISH = {
    f"Note {number}": text
    for number, text in enumerate(
        f"The {thing} of the house {what}."
        for thing in ("garden", "kitchen", "cellar", "garage")
        for what in ("was painted in May", "needs a new lamp", "is insured", "has two windows")
    )
} | {"Boiler": "The heating is maintained every October by Miller & Sons."}
GERMAN = {
    "Schlüssel": "Der Ersatzschlüssel ist unter dem blauen Blumentopf neben der Tür.",
    "Müll": "Die Tonne für Papier wird jeden zweiten Dienstag abgeholt.",
    "Arzt": "Der Termin beim Zahnarzt wurde auf den Freitag verschoben.",
}


def _documents(name: str) -> list[dict[str, Any]]:
    """Return the first documents of a set, and the documents that answer the questions."""
    lines = (EVERYDAY / name / "corpus.jsonl").read_text("utf-8").splitlines()
    documents = [json.loads(line) for line in lines]
    answers = [entry for entry in documents if entry["title"] in QUESTIONS.values()]
    return answers + [entry for entry in documents if entry not in answers][: MOST - len(answers)]


def _named(run: Run, name: str, root: Path, notes: dict[str, str]) -> Path:
    """Create a vault of notes by title, and register its name."""
    write(root, "memvault.toml", "version = 1\n")
    for number, (title, text) in enumerate(notes.items()):
        header = {"id": f"{name}-{number}", "title": title, "created": "2026-01-01"}
        write(root, f"n/{number}.md", encode_new(header, text))
    succeeded(run("vaults", "add", name, str(root), cwd=root))
    return root


def _embed(root: Path) -> str:
    """Compute all vectors of a vault, and return the model in use."""
    with open_vault(root) as vault:
        return str(called(vault, "vault_reindex")["embedder"])


def _first(vault: Vault, query: str, vaults: Sequence[str]) -> str:
    """Return the title of the best memory of several vaults."""
    return str(recalled(vault, query, vaults=list(vaults))[0]["title"])


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for two vaults and their caches, filled by the first test."""
    return tmp_path_factory.mktemp("mixed")


@pytest.fixture
def mixed(base: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> dict[str, Path]:
    """The folders of an English vault and one in four other languages, with all vectors."""
    for name in ("CACHE", "STATE", "CONFIG"):
        monkeypatch.setenv(f"MEMVAULT_{name}", str(base / name.lower()))
    monkeypatch.setenv("MEMVAULT_DEEP", "now")
    roots = {name: base / name for name in BOTH}
    if not (base / "ready").exists():
        for name, root in roots.items():
            notes = {entry["title"]: entry["text"] for entry in _documents(SETS[name])}
            _named(run, name, root, notes)
        assert [_embed(roots[name]) for name in BOTH] == [BUILTIN, MULTILINGUAL]
        (base / "ready").touch()
    return roots


@pytest.fixture
def english(mixed: dict[str, Path]) -> Iterator[Vault]:
    """The vault in English, open."""
    with open_vault(mixed["english"]) as vault:
        yield vault


@pytest.fixture
def small(tmp_path: Path, run: Run) -> dict[str, Path]:
    """The folders of two small vaults, in English and in German, without vectors."""
    return {
        "english": _named(run, "english", tmp_path / "english", ENGLISH),
        "german": _named(run, "german", tmp_path / "german", GERMAN),
    }


@sampled(10)
@pytest.mark.parametrize("question", QUESTIONS)
def test_mixed_vaults_best_answer_comes_first(english: Vault, question: str) -> None:
    """The memory that answers a question comes first, regardless of its vault."""
    assert _first(english, question, BOTH) == QUESTIONS[question]


@soak_only
def test_mixed_vaults_order_does_not_matter(mixed: dict[str, Path]) -> None:
    """Recall finds the same memories and scores from either vault, listed in any order."""

    def asked(root: Path, vaults: Sequence[str]) -> list[tuple[str, float, str]]:
        with open_vault(root) as vault:
            return [
                (entry["title"], entry["score"], entry["strength"])
                for question in QUESTIONS
                for entry in recalled(vault, question, vaults=list(vaults))
            ]

    first = asked(mixed["english"], BOTH)
    assert asked(mixed["english"], BOTH[::-1]) == first
    assert asked(mixed["languages"], BOTH) == first


@sampled(2)
@pytest.mark.parametrize("name", BOTH)
def test_mixed_vaults_recall_every_memory(english: Vault, name: str) -> None:
    """Every memory of both vaults is among the top three for its own title."""
    for entry in some_of(_documents(SETS[name])):
        found = recalled(english, entry["title"], vaults=list(BOTH), limit=3)
        assert entry["title"] in [memory["title"] for memory in found]


def test_mixed_vaults_scores_have_the_same_parts(english: Vault) -> None:
    """Memories of both models have vector and token parts that add up to their scores."""
    vaults = set()
    for question in some_of([*QUESTIONS], every=2):
        for entry in explained(english, question, vaults=list(BOTH), limit=20):
            vaults.add(entry["vault"])
            assert {"transformer", "tokens", "keyword"} <= parts(entry).keys()
            assert -1 <= entry["why"]["deep"] <= 1
            assert sum(parts(entry).values()) == pytest.approx(entry["score"], abs=0.002)
    assert vaults == set(BOTH)


def test_mixed_vaults_are_explained_on_command_line(mixed: dict[str, Path], run: Run) -> None:
    """Output of ``recall --explain`` shows the vault and the score parts of each memory."""
    asked = ("recall", "was kostet die Behandlung der Schulter", "--vaults", ",".join(BOTH))
    first = run(*asked, "--json", "--explain", cwd=mixed["english"]).json["memories"][0]
    assert (first["vault"], first["title"]) == ("languages", "Dr. Mertens wegen der Schulter")
    assert "transformer" in first["why"]["parts"]
    shown = succeeded(run(*asked, "--explain", cwd=mixed["english"])).out
    assert "languages  languages-" in shown
    assert "tokens" in shown


@soak_only
def test_mixed_vaults_answer_for_past_dates(
    small: dict[str, Path], run: Run, deep_now: None
) -> None:
    """With ``--as-of``, recall finds past versions in both vaults; without it, current ones."""
    for name, mem_id, text in (
        ("english", "english-16", "The heating is maintained every May by Smith Ltd."),
        ("german", "german-0", "Der Ersatzschlüssel hängt jetzt bei der Nachbarin."),
    ):
        _embed(small[name])
        with open_vault(small[name]) as vault:
            changed = {"query": mem_id, "modifications": text, "mode": "replace"}
            assert vault.call("memory_compound", **changed)["success"]
        aged(small[name], 10)
    for query, old, new in (
        ("who maintains the boiler", "Miller", "Smith"),
        ("wo liegt der Ersatzschlüssel", "Blumentopf", "Nachbarin"),
    ):
        asked = ("recall", query, "--vaults", "english,german", "--json")
        now = run(*asked, cwd=small["english"]).json["memories"][0]
        then = run(*asked, "--as-of", day(-11), cwd=small["english"]).json["memories"][0]
        assert new in now["snippet"]
        assert old in then["snippet"]


@pytest.mark.parametrize("waiting", ["english", "german"])
def test_mixed_vaults_answer_while_vectors_are_missing(
    small: dict[str, Path], monkeypatch: pytest.MonkeyPatch, waiting: str
) -> None:
    """If one vault has no transformer vectors yet, both answer, with the same result later."""
    monkeypatch.setenv("MEMVAULT_DEEP", "auto")
    _embed(small[{"english": "german", "german": "english"}[waiting]])

    def found() -> list[str]:
        with open_vault(small["english"]) as vault:
            return [
                _first(vault, query, list(small))
                for query in ("when is the boiler serviced", "Wo liegt der Schlüssel?")
            ]

    with stopped_at(small[waiting], 0.0):
        assert found() == ["Boiler", "Schlüssel"]
    _embed(small[waiting])
    assert found() == ["Boiler", "Schlüssel"]


@soak_only
def test_mixed_vaults_model_can_change_during_search(
    small: dict[str, Path], deep_now: None
) -> None:
    """Searches in another process work before, during and after a vault's model change."""
    vaults = list(small)
    assert [_embed(small[name]) for name in vaults] == [BUILTIN, MULTILINGUAL]
    arguments = [sys.executable, "-c", SEARCHING, str(small["english"]), *vaults]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for number, text in enumerate(MORE):
            write(small["english"], f"g/{number}.md", encode_new({"title": f"More {number}"}, text))
        assert _embed(small["english"]) == MULTILINGUAL
        process.stdout.readline()
        (small["english"] / "stop").touch()
        lines = [json.loads(line) for line in process.stdout]
    assert process.returncode == 0
    assert lines
    for success, query, found in lines:
        assert success
        assert found == ["Boiler" if "boiler" in query else "Schlüssel"]
    with open_vault(small["german"]) as vault:
        assert _first(vault, "Wann wird der Heizkörper repariert?", vaults) == "More 0"
