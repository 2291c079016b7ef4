"""Several vaults answer as one, and another user's vault counts only if named or trusted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, called, index_of, refused, succeeded, titles, write
from memvault import Vault, open_vault
from memvault.call import Call, Caller
from memvault.errors import VaultUnreadable
from memvault.index.local.index_files import INDEX
from memvault.index.local.manifest import Manifest
from memvault.index.protocol import MemoryRecord
from memvault.model import Memory
from memvault.recall.filters import Filters
from memvault.workspace import Workspace

HEAD = "---\nid: {}\ntitle: {}\nmemory_type: fact\n---\n\n{}\n"
WORK = {
    "retries": ("Retries need a cap", "Without a cap retries storm the database."),
    "deploys": ("Deploys on Monday", "Deploys run on Monday at ten."),
    "oncall": ("On call", "Mira is on call this week."),
}
HOME = {
    "garden": ("The garden", "Tomatoes need a stake by June."),
    "bread": ("Bread", "Let the dough rest for a night."),
    "database": ("Recipes", "The database of recipes is a shoe box."),
}


def filled(folder: Path, notes: dict[str, tuple[str, str]]) -> Path:
    """Create a vault with these notes."""
    write(folder, "memvault.toml", "version = 1\n")
    for name, (title, text) in notes.items():
        write(folder, f"fact/{name}.md", HEAD.format(f"{name}-7k2m9q", title, text))
    return folder


@pytest.fixture
def places(tmp_path: Path, run: Run) -> dict[str, Path]:
    """Two vaults with names, and their folders."""
    found = {
        "work": filled(tmp_path / "work", WORK),
        "home": filled(tmp_path / "house", HOME),
    }
    for name, folder in found.items():
        succeeded(run("vaults", "add", name, str(folder)))
    return found


@pytest.fixture
def work(places: dict[str, Path]) -> Iterator[Vault]:
    """The current vault."""
    with open_vault(places["work"]) as vault:
        yield vault


def found(vault: Vault, query: str, *vaults: str, **more: Any) -> list[tuple[str, str]]:
    """A recall's results: vault and memId, best first."""
    result = called(vault, "memory_recall", query=query, vaults=list(vaults), **more)
    return [(entry["vault"], entry["memId"]) for entry in result["memories"]]


def test_recall_across_vaults_ranks_best_first(work: Vault) -> None:
    """The best answer of all vaults comes first, and each result has its vault."""
    assert found(work, "when do deploys run", "work", "home")[0] == ("work", "deploys-7k2m9q")
    assert found(work, "how long does the dough rest", "all")[0] == ("home", "bread-7k2m9q")
    assert {vault for vault, _ in found(work, "database", "all")} == {"work", "home"}
    for mode in ("keyword", "vector"):
        assert ("home", "garden-7k2m9q") in found(work, "tomatoes stake", "all", type=mode)


def matches(found: list[dict[str, Any]]) -> list[str]:
    """Return the memIds of results that match the query, omitting the nearest-results minimum."""
    return [entry["memId"] for entry in found if entry["strength"] != "weak"]


def test_scores_across_vaults_equal_a_merged_vault(
    work: Vault, places: dict[str, Path], tmp_path: Path
) -> None:
    """Matches across vaults have the order and scores of a single vault with all memories."""
    both = filled(tmp_path / "both", {**WORK, **HOME})
    with open_vault(both) as one:
        for query in ("database retries", "dough for a night", "who is on call", "monday"):
            whole = called(one, "memory_recall", query=query)["memories"]
            parts = called(work, "memory_recall", query=query, vaults=["all"])["memories"]
            known = {entry["memId"]: entry for entry in whole}
            assert len(parts) == len(whole)
            assert matches(parts) == matches(whole)
            others = [part for part in parts if part["memId"] not in known]
            assert not matches(others)  # weak results nearly tie, because mean field lengths differ
            assert len(others) <= 1
            for part in parts:
                if part in others:
                    continue
                entry = known[part["memId"]]
                assert part["score"] == pytest.approx(entry["score"], abs=0.05), query
                assert part["strength"] == entry["strength"]


