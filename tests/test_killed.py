"""A process may be killed at any moment: its files are whole, and the next answer is right."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from conftest import SOAK, index_of, titles, write
from killing import Killing
from memvault import Vault, open_vault


def recalled(vault: Vault, query: str, mode: str = "keyword") -> list[str]:
    """The titles of all that a query finds."""
    return titles(vault.call("memory_recall", query=query, type=mode, limit=500))


_WRITER = """
import tempfile
from pathlib import Path
from memvault import open_vault

def work(root):
    number = 1 + sum(1 for _ in root.glob("[!.]*/*.md"))
    text = f"{number} " * 2000 + "end"
    with open_vault(root) as vault:
        for tool, arguments in (
            ("remember", {"title": f"New {number}", "content": text, "memoryType": ""}),
            ("compound", {"query": "Start", "modifications": text, "mode": "replace"}),
            ("compound", {"query": "Start", "modifications": "x", "mode": "section", "section": "S",
                          "memoryType": ("fact", "issue")[number % 2]}),
        ):
            done = vault.call("memory_" + tool, **arguments)
            assert done["success"], done
with tempfile.TemporaryDirectory() as scratch:  # so that the copies need to load nothing
    Path(scratch, "memvault.toml").touch()
    with open_vault(scratch) as vault:
        vault.call("memory_remember", title="Start", content="x", memoryType="")
        vault.call("memory_compound", query="Start", modifications="x")
"""


def test_a_killed_writer_leaves_whole_files(folder: Path, vault: Vault) -> None:
    """Killed in front of any change that it makes, memvault leaves each memory whole."""
    assert vault.call(
        "memory_remember", title="Start", content="0 " * 2_000 + "end", memoryType=""
    )["success"]
    before = shutil.copytree(folder, folder.with_name("before"))
    places = []
    with Killing(folder, _WRITER) as writer:
        for place in writer.everywhere():
            places.append(place.split()[0])
            found = list(folder.glob("[!.]*/[!.]*.md"))
            assert found
            for file in found:
                text = file.read_text("utf-8")
                numbers = set(re.findall(r"^(\d+) .*?end$", text, re.MULTILINE | re.DOTALL))
                assert len(numbers) == 1, (place, file)
                assert text.count(f"{numbers.pop()} ") >= 2_000, (place, file)
            write(folder, "context/.half.md.0abc.tmp", "half")
            listed = vault.call("memory_list")["memories"]
            left = [file for file in found if file.exists()]  # the look has finished a move
            assert len(left) >= len(found) - 1
            assert {entry["filePath"] for entry in listed} == {
                file.relative_to(folder).as_posix() for file in left
            }
            assert not [entry for entry in listed if "problem" in entry]
            done = vault.call("memory_remember", title="After", content="x", memoryType="")
            assert done["success"], place
            shutil.rmtree(folder)
            shutil.copytree(before, folder)
    assert len(places) >= 20
    assert {"open", "os.link", "os.rename", "os.remove"} <= set(places)


_INDEXING = """
import tempfile
from pathlib import Path
from memvault import open_vault

def work(root):
    with open_vault(root) as vault:
        assert vault.call("memory_recall", query="common", type="keyword")["success"]

with tempfile.TemporaryDirectory() as scratch:  # so that the copies need to load nothing
    Path(scratch, "memvault.toml").touch()
    work(scratch)
"""


NOTES = 40 if SOAK else 16


@pytest.mark.parametrize("indexed", [False, True], ids=["never indexed", "indexed"])
def test_a_killed_indexer_leaves_a_right_answer(
    folder: Path, indexed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in front of any change to the index, the next recall finds everything."""
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # the work is done in forks
    for number in range(NOTES):
        write(folder, f"n/{number}.md", f"# Note {number}\n\ncommon word{number}\n")
    index = index_of(folder)

    def as_before() -> None:
        """Let the index be missing, or that of the files before they changed."""
        shutil.rmtree(index)
        index_of(folder)
        for number in range(5):
            (folder / f"n/turn{number}.md").unlink(missing_ok=True)
        for number in range(10, 15):
            write(folder, f"n/{number}.md", f"# Note {number}\n\ncommon word{number}\n")
        if indexed:
            with open_vault(folder) as vault:
                assert len(recalled(vault, "common")) == NOTES
        for number in range(5):
            write(folder, f"n/turn{number}.md", f"# Turn {number}\n\ncommon turned{number}\n")
            (folder / f"n/{10 + number}.md").unlink()

    kinds = ("open", "os.mkdir", "os.remove", "os.rename", "sql BEGIN", "sql COMMIT", "sql INSERT")
    places = []
    with Killing(folder, _INDEXING, index) as indexing:
        for kind in kinds:
            as_before()
            for place in indexing.everywhere(kind, 4):
                places.append(place)
                with open_vault(folder) as vault:
                    assert len(recalled(vault, "common")) == NOTES, place
                    assert recalled(vault, "turned3") == ["Turn 3"], place
                    assert recalled(vault, "word13") == [], place
                    assert recalled(vault, "word9", "hybrid")[0] == "Note 9", place
                as_before()
    assert len(places) >= 16
    assert all(any(place.startswith(kind) for place in places) for kind in kinds)
