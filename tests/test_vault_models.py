"""A configured model is used only if allowed, and a cross-encoder only on request."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Run, explained, refused, sampled_tests, titles, write
from memvault import Vault, open_vault
from memvault.errors import EmbedderError
from memvault.index.embedding import model_settings
from memvault.index.embedding.fastembed_models import CrossEncoder
from test_embedders import make_model, save_model
from test_imports import NEVER, among, loaded

pytestmark = sampled_tests(2)


@pytest.fixture
def cloned(folder: Path) -> Path:
    """A vault whose settings refer to a model in the vault."""
    make_model(folder / "models" / "tiny")
    write(folder, "memvault.toml", 'version = 1\n[embedder]\nmodel = "models/tiny"\n')
    write(folder, "a.md", "# A\n\nzebra and wombat\n")
    return folder


@pytest.mark.promise("S10")
def test_vault_model_is_not_loaded_without_permission(cloned: Path, run: Run) -> None:
    """Recall in a cloned vault does not load its models; a note explains how to allow them."""
    assert among(loaded(cloned, "recall", "zebra", "--quiet"), NEVER) == []
    ran = run("recall", "zebra", "--json")
    assert titles(ran.json) == ["A"]
    (note,) = ran.json["warnings"]
    assert "memvault model use models/tiny" in note
    status = run("status", "--json").json
    assert status["deep"]["name"] == "all-MiniLM-L6-v2-int8"
    assert note in status["warnings"]
    assert "not allowed" in refused(run("model", "verify"), 1)


@pytest.mark.promise("S10")
def test_vault_model_is_loaded_after_permission(cloned: Path, run: Run) -> None:
    """After ``model use``, the model is loaded until one of its files changes."""
    assert run("model", "use", "models/tiny", "--json").json["dimension"] == 8
    assert run("status", "--json").json["deep"]["name"] == "models/tiny"
    assert "warnings" not in run("recall", "zebra", "--json").json
    config = cloned / "models" / "tiny" / "config.json"
    config.write_text(json.dumps({"pad_token_id": 1}), "utf-8")
    assert "memvault model use models/tiny" in run("recall", "zebra", "--json").json["warnings"][0]
    assert among(loaded(cloned, "recall", "zebra", "--quiet"), NEVER) == []
    assert run("model", "use", "models/tiny").code == 0
    assert "warnings" not in run("recall", "zebra", "--json").json
    write(cloned, "models/tiny/more.bin", "x")
    assert not model_settings.is_allowed("models/tiny", cloned)


def test_vault_model_permission_does_not_cover_copies(
    cloned: Path, run: Run, tmp_path: Path
) -> None:
    """A user's permission applies to one vault on one machine."""
    assert run("model", "use", "models/tiny").code == 0
    copy = tmp_path / "copy"
    shutil.copytree(cloned, copy)
    assert model_settings.is_allowed("models/tiny", cloned)
    assert not model_settings.is_allowed("models/tiny", copy)


def test_vault_model_folder_cannot_shadow_fastembed_model(folder: Path, run: Run) -> None:
    """A folder in the vault named like one of fastembed's models is not loaded."""
    make_model(folder / "BAAI" / "bge-small-en-v1.5")
    write(folder, "memvault.toml", '[embedder]\nmodel = "BAAI/bge-small-en-v1.5"\n')
    write(folder, "a.md", "# A\n\nzebra\n")
    assert "not allowed" in run("recall", "zebra", "--json").json["warnings"][0]


def test_vault_model_folder_cannot_shadow_builtin(folder: Path, run: Run) -> None:
    """A folder called builtin does not replace the embedder with that name."""
    make_model(folder / "builtin")
    write(folder, "memvault.toml", '[embedder]\nmodel = "builtin"\n')
    write(folder, "a.md", "# A\n\nzebra\n")
    assert "warnings" not in run("recall", "zebra", "--json").json
    assert run("status", "--json").json["embedder"]["dimension"] == 256


@pytest.mark.parametrize("name", ["/a\\u0000b", "./a\\u0000b", "", " ", "/", "..", "~nobody/x"])
def test_vault_model_with_invalid_name_is_noted(folder: Path, run: Run, name: str) -> None:
    """Whatever model name a vault sets, recall answers at least by keywords."""
    write(folder, "memvault.toml", f'[embedder]\nmodel = "{name}"\n[rerank]\nmodel = "{name}"\n')
    write(folder, "a.md", "# A\n\nzebra\n")
    assert titles(run("recall", "zebra", "--json").json) == ["A"]
    assert run("recall", "zebra", "--rerank").code in (0, 1)
    assert run("status").code == 0


