"""Anthropic's memory tool over a vault: its documented answers, on ordinary memories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import only_with, write
from made_secrets import MADE
from memvault import Vault
from memvault.anthropic.memory_tool import relative_path
from memvault.errors import UsageError

if TYPE_CHECKING:
    from memvault.anthropic import VaultMemoryTool

pytestmark = only_with("anthropic", extra="anthropic")
Ask = Callable[..., str]


@pytest.fixture
def tool(folder: Path) -> Iterator[VaultMemoryTool]:
    """The tool over an empty vault."""
    from memvault.anthropic import VaultMemoryTool  # takes a second; other workers do not need it

    made = VaultMemoryTool(folder)
    yield made
    made.close()


@pytest.fixture
def ask(tool: VaultMemoryTool) -> Ask:
    """Send a command of the tool like the SDK's runner, and return the answer."""

    def asked(command: str, path: str = "", **more: Any) -> str:
        where = {"path": path} if path else {}
        return str(tool.call({"command": command, **where, **more}))

    return asked


def refusal(ask: Ask, *words: Any, **more: Any) -> str:
    """Return the error in Claude's tool result."""
    from anthropic.lib.tools import ToolError

    with pytest.raises(ToolError) as caught:
        ask(*words, **more)
    return str(caught.value.content)


def test_anthropic_request_declares_the_tool(tool: VaultMemoryTool) -> None:
    """A request declares the tool with its documented type."""
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory"}


def test_anthropic_view_of_empty_directory_works(ask: Ask) -> None:
    """The first view of /memories is not an error."""
    assert ask("view", "/memories") == (
        "Here're the files and directories up to 2 levels deep in /memories, "
        "excluding hidden items and node_modules:\n0B\t/memories"
    )


def test_anthropic_view_lists_directory_two_levels_deep(ask: Ask, folder: Path) -> None:
    """Files and folders are listed with sizes; hidden ones and node_modules are omitted."""
    for name in ("a.md", "deep/b.md", "deep/er/c.md", "node_modules/d.md", ".e.md"):
        write(folder, f"memories/{name}", "x" * 1536)
    write(folder, "elsewhere.md", "x")
    assert ask("view", "/memories").splitlines()[1:] == [
        "4.5K\t/memories",
        "1.5K\t/memories/a.md",
        "3K\t/memories/deep/",
        "1.5K\t/memories/deep/b.md",
        "1.5K\t/memories/deep/er/",
    ]
    assert "1.5K\t/memories/deep/er/c.md" in ask("view", "/memories/deep")


def test_anthropic_view_shows_line_numbers(ask: Ask) -> None:
    """Line numbers are six characters wide, followed by a tab; a range selects lines."""
    said = ask("create", "/memories/notes.txt", file_text="Hello World\nThis is line two\n")
    assert said == "File created successfully at: /memories/notes.txt"
    head = "Here's the content of /memories/notes.txt with line numbers:"
    assert ask("view", "/memories/notes.txt") == (
        f"{head}\n     1\tHello World\n     2\tThis is line two"
    )
    for asked in ([2, 2], [2, -1], [2, 99]):
        shown = ask("view", "/memories/notes.txt", view_range=asked)
        assert shown == f"{head}\n     2\tThis is line two"
    for asked in ([0, 1], [3, 4], [2, 1], [1]):
        said = refusal(ask, "view", "/memories/notes.txt", view_range=asked)
        assert "Invalid `view_range` parameter" in said


def test_anthropic_view_cuts_long_file(ask: Ask) -> None:
    """A view is cut at 16,000 characters and shows which range continues it."""
    ask("create", "/memories/long.md", file_text="word\n" * 5_000)
    first = ask("view", "/memories/long.md")
    assert len(first) < 16_200
    start = int(first.rpartition("view_range [")[2].split(",")[0])
    assert ask("view", "/memories/long.md", view_range=[start, 5_000]).splitlines()[1].split() == [
        str(start),
        "word",
    ]


