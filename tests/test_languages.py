"""A vault may hold memories in several languages: each is found by its own language's words."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from conftest import Run, explained, index_of, titles, write
from memvault import Vault, open_vault
from memvault.files.lock import FileLock
from memvault.index.text.analysis import query_analyser
from memvault.index.text.bm25f import FIELDS, KeywordDocument, QueryTerm, memory_segment, score
from memvault.index.text.languages import detect_language

SENTENCES = {
    "danish": "Vi mødes på kontoret om mandagen, men hvis nogen er syg, skal de blive hjemme.",
    "dutch": "De sleutels liggen in de kast bij de deur, en de buurvrouw heeft er ook een.",
    "english": "The keys are in the cupboard by the door, and the neighbour has one of them too.",
    "finnish": "Avaimet ovat kaapissa oven vieressä, mutta naapurilla on myös yksi niistä.",
    "french": "Les clés sont dans le placard près de la porte, et la voisine en a une aussi.",
    "german": "Die Schlüssel liegen im Schrank neben der Tür, und die Nachbarin hat auch einen.",
    "greek": "Τα κλειδιά είναι στο ντουλάπι δίπλα στην πόρτα και η γειτόνισσα έχει ένα.",
    "hungarian": "A kulcsok a szekrényben vannak az ajtó mellett, de a szomszédnak is van egy.",
    "italian": "Le chiavi sono nell'armadio vicino alla porta, e anche la vicina ne ha una.",
    "norwegian": "Nøklene ligger i skapet ved døra, men naboen har også en hvis dere trenger den.",
    "portuguese": "As chaves estão no armário ao lado da porta, e a vizinha também tem uma.",
    "romanian": "Cheile sunt în dulapul de lângă ușă, iar vecina are și ea una pentru noi.",
    "russian": "Ключи лежат в шкафу у двери, но и у соседки есть один, если мы её попросим.",
    "spanish": "Las llaves están en el armario junto a la puerta, y la vecina también tiene una.",
    "swedish": "Nycklarna ligger i skåpet vid dörren, men grannen har också en om vi inte är där.",
    "tamil": "சாவிகள் கதவுக்கு அருகில் உள்ள அலமாரியில் இருக்கின்றன.",
    "turkish": "Anahtarlar kapının yanındaki dolapta, ama komşuda da bir tane var.",
    "arabic": "المفاتيح في الخزانة بجانب الباب، وعند الجارة أيضا واحدة إذا احتجنا إليها.",
}
MEMORIES = {
    "Garten": "Die Gartenstühle stehen im Schuppen hinter dem Haus und sind noch nicht gestrichen.",
    "Ferienhaus": "Die Schluessel fuer das Haus haengen bei Frau Moeller an der Tuer.",
    "Luz": "La contratación de la luz se hizo con la cooperativa, y la factura llega en papel.",
    "Cuarto": "La habitacion de los ninos esta sin pintar desde que la compramos.",
    "Vacances": "L'école est fermée en été, et nous avons réservé une maison près de la mer.",
    "Réunion": "Les décisions d'aujourd'hui seront envoyées par la présidente à tous les voisins.",
    "Iskola": "Az iskolában a szülői értekezletek kedden vannak, de csak ha nincs szünet.",
    "备用钥匙": "一把在楼下水果店王姐那里,一把放在车后备箱。",
    "鍵": "予備の鍵は玄関の靴箱の上に置いてあります。",
    "Casting": "The mould for the die is made of steel, and it will last for ten thousand parts.",
    "Plants": "The ferns die when they are watered too often, so let them dry for a week.",
}
FOUND = [
    ("Gartenstuhl", "Garten"),
    ("wo ist der Gartenstuhl", "Garten"),
    ("Gartenstuehle", "Garten"),
    ("gartenstuhle", "Garten"),
    ("gestrichene Stühle im Garten", "Garten"),
    ("Schlüssel", "Ferienhaus"),
    ("wo hängt der Schlüssel von Möller", "Ferienhaus"),
    ("contratacion", "Luz"),
    ("contrataciones de luz", "Luz"),
    ("cuándo llegan las facturas", "Luz"),
    ("habitación", "Cuarto"),
    ("las habitaciones del niño", "Cuarto"),
    ("l'été", "Vacances"),
    ("fermer les écoles l’été", "Vacances"),
    ("ecole fermee", "Vacances"),
    ("d'école", "Vacances"),
    ("aujourd'hui", "Réunion"),
    ("aujourd’hui", "Réunion"),
    ("qu'est-ce que le président envoie à la voisine", "Réunion"),
    ("iskolai értekezlet", "Iskola"),
    ("szulo iskola", "Iskola"),
    ("钥匙在哪里", "备用钥匙"),
    ("水果店", "备用钥匙"),
    ("果蔬店在楼里", "备用钥匙"),
    ("鍵はどこ", "鍵"),
    ("玄関", "鍵"),
    ("steel die", "Casting"),
    ("dying fern", "Plants"),
    ("why does the fern die", "Plants"),
]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a vault of memories in seven languages."""
    folder = tmp_path_factory.mktemp("mixed")
    write(folder, "memvault.toml", "version = 1\n")
    for number, (title, text) in enumerate(MEMORIES.items()):
        write(folder, f"{number}.md", f"# {title}\n\n{text}\n")
    return folder