def test_supersedes_does_not_cross_vaults(work: Vault, places: dict[str, Path]) -> None:
    """A superseded name in one vault does not affect the same name in another vault."""
    write(places["home"], "fact/oncall.md", HEAD.format("own-1a2b3c", "On call", "On call: Bo."))
    new = HEAD.format("new-1a2b3c", "On call now", "On call: Ana.").replace(
        "memory_type", "supersedes: On call\nmemory_type"
    )
    write(places["home"], "fact/new.md", new)
    shown = called(work, "memory_recall", query="on call", vaults=["all"])["memories"]
    marks = {entry["memId"]: entry.get("supersededBy", "") for entry in shown}
    assert marks["own-1a2b3c"] == "new-1a2b3c"
    assert marks["oncall-7k2m9q"] == ""


def test_supersession_is_checked_within_each_vault(work: Vault, places: dict[str, Path]) -> None:
    """A memory is superseded only by memories of the same vault."""
    write(places["home"], "fact/oncall.md", HEAD.format("own-1a2b3c", "On call", "On call: Bo."))
    new = HEAD.format("new-1a2b3c", "On call now", "x").replace(
        "---\n\n", "supersedes: On call\n---\n\n"
    )
    write(places["home"], "fact/new.md", new)
    workspace = Workspace(places["work"])
    call = Call(workspace)
    engine = call.federated_engine(places)
    entries: list[Memory | MemoryRecord] = [
        call.store.read("fact/retries.md"),
        *engine.list_records(Filters()),
    ]
    checked = zip(entries, engine.validities(entries), strict=True)
    replaced = [entry.path for entry, validity in checked if not validity.is_current]
    workspace.close()
    assert replaced == ["fact/oncall.md"]


def test_missing_vault_is_reported_and_the_rest_answer(
    work: Vault, places: dict[str, Path]
) -> None:
    """The other vaults answer, and a note says which one is missing and why."""
    (places["home"] / "memvault.toml").unlink()
    result = called(work, "memory_recall", query="deploys", vaults=["all"])
    assert result["memories"][0]["vault"] == "work"
    assert any("home was not searched" in note for note in result["warnings"])


@pytest.mark.promise("R50")
@pytest.mark.parametrize("page", [0, 1, 2, 5])
@pytest.mark.parametrize("moment", ["", "2999-01-01"])
def test_damaged_index_of_another_vault_is_repaired(
    places: dict[str, Path], page: int, moment: str
) -> None:
    """With any damage to an index, all vaults return the same answer, now and next time."""
    asked = {"query": "dough", "vaults": ["all"], **({"asOf": moment} if moment else {})}
    with open_vault(places["work"]) as vault:
        before = called(vault, "memory_recall", **asked)["memories"]
    manifest = index_of(places["home"]) / INDEX / "manifest.db"
    with manifest.open("r+b") as file:
        file.seek(4096 * page)
        file.write(b"\xff" * 4096)
    for _ in range(2):
        with open_vault(places["work"]) as vault:
            assert called(vault, "memory_recall", **asked)["memories"] == before


