"""Vaults in other languages use the package's multilingual model."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from conftest import Run, called, titles, write
from memvault import open_vault
from memvault.index.embedding.embedder import BUILTIN, MULTILINGUAL
from memvault.index.embedding.model_settings import automatic_model
from memvault.index.embedding.tokenizer import open_tokenizer
from memvault.index.embedding.transformer import FOLDERS, BuiltinTransformer

GERMAN = (
    "Der Klempner kommt am Dienstag und repariert die Heizung im Bad.",
    "Die Rechnung für den Strom ist noch nicht bezahlt worden.",
    "Wir haben für den Urlaub ein Haus an der See gemietet.",
)
ENGLISH = (
    "The plumber comes on Tuesday and repairs the heating in the bathroom.",
    "The bill for the electricity has not been paid yet.",
    "We have rented a house by the sea for the holidays.",
)


def _model_of(folder: Path, texts: tuple[str, ...]) -> str:
    """Write memories, index them, and return the model in use."""
    for number, text in enumerate(texts):
        write(folder, f"n/{number}.md", f"# Note {number}\n\n{text}\n")
    with open_vault(folder) as vault:
        found = called(vault, "vault_reindex")
        assert found["embedder"] == vault.call("model_list")["inUse"]
        return str(found["embedder"])


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("Wann wird der Heizkörper wieder in Ordnung gebracht?", GERMAN[0], GERMAN[1]),
        ("暖气什么时候修好", "水管工星期二来修理浴室的暖气。", "电费账单还没有付。"),
        ("When will the radiator be fixed?", GERMAN[0], GERMAN[2]),
        ("Коли полагодять опалення?", "Сантехнік прийде у вівторок.", "Ми орендували дім."),
        ("暖房はいつ直りますか", "火曜日に配管工が暖房を修理します。", "海辺の家を借りました。"),
    ],
)
def test_multilingual_paraphrase_is_nearest(question: str, answer: str, other: str) -> None:
    """A question's nearest text is its paraphrased answer, even in another language."""
    model = BuiltinTransformer(MULTILINGUAL)
    query, rows = model.embed_query(question), model.embed([answer, other])
    assert query @ rows[0] > query @ rows[1]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """The model's tokenizer, which takes half a second to load."""
    return open_tokenizer(FOLDERS[MULTILINGUAL])[0]


@pytest.mark.parametrize(
    "text",
    "größe Straße été œuvre żółć їжак ığdır السلام नमस्ते 暖气 カナ 한글 Ωmega தமிழ்".split(),
)
def test_multilingual_model_covers_its_languages(tokenizer: Tokenizer, text: str) -> None:
    """The model has tokens for every character of the languages listed in its model card."""
    assert tokenizer.token_to_id("<unk>") not in tokenizer.encode(text).ids


def test_multilingual_model_embeds_long_text_completely() -> None:
    """Text beyond the model's token window changes the vector."""
    model = BuiltinTransformer(MULTILINGUAL)
    long = " ".join(f"Wort{number}" for number in range(400))
    first, second = model.embed([f"{long} Heizung", f"{long} Urlaub am Meer mit Hund"])
    assert (first != second).any()


def test_german_vault_uses_multilingual_model(folder: Path, deep_now: None) -> None:
    """A German vault uses the multilingual model without a setting, and status reports it."""
    assert _model_of(folder, GERMAN) == MULTILINGUAL
    with open_vault(folder) as vault:
        found = vault.call("vault_status")["deep"]
    assert found["name"] == "multilingual-e5-small-4bit"
    assert found["vectors"] >= len(GERMAN)
    assert not found["waiting"]


def test_english_vault_keeps_english_model(folder: Path) -> None:
    """An English vault keeps the English model."""
    assert _model_of(folder, ENGLISH) == BUILTIN


def test_english_query_finds_german_memory(folder: Path, deep_now: None) -> None:
    """In a German vault, an English question finds the memory that answers it."""
    assert _model_of(folder, GERMAN) == MULTILINGUAL
    with open_vault(folder) as vault:
        found = vault.call("memory_recall", query="When is the radiator repaired?")
    assert titles(found)[0] == "Note 0"


def test_chosen_model_overrides_language_detection(folder: Path, deep_now: None) -> None:
    """An explicitly chosen model, even the built-in one, is used for any languages."""
    _model_of(folder, GERMAN)
    with open_vault(folder) as vault:
        assert vault.call("model_use", name=BUILTIN)["success"]
        assert vault.call("model_list")["inUse"] == BUILTIN
        assert vault.call("vault_status")["deep"]["name"] == "all-MiniLM-L6-v2-int8"


@pytest.mark.parametrize(
    ("foreign", "has_multilingual", "model"),
    [
        (0, False, BUILTIN),
        (10, False, BUILTIN),
        (11, False, MULTILINGUAL),
        (6, True, MULTILINGUAL),
        (5, True, BUILTIN),
    ],
)
def test_automatic_model_choice_has_hysteresis(
    foreign: int, has_multilingual: bool, model: str
) -> None:
    """The model switches above 10 % non-English memories and back only at 5 %."""
    languages = {"english": 100 - foreign, "german": foreign}
    assert automatic_model(languages, has_multilingual) == model


@pytest.mark.parametrize(
    "text",
    [
        "水管工星期二来修理浴室的暖气。",
        "火曜日に配管工が暖房を修理します。",
        "배관공이 화요일에 와서 난방을 고칩니다.",
        "प्लंबर मंगलवार को आकर हीटिंग ठीक करेगा।",
        "Hydraulik przyjdzie we wtorek i naprawi ogrzewanie w łazience, więc będę w domu.",
        "Сантехнік прийде у вівторок і полагодить опалення в моїй ванній кімнаті.",
    ],
)
def test_language_without_stemmer_uses_multilingual_model(folder: Path, text: str) -> None:
    """A vault in a language without a stemmer uses the multilingual model."""
    assert _model_of(folder, (text,)) == MULTILINGUAL


def test_model_use_auto_restores_automatic_choice(folder: Path, run: Run, deep_now: None) -> None:
    """``model use auto`` clears the choice and reports the previous model."""
    assert _model_of(folder, GERMAN) == MULTILINGUAL
    assert run("model", "use", "builtin", "--json").json["previous"] == "multilingual"
    back = run("model", "use", "auto", "--json").json
    assert (back["name"], back["previous"]) == ("multilingual", "builtin")
    assert "model" not in (folder / "memvault.toml").read_text("utf-8")
