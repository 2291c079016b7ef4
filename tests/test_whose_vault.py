"""A stranger's vault: whose settings count, which models are loaded, how much is read."""

from __future__ import annotations

import ast
import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from conftest import ROOT, Run, child, refused, titles, write
from memvault import Vault, open_vault
from memvault.errors import VaultUnreadable
from memvault.index import permitted
from memvault.plain_files import MEMORY, SETTING
from test_embedders import make_model
from test_imports import NEVER, among, loaded

_STRANGER = 12345


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A vault that belongs to another user, with a memory and a folder below it."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a vault away")
    root = tmp_path / "theirs"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "a.md", "# A\n\nzebra\n")
    write(root, "deep/b.md", "# B\n\nwombat\n")
    for path in (root, *root.rglob("*")):
        os.chown(path, _STRANGER, _STRANGER)
    return root


def test_another_users_vault_is_used_only_when_it_is_named(
    foreign: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found above the present folder it is refused with what to type; named it is used."""
    for place in (foreign, foreign / "deep"):
        said = refused(run("list", cwd=place), 3)
        assert "belongs to another user" in said
    assert f"memvault vaults trust {foreign}" in run("list", cwd=foreign).err
    assert run("list", "--vault", ".", cwd=foreign).code == 0
    monkeypatch.chdir(foreign)
    with pytest.raises(VaultUnreadable):
        open_vault()
    monkeypatch.setenv("MEMVAULT_VAULT", str(foreign))
    assert run("list", cwd=foreign / "deep").code == 0


def test_another_users_vault_can_be_trusted(foreign: Path, run: Run, tmp_path: Path) -> None:
    """What vaults trust adds to the user's own settings counts until vaults untrust takes it."""
    settings = write(tmp_path, "config/memvault/settings.toml", "# mine\n[vaults]\ntrusted = []\n")
    settings.chmod(0o600)
    assert run("vaults", "trust", str(foreign), "--json").json["trusted"] == [str(foreign)]
    assert run("list", cwd=foreign / "deep").code == 0
    assert settings.read_text("utf-8").startswith("# mine\n")
    assert run("vaults", "trust", str(foreign)).code == 0
    assert run("vaults", "untrust", str(foreign), "--json").json["trusted"] == []
    assert run("list", cwd=foreign).code == 3
    assert "not a trusted vault" in refused(run("vaults", "untrust", str(foreign)), 1)
    refused(run("vaults", "trust", str(tmp_path / "nothing")), 3)
    refused(run("vaults", "trust"), 2)


def test_a_callers_vault_is_roots_own_too(foreign: Path, run: Run) -> None:
    """With sudo, the vault of whoever called it is no other user's."""
    os.environ["SUDO_UID"] = str(_STRANGER)
    try:
        assert run("list", cwd=foreign).code == 0
    finally:
        del os.environ["SUDO_UID"]


def test_settings_are_not_read_through_a_link(folder: Path, run: Run, tmp_path: Path) -> None:
    """A memvault.toml that is a link says so, and shows nothing of what it leads to."""
    secret = write(tmp_path, "secret.toml", "key = 'periwinkle'\n")
    (folder / "memvault.toml").unlink()
    (folder / "memvault.toml").symlink_to(secret)
    said = refused(run("list"), 3)
    assert "it is a link" in said
    assert "periwinkle" not in said


def _sparse(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.truncate(size)


def test_settings_have_a_largest_size(folder: Path, run: Run) -> None:
    """A memvault.toml that is larger than a megabyte is named, not read."""
    _sparse(folder / "memvault.toml", 20 << 30)
    assert "larger than 1 MB" in refused(run("list"), 3)


def test_a_huge_file_is_a_problem_of_its_own(folder: Path, run: Run) -> None:
    """A sparse file of 20 GB among the memories hides none of them, and status names it."""
    write(folder, "a.md", "# A\n\nzebra\n")
    _sparse(folder / "huge.md", 20 << 30)
    assert titles(run("recall", "zebra", "--json").json) == ["A"]
    assert {entry["filePath"] for entry in run("list", "--json").json["memories"]} == {
        "a.md",
        "huge.md",
    }
    (problem,) = run("status", "--json").json["problems"]
    assert problem["filePath"] == "huge.md"
    assert "larger than 64 MB" in problem["problem"]
    assert "larger than 64 MB" in refused(run("show", "huge.md"), 1)
    assert run("forget", "huge.md", "--confirm", "true").code == 1


def test_a_memory_may_be_as_large_as_the_limit(folder: Path) -> None:
    """The limit is a limit of memories, not of what is reasonable: just below it all is found."""
    assert MEMORY == 64 << 20
    assert SETTING == 1 << 20
    write(folder, "a.md", "# A\n\nzebra\n" + "lorem ipsum\n" * 100_000)
    with open_vault(folder) as vault:
        assert titles(vault.call("memory_recall", query="zebra")) == ["A"]


_STATES = (
    ".memvault/access.json",
    ".memvault/talk-id",
    ".memvault/agents/main/active.json",
    ".memvault/agents/main/plans.json",
    ".memvault/agents/main/talks.json",
    ".memvault/agents/main/space",
)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b"[]",
        b"{}",
        b"null",
        b"\xff\0",
        b"",
        b"9" * 6_000,
        b'{"plans": 5, "pieces": 5, "sent": 5}',
        b'{"plans": {"a": {"next": 9e999}}, "heard": [[1]], "m1": {"count": 9e999}}',
    ],
    ids=range(9),
)
def test_whatever_state_a_vault_brings_along_breaks_no_tool(
    folder: Path, vault: Vault, data: bytes
) -> None:
    """Files of the program's own in a stranger's vault may hold anything, and be of any size."""
    write(folder, "fact/a.md", "---\nid: m1\n---\n\n# A\n\nzebra\n")
    for path in _STATES:
        write(folder, path, data)
    for tool, arguments in (
        ("memory_recall", {"query": "zebra"}),
        ("recall_fact", {"query": "zebra"}),
        ("memory_load", {"memId": "m1"}),
        ("memory_active", {}),
        ("set_plans", {"plans": [{"name": "p", "instruction": "i", "runAfter": "1 day"}]}),
        ("get_plans", {}),
        ("talk_user", {"message": "x"}),
        ("enter_space", {"spaceId": "team"}),
        ("send_message", {"text": "x"}),
        ("peek_inbox", {}),
        ("context", {}),
        ("vault_status", {}),
    ):
        found = vault.call(tool, **arguments)
        assert found["success"], (tool, found)
    for path in _STATES:
        shutil.rmtree(folder / path, ignore_errors=True)
        (folder / path).unlink(missing_ok=True)
        _sparse(folder / path, 20 << 30)
    named = {entry["filePath"] for entry in vault.call("vault_status")["problems"]}
    assert named == {path for path in _STATES if path.endswith(".json")}
    assert vault.call("recall_fact", query="zebra")["success"]
    assert vault.call("talk_user", message="x")["success"]
    assert vault.call("context")["success"]


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
    assert status["embedder"]["name"] == "builtin"
    assert note in status["warnings"]
    assert "not allowed" in refused(run("model", "verify"), 1)