@pytest.mark.promise("R50")
def test_index_replaced_during_query_does_not_affect_answer(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process rebuilds one vault's index, all vaults still answer."""
    with open_vault(places["home"]) as home:
        called(home, "memory_list")
    own, replaced = Manifest.known, list[bool]()

    def known(self: Manifest) -> Any:
        if not replaced and self.count() == len(HOME):
            replaced.append(True)
            with open_vault(places["home"]) as home:
                called(home, "vault_reindex")
        return own(self)

    with open_vault(places["work"]) as vault:
        called(vault, "memory_remember", title="Four", content="A fourth.", memoryType="fact")
        called(vault, "memory_list")
        monkeypatch.setattr(Manifest, "known", known)
        found = called(vault, "memory_recall", query="dough", vaults=["all"])["memories"]
    assert replaced
    assert found[0]["memId"] == "bread-7k2m9q"


def test_filters_without_query_list_matches_of_all_vaults(work: Vault) -> None:
    """Without a query, the memories of all vaults that pass the filters are listed in pages."""
    result = called(work, "memory_recall", memoryType="fact", vaults=["all"], limit=4)
    assert (result["total"], result["next"], len(result["memories"])) == (6, 4, 4)
    assert {entry["vault"] for entry in result["memories"]} <= {"work", "home"}
    brief = called(work, "memory_recall", query="dough", vaults=["home"], brief=True)["brief"]
    assert "(home:bread-7k2m9q" in brief[0]


def test_edits_in_any_vault_are_seen_immediately(work: Vault, places: dict[str, Path]) -> None:
    """An edit in another vault is in the next answer."""
    write(places["home"], "fact/new.md", HEAD.format("kiln-1a2b3c", "Kiln", "The kiln is hot."))
    assert found(work, "kiln", "all")[0] == ("home", "kiln-1a2b3c")
    (places["home"] / "fact/new.md").unlink()
    assert ("home", "kiln-1a2b3c") not in found(work, "kiln", "all")


def test_vault_prefix_selects_memory_in_another_vault(work: Vault, places: dict[str, Path]) -> None:
    """NAME:MEMID works in place of any memId, and the tool runs in that vault."""
    shown = called(work, "memory_show", memId="home:bread-7k2m9q")
    assert (shown["vault"], shown["title"]) == ("home", "Bread")
    called(work, "memory_compound", query="home:bread", modifications="Salt it.")
    assert "Salt it." in (places["home"] / "fact/bread.md").read_text("utf-8")
    refusal = work.call("memory_delete", ids=["home:bread-7k2m9q", "oncall-7k2m9q"])
    assert "several vaults" in refusal["error"]["message"]
    called(work, "memory_forget", query="home:garden-7k2m9q", confirm=True)
    assert not (places["home"] / "fact/garden.md").exists()


def test_displayed_vault_prefix_is_accepted(
    run: Run, places: dict[str, Path], tmp_path: Path
) -> None:
    """this: means the current vault, and commands also accept another vault's memories."""
    plain = filled(tmp_path / "plain", WORK)
    for name in ("this:oncall-7k2m9q", "work:oncall-7k2m9q"):
        assert "Mira" in succeeded(run("show", name, cwd=plain)).out
    assert succeeded(run("path", "this:oncall-7k2m9q", cwd=plain)).out.startswith(str(plain))
    shown = succeeded(run("path", "home:bread-7k2m9q", cwd=plain)).out
    assert shown.strip() == str(places["home"] / "fact/bread.md")
    gone = succeeded(run("delete", "home:bread-7k2m9q", cwd=plain))
    assert "this changed the vault home" in gone.err
    succeeded(run("--vault", "home", "undo", cwd=plain))
    assert (places["home"] / "fact/bread.md").exists()


def test_error_about_another_vaults_engine_hides_path(places: dict[str, Path]) -> None:
    """If another vault's engine is missing, the error does not contain the engine's path."""
    engine = '[index]\nengine = "milvus"\nuri = "/srv/private/x.db"\n'
    write(places["home"], "memvault.toml", f"version = 1\n{engine}")
    workspace = Workspace(places["work"])
    said = "The engine at /srv/private/x.db does not answer"
    assert Call(workspace, Caller(may_see_paths=True)).hide_paths(said) == said
    told = Call(workspace, Caller(may_see_paths=False)).hide_paths(said)
    workspace.close()
    assert told == "The engine at a file on this machine does not answer"


def test_title_with_colon_is_not_a_vault_prefix(work: Vault, places: dict[str, Path]) -> None:
    """A prefix selects a vault only if it is a known name directly followed by a colon."""
    write(places["work"], "fact/x.md", HEAD.format("x-1a2b3c", '"home: a plan"', "Text."))
    assert called(work, "memory_show", memId="home: a plan")["memId"] == "x-1a2b3c"
    assert not work.call("memory_show", memId="nowhere:x-1a2b3c")["success"]


def test_recall_includes_the_default_vault(run: Run, places: dict[str, Path]) -> None:
    """Recall also searches the default vault, unless --vaults this is given."""
    succeeded(run("vaults", "default", "home"))
    folder = places["work"]
    asked = ("recall", "dough", "--vault", str(folder), "--json")
    assert run(*asked).json["memories"][0]["vault"] == "home"
    alone = run(*asked, "--vaults", "this").json["memories"]
    assert "home" not in {entry["vault"] for entry in alone}
    succeeded(run("vaults", "default"))
    assert all("vault" not in entry for entry in run(*asked).json["memories"])


@pytest.mark.usefixtures("places")
def test_named_vaults_work_outside_any_vault(run: Run, tmp_path: Path) -> None:
    """--vaults and NAME:MEMORY need no current vault; other words are not read as vault names."""
    recalled = succeeded(run("recall", "bread", "--vaults", "home,work", "--json", cwd=tmp_path))
    assert recalled.json["memories"][0]["title"] == "Bread"
    assert {entry["vault"] for entry in recalled.json["memories"]} == {"home", "work"}
    assert "Bread" in succeeded(run("show", "home:Bread", cwd=tmp_path)).out
    assert succeeded(run("path", "home:Bread", cwd=tmp_path)).out.startswith(str(tmp_path))
    refused(run("recall", "home: bread", cwd=tmp_path), 3)
    refused(run("recall", "bread", "--vaults", "nowhere", cwd=tmp_path), 3)


@pytest.mark.parametrize("names", ["all", "work,home"])
def test_missing_named_vault_is_only_noted_outside_any_vault(
    run: Run, places: dict[str, Path], tmp_path: Path, names: str
) -> None:
    """A search of several vaults outside any vault skips those whose folder is missing."""
    places["work"].rename(tmp_path / "moved")
    ran = succeeded(run("recall", "bread", "--vaults", names, cwd=tmp_path))
    assert "Bread" in ran.out
    assert "the vault work was not searched" in ran.err


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("memory_recall", '{"query": "x", "vaults": [1]}', "vault_not_found"),
        ("memory_delete", '{"ids": [1, "a:b"]}', "usage"),
    ],
)
def test_numbers_instead_of_names_are_refused(
    run: Run, places: dict[str, Path], tool: str, arguments: str, code: str
) -> None:
    """A number instead of the name of a vault or a memory is reported as unknown or invalid."""
    ran = run("call", tool, arguments, cwd=places["work"])
    assert ran.json["error"]["code"] == code