@pytest.mark.parametrize("language", SENTENCES)
def test_a_sentence_tells_its_language(language: str) -> None:
    """Each language that can be stemmed is told from one sentence."""
    assert detect_language(SENTENCES[language]) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "def main(argv: list[str]) -> int:\n    return run(argv) or 0",
        "SELECT id, name FROM users u JOIN orders o USING (user_id)",
        "BC-7QK2-118",
        "一把在楼下水果店王姐那里",
        "Zürich",
        "x = α * β + γ",
    ],
)
def test_nothing_is_guessed_of_what_does_not_tell(text: str) -> None:
    """Code, names, numbers and scripts without a stemmer are of no language."""
    assert detect_language(text) == ""


@pytest.mark.parametrize(("query", "title"), FOUND)
def test_each_language_is_found_in_one_vault(mixed: Path, query: str, title: str) -> None:
    """A memory comes first for its language's endings, accents, elisions and pairs of letters."""
    with open_vault(mixed) as vault:
        for mode in ("keyword", "hybrid"):
            found = titles(vault.call("memory_recall", query=query, type=mode))
            assert found[:1] == [title], mode


def test_stop_words_are_those_of_the_language_that_is_asked_in() -> None:
    """What says nothing in one language may be the only word that counts in another."""
    both = query_analyser(("english", "german"))
    assert [word[0] for word in both.query("was the die cast")[0]] == ["die", "cast"]
    assert [word[0] for word in both.query("wer hat die Form gegossen")[0]] == ["form", "gegossen"]
    assert [word[0] for word in both.query("die")[0]] == ["die"]


def test_a_word_counts_once_however_many_of_its_forms_a_memory_has() -> None:
    """Two spellings of a query's word in one memory weigh no more than one of them."""
    documents = [
        KeywordDocument(1, {"body": Counter({"haus": 1, "hause": 1})}),
        KeywordDocument(2, {"body": Counter({"haus": 1, "garten": 1})}),
        KeywordDocument(3, {"body": Counter({"garten": 1, "tor": 1})}),
    ]
    wanted = [QueryTerm(("haus", "hause"), FIELDS)]
    scores, rarity, _ = score([memory_segment(documents)], wanted, {"body": 6.0}, explain=False)
    assert scores[0, 0] == scores[0, 1]
    assert len(scores) == 2
    assert set(rarity) == {"haus"}


def test_what_does_not_tell_its_language_is_of_the_vaults(folder: Path, vault: Vault) -> None:
    """A note of two words is read as the language of most memories, now and later."""
    write(folder, "a.md", f"# Schlüssel\n\n{SENTENCES['german']}\n")
    write(folder, "b.md", "# Kindergarten\n\nAbholzeiten Kindergärten\n")
    query = {"query": "Abholzeit", "type": "keyword"}
    assert titles(vault.call("memory_recall", **query)) == ["Kindergarten"]
    write(folder, "c.md", "# Läden\n\nÖffnungszeiten Bäckereien\n")
    assert titles(vault.call("memory_recall", query="Bäckerei", type="keyword")) == ["Läden"]


def test_an_index_that_cannot_be_written_knows_languages_too(folder: Path, vault: Vault) -> None:
    """A memory that is read directly is stemmed as what it is written in."""
    write(folder, "a.md", f"# Keys\n\n{SENTENCES['english']}\n")
    assert titles(vault.call("memory_recall", query="key", type="keyword")) == ["Keys"]
    with FileLock(index_of(folder) / "lock"):
        write(folder, "b.md", "# Kauf\n\nDie Häuser wurden von der Gemeinde gekauft.\n")
        assert titles(vault.call("memory_recall", query="das Haus", type="keyword")) == ["Kauf"]
    assert titles(vault.call("memory_recall", query="das Haus", type="keyword")) == ["Kauf"]


def test_a_language_in_the_settings_is_that_of_every_memory(folder: Path, run: Run) -> None:
    """Where a vault names its language, nothing is guessed."""
    write(folder, "a.md", "# Kauf\n\nDie Häuser wurden von der Gemeinde gekauft.\n")
    assert "Kauf" in run("recall", "Haus", "--mode", "keyword").out
    write(folder, "memvault.toml", 'version = 1\nlanguage = "english"\n')
    assert "Kauf" not in run("recall", "Haus", "--mode", "keyword").out


def test_an_explanation_names_a_word_once(folder: Path, vault: Vault) -> None:
    """Of a word that is looked for in several forms the first speaks for it."""
    write(folder, "a.md", f"# Luz\n\n{SENTENCES['spanish']} La contratación fue en papel.\n")
    (hit,) = explained(vault, "vecinas contratacion", type="keyword")
    assert list(hit["why"]["terms"]) == ["vecin", "contratacion"]