def test_a_vaults_model_is_loaded_once_its_user_allows_it(cloned: Path, run: Run) -> None:
    """After model use it counts, until one of its files changes; then it has to be allowed anew."""
    assert run("model", "use", "models/tiny", "--json").json["dimension"] == 8
    assert run("status", "--json").json["embedder"]["name"] == "models/tiny"
    assert "warnings" not in run("recall", "zebra", "--json").json
    config = cloned / "models" / "tiny" / "config.json"
    config.write_text(json.dumps({"pad_token_id": 1}), "utf-8")
    assert "memvault model use models/tiny" in run("recall", "zebra", "--json").json["warnings"][0]
    assert among(loaded(cloned, "recall", "zebra", "--quiet"), NEVER) == []
    assert run("model", "use", "models/tiny").code == 0
    assert "warnings" not in run("recall", "zebra", "--json").json
    write(cloned, "models/tiny/more.bin", "x")
    assert not permitted.is_allowed("models/tiny", cloned)


def test_a_copy_of_a_vault_has_to_be_allowed_too(cloned: Path, run: Run, tmp_path: Path) -> None:
    """What a user allowed is for one vault on one machine."""
    assert run("model", "use", "models/tiny").code == 0
    copy = tmp_path / "copy"
    shutil.copytree(cloned, copy)
    assert permitted.is_allowed("models/tiny", cloned)
    assert not permitted.is_allowed("models/tiny", copy)