def test_vault_option_accepts_a_vault_name(
    run: Run, places: dict[str, Path], tmp_path: Path
) -> None:
    """--vault accepts a vault's name, and says where the named vault was and which names exist."""
    assert "Bread" in succeeded(run("list", "--vault", "home", cwd=tmp_path)).out
    listed = succeeded(run("vaults", "list", "--format", "{name}={folder}")).out
    assert listed == f"work={places['work'].resolve()}\nhome={places['home'].resolve()}\n"
    ran = run("list", "--vault", "wrok")
    refused(ran, 3)
    assert "did you mean work?" in ran.err
    ran = run("recall", "dough", cwd=tmp_path)
    refused(ran, 3)
    assert "; named vaults: work, home" in ran.err
    moved = places["home"].rename(tmp_path / "moved")
    assert f"There is no folder {places['home']}" in refused(run("list", "--vault", "home"), 3)
    succeeded(run("list", "--vault", str(moved)))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["vaults", "add", "All", "."], 2, "is not a valid vault name"),
        (["vaults", "add", "this", "."], 2, "is not a valid vault name"),
        (["vaults", "add", "x", "/nowhere"], 3, "There is no folder"),
        (["vaults", "add", "home", "."], 1, "is already the name of"),
        (["vaults", "remove", "hom"], 1, "There is no vault named 'hom'"),
        (["vaults", "default", "nope"], 1, "There is no vault named 'nope'"),
        (["recall", "x", "--vaults", "nope"], 3, "There is no vault named 'nope'"),
    ],
)
def test_invalid_vault_name_is_refused(
    run: Run, places: dict[str, Path], words: list[str], code: int, said: str
) -> None:
    """An invalid, duplicate or unknown vault name is reported, and nothing changes."""
    before = run("vaults", "list").out
    assert said in refused(run(*words), code)
    assert run("vaults", "list").out == before


