"""Files that git, Obsidian or other tools exclude are not memories."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import Run, refused, succeeded, titles, write
from memvault import Vault, open_vault
from memvault.settings.exclusions import Exclusions
from memvault.vault.scan import scan


def listed(vault: Vault) -> set[str]:
    """Return the paths of all memories."""
    return {entry["filePath"] for entry in vault.call("memory_list", limit=500)["memories"]}


def note(folder: Path, *paths: str) -> None:
    """Write a note at each path."""
    for path in paths:
        write(folder, path, f"# {path}\n\nThe harbour.\n")


names = st.sampled_from(["a", "b", "ab", "abc", "a.md", "b.md", "draft 1.md", "x#y.md", "[a].md"])
note_paths = st.lists(
    st.lists(names, min_size=1, max_size=4).map(lambda parts: "/".join([*parts[:-1], "n.md"])),
    min_size=1,
    max_size=12,
    unique=True,
)
pieces = st.sampled_from(
    [
        *("a", "b", "ab", "n", ".md", "*", "**", "?", "/", "!", "\\", "#", " ", "[", "]", "-"),
        *(
            "[ab]",
            "[!a]",
            "[^b]",
            "[a]",
            "[a-b]",
            "[b-a]",
            "[]a]",
            "[[:alpha:]]",
            "[a&&b]",
            "[\\]a]",
        ),
    ]
)
lines = st.lists(pieces, min_size=1, max_size=6).map("".join)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty git repository."""
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@given(st.lists(lines, min_size=1, max_size=6), note_paths)
@example(["*.md", "!b.md"], ["b.md", "a/b.md", "a.md"])
@example(["a/", "!a/b/"], ["a/b/n.md"])
@example(["/a/**/b", "**/ab", "ab/**"], ["a/b/n.md", "a/x/b/n.md", "b/ab/n.md", "ab/n.md"])
@example(["a*b/*c"], ["aab/abc/n.md", "ab/abc/n.md"])
@example(["[z-a].md", "[a--b].md", "[!--a&&b]", "[[:digit:]x"], ["a.md", "b.md", "a/n.md"])
def test_ignore_files_exclude_the_same_files_as_git(
    repository: Path, patterns: list[str], paths: list[str]
) -> None:
    """Exactly the paths that git ignores are excluded, for any patterns."""
    (repository / ".gitignore").write_text("\n".join(patterns) + "\n", "utf-8")
    asked = "\0".join(paths)
    answer = subprocess.run(
        ["git", "-C", repository, "check-ignore", "-z", "--stdin", "--no-index"],
        input=asked,
        capture_output=True,
        text=True,
        check=False,
    )
    ignored = set(filter(None, answer.stdout.split("\0")))
    exclusions = Exclusions(repository)
    assert {path for path in paths if exclusions.covers(path)} == ignored


def test_exclusions_follow_ignore_files_in_any_folder(folder: Path, vault: Vault) -> None:
    """Ignore files in any folder apply, deeper ones and ``.ignore`` first, and may change."""
    note(folder, "a.md", "private/b.md", "build/c.md", "src/drafts/d.md", "src/e.md", "src/log.md")
    write(folder, ".gitignore", "build/\nprivate/\n*.log\n")
    write(folder, "src/.gitignore", "/drafts\nlog.md\n")
    assert listed(vault) == {"a.md", "src/e.md"}
    write(folder, ".ignore", "!private/\n")
    assert listed(vault) == {"a.md", "src/e.md", "private/b.md"}
    write(folder, "src/.ignore", "!log.md\n")
    (folder / ".gitignore").unlink()
    assert listed(vault) == {"a.md", "src/e.md", "src/log.md", "private/b.md", "build/c.md"}
    with open_vault(folder) as fresh:
        assert listed(fresh) == listed(vault)


def test_exclusions_can_be_sent_to_another_process(folder: Path) -> None:
    """The processes that index in parallel receive the vault's exclusions."""
    write(folder, ".ignore", "drafts/\n")
    note(folder, "a.md", "drafts/a.md", "b.tmp.md")
    received = pickle.loads(pickle.dumps(Exclusions(folder, ("*.tmp.md",))))
    assert list(scan(folder, received).paths) == ["a.md"]