def test_a_folder_cannot_pass_for_a_models_name(folder: Path, run: Run) -> None:
    """A folder of the vault with the name of one of fastembed's models is not loaded either."""
    make_model(folder / "BAAI" / "bge-small-en-v1.5")
    write(folder, "memvault.toml", '[embedder]\nmodel = "BAAI/bge-small-en-v1.5"\n')
    write(folder, "a.md", "# A\n\nzebra\n")
    assert "not allowed" in run("recall", "zebra", "--json").json["warnings"][0]


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
    assert run("status", "--json").json["embedder"]["name"] == str(model)
    write(folder, "memvault.toml", '[embedder]\nmodel = "builtin"\n')
    assert run("status", "--json").json["embedder"]["name"] == "builtin"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[vaults", "not valid TOML"),
        ("[vaults]\ntrusted = 5\n", "must be a list of folders"),
        ("vaults = 5\n", "must be a [vaults] table"),
        ("[embedder]\nmodel = 5\n", "must be a name or a folder"),
    ],
)
def test_broken_settings_of_ones_own_are_named(
    folder: Path, run: Run, tmp_path: Path, text: str, said: str
) -> None:
    """The user's own settings are wrong usage with one sentence that names the file."""
    settings = write(tmp_path, "config/memvault/settings.toml", text)
    settings.chmod(0o600)
    write(folder, "a.md", "# A\n\nzebra\n")
    sentence = refused(run("recall", "zebra"), 2)
    assert said in sentence
    assert str(settings) in sentence


