"""A similarity means the same with every embedder, and is found without labelled data."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibrate as training
from conftest import SHARED, Run, explained, index_of, titles, write
from memvault import Vault, open_vault
from memvault.errors import EmbedderError
from memvault.files.lock import FileLock
from memvault.index.embedding import calibrate, tokenizer
from memvault.index.embedding.embedder import Calibration, Embedder, read_card
from memvault.index.embedding.static import StaticEmbedder
from memvault.index.embedding.transformer import DATA, load_embedder
from test_embedders import make_model

MINILM = SHARED / "models" / "all-MiniLM-L6-v2"
SAME = [
    ("The invoice service keeps its data in MongoDB", "MongoDB holds the invoice service's data"),
    ("How can I export my calendar to a file?", "What is the way to export a calendar as a file?"),
    ("The printer on the second floor is out of paper", "Second floor printer: no paper left"),
    (
        "Our standup meeting is at nine every morning",
        "Every morning at nine we have the standup meeting",
    ),
]
OTHER = [
    ("The invoice service keeps its data in MongoDB", "My aunt grows tomatoes on her balcony"),
    ("How can I export my calendar to a file?", "How can I share my calendar with a friend?"),
    ("The login button does nothing on Android", "We went hiking in the Alps"),
    ("Our standup meeting is at nine every morning", "The parser rejects nested comments"),
]


@pytest.fixture
def used(folder: Path, tmp_path: Path, run: Run, deep_now: None) -> Path:
    """The card of the vectors in a vault that a tiny model has embedded."""
    model = make_model(tmp_path / "tiny-model")
    write(folder, "a.md", "# A\n\npostgres storage\n")
    write(folder, "b.md", "# B\n\ncat fish\n")
    assert run("model", "use", str(model)).code == 0
    return next((index_of(folder) / "deep").rglob("card.json"))


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The embedders whose calibration was found since the test began."""
    found: list[str] = []
    fitted: Callable[[Embedder], Calibration] = calibrate.calibrate

    def counted(embedder: Embedder) -> Calibration:
        found.append(embedder.name)
        return fitted(embedder)

    monkeypatch.setattr(calibrate, "calibrate", counted)
    return found


def recalled(folder: Path) -> dict[str, Any]:
    """Recall by meaning in a vault opened for that; return the first hit's reasons."""
    with open_vault(folder) as vault:
        found = vault.call("memory_recall", query="database", type="vector", explain=True)
    assert titles(found)[0] == "A"
    assert "warnings" not in found
    why: dict[str, Any] = found["memories"][0]["why"]
    return why


def without_calibration(card: Path) -> dict[str, Any]:
    """Make a card one of the version before calibrations were kept; return what it was."""
    entries: dict[str, Any] = json.loads(card.read_text("utf-8"))
    new = {"calibrated", "slope", "midpoint"}
    old = {key: value for key, value in entries.items() if key not in new}
    card.write_text(json.dumps(old), "utf-8")
    return entries


@given(
    st.floats(1.0, 200.0),
    st.floats(-5.0, 5.0),
    st.lists(st.floats(-1.01, 1.01), min_size=2, max_size=20),
)
def test_similarity_keeps_order_and_bounds(
    slope: float, midpoint: float, cosines: list[float]
) -> None:
    """Whatever the constants, a higher cosine never means less, and all lies within 0 and 1."""
    found = [Calibration(slope, midpoint).similarity(cosine) for cosine in sorted(cosines)]
    assert found == sorted(found)
    assert all(0.0 <= similarity <= 1.0 for similarity in found)


@given(st.lists(st.floats(-1.0, 1.0) | st.just(math.nan), min_size=4, max_size=40), st.data())
def test_any_cosines_give_a_calibration_that_rises(
    cosines: list[float], data: st.DataObject
) -> None:
    """However badly a model tells the anchors apart, its similarities rise with the cosine."""
    both = list(calibrate.anchor_targets()[1:])
    more = len(cosines) - len(both)
    targets = both + data.draw(st.lists(st.sampled_from(both), min_size=more, max_size=more))
    found = calibrate.fit_logistic(np.array(cosines), np.array(targets))
    assert 1.0 <= found.slope <= 200.0
    assert math.isfinite(found.midpoint)


def test_a_model_that_cannot_tell_anything_apart_reaches_no_threshold() -> None:
    """With a model whose cosines are all alike, nothing is similar enough to be forgotten."""
    targets = np.repeat(calibrate.anchor_targets()[1:], 48)
    for cosines in (np.full(96, 0.9), np.linspace(0.2, 0.9, 96)):  # the others lie nearer
        assert calibrate.fit_logistic(cosines, targets).similarity(1.0) < 0.6


def test_the_anchors_say_of_the_built_in_table_what_its_card_says() -> None:
    """Targets and anchors belong together: by them, the built-in table means what it should."""
    builtin = StaticEmbedder()
    assert training.targets(builtin) == calibrate.anchor_targets()
    found = calibrate.calibrate(builtin)
    for cosine in (0.2, 0.5, 0.75, 0.9):
        expected = builtin.calibration.similarity(cosine)
        assert found.similarity(cosine) == pytest.approx(expected, abs=0.01)


def test_a_trained_table_can_be_loaded(tmp_path: Path) -> None:
    """The card that a training script writes has all that the program reads in it."""
    pairs, folder = tmp_path / "pairs", shutil.copytree(tokenizer.DATA, tmp_path / "table")
    rows = [{"a": a, "b": b, "label": (a, b) in SAME} for a, b in SAME + OTHER]
    write(pairs, "some.jsonl", "\n".join(map(json.dumps, rows)))
    (folder / "card.json").unlink()
    shipped, about = read_card(tokenizer.DATA), {"name": "x", "version": "9", "dimension": 256}
    training.write_card(folder / "card.json", about, lambda: StaticEmbedder(folder), pairs)
    trained = StaticEmbedder(folder)
    assert trained.version == "9"
    assert trained.calibration.slope != shipped.calibration.slope
    assert trained.calibration.separation == pytest.approx(shipped.calibration.separation, abs=1e-3)