def test_mcp_client_reaches_only_its_vaults(places: dict[str, Path]) -> None:
    """Over MCP only the other vaults given with --vaults can be accessed."""
    pytest.importorskip("mcp", reason="the MCP SDK is not installed")
    from mcp_client import session, structured

    async def given(client: Any) -> None:
        asked = await structured(client, "memory_recall", query="dough", vaults=["all"])
        assert asked["memories"][0]["vault"] == "home"
        shown = await structured(client, "memory_show", memId="home:bread-7k2m9q")
        assert shown["title"] == "Bread"
        lost = await structured(client, "memory_show", memId="home:nothing")
        assert str(places["home"]) not in str(lost)

    async def alone(client: Any) -> None:
        said = []
        for name in ("home", "nope"):
            asked = await structured(client, "memory_recall", query="dough", vaults=[name])
            shown = await structured(client, "memory_show", memId=f"{name}:bread-7k2m9q")
            said.append(f"{asked['error']} {shown['error']}".replace(name, "NAME"))
        assert said[0] == said[1]
        every = await structured(client, "memory_recall", query="dough", vaults=["all"])
        assert {entry["vault"] for entry in every["memories"]} <= {"this"}

    session(places["work"], given, "--vaults", "home")
    session(places["work"], alone)
    assert (places["home"] / "fact/bread.md").exists()


def test_current_vault_prefixes_are_equivalent(work: Vault) -> None:
    """this:, the vault's name and no prefix mean the same and can be mixed in one call."""
    result = called(
        work, "memory_delete", ids=["this:retries-7k2m9q", "work:deploys-7k2m9q", "oncall-7k2m9q"]
    )
    assert result["deleted"] == ["retries-7k2m9q", "deploys-7k2m9q", "oncall-7k2m9q"]
    mixed = work.call("memory_delete", ids=["this:retries-7k2m9q", "home:bread-7k2m9q"])
    assert "several vaults: home and this one" in mixed["error"]["message"]


def test_error_from_another_vault_contains_vault_name(work: Vault) -> None:
    """An error in another vault contains that vault's name."""
    result = work.call("memory_show", memId="home:nothing-like-it")
    assert (result["success"], result["vault"]) == (False, "home")


def test_vault_with_two_names_is_searched_once(places: dict[str, Path], run: Run) -> None:
    """In a vault with several names, each memory appears once and ranks as it does alone."""
    succeeded(run("vaults", "add", "again", str(places["home"])))
    alone = succeeded(run("recall", "dough", "--vaults", "home", "--json")).json["memories"]
    both = succeeded(run("recall", "dough", "--vaults", "home,again", "--json")).json["memories"]
    assert both == alone