def test_settings_that_others_may_have_written_do_not_count(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings that others can write, or that lie in a vault, are refused and not obeyed."""
    settings = write(tmp_path, "config/memvault/settings.toml", "[vaults]\ntrusted = []\n")
    settings.chmod(0o666)
    write(folder, "a.md", "# A\n\nzebra\n")
    with open_vault(folder) as vault:
        found = vault.call("memory_recall", query="zebra")
        assert "Others can write" in found["error"]["message"]
        monkeypatch.setenv("MEMVAULT_CONFIG", str(folder / ".config"))
        assert vault.call("memory_recall", query="zebra")["success"]
        write(folder, ".config/settings.toml", "[vaults]\ntrusted = []\n")
    with open_vault(folder) as vault:
        found = vault.call("memory_recall", query="zebra")
        assert "lie in the vault" in found["error"]["message"]


_WRITERS = {
    "vault/atomic.py": "the one way to write",
    "vault/lock.py": "a lock's file, never through a link",
    "index/place.py": "the same",
    "index/vectors.py": "rows in the index's own folder",
    "cli/streams.py": "the empty device",
    "mcp_server/wire.py": "the empty device",
}
"""Modules that may open a file for writing, and what for."""


def _writes(tree: ast.AST) -> list[int]:
    """Return the lines on which a file may be opened for writing, or made."""
    lines = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        texts = [
            entry.value
            for entry in (*node.args, *(word.value for word in node.keywords))
            if isinstance(entry, ast.Constant) and isinstance(entry.value, str)
        ]
        base = getattr(getattr(node.func, "value", None), "id", "")
        mode = name in ("open", "fdopen") and any(set(text) & set("wax+") for text in texts[-1:])
        if name in ("write_text", "write_bytes", "touch", "mkstemp", "mkdtemp") or (
            mode or (base == "os" and name == "open")
        ):
            lines.append(node.lineno)
    return lines


def test_there_is_one_way_to_write() -> None:
    """No other module opens files for writing, or makes temporary ones with a name to guess."""
    found = {
        path.relative_to(ROOT / "src" / "memvault").as_posix()
        for path in (ROOT / "src" / "memvault").rglob("*.py")
        if _writes(ast.parse(path.read_text("utf-8")))
    }
    assert found <= _WRITERS.keys() | {"plain_files.py", "tools/covering.py"}, found
    assert "vault/atomic.py" in found


def test_a_link_with_a_temporary_files_name_is_not_followed(
    folder: Path, run: Run, tmp_path: Path
) -> None:
    """No write of the program goes through a name that somebody can know beforehand."""
    mine = write(tmp_path, "mine.txt", "mine")
    write(folder, "a.md", "# A\n\nzebra\n")
    for name in ("index/seal.json.tmp", "index/manifest.db", "access.json.tmp", "talk-id.tmp"):
        link = folder / ".memvault" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(mine)
    assert run("recall", "zebra").code == 0
    assert run("talk", "user", "Hello").code == 0
    assert mine.read_text("utf-8") == "mine"


@pytest.mark.parametrize("section", ["embedder", "rerank"])
def test_no_vault_has_a_say_in_a_name_of_ones_own(
    folder: Path, run: Run, tmp_path: Path, section: str
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
        assert "not on this machine" in run("status", "--json").json["embedder"]["problem"]
    assert "not on this machine" in run("model", "verify", name["embedder"]).err


def test_a_model_is_looked_at_when_it_is_loaded(cloned: Path) -> None:
    """A model that changes while a vault is open is not loaded after that."""
    with open_vault(cloned) as vault:
        assert vault.call("model_use", name="models/tiny")["success"]
    with open_vault(cloned) as vault:
        assert vault.call("vault_status")["embedder"]["name"] == "models/tiny"
        write(cloned, "models/tiny/config.json", json.dumps({"pad_token_id": 1}))
        found = vault.call("memory_recall", query="zebra")
        assert "memvault model use models/tiny" in found["warnings"][0]
        assert vault.call("vault_status")["embedder"]["name"] == "builtin"


def test_a_model_folder_with_a_linked_one_is_not_allowed(cloned: Path, run: Run) -> None:
    """What could change unseen behind a link cannot be allowed."""
    (cloned / "models" / "tiny" / "more").symlink_to(cloned)
    assert "is a link" in refused(run("model", "use", "models/tiny"), 1)


def test_trusting_a_vault_works_whatever_the_umask(foreign: Path, run: Run) -> None:
    """Settings that memvault writes are its user's alone, so that they count."""
    before = os.umask(0o002)
    try:
        assert run("vaults", "trust", str(foreign)).code == 0
        assert run("list", cwd=foreign).code == 0
    finally:
        os.umask(before)


def test_a_folder_of_ones_own_has_a_whole_path(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that would be another one in each folder is refused."""
    monkeypatch.setenv("MEMVAULT_CACHE", "cache")
    assert "MEMVAULT_CACHE" in refused(run("recall", "zebra"), 2)


@pytest.mark.parametrize(
    "text",
    [
        "a." * 400_000 + "a = 1\n",
        f"[{'a.' * 400_000}a]\n",
        f"x = {{ {'a.' * 400_000}a = 1 }}\n",
        f"ignore = ['{'*a' * 400_000}']\n",
        f"version = {'9' * 900_000}\n",
    ],
    ids=["key", "table", "inline", "ignore", "number"],
)
def test_no_settings_stall(folder: Path, run: Run, text: str) -> None:
    """Settings of a megabyte that would take minutes to read are refused at once."""
    write(folder, "memvault.toml", text)
    began = time.monotonic()
    assert "memvault.toml" in refused(run("list"), 3)
    assert time.monotonic() - began < 20


def test_unknown_settings_do_not_flood(folder: Path, run: Run) -> None:
    """Of thousands of unknown settings the first few are named, and how many more there are."""
    write(folder, "memvault.toml", "".join(f"a{number} = 1\n" for number in range(3_000)))
    warnings = run("list", "--json").json["warnings"]
    assert len(warnings) == 11
    assert "2,990 more" in warnings[-1]


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


def test_a_user_without_a_home_has_no_folders(folder: Path, tmp_path: Path) -> None:
    """Where nobody knows the user's home, the index lies below the temporary folder."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can become a user that the system does not know")
    write(folder, "a.md", "# A\n\nzebra\n")
    for path in (tmp_path, *tmp_path.parents):
        path.chmod(path.stat().st_mode | 0o755)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    user = ["setpriv", f"--reuid={_STRANGER}", f"--regid={_STRANGER}", "--clear-groups"]
    paths = [f"PYTHONPATH={ROOT / 'src'}{os.pathsep}{os.pathsep.join(filter(None, sys.path))}"]
    prefix = [*user, "env", "-i", f"TMPDIR={temporary}", *paths]
    ran = child(folder, "--vault", ".", "recall", "zebra", "--json", prefix=prefix)
    if "ermission denied" in ran.err and "python" in ran.err:
        pytest.skip("another user may not run this Python")
    assert ran.code == 0, ran
    assert titles(ran.json) == ["A"]


def test_trusted_vaults_have_whole_paths(
    foreign: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vault may be trusted by a path from one's home, never by one that depends on the folder."""
    text = '[vaults]\ntrusted = [\n  "~/theirs",  # theirs\n]\n'
    settings = write(tmp_path, "config/memvault/settings.toml", text)
    settings.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run("list", cwd=foreign).code == 0
    settings.write_text('[vaults]\ntrusted = [\n  "/srv/a",  # kept\n]\n', "utf-8")
    assert run("vaults", "trust", str(foreign)).code == 0
    assert "# kept" in settings.read_text("utf-8")
    settings.write_text('[vaults]\ntrusted = ["."]\n', "utf-8")
    assert "whole paths" in refused(run("list", cwd=foreign), 2)