def test_missing_anchors_are_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An incomplete installation is said to be one."""
    monkeypatch.setattr(calibrate, "ANCHORS", tmp_path / "nowhere")
    with pytest.raises(EmbedderError, match="anchors cannot be read"):
        calibrate.anchors()


@pytest.mark.skipif(not MINILM.is_dir(), reason="the shared MiniLM model is not on this machine")
def test_two_embedders_agree_on_what_is_the_same() -> None:
    """With the built-in table and with MiniLM, rewordings lie above 0.6 and the others below."""
    for embedder in (StaticEmbedder(), load_embedder(str(MINILM), Path.cwd())):
        calibration = embedder.calibration or calibrate.calibrate(embedder)
        pairs = [calibrate.AnchorPair(a, b, True) for a, b in SAME + OTHER]
        found = [calibration.similarity(cosine) for cosine in calibrate.cosines(embedder, pairs)]
        assert min(found[: len(SAME)]) > 0.6, (embedder.name, found)
        assert max(found[len(SAME) :]) < 0.5, (embedder.name, found)


def test_a_model_is_calibrated_once(folder: Path, used: Path, fits: list[str]) -> None:
    """What a model's cosines mean lies with its vectors, and no later recall finds it again."""
    entries = json.loads(used.read_text("utf-8"))
    assert entries["slope"]
    why = recalled(folder)
    assert not fits
    # A model's cosines are told as the built-in one's that mean the same.
    expected = read_card(DATA).calibration.similarity(why["deep"])
    assert why["similarity"] == pytest.approx(expected, abs=1e-3)
    assert json.loads(used.read_text("utf-8")) == entries


def test_new_memories_keep_the_calibration(folder: Path, used: Path, fits: list[str]) -> None:
    """A vault that grows keeps what the model's cosines mean."""
    before = json.loads(used.read_text("utf-8"))
    write(folder, "c.md", "# C\n\nfish fish\n")
    recalled(folder)
    after = json.loads(used.read_text("utf-8"))
    assert after["rows"] > before["rows"]
    assert (after["slope"], after["midpoint"]) == (before["slope"], before["midpoint"])
    assert not fits


def test_the_built_in_embedders_need_no_anchors(
    folder: Path, fits: list[str], deep_now: None
) -> None:
    """They bring their calibration along, so a first recall has less to do."""
    write(folder, "a.md", "# A\n\npostgres database\n")
    recalled(folder)
    assert not fits


def test_an_older_card_is_completed(folder: Path, used: Path, fits: list[str]) -> None:
    """Vectors of a version that kept no calibration get one, once, and are not made again."""
    entries = without_calibration(used)
    rows = used.with_name("rows-0.f32").stat()
    recalled(folder)
    recalled(folder)
    assert len(fits) == 1
    assert json.loads(used.read_text("utf-8")) == entries
    assert used.with_name("rows-0.f32").stat().st_mtime_ns == rows.st_mtime_ns


def test_a_calibration_found_in_another_way_is_found_again(
    folder: Path, used: Path, fits: list[str], tmp_path: Path
) -> None:
    """After an upgrade with other anchors, vectors stay and what they mean is found anew."""
    entries = json.loads(used.read_text("utf-8"))
    used.write_text(json.dumps({**entries, "calibrated": -1, "midpoint": 9.0}), "utf-8")
    with open_vault(folder) as vault:
        assert vault.call("model_use", name=str(tmp_path / "tiny-model"))["embedded"] == 0
    recalled(folder)
    assert len(fits) == 1
    assert json.loads(used.read_text("utf-8")) == entries


def test_an_older_card_is_no_trouble_where_nothing_can_be_written(
    folder: Path, used: Path, fits: list[str]
) -> None:
    """Where the card cannot be written, a recall finds for itself what the cosines mean."""
    without_calibration(used)
    with FileLock(index_of(folder) / "lock"), FileLock(used.parents[1] / "lock"):
        assert 0 <= recalled(folder)["similarity"] <= 1
    assert len(fits) == 1


def test_another_version_of_the_model_is_calibrated_again(
    folder: Path, used: Path, fits: list[str], tmp_path: Path
) -> None:
    """A model that has changed gets new vectors and a new calibration."""
    before = json.loads(used.read_text("utf-8"))
    shutil.rmtree(tmp_path / "tiny-model")
    make_model(tmp_path / "tiny-model", width=12)
    with open_vault(folder) as vault:
        assert vault.call("model_use", name=str(tmp_path / "tiny-model"))["embedded"] == 2
    recalled(folder)
    assert len(fits) == 1
    assert json.loads(used.read_text("utf-8"))["version"] != before["version"]


def test_a_model_without_calibration_leaves_the_words(
    folder: Path, tmp_path: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a model loads and the anchors cannot be read, recall answers from keywords."""
    model = make_model(tmp_path / "tiny-model")
    write(folder, "a.md", "# Zebra\n\nThe zebra.\n")
    write(folder, "memvault.toml", f'version = 1\n[embedder]\nmodel = "{model.as_posix()}"\n')
    monkeypatch.setattr(calibrate, "ANCHORS", folder / "none.jsonl")
    assert [entry["filePath"] for entry in explained(vault, "zebra")] == ["a.md"]
