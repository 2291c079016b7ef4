"""Findings of checks, their fixes, and the table of finding codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""All severities, most severe first."""

Kind = Literal["header", "trash", "sweep", "unlock", "ignore", "prune", "reindex", "vectors"]


class Fix(NamedTuple):
    """A repair for a finding, with a description for people in ``words``.

    A fix of the kind ``header`` sets keys in the header of a memory, and ``trash`` moves a memory
    to the trash; both apply only while the bytes of the file have the given ``etag``. All other
    kinds concern the vault as a whole. A fix ``for_good`` deletes data irrecoverably, and is
    applied only if the code of its finding is named explicitly.
    """

    kind: Kind
    words: str
    path: str = ""
    etag: str = ""
    changes: tuple[tuple[str, str | None], ...] = ()
    for_good: bool = False


class Finding(NamedTuple):
    """A problem that a check found; ``path`` is empty if it concerns no file of the vault."""

    code: str
    path: str
    message: str
    fix: Fix | None = None

    @property
    def severity(self) -> Severity:
        """The severity of the finding's code."""
        return CODES[self.code].severity


class FindingType(NamedTuple):
    """The severity and meaning of a code, and what ``--fix`` does, for the documentation."""

    severity: Severity
    meaning: str
    fix: str = ""


CODES: Mapping[str, FindingType] = {
    "front-matter-broken": FindingType(
        "error", "A header that is not read: no YAML, no closing line, or too much of it"
    ),
    "git-markers": FindingType("error", "The marks that git writes around a conflict"),
    "file-unreadable": FindingType("error", "A file or folder that this user may not read"),
    "file-too-large": FindingType("error", "A memory past 64 MB, or a file of state past 16 MB"),
    "file-binary": FindingType("error", "A memory that is no text"),
    "id-shared": FindingType(
        "error",
        "Several memories with one memId",
        "gives all but the oldest an id of their own",
    ),
    "private-in-git": FindingType(
        "error", "Files of `.memvault` that git keeps: `git rm --cached` them"
    ),
    "index-wrong": FindingType("error", "An index that says other than the files", "makes it anew"),
    "sync-conflict": FindingType(
        "warning",
        "A copy that Obsidian Sync, Dropbox, Syncthing, iCloud, ownCloud, Nextcloud or git kept",
        "moves it to the trash where it says the same as the original",
    ),
    "kept-twice": FindingType(
        "warning", "A memory that `memvault git sync` kept as two, since both sides changed it"
    ),
    "secret-in-text": FindingType(
        "warning", "A key, a token, a private key or a password in a URL, not said to be fine"
    ),
    "supersedes-broken": FindingType(
        "warning", "`supersedes` or `superseded_by` with a name that no memory has"
    ),
    "supersedes-circle": FindingType("warning", "Memories that replace each other in a circle"),
    "key-twice": FindingType("warning", "A header that has one key twice: the last one counts"),
    "names-merge": FindingType(
        "warning", "Names that are one where case or the form of Unicode does not count"
    ),
    "time-ahead": FindingType("warning", "A time more than a day ahead, in a header or of a file"),
    "vault-inside": FindingType(
        "warning", "A vault inside another one: both have the inner one's notes"
    ),
    "repository-inside": FindingType(
        "warning", "A git repository inside of the vault's own: `memvault git sync` leaves it out"
    ),
    "link-outside": FindingType("warning", "A link of the file system that leads out of the vault"),
    "link-dangling": FindingType("warning", "A link of the file system that leads nowhere"),
    "file-special": FindingType(
        "warning", "A pipe, a socket or a device that is called like a memory"
    ),
    "git-locked": FindingType("warning", "A lock of git's that is older than an hour"),
    "model-missing": FindingType(
        "warning", "An embedding model that cannot be used on this machine"
    ),
    "move-left": FindingType(
        "warning", "A move to another type's folder that was cut off and cannot be finished now"
    ),
    "revision-damaged": FindingType(
        "warning", "A revision that cannot be read, or is not as it was kept"
    ),
    "private-not-ignored": FindingType(
        "warning", "`.memvault` without the file that keeps it out of git", "writes it"
    ),
    "vectors-old": FindingType(
        "note", "Vectors of a model that is no longer in use", "deletes them; they can be made anew"
    ),
    "vectors-missing": FindingType("note", "Memories that wait for the deep embedder"),
    "history-over-limit": FindingType(
        "note",
        "Revisions and trash past what `[history]` keeps",
        "deletes them for good, only if named",
    ),
    "temporary-left": FindingType("note", "A half-written file of a killed process", "deletes it"),
    "lock-left": FindingType(
        "note", "A file that stood for the lock of a process that is gone", "deletes it"
    ),
    "journal-unreadable": FindingType("note", "Lines of the journal that cannot be read"),
    "link-broken": FindingType(
        "note", "A `[[link]]`, or a markdown link to a note, that leads to no file"
    ),
    "link-settled": FindingType(
        "note",
        "`conflict_with` a memory that is gone: the conflict was settled",
        "takes the line out of the header",
    ),
    "id-unusable": FindingType(
        "note", "An `id` that cannot be a memId: one made of the path is used"
    ),
    "type-unknown": FindingType(
        "note",
        "A type that is neither built in nor in `memvault.toml`",
        "spells it right where only case or hyphens differ",
    ),
    "title-apart": FindingType("note", "A title and a file name that were one and fell apart"),
    "not-utf8": FindingType("note", "A memory in another encoding than UTF-8, which is a guess"),
}
"""All codes, most severe first; docs/doctor.md has the same table."""
