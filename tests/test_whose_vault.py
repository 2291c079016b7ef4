"""Whose vault and whose settings count: another user's only once they are named or trusted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Run, refused, titles, write
from memvault import open_vault
from memvault.errors import VaultUnreadable

_STRANGER = 12345
UNKNOWN = """
import pwd, sys
pwd.getpwuid = lambda number: {}[number]  # as where the system does not know the user
from memvault.__main__ import main
sys.exit(main())
"""


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


def test_a_user_without_a_home_has_no_folders(folder: Path, tmp_path: Path) -> None:
    """Where nobody knows the user's home, the index lies below the temporary folder."""
    write(folder, "a.md", "# A\n\nzebra\n")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", UNKNOWN, "--vault", ".", "recall", "zebra", "--json"],
        cwd=folder,
        env={"TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert titles(json.loads(done.stdout)) == ["A"]
    assert list(temporary.rglob("manifest.db"))


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
    assert "absolute paths" in refused(run("list", cwd=foreign), 2)


@pytest.mark.parametrize("place", ["", "deep"])
def test_own_settings_trust_no_other_users_folder(foreign: Path, run: Run, place: str) -> None:
    """One's own memvault.toml in another user's folder does not make the vault one's own."""
    os.chown(foreign / "memvault.toml", os.geteuid(), os.getegid())
    assert "belongs to another user" in refused(run("list", cwd=foreign / place), 3)
    assert run("list", "--vault", str(foreign)).code == 0
    assert run("vaults", "trust", str(foreign)).code == 0
    assert run("list", cwd=foreign / place).code == 0


def test_a_folder_as_open_as_tmp_is_nobodys_own(folder: Path, run: Run, tmp_path: Path) -> None:
    """In a sticky folder that everybody writes to, and below it, no vault is used unasked."""
    (inner := folder / "deep").mkdir()
    folder.chmod(0o1777)
    for place in (folder, inner):
        said = refused(run("list", cwd=place), 3)
        assert "lies in a folder that every user can write to" in said
        assert run("list", "--vault", str(folder), cwd=place).code == 0
    folder.chmod(0o775)
    assert run("list", cwd=inner).code == 0
    write(own := tmp_path / "open" / "own", "memvault.toml", "version = 1\n")
    own.parent.chmod(0o1777)
    assert run("list", cwd=own).code == 0


def test_what_another_user_put_into_tmp_is_not_ones_own(foreign: Path, run: Run) -> None:
    """A vault that somebody else made in a sticky folder is refused to whoever works below it."""
    foreign.chmod(0o1777)
    (mine := foreign / "mine").mkdir()
    assert "belongs to another user" in refused(run("list", cwd=mine), 3)