def test_anthropic_missing_path_is_reported(ask: Ask) -> None:
    """Each command returns its documented message for a missing file or folder."""
    ask("create", "/memories/deep/a.md", file_text="x")
    gone = "The path {} does not exist"
    for path in ("/memories/none.md", "/memories/deep"):
        said = refusal(ask, "str_replace", path, old_str="a", new_str="b")
        assert said == f"Error: {gone.format(path)}. Please provide a valid path."
        said = refusal(ask, "insert", path, insert_line=0, insert_text="a")
        assert said == f"Error: {gone.format(path)}"
    path = "/memories/none.md"
    assert refusal(ask, "view", path) == f"{gone.format(path)}. Please provide a valid path."
    assert refusal(ask, "delete", path) == f"Error: {gone.format(path)}"
    said = refusal(ask, "rename", old_path=path, new_path="/memories/b.md")
    assert said == f"Error: {gone.format(path)}"


def test_anthropic_create_and_rename_never_overwrite(ask: Ask) -> None:
    """Create and rename refuse a path where a file or folder exists."""
    ask("create", "/memories/deep/a.md", file_text="one")
    ask("create", "/memories/b.md", file_text="two")
    for path in ("/memories/b.md", "/memories/b", "/memories/deep"):
        said = refusal(ask, "create", path, file_text="three")
        assert said == f"Error: File {path} already exists"
        said = refusal(ask, "rename", old_path="/memories/deep/a.md", new_path=path)
        assert said == f"Error: The destination {path} already exists"
    assert "two" in ask("view", "/memories/b.md")


def test_anthropic_str_replace_requires_one_match(ask: Ask) -> None:
    """A replacement shows its surrounding lines; missing or repeated text is refused."""
    ask("create", "/memories/a.md", file_text="one\ntwo\nthree\nfour\ntwo\n")
    said = ask("str_replace", "/memories/a.md", old_str="three", new_str="3\n3b")
    assert said == (
        "The memory file has been edited.\n"
        "     1\tone\n     2\ttwo\n     3\t3\n     4\t3b\n     5\tfour\n     6\ttwo"
    )
    said = refusal(ask, "str_replace", "/memories/a.md", old_str="five", new_str="5")
    assert said == (
        "No replacement was performed, old_str `five` did not appear verbatim in /memories/a.md."
    )
    said = refusal(ask, "str_replace", "/memories/a.md", old_str="two", new_str="2")
    assert said == (
        "No replacement was performed. Multiple occurrences of old_str `two` in lines: 2, 6. "
        "Please ensure it is unique"
    )
    ask("str_replace", "/memories/a.md", old_str="four\n")
    assert "four" not in ask("view", "/memories/a.md")


def test_anthropic_insert_adds_text_after_line(ask: Ask) -> None:
    """Line 0 is the start and the last line the end; other numbers are refused."""
    ask("create", "/memories/a.md", file_text="one\ntwo")
    for line, text in ((2, "three"), (0, "zero\n"), (2, "between\n")):
        said = ask("insert", "/memories/a.md", insert_line=line, insert_text=text)
        assert said == "The file /memories/a.md has been edited."
    lines = [line.split("\t")[1] for line in ask("view", "/memories/a.md").splitlines()[1:]]
    assert lines == ["zero", "one", "between", "two", "three"]
    for line in (-1, 6):
        said = refusal(ask, "insert", "/memories/a.md", insert_line=line, insert_text="x")
        assert said == (
            f"Error: Invalid `insert_line` parameter: {line}. It should be within the range of "
            "lines of the file: [0, 5]"
        )