def test_exclusions_cover_tool_folders(folder: Path, vault: Vault) -> None:
    """Installed packages, virtual environments and marked caches are excluded at any depth."""
    note(folder, "a.md", "node_modules/x/README.md", "app/node_modules/y/README.md")
    note(folder, "env/lib/site.md", "cache/page.md", "app/__pycache__/z.md")
    write(folder, "env/pyvenv.cfg", "home = /usr\n")
    write(folder, "cache/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n")
    assert listed(vault) == {"a.md"}
    (folder / "env/pyvenv.cfg").unlink()
    write(folder, ".ignore", "!app/node_modules/\n")
    assert listed(vault) == {"a.md", "env/lib/site.md", "app/node_modules/y/README.md"}


def test_obsidian_exclusions_are_not_memories(folder: Path, vault: Vault) -> None:
    """Excluded files, template folders and the attachment folder of Obsidian are omitted."""
    note(folder, "a.md", "Private/diary.md", "draft-1.md", "Templates/Meeting.md", "T2/x.md")
    note(folder, "assets/export.md", "b/assets/kept.md")
    write(
        folder,
        ".obsidian/app.json",
        '{"userIgnoreFilters": ["Private/", "draft-", "/.*secret.*/", 3],'
        ' "attachmentFolderPath": "assets"}',
    )
    assert listed(vault) == {"a.md", "Templates/Meeting.md", "T2/x.md", "b/assets/kept.md"}
    write(folder, ".obsidian/templates.json", '{"folder": "Templates"}')
    write(folder, ".obsidian/plugins/templater-obsidian/data.json", '{"templates_folder": "T2/"}')
    assert listed(vault) == {"a.md", "b/assets/kept.md"}
    write(folder, ".obsidian/app.json", '{"attachmentFolderPath": "./files", "userIgnoreFilters":')
    write(folder, ".obsidian/templates.json", '["folder"]')
    assert listed(vault) == {
        *("a.md", "Private/diary.md", "draft-1.md", "Templates/Meeting.md"),
        *("assets/export.md", "b/assets/kept.md"),
    }


def test_exclusions_skip_ignore_files_above_vault(tmp_path: Path) -> None:
    """A vault in a folder that its repository ignores still contains its memories."""
    write(tmp_path, ".gitignore", "notes/\n")
    note(tmp_path / "notes", "a.md")
    write(tmp_path / "notes", "memvault.toml", "version = 1\n")
    with open_vault(tmp_path / "notes") as vault:
        assert listed(vault) == {"a.md"}


def test_excluded_folder_refuses_new_memory(folder: Path, run: Run) -> None:
    """A memory in an excluded folder is refused, with how to include the folder."""
    write(folder, ".gitignore", "fact/\n")
    message = refused(run("remember", "Tides", "High at noon.", "--type", "fact"), 1)
    assert "is excluded from the vault" in message
    write(folder, ".ignore", "!fact/\n")
    succeeded(run("remember", "Tides", "High at noon.", "--type", "fact"))
    assert titles(succeeded(run("recall", "tides", "--json")).json) == ["Tides"]


def test_init_lists_excluded_folders(tmp_path: Path, run: Run) -> None:
    """``init`` lists the folders it excludes before anything is recalled."""
    note(tmp_path, "a.md", "node_modules/x/README.md", "private/b.md")
    write(tmp_path, ".gitignore", "private/\n")
    done = succeeded(run("init", str(tmp_path)))
    assert "1 markdown file" in done.out
    assert "Excluded: node_modules, private" in done.out
    made = succeeded(run("init", str(tmp_path / "empty"), "--json")).json
    assert "excluded" not in made


def test_doctor_ignores_excluded_files(folder: Path, vault: Vault) -> None:
    """Doctor does not inspect files that are not memories."""
    write(folder, "node_modules/x/broken.md", "---\na: [\n---\n")
    write(folder, "a.md", "# A\n")
    found = vault.call("vault_doctor")["findings"]
    assert not [entry for entry in found if "node_modules" in entry.get("filePath", "")]


def test_exclusions_with_many_wildcards_never_hang(tmp_path: Path) -> None:
    """Patterns with many wildcards exclude only matching files and never hang a scan."""
    stars = "*a" * 100
    hostile = f"{stars}b\n**/{stars}/**/{stars}/**/x\n" + "!z\n" * 2_000
    path = "/".join(["a" * 200] * 3) + ".md"
    note(tmp_path, path)
    for last, expected in (("", {path}), (f"**/{stars}/{stars}.md\n", set()), ("*a*\n", set())):
        write(tmp_path, ".gitignore", hostile + last)
        found = scan(tmp_path, Exclusions(tmp_path))
        assert {state.path for state in found.files} == expected, last