def test_rerank_with_vault_model_needs_permission(folder: Path, run: Run) -> None:
    """Rerank with a model folder from the vault is refused, with the command that allows it."""
    make_model(folder / "judge")
    write(folder, "memvault.toml", '[rerank]\nmodel = "./judge"\n')
    write(folder, "a.md", "# A\n\nzebra\n")
    ran = run("recall", "zebra", "--rerank")
    assert "not allowed" in refused(ran, 1)
    assert "memvault model use ./judge --for rerank" in ran.err
    assert run("recall", "zebra").code == 0


def test_user_model_needs_no_permission(folder: Path, run: Run, tmp_path: Path) -> None:
    """The user's model applies to vaults that set none; a vault's setting takes precedence."""
    model = make_model(tmp_path / "tiny")
    settings = write(tmp_path, "config/memvault/settings.toml", f'[embedder]\nmodel = "{model}"\n')
    settings.chmod(0o600)
    write(folder, "a.md", "# A\n\nzebra\n")
    assert run("status", "--json").json["deep"]["name"] == str(model)
    write(folder, "memvault.toml", '[embedder]\nmodel = "builtin"\n')
    assert run("status", "--json").json["deep"]["name"] == "all-MiniLM-L6-v2-int8"


@pytest.mark.promise("S8")
@pytest.mark.parametrize("section", ["embedder", "rerank"])
def test_user_model_name_is_never_resolved_in_vault(
    folder: Path, run: Run, tmp_path: Path, section: str, deep_now: None
) -> None:
    """A model name from the defaults or the user's settings is never looked up in the vault."""
    name = {"embedder": "BAAI/bge-small-en-v1.5", "rerank": "Xenova/ms-marco-MiniLM-L-6-v2"}
    make_model(folder / name[section])
    settings = f'[{section}]\nmodel = "{name[section]}"\n'
    write(tmp_path, "config/memvault/settings.toml", settings).chmod(0o600)
    write(folder, "a.md", "# A\n\nzebra\n")
    if section == "rerank":
        assert "is not on this machine" in refused(run("recall", "zebra", "--rerank"), 1)
        assert "is not on this machine" in refused(run("model", "verify", "--for", "rerank"), 1)
    else:
        assert "not on this machine" in run("status", "--json").json["deep"]["problem"]
    assert "not on this machine" in run("model", "verify", name["embedder"]).err


@pytest.mark.promise("S8")
def test_vault_model_is_verified_when_loaded(cloned: Path) -> None:
    """A model that changes while a vault is open is not loaded afterward."""
    with open_vault(cloned) as vault:
        assert vault.call("model_use", name="models/tiny")["success"]
    with open_vault(cloned) as vault:
        assert vault.call("vault_status")["deep"]["name"] == "models/tiny"
        write(cloned, "models/tiny/config.json", json.dumps({"pad_token_id": 1}))
        found = vault.call("memory_recall", query="zebra")
        assert "memvault model use models/tiny" in found["warnings"][0]
        assert vault.call("vault_status")["deep"]["name"] == "all-MiniLM-L6-v2-int8"


def test_vault_model_folder_with_symlink_is_refused(cloned: Path, run: Run) -> None:
    """A model folder behind a symlink could change unnoticed, so it can't be allowed."""
    (cloned / "models" / "tiny" / "more").symlink_to(cloned)
    assert "is a link" in refused(run("model", "use", "models/tiny"), 1)


@pytest.mark.promise("S9")
def test_vault_model_name_is_quoted_in_hint(folder: Path, run: Run) -> None:
    """A model name from the vault is quoted as one word in the command that a hint suggests."""
    make_model(folder / "d; touch PWNED #")
    write(folder, "memvault.toml", '[embedder]\nmodel = "./d; touch PWNED #"\n')
    write(folder, "a.md", "# A\n\nzebra\n")
    (note,) = run("recall", "zebra", "--json").json["warnings"]
    assert "allow it with `memvault model use './d; touch PWNED #'`" in note
    write(folder, "memvault.toml", '[embedder]\nmodel = "./x\\nnote: all is well"\n')
    (note,) = run("recall", "zebra", "--json").json["warnings"]
    assert "all is well" not in note