@pytest.mark.parametrize("state", ["relative", ""])
def test_vaults_remove_never_deletes_vault_files(
    places: dict[str, Path], run: Run, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """The vault's files are kept even if the user's own folders are broken."""
    monkeypatch.setenv("MEMVAULT_STATE", state)
    run("vaults", "remove", "home")
    assert (places["home"] / "fact/bread.md").exists()


def test_vault_names_added_concurrently_are_all_kept(tmp_path: Path, run: Run) -> None:
    """Processes that add vault names at the same time lose none of them."""
    for number in range(6):
        filled(tmp_path / f"v{number}", {})
    with ThreadPoolExecutor(6) as pool:
        ran = pool.map(lambda n: run("vaults", "add", f"v{n}", str(tmp_path / f"v{n}")), range(6))
        assert [entry.code for entry in ran] == [0] * 6
    told = succeeded(run("vaults", "list", "--json")).json["vaults"]
    assert sorted(entry["name"] for entry in told) == [f"v{n}" for n in range(6)]


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


@pytest.mark.promise("S13")
def test_vault_of_another_user_needs_explicit_path(
    foreign: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's vault is used only if given explicitly; otherwise a hint explains how."""
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


@pytest.mark.promise("S13")
def test_vault_of_another_user_can_be_trusted(foreign: Path, run: Run, tmp_path: Path) -> None:
    """An entry that vaults trust adds to the user's settings counts until vaults untrust."""
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


def test_sudo_accepts_vault_of_calling_user(foreign: Path, run: Run) -> None:
    """With sudo, the calling user's vault does not count as another user's."""
    os.environ["SUDO_UID"] = str(_STRANGER)
    try:
        assert run("list", cwd=foreign).code == 0
    finally:
        del os.environ["SUDO_UID"]


@pytest.mark.promise("S31")
def test_settings_symlink_is_refused(folder: Path, run: Run, tmp_path: Path) -> None:
    """A symlinked memvault.toml is refused, and nothing of its target is shown."""
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
        ("[embedder]\nmodel = 5\n", "must be a model's name or folder"),
    ],
)
def test_broken_user_settings_are_reported(
    folder: Path, run: Run, tmp_path: Path, text: str, said: str
) -> None:
    """Broken user settings are a usage error with the file's name in the message."""
    settings = write(tmp_path, "config/memvault/settings.toml", text)
    settings.chmod(0o600)
    write(folder, "a.md", "# A\n\nzebra\n")
    sentence = refused(run("recall", "zebra"), 2)
    assert said in sentence
    assert str(settings) in sentence


@pytest.mark.promise("S15")
def test_settings_writable_by_others_are_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """User settings that others can write, or that are in a vault, are refused."""
    settings = write(tmp_path, "config/memvault/settings.toml", "[vaults]\ntrusted = []\n")
    settings.chmod(0o666)
    write(folder, "a.md", "# A\n\nzebra\n")
    with open_vault(folder) as vault:
        found = vault.call("memory_recall", query="zebra")
        assert "Other users can write" in found["error"]["message"]
        monkeypatch.setenv("MEMVAULT_CONFIG", str(folder / ".config"))
        assert vault.call("memory_recall", query="zebra")["success"]
        write(folder, ".config/settings.toml", "[vaults]\ntrusted = []\n")
    with open_vault(folder) as vault:
        found = vault.call("memory_recall", query="zebra")
        assert "is inside the vault" in found["error"]["message"]


def test_vaults_trust_works_with_any_umask(foreign: Path, run: Run) -> None:
    """Settings written by memvault are private to the user, so they are accepted."""
    before = os.umask(0o002)
    try:
        assert run("vaults", "trust", str(foreign)).code == 0
        assert run("list", cwd=foreign).code == 0
    finally:
        os.umask(before)


