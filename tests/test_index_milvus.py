"""An index in Milvus satisfies the index contract; here in a milvus-lite file."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run, only_with, refused, sampled, sampled_tests, soak_only, succeeded, write
from engine_server import LOADED as LOADED  # modules preloaded for commands; see conftest
from index_contract import NOTES, IndexContract, note
from memvault.index.folder import prepare_folder
from memvault.index.milvus import access, keyword_rows
from memvault.index.milvus.client import EngineClient
from memvault.index.milvus.engine_errors import EngineAddress, EngineUnavailable
from memvault.index.milvus.published import Publisher, PublishingBackend
from memvault.index.protocol import Index, KeywordQuery
from memvault.index.text.analyzer import query_analyzer
from memvault.settings.vault_settings import load_settings
from memvault.store.memory_store import MemoryStore
from milvus_script import elsewhere

pytestmark = [only_with("pymilvus", "milvus_lite", extra="milvus"), sampled_tests(2)]


def publisher_of(root: Path, file: Path) -> Publisher:
    """Return the publisher of a vault to a milvus-lite file."""
    engine = EngineClient(EngineAddress(str(file), "test", "", 30.0))
    store = MemoryStore(root, load_settings(root))
    backend = PublishingBackend(store, engine, "v1", "here", lambda *_: None)
    return Publisher(store, prepare_folder(root), lambda *_: None, backend)


class TestMilvusIndex(IndexContract):
    """The contract for the engine's index."""

    @contextmanager
    def opened(self, root: Path) -> Iterator[Index]:
        """Open the index of a vault."""
        index = publisher_of(root, root.parent / "engine.db").index
        try:
            yield index
        finally:
            index.close()

    @pytest.mark.promise("R48")
    @pytest.mark.parametrize("lost", ["delete passages", "upsert words", "upsert memories"])
    def test_milvus_push_resumes_after_lost_connection(
        self, notes: Path, monkeypatch: pytest.MonkeyPatch, lost: str
    ) -> None:
        """After a push lost its connection, the next one sends only the missing rows."""
        gone, sent = list[str](), list[int]()

        def losing(name: str, own: Callable[..., None]) -> Callable[..., None]:
            def call(self: EngineClient, kind: str, *more: Any) -> None:
                if f"{name} {kind}" == lost and not gone:
                    gone.append(lost)
                    raise EngineUnavailable("gone")
                if f"{name} {kind}" == "upsert words":
                    sent.extend(row["uid"] for row in more[0])
                own(self, kind, *more)

            return call

        with self.opened(notes) as index:
            self.seen(index)
        write(notes, "fact/tea.md", note("tea", "Tea", "Black tea at five."))
        write(notes, "fact/new.md", note("new", "New", "Something new."))
        with monkeypatch.context() as patch:
            for name in ("upsert", "delete"):
                patch.setattr(EngineClient, name, losing(name, getattr(EngineClient, name)))
            with self.opened(notes) as index:
                with pytest.raises(EngineUnavailable):
                    self.seen(index)
                view = self.seen(index)
                assert self.found(view, "black")[0] == "tea"
                words, wholes, _ = query_analyzer(view.languages()).query("black")
                assert view.keyword(KeywordQuery(words, wholes)).document_count == len(NOTES) + 1
        assert gone
        assert len({uid for uid in sent if uid >= 0}) == 2  # the publication has no uid


SETTINGS = 'version = 1\n\n[index]\nengine = "milvus"\nuri = "{}"\n'
PATIENT = "patience = 60\n"
"""Settings for tests that are not about slow engines, because the machine may be slow."""


@pytest.fixture
def sent(folder: Path, tmp_path: Path, run: Run) -> Path:
    """A vault published to a milvus-lite file."""
    write(folder, "memvault.toml", SETTINGS.format(tmp_path / "engine.db") + PATIENT)
    for name, text in (("tea", "Green tea at four."), ("disk", "The disk of db1 is full.")):
        write(folder, f"fact/{name}.md", note(name, name.capitalize(), text))
    assert succeeded(run("index", "push", "--json")).json["documents"] == 2
    return folder


def moved(folder: Path, to: str) -> None:
    """Write another address into the settings."""
    settings = (folder / "memvault.toml").read_text("utf-8")
    line = next(line for line in settings.splitlines() if line.startswith("uri"))
    write(folder, "memvault.toml", settings.replace(line, f'uri = "{to}"'))


