"""Import sources, and look at the result and at the notes that were written."""

from __future__ import annotations

from pathlib import Path

from conftest import Ran, Run, succeeded, vault_files


def import_all(run: Run, *arguments: str | Path) -> Ran:
    """Import without a confirmation."""
    return succeeded(run("import", *map(str, arguments), "--yes", "--json"))


def notes_in(vault: Path) -> dict[str, bytes]:
    """Return the files tracked with a vault."""
    return {path: data for path, data in vault_files(vault).items() if not path.endswith(".tmp")}


class Imported:
    """The notes and counts of an import to the folder ``in``, and the entries it did not read."""

    def __init__(self, run: Run, vault: Path, source: Path, kind: str) -> None:
        arguments = ("import", str(source), "--from", kind, "--to", "in", "--yes", "--json")
        ran = run(*arguments)
        self.found = ran.json if ran.code == 2 else succeeded(ran).json  # 2: nothing to import
        self.unreadable = {(one["what"], one["reason"]) for one in self.found.get("unreadable", ())}
        self.contents, self.omitted = (
            {one["name"]: one["count"] for one in self.found.get(key, ())}
            for key in ("contents", "notConverted")
        )
        self._folder = vault / "in"

    @property
    def notes(self) -> dict[str, str]:
        """The texts of all notes by their paths."""
        return {
            path.relative_to(self._folder).as_posix(): path.read_text("utf-8")
            for path in sorted(self._folder.rglob("*.md"))
        }

    @property
    def chat(self) -> str:
        """The text of the only conversation."""
        [text] = [text for text in self.notes.values() if "tags: [conversation" in text]
        return text

    def text(self, path: str) -> str:
        """Return the text of a note."""
        return (self._folder / path).read_text("utf-8")

    def data(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return (self._folder / path).read_bytes()
