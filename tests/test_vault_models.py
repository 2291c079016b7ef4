"""A vault's models are loaded only as their user allowed them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from conftest import Run, refused, titles, write
from memvault import open_vault
from memvault.index.embedding import model_choice
from test_embedders import make_model
from test_imports import NEVER, among, loaded


@pytest.fixture
def cloned(folder: Path) -> Path:
    """A vault whose settings name a model that it brings along."""
    make_model(folder / "models" / "tiny")
    write(folder, "memvault.toml", 'version = 1\n[embedder]\nmodel = "models/tiny"\n')
    write(folder, "a.md", "# A\n\nzebra and wombat\n")
    return folder


def test_a_vaults_model_is_not_loaded_unasked(cloned: Path, run: Run) -> None:
    """Recall in a cloned vault opens no model of it; a note says how to allow that."""
    assert among(loaded(cloned, "recall", "zebra", "--quiet"), NEVER) == []
    ran = run("recall", "zebra", "--json")
    assert titles(ran.json) == ["A"]
    (note,) = ran.json["warnings"]
    assert "memvault model use models/tiny" in note
    status = run("status", "--json").json
    assert status["deep"]["name"] == "all-MiniLM-L6-v2-int8"
    assert note in status["warnings"]
    assert "not allowed" in refused(run("model", "verify"), 1)


def test_a_vaults_model_is_loaded_once_its_user_allows_it(cloned: Path, run: Run) -> None:
    """After model use it counts, until one of its files changes; then it has to be allowed anew."""
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
    assert not model_choice.is_allowed("models/tiny", cloned)


def test_a_copy_of_a_vault_has_to_be_allowed_too(cloned: Path, run: Run, tmp_path: Path) -> None:
    """What a user allowed is for one vault on one machine."""
    assert run("model", "use", "models/tiny").code == 0
    copy = tmp_path / "copy"
    shutil.copytree(cloned, copy)
    assert model_choice.is_allowed("models/tiny", cloned)
    assert not model_choice.is_allowed("models/tiny", copy)


def test_a_folder_cannot_pass_for_a_models_name(folder: Path, run: Run) -> None:
    """A folder of the vault with the name of one of fastembed's models is not loaded either."""
    make_model(folder / "BAAI" / "bge-small-en-v1.5")
    write(folder, "memvault.toml", '[embedder]\nmodel = "BAAI/bge-small-en-v1.5"\n')
    write(folder, "a.md", "# A\n\nzebra\n")
    assert "not allowed" in run("recall", "zebra", "--json").json["warnings"][0]


def test_a_folder_cannot_pass_for_the_built_in_embedder(folder: Path, run: Run) -> None:
    """A folder called builtin takes nothing from the embedder of that name."""
    make_model(folder / "builtin")
    write(folder, "memvault.toml", '[embedder]\nmodel = "builtin"\n')
    write(folder, "a.md", "# A\n\nzebra\n")
    assert "warnings" not in run("recall", "zebra", "--json").json
    assert run("status", "--json").json["embedder"]["dimension"] == 256


@pytest.mark.parametrize("name", ["/a\\u0000b", "./a\\u0000b", "", " ", "/", "..", "~nobody/x"])
def test_an_odd_name_of_a_model_costs_a_note(folder: Path, run: Run, name: str) -> None:
    """Whatever a vault names as its model, recall answers from words at least."""
    write(folder, "memvault.toml", f'[embedder]\nmodel = "{name}"\n[rerank]\nmodel = "{name}"\n')
    write(folder, "a.md", "# A\n\nzebra\n")
    assert titles(run("recall", "zebra", "--json").json) == ["A"]
    assert run("recall", "zebra", "--rerank").code in (0, 1)
    assert run("status").code == 0


def test_a_vaults_cross_encoder_has_to_be_allowed(folder: Path, run: Run) -> None:
    """Rerank with a folder that the vault names is refused with the command that allows it."""
    make_model(folder / "judge")
    write(folder, "memvault.toml", '[rerank]\nmodel = "./judge"\n')
    write(folder, "a.md", "# A\n\nzebra\n")
    ran = run("recall", "zebra", "--rerank")
    assert "not allowed" in refused(ran, 1)
    assert "memvault model use ./judge --for rerank" in ran.err
    assert run("recall", "zebra").code == 0


def test_a_model_of_the_users_own_settings_needs_no_permission(
    folder: Path, run: Run, tmp_path: Path
) -> None:
    """It is used in vaults that name none, and what a vault names comes before it."""
    model = make_model(tmp_path / "tiny")
    settings = write(tmp_path, "config/memvault/settings.toml", f'[embedder]\nmodel = "{model}"\n')
    settings.chmod(0o600)
    write(folder, "a.md", "# A\n\nzebra\n")
    assert run("status", "--json").json["deep"]["name"] == str(model)
    write(folder, "memvault.toml", '[embedder]\nmodel = "builtin"\n')
    assert run("status", "--json").json["deep"]["name"] == "all-MiniLM-L6-v2-int8"


@pytest.mark.parametrize("section", ["embedder", "rerank"])
def test_no_vault_has_a_say_in_a_name_of_ones_own(
    folder: Path, run: Run, tmp_path: Path, section: str, deep_now: None
) -> None:
    """What is usual, or in the user's own settings, is never looked up in the vault."""
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


def test_a_model_is_looked_at_when_it_is_loaded(cloned: Path) -> None:
    """A model that changes while a vault is open is not loaded after that."""
    with open_vault(cloned) as vault:
        assert vault.call("model_use", name="models/tiny")["success"]
    with open_vault(cloned) as vault:
        assert vault.call("vault_status")["deep"]["name"] == "models/tiny"
        write(cloned, "models/tiny/config.json", json.dumps({"pad_token_id": 1}))
        found = vault.call("memory_recall", query="zebra")
        assert "memvault model use models/tiny" in found["warnings"][0]
        assert vault.call("vault_status")["deep"]["name"] == "all-MiniLM-L6-v2-int8"


def test_a_model_folder_with_a_linked_one_is_not_allowed(cloned: Path, run: Run) -> None:
    """What could change unseen behind a link cannot be allowed."""
    (cloned / "models" / "tiny" / "more").symlink_to(cloned)
    assert "is a link" in refused(run("model", "use", "models/tiny"), 1)


def test_a_hint_is_no_command_of_the_vaults(folder: Path, run: Run) -> None:
    """What a vault names stands as one word in a command that a hint says to type."""
    make_model(folder / "d; touch PWNED #")
    write(folder, "memvault.toml", '[embedder]\nmodel = "./d; touch PWNED #"\n')
    write(folder, "a.md", "# A\n\nzebra\n")
    (note,) = run("recall", "zebra", "--json").json["warnings"]
    assert "memvault model use './d; touch PWNED #' allows" in note
    write(folder, "memvault.toml", '[embedder]\nmodel = "./x\\nnote: all is well"\n')
    (note,) = run("recall", "zebra", "--json").json["warnings"]
    assert "all is well" not in note