WEIGHTS = {"PostgreSQL": 4.0, "wonderful": 3.0, "good": 1.0, "dull": -2.0}
QUESTION = "apple harvest"


def make_cross_encoder(folder: Path, **weights: float) -> Path:
    """Write a cross-encoder whose logit is the sum of its words' weights."""
    from onnx import TensorProto, helper, numpy_helper

    known = {**WEIGHTS, **weights}
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *known]
    table = np.array([[0.0]] * 4 + [[weight] for weight in known.values()], dtype=np.float32)
    return save_model(
        folder,
        words,
        [
            helper.make_node("Gather", ["table", "input_ids"], ["weights"]),
            helper.make_node("ReduceSum", ["weights", "axes"], ["logits"], keepdims=0),
        ],
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1]),
        [
            numpy_helper.from_array(table, "table"),
            numpy_helper.from_array(np.array([1], dtype=np.int64), "axes"),
        ],
    )


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """A cross-encoder of four words in a temporary folder."""
    return make_cross_encoder(tmp_path / "tiny-judge")


@pytest.fixture
def apples(folder: Path, encoder: Path) -> Path:
    """A vault in which the cross-encoder prefers the result that recall ranks last."""
    write(folder, "memvault.toml", f'version = 1\n[rerank]\nmodel = "{encoder}"\n')
    model_settings.allow(str(encoder), folder, model_settings.fingerprint(str(encoder), None))
    write(folder, "best.md", "# Apple harvest\n\nThe apple harvest, apples by the crate. dull\n")
    write(folder, "middle.md", "# Orchard\n\nAn apple and its harvest, good\n")
    write(folder, "last.md", "# Weather\n\nRain on the day of the harvest, wonderful\n")
    return folder


def recall(vault: Vault, **more: Any) -> list[dict[str, Any]]:
    """Recall with explanations; return each memory's explanation."""
    return explained(vault, **{"query": QUESTION, **more})


def test_rerank_scores_are_sigmoids_of_logits(encoder: Path, folder: Path) -> None:
    """A cross-encoder scores each passage, of any length, separately and in order."""
    judge = CrossEncoder(str(encoder), folder)
    texts = ["wonderful", "nothing known", "dull", *["good"] * 20, "x " * 3_000 + "wonderful"]
    scores = judge.scores("any question", texts)
    assert scores[:3] == pytest.approx([1 / (1 + np.exp(-logit)) for logit in (3, 0, -2)], abs=1e-6)
    assert len(scores) == len(texts)
    assert scores[-1] == pytest.approx(0.5)  # beyond this model's 64 tokens
    assert judge.scores("any question", []) == []


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
def test_rerank_orders_by_cross_encoder(apples: Path, mode: str) -> None:
    """The cross-encoder's top passage comes first in every mode that searches text."""
    with open_vault(apples) as vault:
        plain = recall(vault, type=mode)
        assert plain[0]["title"] == "Apple harvest"
        again = recall(vault, type=mode, rerank=True)
        assert [entry["title"] for entry in again] == ["Weather", "Orchard", "Apple harvest"]


def test_rerank_score_parts_add_up(apples: Path) -> None:
    """A score is four fifths the cross-encoder's score and one fifth the previous score."""
    with open_vault(apples) as vault:
        before = {entry["title"]: entry for entry in recall(vault)}
        for entry in recall(vault, rerank=True):
            parts, old = entry["why"]["parts"], before[entry["title"]]
            assert entry["score"] == pytest.approx(sum(parts.values()), abs=1e-3)
            share = parts.pop("rerank")
            assert 0 <= share <= 0.8
            assert entry["score"] == pytest.approx(0.2 * old["score"] + share, abs=1e-3)
            assert parts == pytest.approx(
                {name: 0.2 * part for name, part in old["why"]["parts"].items()}, abs=1e-3
            )


def test_rerank_applies_limit_after_reordering(apples: Path) -> None:
    """With a limit of one, the first memory of the new order is returned."""
    with open_vault(apples) as vault:
        assert [entry["title"] for entry in recall(vault, rerank=True, limit=1)] == ["Weather"]
        scores = [entry["score"] for entry in recall(vault, rerank=True)]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
