"""The collections of bench/real are built from git, and their questions match the judgments."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import real_collections
from conftest import write
from git_clones import git, without_identity

NOTES = {
    "notes/deep/long.md": "---\ntitle: The long one\ndate: 2024-05-06T10\n---\n\n# Other\n\nIt.\n",
    "notes/heading.md": "# A heading\r\n\r\nText with ---\r\n",
    "notes/ünlaut.md": "No heading.\n",
    "notes/drafts/draft.md": "A draft.\n",
    "notes/picture.svg": "<svg/>\n",
    "README.md": "# About\n",
}
QUESTIONS = {"q1": "paraphrase", "q2": "multi", "none-q3": "none"}
JUDGED = ["q1\tnotes/heading.md\t2", "q2\tnotes/deep/long.md\t2", "q2\tnotes/heading.md\t1"]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a commit of notes."""
    without_identity(monkeypatch, tmp_path / "home")
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "--quiet")
    for path, text in NOTES.items():
        write(root, path, text)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "first")
    return root


@pytest.fixture
def collection(tmp_path: Path, repository: Path) -> Path:
    """A collection of the repository's first commit, followed by a second commit."""
    folder = tmp_path / "real" / "tiny"
    source = {
        "repository": str(repository),
        "commit": git(repository, "rev-parse", "HEAD").strip(),
        "include": ["notes/**/*.md"],
        "exclude": ["notes/drafts/**"],
        "license": "CC0-1.0",
    }
    write(folder, "source.json", json.dumps(source))
    questions = [
        json.dumps({"_id": name, "text": "?", "metadata": {"category": category}})
        for name, category in QUESTIONS.items()
    ]
    write(folder, "queries.jsonl", "\n".join(questions) + "\n")
    judge(folder, JUDGED)
    (repository / "notes/heading.md").unlink()
    git(repository, "commit", "--quiet", "--all", "--message", "second")
    return folder


def judge(folder: Path, lines: list[str]) -> None:
    """Write the judgments of a collection."""
    write(folder, "qrels.tsv", "\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n")


@pytest.mark.parametrize("given", [False, True])
def test_real_collection_is_built_from_its_commit(
    tmp_path: Path, repository: Path, collection: Path, given: bool
) -> None:
    """The notes come from the commit, fetched or read from a local git directory."""
    git_dir = repository / ".git" if given else None
    counts = real_collections.build(collection, tmp_path / "out", git_dir)
    assert counts == (3, 49, 3, 1, 3)
    built = tmp_path / "out" / "tiny"
    lines = (built / "corpus.jsonl").read_text("utf-8").splitlines()
    assert [tuple(json.loads(line).values()) for line in lines] == [
        ("notes/deep/long.md", "The long one", "# Other\n\nIt.", {"date": "2024-05-06"}),
        ("notes/heading.md", "A heading", "# A heading\n\nText with ---", {}),
        ("notes/ünlaut.md", "ünlaut", "No heading.", {}),
    ]
    for name in ("queries.jsonl", "qrels.tsv"):
        assert (built / name).read_bytes() == (collection / name).read_bytes()


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("docs/adr/0001.md", "docs/adr"),
        ("README.md", "notes"),
        ("tools/git.md", "notes/tools"),
        (".ai/memory/one.md", "ai/memory"),
    ],
)
def test_real_collection_keeps_valid_vault_folders(path: str, folder: str) -> None:
    """Notes keep their folders; hidden and reserved ones are renamed, so that all are memories."""
    assert real_collections.to_document(path, b"Text.\n", True)["metadata"] == {"folder": folder}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*JUDGED, "q1\tREADME.md\t1"], "judged notes not found: README.md"),
        ([*JUDGED, "none-q3\tnotes/heading.md\t2"], "differ: none-q3"),
        (JUDGED[1:], "differ: q1"),
        ([*JUDGED[:1], *JUDGED[2:]], "differ: q2"),
        ([*JUDGED, "q1\tnotes/heading.md\t1"], "judged twice"),
    ],
)
def test_real_collection_refuses_invalid_judgments(
    tmp_path: Path, collection: Path, lines: list[str], message: str
) -> None:
    """A question without an answer, or an unknown note, stops the build before it writes."""
    judge(collection, lines)
    with pytest.raises(ValueError, match=message):
        real_collections.build(collection, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_real_collection_include_without_match_is_refused(tmp_path: Path, collection: Path) -> None:
    """A glob with a typo is an error instead of a smaller collection."""
    source = real_collections.read_source(collection)._replace(include=["note/**/*.md"])
    write(collection, "source.json", json.dumps(source._asdict()))
    with pytest.raises(subprocess.CalledProcessError):
        real_collections.build(collection, tmp_path / "out")


@pytest.mark.parametrize(
    "folder",
    sorted(path.parent for path in real_collections.REAL.glob("*/source.json")),
    ids=lambda folder: folder.name,
)
def test_real_collection_questions_match_judgments(folder: Path) -> None:
    """Each question in bench/real is answered or unanswerable, and its source has one commit."""
    real_collections.check(folder, real_collections.read_judgements(folder))
    source = real_collections.read_source(folder)
    assert len(source.commit) == 40
    assert source.repository.startswith("https://")