def test_milvus_scores_equal_local_scores(sent: Path, run: Run) -> None:
    """A recall returns the same memories, scores and strengths from both engines."""
    asked = ["recall", "where is tea, and which disk is full", "--json", "--explain"]
    shared_answer = succeeded(run(*asked)).json
    settings = (sent / "memvault.toml").read_text("utf-8")
    write(sent, "memvault.toml", settings.replace('"milvus"', '"local"'))
    local_answer = succeeded(run(*asked)).json
    for one, other in zip(shared_answer["memories"], local_answer["memories"], strict=True):
        assert one["memId"] == other["memId"]
        assert one["score"] == pytest.approx(other["score"], abs=0.002)
        assert one["strength"] == other["strength"]


@pytest.mark.promise("S17")
def test_milvus_receives_nothing_without_consent(folder: Path, tmp_path: Path, run: Run) -> None:
    """An engine from the vault's settings receives nothing until the user allows it."""
    file = tmp_path / "engine.db"
    write(folder, "memvault.toml", SETTINGS.format(file) + PATIENT)
    write(folder, "a.md", "Green tea.\n")
    ran = succeeded(run("recall", "tea"))
    assert "is not contacted before `memvault index push`" in ran.err
    assert "Green tea" in ran.out
    assert not file.exists()
    assert "index push" in succeeded(run("index", "status")).out


def test_milvus_changes_are_found_immediately(sent: Path, run: Run) -> None:
    """An edit, a new memory and a deletion reach the engine by the next recall."""
    write(sent, "fact/tea.md", note("tea", "Tea", "Oolong at five."))
    (sent / "fact/disk.md").unlink()
    succeeded(run("remember", "Coffee", "Black."))
    assert "Oolong" in succeeded(run("recall", "oolong", "-n", "1")).out
    told = succeeded(run("index", "status", "--json")).json
    assert (told["documents"], told["rows"]["words"], told["problem"]) == (2, 2, "")


@pytest.mark.promise("R45")
def test_milvus_outage_does_not_stop_writes(sent: Path, tmp_path: Path, run: Run) -> None:
    """Writes work during an outage, recall explains its failure, and changes are sent later."""
    moved(sent, "http://127.0.0.1:1")
    settings = (sent / "memvault.toml").read_text("utf-8").replace(PATIENT, "patience = 1\n")
    write(sent, "memvault.toml", settings)
    assert "contacted before `memvault index push`" in run("recall", "tea").err
    refused(run("index", "push"), 1)
    # As if the engine had answered once.
    access.grant(sent.resolve(), load_settings(sent).index, "me")
    assert "did not answer" in refused(run("recall", "tea"), 1)
    assert (
        "the search for similar memories failed"
        in succeeded(run("remember", "Rum", "Brown rum.")).err
    )
    write(sent, "memvault.toml", settings.replace("[index]", "[index]\nfallback = true"))
    ran = succeeded(run("recall", "rum", "-n", "1"))
    assert "Brown rum" in ran.out
    assert "this machine's own index was used" in ran.err
    write(sent, "memvault.toml", settings.replace("patience = 1\n", PATIENT))
    moved(sent, str(tmp_path / "engine.db"))
    assert "Brown rum" in succeeded(run("recall", "rum", "-n", "1")).out
    assert succeeded(run("index", "status", "--json")).json["documents"] == 3