def test_rerank_keeps_remaining_hits_below(apples: Path, mode: str) -> None:
    """Of seventy memories, fifty are reranked; the rest follow in their order, and none is lost."""
    for number in range(67):
        write(
            apples, f"n{number}.md", f"# Day {number}\n\nThe harvest of day {number}, dull dull\n"
        )
    with open_vault(apples) as vault:
        plain = recall(vault, type=mode, limit=100)
        found = recall(vault, type=mode, limit=100, rerank=True)
    assert {entry["memId"] for entry in found} == {entry["memId"] for entry in plain}
    assert ["rerank" in entry["why"]["parts"] for entry in found] == [True] * 50 + [False] * (
        len(plain) - 50
    )
    assert [entry["memId"] for entry in found[50:]] == [entry["memId"] for entry in plain[50:]]
    scores = [entry["score"] for entry in found]
    assert scores == sorted(scores, reverse=True)
    for entry in found:
        assert entry["score"] == pytest.approx(sum(entry["why"]["parts"].values()), abs=1e-3)


def test_rerank_scores_the_matching_passage(apples: Path) -> None:
    """For a long memory, the passage with the query's words is scored, not the beginning."""
    filler = "\n\n".join(
        f"Paragraph {number} of other things. " + "x " * 300 for number in range(9)
    )
    text = f"# Annals\n\n{filler}\n\n## 1907\n\nThe apple harvest: PostgreSQL wonderful\n\n"
    text += f"## 1908\n\n{filler}\n"
    write(apples, "long.md", text)
    with open_vault(apples) as vault:
        assert recall(vault, rerank=True)[0]["title"] == "Annals"
        assert recall(vault, query="zebra quagga", type="keyword", rerank=True) == []


def test_rerank_option_and_json_argument_are_equal(run: Run, apples: Path) -> None:
    """The option, the JSON argument and the Python library give the same result."""
    by_flag = run("recall", QUESTION, "--rerank", "--json").json
    by_json = run("call", "memory_recall", json.dumps({"query": QUESTION, "rerank": True})).json
    assert by_flag == by_json
    assert titles(by_flag)[0] == "Weather"
    with open_vault(apples) as vault:
        assert vault.call("memory_recall", query=QUESTION, rerank=True) == by_flag


def test_rerank_model_is_loaded_once(apples: Path, encoder: Path) -> None:
    """An open vault keeps its cross-encoder loaded until its settings select another."""
    other = make_cross_encoder(encoder.parent / "other", dull=5.0)
    with open_vault(apples) as vault:
        assert recall(vault, rerank=True)[0]["title"] == "Weather"
        (encoder / "model.onnx").unlink()
        assert recall(vault, rerank=True)[0]["title"] == "Weather"
        write(apples, "memvault.toml", f'version = 1\n[rerank]\nmodel = "{other}"\n')
        model_settings.allow(str(other), apples, model_settings.fingerprint(str(other), None))
        assert recall(vault, rerank=True)[0]["title"] == "Apple harvest"


@pytest.mark.parametrize("arguments", [("apple", "--mode", "tag"), ("--all",)], ids=" ".join)
def test_rerank_without_query_is_usage_error(run: Run, arguments: tuple[str, ...]) -> None:
    """A recall by tag or of everything with rerank is a usage error."""
    assert "rerank" in refused(run("recall", *arguments, "--rerank"), 2)