def test_init_rejects_an_empty_path(tmp_path: Path, run: Run) -> None:
    """An empty path, as from an unset shell variable, is an error and creates nothing."""
    assert "is empty" in refused(run("init", "", cwd=tmp_path), 2)
    assert "`--vault` is empty" in refused(run("init", "--vault", "", cwd=tmp_path), 2)
    assert "`--vault` is empty" in refused(run("list", "--vault="), 2)
    assert not (tmp_path / "memvault.toml").exists()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_init_fails_if_folder_cannot_contain_folders(run: Run) -> None:
    """If the system does not allow new folders, init fails with an ordinary error."""
    assert "/proc/foo cannot be created" in refused(run("init", "/proc/foo"), 1)


def test_init_inside_a_vault_reports_the_outer_vault(
    folder: Path, tmp_path: Path, run: Run
) -> None:
    """A note says that an outer vault also covers the new one."""
    assert f"inside the vault {folder.resolve()}" in succeeded(run("init", "inner")).err
    assert "inside" not in succeeded(run("init", str(tmp_path / "beside"))).err


def test_outer_vault_includes_only_memories_of_nested_vault(
    folder: Path, vault: Vault, run: Run
) -> None:
    """An inner vault's memories are in both vaults; its templates, messages and state are not."""
    write(folder, "ignored.md", "# Ignored only inside\n\nThe harbour.\n")
    succeeded(run("init", "inner"))
    inner = folder / "inner"
    write(inner, "templates/letter.md", "# Letter\n\nThe harbour.\n")
    write(
        inner, "memvault.toml", 'version = 1\nignore = ["ignored.md", "README.md", "AGENTS.md"]\n'
    )
    note(inner, "kept.md", "ignored.md", "sub/templates/kept.md")
    for command in (
        ("goals", "set", "g1", "harbour"),
        ("space", "enter", "dev"),
        ("space", "send", "harbour"),
    ):
        succeeded(run("--vault", "inner", *command))
    with open_vault(inner) as own:
        paths = listed(own)
    assert paths == {"kept.md", "sub/templates/kept.md"}
    assert listed(vault) == {"ignored.md", *(f"inner/{path}" for path in paths)}
    assert vault.call("memory_recall", query="harbour")["count"] == 3
    for path in ("inner/templates/letter.md", "inner/ignored.md"):
        assert vault.call("memory_show", memId=path)["error"]["code"] == "not_found"
        assert not vault.call("memory_rename", memId="ignored.md", to=path)["success"]
    kept = vault.call("memory_show", memId="inner/kept.md")
    assert kept["filePath"] == "inner/kept.md"


def test_nested_vault_settings_apply_after_each_change(folder: Path, vault: Vault) -> None:
    """Files of a folder become or stop being memories when its settings file changes."""
    note(folder, "inner/templates/t.md", "inner/draft.md")
    both = {"inner/templates/t.md", "inner/draft.md"}
    assert listed(vault) == both
    settings = folder / "inner/memvault.toml"
    for text, paths in (
        ("version = 1\n", {"inner/draft.md"}),
        ('ignore = ["draft.md"]\n', set()),
        ('ignore = "draft.md"\n', {"inner/draft.md"}),
        ("ignore = [", {"inner/draft.md"}),
    ):
        settings.write_text(text, encoding="utf-8")
        assert listed(vault) == paths, text
    settings.unlink()
    assert listed(vault) == both


def test_nested_vault_setting_precedes_its_ignore_files(folder: Path, vault: Vault) -> None:
    """As in the nested vault, no ignore file includes files that its setting `ignore` excludes."""
    write(folder, "team/memvault.toml", 'version = 1\nignore = ["*.tmp.md"]\n')
    write(folder, "team/sub/.ignore", "!c.tmp.md\n")
    write(folder, "team/sub/c.tmp.md", "# Draft\n")
    write(folder, "team/sub/d.md", "# Done\n")
    listed = vault.call("memory_list")["memories"]
    assert [entry["filePath"] for entry in listed] == ["team/sub/d.md"]