def test_anthropic_delete_and_rename_handle_folders(ask: Ask, folder: Path, vault: Vault) -> None:
    """A folder goes to the trash with all of its contents, and one undo restores it."""
    for name in ("a.md", "deep/b.txt"):
        ask("create", f"/memories/old/{name}", file_text=name)
    said = ask("rename", old_path="/memories/old", new_path="/memories/new")
    assert said == "Successfully renamed /memories/old to /memories/new"
    assert not (folder / "memories/old").exists()
    assert "b.txt" in ask("view", "/memories/new/deep/b.txt")
    assert ask("delete", "/memories/new") == "Successfully deleted /memories/new"
    assert not (folder / "memories/new").exists()
    assert vault.call("trash_list")["total"] == 2
    change = vault.call("memory_log")["changes"][0]
    assert (change["tool"], change["agent"]) == ("memory_tool_delete", "claude")
    assert vault.call("memory_undo", change=change["changeId"])["success"]
    assert "b.txt" in ask("view", "/memories/new/deep/b.txt")
    said = refusal(ask, "rename", old_path="/memories/new", new_path="/memories/new/inside")
    assert "into itself" in said
    for command, key in (("delete", "path"), ("rename", "old_path")):
        more = {"new_path": "/memories/x"} if command == "rename" else {}
        assert "itself cannot be" in refusal(ask, command, **{key: "/memories"}, **more)


def test_anthropic_folder_contains_only_memories(ask: Ask, folder: Path, vault: Vault) -> None:
    """A document is not listed, and stays in place when its folder is renamed or deleted."""
    ask("create", "/memories/old/a.md", file_text="text")
    write(folder, "memories/old/people.csv", "name,role\nAda,keeper\n")
    assert vault.call("memory_list", memoryType="document")["total"] in (0, 1)  # with the extra
    assert "people.csv" not in ask("view", "/memories")
    said = ask("rename", old_path="/memories/old", new_path="/memories/new")
    assert said == "Successfully renamed /memories/old to /memories/new"
    write(folder, "memories/new/people.csv", "name,role\n")
    assert ask("delete", "/memories/new") == "Successfully deleted /memories/new"
    left = {path.name for path in (folder / "memories").rglob("*") if path.is_file()}
    assert left == {"people.csv"}


def test_anthropic_files_are_ordinary_memories(ask: Ask, folder: Path, vault: Vault) -> None:
    """Recall finds them, a rename keeps the memId, and headers are hidden and preserved."""
    ask("create", "/memories/coffee.txt", file_text="The user drinks espresso.\n")
    found = vault.call("memory_recall", query="espresso")["memories"][0]
    assert found["filePath"] == "memories/coffee.txt.md"
    ask("rename", old_path="/memories/coffee.txt", new_path="/memories/drinks/coffee.txt")
    again = vault.call("memory_recall", query="espresso")["memories"][0]
    assert (again["memId"], again["filePath"]) == (found["memId"], "memories/drinks/coffee.txt.md")
    text = "---\r\nid: mine-abc123\r\ntags: [a]   # mine\r\n---\r\n\r\nOne.\r\nTwo.\r\n"
    write(folder, "memories/mine.md", text.encode())
    assert "id:" not in ask("view", "/memories/mine.md")
    ask("str_replace", "/memories/mine.md", old_str="One.\nTwo.", new_str="1.\n2.")
    after = (folder / "memories/mine.md").read_bytes().decode()
    assert after == text.replace("One.", "1.").replace("Two.", "2.")


def test_anthropic_directory_can_be_the_whole_vault(folder: Path, vault: Vault) -> None:
    """With an empty folder setting, /memories is the vault, except for non-memory files."""
    from anthropic.lib.tools import ToolError

    from memvault.anthropic import VaultMemoryTool

    vault.call("memory_remember", title="Wombats", content="They dig.", memoryType="fact")
    vault.call("set_memories", memories=[{"key": "k", "value": "v"}])
    whole = VaultMemoryTool(folder, folder="", agent="bob", memory_type="learning")
    shown = str(whole.call({"command": "view", "path": "/memories"}))
    assert "/memories/fact/wombats.md" in shown
    assert "agents" not in shown
    whole.call({"command": "create", "path": "/memories/fact/x.md", "file_text": "x"})
    made = vault.call("memory_show", memId="fact/x.md")
    assert made["memoryType"] == "learning"
    with pytest.raises(ToolError, match="is not a valid path for a memory"):
        whole.call({"command": "create", "path": "/memories/agents/x.md", "file_text": "x"})
    whole.close()