def test_rerank_never_downloads_missing_model(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its model, a rerank fails immediately with the download command, even online."""
    write(folder, "a.md", "# Apple\n\nharvest\n")
    assert run("recall", "apple").code == 0
    monkeypatch.delenv("HF_HUB_OFFLINE")
    with socket.create_server(("127.0.0.1", 0)) as network:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{network.getsockname()[1]}")
        ran = run("recall", "apple", "--rerank")
        network.setblocking(False)
        with pytest.raises(BlockingIOError):  # no program has connected
            network.accept()
    assert "ms-marco-MiniLM-L-6-v2 is not on this machine" in refused(ran, 1)
    assert "memvault model use Xenova/ms-marco-MiniLM-L-6-v2 --for rerank" in ran.err
    models = tmp_path / "cache" / "memvault" / "models"
    assert [path for path in models.rglob("*") if path.is_file()] == []
    assert run("recall", "apple").code == 0


def test_vault_model_folder_reports_missing_files(run: Run, apples: Path) -> None:
    """A model's folder without its tokenizer is refused in one sentence that says so."""
    settings = (apples / "memvault.toml").read_text("utf-8")
    folder = Path(settings.partition('model = "')[2].partition('"')[0])
    (folder / "tokenizer.json").unlink()
    model_settings.allow(str(folder), apples, model_settings.fingerprint(str(folder), None))
    assert "has no tokenizer.json" in refused(run("recall", QUESTION, "--rerank"), 1)
    assert run("recall", QUESTION).code == 0


def test_vault_model_damage_is_reported(run: Run, apples: Path, encoder: Path) -> None:
    """An invalid model file fails a rerank with one message and a hint on how to fix it."""
    (encoder / "model.onnx").write_bytes(b"no model")
    model_settings.allow(str(encoder), apples, model_settings.fingerprint(str(encoder), None))
    ran = run("recall", QUESTION, "--rerank")
    assert "cannot be used" in refused(ran, 1)
    assert "omit `--rerank`" in ran.err


def test_rerank_model_is_not_loaded_by_plain_recall(apples: Path) -> None:
    """A plain recall imports neither fastembed nor ONNX Runtime, regardless of the settings."""
    assert among(loaded(apples, "recall", QUESTION), NEVER) == []


def test_model_use_writes_and_keeps_comments(run: Run, folder: Path, encoder: Path) -> None:
    """After model use FOLDER --for rerank the settings have the model, and all else unchanged."""
    write(folder, "memvault.toml", "# mine\nversion = 1  # one\n\n[embedder]\nmodel = 'builtin'\n")
    used = run("model", "use", str(encoder), "--for", "rerank", "--json").json
    assert used["name"] == str(encoder)
    assert used["previous"] == "Xenova/ms-marco-MiniLM-L-6-v2"
    text = (folder / "memvault.toml").read_text("utf-8")
    assert text.startswith("# mine\nversion = 1  # one\n\n[embedder]\nmodel = 'builtin'\n")
    assert f'[rerank]\nmodel = "{encoder}"' in text
    listed = run("model", "list", "--json").json
    assert listed["rerankerInUse"] == str(encoder)
    assert listed["inUse"] == "builtin"
    assert "Xenova/ms-marco-MiniLM-L-6-v2" in {entry["name"] for entry in listed["rerankers"]}
    assert run("model", "verify", "--for", "rerank", "--json").json["works"] is True


def test_status_shows_configured_cross_encoder(
    folder: Path, vault: Vault, run: Run, encoder: Path
) -> None:
    """The status shows a rerank model set by the vault; without one the key is absent."""
    assert "reranker" not in vault.call("vault_status")
    write(folder, "memvault.toml", f'version = 1\n[rerank]\nmodel = "{encoder}"\n')
    assert vault.call("vault_status")["reranker"] == {"name": str(encoder)}
    assert f"reranker: {encoder}" in " ".join(run("status").out.split())
    usual = "Xenova/ms-marco-MiniLM-L-6-v2"
    write(folder, "memvault.toml", f'version = 1\n[rerank]\nmodel = "{usual}"\n')
    assert vault.call("vault_status")["reranker"] == {"name": usual}


def test_model_list_hides_folders(vault: Vault, encoder: Path) -> None:
    """Loading a folder's model adds nothing to the models that fastembed can download."""
    before = vault.call("model_list")["rerankers"]
    assert vault.call("model_use", **{"name": str(encoder), "for": "rerank"})["success"]
    assert vault.call("model_list")["rerankers"] == before


def test_model_verify_fails_for_useless_ranking_model(run: Run, tmp_path: Path) -> None:
    """Verification fails if a matching passage does not score above an unrelated one."""
    judge = make_cross_encoder(tmp_path / "blind", PostgreSQL=0.0)
    assert "cannot tell related passages from unrelated ones" in refused(
        run("model", "verify", str(judge), "--for", "rerank"), 1
    )


def test_rerank_refuses_embedding_model(run: Run, folder: Path, tmp_path: Path) -> None:
    """A model that returns vectors instead of one number is refused, and the settings stay."""
    before = (folder / "memvault.toml").read_bytes()
    model = make_model(tmp_path / "vectors")
    ran = run("model", "use", str(model), "--for", "rerank")
    assert "is not a cross-encoder" in refused(ran, 1)
    refused(run("model", "use", "BAAI/bge-small-en-v1.5", "--for", "rerank"), 1)
    assert (folder / "memvault.toml").read_bytes() == before


def test_rerank_refuses_nan_logits(folder: Path, tmp_path: Path) -> None:
    """A logit that is not a number never becomes a score."""
    judge = make_cross_encoder(tmp_path / "nan", odd=float("nan"))
    with pytest.raises(EmbedderError, match="one number"):
        CrossEncoder(str(judge), folder).scores("q", ["odd"])