@soak_only
@pytest.mark.promise("R51")
def test_milvus_vault_has_one_publishing_machine(
    sent: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second machine that claims the same id is refused, with a hint on how to get its own."""
    monkeypatch.setenv("MEMVAULT_STATE", str(tmp_path / "other-machine"))
    monkeypatch.setenv("MEMVAULT_CACHE", str(tmp_path / "other-cache"))
    said = refused(run("index", "push"), 1)
    assert "only one machine may publish it" in said
    succeeded(run("recall", "tea"))  # from this machine's own index, because no engine is allowed
    assert "Nothing was dropped" in succeeded(run("index", "drop")).out
    with monkeypatch.context() as first:
        for kind in ("STATE", "CACHE"):
            first.delenv(f"MEMVAULT_{kind}")
        assert succeeded(run("index", "status", "--json")).json["problem"] == ""
    settings = (sent / "memvault.toml").read_text("utf-8")
    kept = [line for line in settings.splitlines() if not line.startswith("vault")]
    write(sent, "memvault.toml", "\n".join(kept) + "\n")
    assert succeeded(run("index", "push", "--json")).json["documents"] == 2


@soak_only
def test_milvus_moved_vault_keeps_its_id(sent: Path, run: Run) -> None:
    """After moving the vault's folder, its owner can keep publishing it under the same ID."""
    moved = sent.rename(sent.with_name("moved"))
    assert "--take-over" in run("index", "push", cwd=moved).err
    told = succeeded(run("index", "push", "--take-over", "--json", cwd=moved)).json
    assert f'vault = "{told["vault"]}"' in (moved / "memvault.toml").read_text("utf-8")
    found = succeeded(run("recall", "tea", "--json", cwd=moved)).json["memories"]
    assert found[0]["title"] == "Tea"
    assert succeeded(run("index", "status", "--json", cwd=moved)).json["problem"] == ""


@pytest.mark.promise("R49")
def test_milvus_vault_can_be_taken_over_and_back(sent: Path, run: Run) -> None:
    """Taking over a vault resends all rows, because the other machine deleted its own."""
    copied = sent.with_name("copied")
    shutil.copytree(sent, copied)
    for folder in (copied, sent, copied):
        succeeded(run("index", "push", "--take-over", cwd=folder))
        found = succeeded(run("recall", "tea", "--json", cwd=folder)).json["memories"]
        assert found[0]["title"] == "Tea"
        assert succeeded(run("index", "status", "--json", cwd=folder)).json["problem"] == ""


@sampled(3)
@pytest.mark.promise("R48")
@pytest.mark.parametrize("kind", ["words", "passages", "memories"])
def test_milvus_push_restores_lost_rows(sent: Path, run: Run, kind: str) -> None:
    """If any rows are missing, status reports it and a push restores them."""
    line = f"client.load_collection('memvault_{kind}'); "
    line += f"client.delete('memvault_{kind}', filter='uid == 1')"
    elsewhere(sent.parent / "engine.db", line)
    assert "it lacks 1 of 2" in succeeded(run("index", "status")).out
    succeeded(run("index", "push"))
    assert succeeded(run("index", "status", "--json")).json["problem"] == ""
    assert "Green tea" in succeeded(run("recall", "tea", "-n", "1")).out


@soak_only
def test_milvus_drop_reports_if_nothing_was_dropped(sent: Path, run: Run) -> None:
    """If the engine has no rows of the vault, or no file yet, drop creates and removes nothing."""
    assert "Dropped this vault's rows" in succeeded(run("index", "drop")).out
    assert "does not publish this vault" in succeeded(run("index", "drop")).out
    succeeded(run("index", "push"))
    elsewhere(sent.parent / "engine.db", "client.drop_collection('memvault_memories')")
    assert "has no rows of this vault" in succeeded(run("index", "drop")).out
    moved(sent, str(sent.parent / "none.db"))
    assert "does not publish this vault" in succeeded(run("index", "drop")).out
    assert "There is no file" in refused(run("vaults", "add", "x", str(sent.parent / "none.db")), 1)
    assert not (sent.parent / "none.db").exists()


@pytest.mark.parametrize(
    "address",
    ["http://localhost:99999", "http://h:1/db?token=x", "http://", "http://h:1/#x", "http://[::1"],
)
def test_milvus_refuses_invalid_address(folder: Path, run: Run, address: str) -> None:
    """An invalid address is refused in settings and commands, without showing a secret in it."""
    write(folder, "memvault.toml", SETTINGS.format(address))
    for words in (("recall", "x"), ("index", "push"), ("list",)):
        assert "index.uri must be" in refused(run(*words), 3)
    write(folder, "memvault.toml", "version = 1\n")
    assert "index.uri must be" in refused(run("vaults", "add", "x", address), 2)


def test_milvus_invalid_token_is_reported(
    sent: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token with characters that a request can't carry is reported with its variable."""
    monkeypatch.setenv("MEMVAULT_MILVUS_TOKEN", "caf\u00e9")
    assert "MEMVAULT_MILVUS_TOKEN is not a valid token" in refused(run("index", "push"), 2)


@soak_only
def test_doctor_checks_files_during_engine_outage(sent: Path, run: Run) -> None:
    """With a fallback, problems in the folder are found and a note reports the outage."""
    (engine := sent.parent / "engine.db").rename(sent.parent / "aside")
    engine.write_text("junk", "utf-8")
    settings = (sent / "memvault.toml").read_text("utf-8")
    write(sent, "memvault.toml", settings.replace("patience = 60", "patience = 1\nfallback = true"))
    write(sent, "broken.md", "---\ntitle: [\n---\n")
    ran = run("doctor")
    assert "broken.md" in ran.out
    assert "this machine's own index was used" in ran.err


@pytest.mark.promise("S19")
def test_milvus_refuses_password_in_address(folder: Path, run: Run) -> None:
    """A password in an address is refused, because every message would show it."""
    write(folder, "memvault.toml", SETTINGS.format("http://root:Milvus@127.0.0.1:1"))
    assert "Milvus@" not in run("list").err
    assert "password" in refused(run("vaults", "add", "t", "http://root:x@127.0.0.1:1"), 2)


@soak_only
def test_milvus_recreates_dropped_collection(sent: Path, run: Run) -> None:
    """If someone dropped the collections, the next recall sends everything again."""
    assert refused(run("index", "drop", "--all"), 1).endswith("nothing was changed")
    elsewhere(sent.parent / "engine.db", "client.drop_collection('memvault_words')")
    assert "Green tea" in succeeded(run("recall", "tea", "-n", "1")).out
    assert succeeded(run("index", "status", "--json")).json["rows"]["words"] == 2


def test_doctor_compares_engine_with_files(sent: Path, run: Run) -> None:
    """Doctor and status report rows missing from the engine, and --fix sends them again."""
    line = "client.delete('memvault_words', filter='uid == 1')"
    elsewhere(sent.parent / "engine.db", f"client.load_collection('memvault_words'); {line}")
    said = run("doctor")
    assert "it lacks 1 of 2 memories" in said.out
    assert "it lacks 1 of 2 memories" in succeeded(run("index", "status")).out
    assert "Fixed" in run("doctor", "--fix").out
    assert "lacks" not in run("doctor").out
    assert succeeded(run("index", "status", "--json")).json["rows"]["words"] == 2


def test_milvus_drop_removes_vault(sent: Path, run: Run) -> None:
    """After a drop, recall answers locally and the engine contains no rows of the vault."""
    succeeded(run("index", "drop"))
    ran = succeeded(run("recall", "tea", "-n", "1"))
    assert "Green tea" in ran.out
    assert "is not contacted before `memvault index push`" in ran.err


def test_milvus_leaves_collection_with_other_schema_unchanged(
    folder: Path, tmp_path: Path, run: Run
) -> None:
    """A collection with another schema is reported, with how to recreate it."""
    file = tmp_path / "engine.db"
    elsewhere(file, "client.create_collection('memvault_words', dimension=8)")
    write(folder, "memvault.toml", SETTINGS.format(file) + PATIENT)
    said = refused(run("index", "push"), 1)
    assert "does not have this version's schema" in said


@soak_only
def test_milvus_long_texts_are_split_without_loss(sent: Path, run: Run) -> None:
    """Text beyond the engine's limit is split, never cut, and no word in any script is lost."""
    words = " ".join(f"w{number}{'x' * 90}" for number in range(900))
    write(sent, "long.md", f"{words} 数据库 naïve last{'y' * 200}\n")
    for query in (f"w5{'x' * 90}", f"w899{'x' * 90}", "数据库", "naive", f"last{'y' * 200}"):
        found = succeeded(run("recall", query, "--mode", "keyword", "--json")).json["memories"]
        assert found[0]["filePath"] == "long.md", query


@pytest.mark.parametrize("uri", ["nowhere", "", "relative/engine.db"])
def test_milvus_invalid_address_is_usage_error(folder: Path, run: Run, uri: str) -> None:
    """A missing or wrong address is a usage error before anything is sent."""
    write(folder, "memvault.toml", SETTINGS.format(uri))
    assert "address" in refused(run("index", "push"), 2)


def test_milvus_commands_without_engine_show_setup(folder: Path, run: Run) -> None:
    """If no engine is configured, the commands show which setting to add."""
    write(folder, "a.md", "x\n")
    for command in ("push", "status", "drop"):
        assert "No engine is configured" in refused(run("index", command), 2)


LONG = st.text(min_size=1, max_size=4).map(lambda text: text * 60)


@given(st.text(min_size=1, max_size=60) | LONG, st.sampled_from(["title", "body", "identifier"]))
def test_milvus_term_encoding_is_alphanumeric_and_unique(term: str, field: str) -> None:
    """Any term is encoded as a single word for every analyzer, and no two terms alike."""
    made = keyword_rows.encode_term(field, term)
    assert made.isascii()
    assert made.isalnum()
    assert made == made.lower()
    assert made != keyword_rows.encode_term("tags", term)
    assert made != keyword_rows.encode_term(field, f"{term}x")
    assert len(made) < 200