@pytest.mark.parametrize(
    "path",
    [
        "/memories/../secrets.env",
        "/memories/..\\secrets",
        "/memories/%2e%2e%2fsecrets",
        "/memories/a/../../b",
        "/memories/.hidden",
        "/memoriesx/a",
        "/etc/passwd",
        "memories/a",
        "/memories/a\0b",
        "/memories/node_modules/a",
        "/memories/ a",
    ],
)
def test_anthropic_path_outside_directory_is_refused(ask: Ask, folder: Path, path: str) -> None:
    """Every command refuses a path that is not below /memories."""
    write(folder, "secrets.env.md", "secret")
    for command, more in (
        ("view", {}),
        ("create", {"file_text": "x"}),
        ("str_replace", {"old_str": "secret", "new_str": "x"}),
        ("insert", {"insert_line": 0, "insert_text": "x"}),
        ("delete", {}),
    ):
        said = refusal(ask, command, **{"path": path, **more})
        assert "is not below /memories" in said or "is invalid" in said
    ask("create", "/memories/fine.md", file_text="x")
    refusal(ask, "rename", old_path="/memories/fine.md", new_path=path)
    refusal(ask, "rename", old_path=path, new_path="/memories/other.md")
    assert (folder / "secrets.env.md").read_text("utf-8") == "secret"


@given(path=st.text("abM/.%\\ \0", max_size=12))
def test_anthropic_paths_never_escape_the_directory(path: str) -> None:
    """Any path is either refused or stays below the directory."""
    try:
        inside = relative_path(f"/memories/{path}")
    except UsageError:
        return
    assert ".." not in inside.split("/")
    assert not inside.startswith("/")


def test_anthropic_symlink_is_not_followed(ask: Ask, folder: Path, tmp_path: Path) -> None:
    """A symlink in the directory can't show or change anything outside the vault."""
    write(tmp_path, "outside/secret.md", "secret")
    (folder / "memories").mkdir()
    (folder / "memories/link").symlink_to(tmp_path / "outside")
    assert "secret" not in ask("view", "/memories")
    assert "does not exist" in refusal(ask, "view", "/memories/link/secret.md")
    refusal(ask, "create", "/memories/link/new.md", file_text="x")
    assert not (tmp_path / "outside/new.md").exists()


def test_anthropic_tool_masks_secrets_and_warns(ask: Ask, folder: Path) -> None:
    """Claude sees a mask instead of a secret, and gets a warning after writing one."""
    before, make = MADE["GitHub token"]
    secret = before + make()
    assert "secret" in ask("create", "/memories/a.md", file_text=f"Use {secret} for it.")
    shown = ask("view", "/memories/a.md")
    assert secret not in shown
    assert "[masked: GitHub token]" in shown
    ask("str_replace", "/memories/a.md", old_str="for it", new_str="for that")
    assert secret in (folder / "memories/a.md").read_text("utf-8")


def test_anthropic_async_tool_matches_sync_tool(folder: Path) -> None:
    """The tool for the async client returns the same results as the tool for the sync client."""
    from memvault.anthropic import AsyncVaultMemoryTool

    async def talk() -> str:
        tool = AsyncVaultMemoryTool(folder)
        await tool.call({"command": "create", "path": "/memories/a.md", "file_text": "One."})
        shown = await tool.call({"command": "view", "path": "/memories/a.md"})
        tool.close()
        return str(shown)

    assert asyncio.run(talk()).endswith("     1\tOne.")