def test_relative_cache_folder_is_refused(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative MEMVAULT_CACHE, which would differ in each folder, is refused."""
    monkeypatch.setenv("MEMVAULT_CACHE", "cache")
    assert "MEMVAULT_CACHE" in refused(run("recall", "zebra"), 2)


def test_index_without_home_is_in_temporary_folder(folder: Path, tmp_path: Path) -> None:
    """If the user has no home folder, the index is in the temporary folder."""
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


def test_trusted_vaults_need_absolute_paths(
    foreign: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trusted vault's path is absolute or starts with ~; a relative path is refused."""
    text = '[vaults]\ntrusted = [\n  "~/theirs",  # theirs\n]\n'
    settings = write(tmp_path, "config/memvault/settings.toml", text)
    settings.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run("list", cwd=foreign).code == 0
    settings.write_text('[vaults]\ntrusted = [\n  "/srv/a",  # kept\n]\n', "utf-8")
    assert run("vaults", "trust", str(foreign)).code == 0
    assert "# kept" in settings.read_text("utf-8")
    settings.write_text('[vaults]\ntrusted = ["."]\n', "utf-8")
    assert "a list of folders" in refused(run("list", cwd=foreign), 2)


@pytest.mark.promise("S14")
@pytest.mark.parametrize("place", ["", "deep"])
def test_own_settings_file_does_not_trust_folder_of_another_user(
    foreign: Path, run: Run, place: str
) -> None:
    """The user's memvault.toml in another user's folder does not make the vault trusted."""
    os.chown(foreign / "memvault.toml", os.geteuid(), os.getegid())
    assert "belongs to another user" in refused(run("list", cwd=foreign / place), 3)
    assert run("list", "--vault", str(foreign)).code == 0
    assert run("vaults", "trust", str(foreign)).code == 0
    assert run("list", cwd=foreign / place).code == 0


@pytest.mark.promise("S14")
def test_vault_in_world_writable_folder_needs_explicit_path(
    folder: Path, run: Run, tmp_path: Path
) -> None:
    """In or below a world-writable sticky folder, a vault is used only if given explicitly."""
    (inner := folder / "deep").mkdir()
    folder.chmod(0o1777)
    for place in (folder, inner):
        said = refused(run("list", cwd=place), 3)
        assert "is in a folder that every user can write to" in said
        assert run("list", "--vault", str(folder), cwd=place).code == 0
    folder.chmod(0o775)
    assert run("list", cwd=inner).code == 0
    write(own := tmp_path / "open" / "own", "memvault.toml", "version = 1\n")
    own.parent.chmod(0o1777)
    assert run("list", cwd=own).code == 0
    assert "run `memvault vaults trust" in succeeded(run("init", cwd=own.parent)).out


@pytest.mark.promise("S14")
def test_vault_of_another_user_in_sticky_folder_is_refused(foreign: Path, run: Run) -> None:
    """Another user's vault in a sticky folder is refused in all folders below."""
    foreign.chmod(0o1777)
    (mine := foreign / "mine").mkdir()
    assert "belongs to another user" in refused(run("list", cwd=mine), 3)


def test_default_vault_is_used_outside_any_vault(tmp_path: Path, run: Run) -> None:
    """After ``init --default`` commands work in other folders and show the vault in use."""
    notes, elsewhere = tmp_path / "My Notes", tmp_path / "elsewhere"
    elsewhere.mkdir()
    made = succeeded(run("init", str(notes), "--default", cwd=tmp_path))
    assert "Default vault, named my-notes" in made.out
    done = succeeded(run("remember", "Tides", "High at noon.", cwd=elsewhere))
    assert done.err.splitlines()[0] == f"note: using your default vault my-notes: {notes}"
    assert not list(elsewhere.iterdir())
    found = succeeded(run("recall", "tides", "--json", cwd=elsewhere))
    assert [entry["title"] for entry in found.json["memories"]] == ["Tides"]
    succeeded(run("recall", "tides", "--vaults", "my-notes", cwd=elsewhere))
    assert succeeded(run("today", "bought tickets", "--quiet", cwd=elsewhere)).err == ""
    other = tmp_path / "other"
    succeeded(run("init", str(other), cwd=tmp_path))
    assert "default vault" not in succeeded(run("list", cwd=other)).err
    (notes / "memvault.toml").unlink()
    assert "is not a vault" in refused(run("list", cwd=elsewhere), 3)
    succeeded(run("vaults", "default", cwd=elsewhere))
    assert "No memvault.toml" in refused(run("list", cwd=elsewhere), 3)


def test_init_gives_default_vaults_unique_names(tmp_path: Path, run: Run) -> None:
    """Vaults in folders with equal names get unique names, and the newest comes first."""
    for folder in ("a/notes", "b/notes", "all", "ノート"):
        succeeded(run("init", str(tmp_path / folder), "--default", "--bare", cwd=tmp_path))
    listed = succeeded(run("vaults", "list", "--json", cwd=tmp_path)).json["vaults"]
    assert {entry["name"] for entry in listed} == {"notes", "notes-2", "all-2", "vault-2"}
    done = succeeded(run("list", cwd=tmp_path))
    assert "default vault vault-2" in done.err
