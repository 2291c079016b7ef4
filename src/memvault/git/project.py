"""Describe a project by its git repository: its name, branch and last commits.

A repository is untrusted, and its settings could make git run programs. The settings are not used:
the name and the branch are read from its files, and the commits are read by running git in a
separate empty repository that sees only the objects.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from memvault.errors import MemvaultError
from memvault.files import atomic, plain_files
from memvault.files.git_location import RepositoryLocation
from memvault.repository.location import find_repository
from memvault.repository.program import Git
from memvault.secrets.detector import masked

_COMMITS = 5
_SECONDS = 1.0
"""Maximum seconds to wait for the commits."""
_MAX_SUBJECT = 100
_OBJECT_ID = re.compile(r"[0-9a-f]{40}")
_REMOTE = re.compile(r'^[ \t]*+\[remote[ \t]++"([^"\n]{1,200})"\]', re.MULTILINE)
_URL = re.compile(r"^[ \t]*+url[ \t]*+=[ \t]*+\"?([^\s\"]++)", re.MULTILINE)
_HOST = re.compile(r"^(?:[a-z][a-z0-9+.-]*://[^/]*/|[^/]*:)", re.IGNORECASE)
"""Matches the part of a URL before the path, including any credentials."""
_NAME = re.compile(r"~?[\w.-]{1,100}")
_BETWEEN = re.compile(r"[\W_]+")
_MAIN_BRANCHES = frozenset(("main", "master", "trunk", "develop"))


def project_topics(folder: Path) -> list[str]:
    """Return strings about the topic of a project's folder, the most general first.

    The strings are the remote's name, such as ``owner/name``, or else the folder's name; the words
    of the branch; and the subjects of the latest commits, newest first. Without a repository, only
    the folder's name is returned. Secrets are masked, and only the path of a remote's URL is used.
    """
    location = None
    with contextlib.suppress(MemvaultError, OSError):
        location = find_repository(folder)
    if location is None:
        return [masked(folder.name)]
    topics = [_remote_name(location) or location.top.name]
    if folder.name.casefold() not in topics[0].casefold():
        topics.append(folder.name)
    branch = location.branch
    # Check the whole branch name, because a secret split into words would not be detected.
    if branch not in _MAIN_BRANCHES and masked(branch) == branch:
        topics.append(_BETWEEN.sub(" ", branch).strip())
    with contextlib.suppress(MemvaultError, OSError):
        topics += _subjects(location)
    return list(dict.fromkeys(masked(text) for text in topics if text))


def _remote_name(location: RepositoryLocation) -> str:
    """Return ``owner/name`` from the URL of origin or the first remote; empty without one."""
    try:
        config = plain_files.read(location.common / "config", plain_files.MAX_SETTING_BYTES)
    except OSError:
        return ""
    parts = _REMOTE.split(config.decode("utf-8", "replace"))
    urls = {
        name: match[1]
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
        if (match := _URL.search(body.partition("\n[")[0]))
    }
    url = urls.get("origin") or next(iter(urls.values()), "")
    has_host = _HOST.match(url) is not None and not url.lower().startswith("file:")
    path = re.split(r"[?#]", _HOST.sub("", url, count=1))[0].rstrip("/").removesuffix(".git")
    names = path.split("/")[-2 if has_host else -1 :]
    return "/".join(name for name in names if _NAME.fullmatch(name))


def _subjects(location: RepositoryLocation) -> list[str]:
    """Return the subjects of the latest commits, newest first, with secrets masked."""
    commit = _head(location)
    if not commit:
        return []
    with TemporaryDirectory(prefix="memvault-") as scratch:
        stub = Path(scratch)
        for name in ("objects", "refs"):
            (stub / name).mkdir()
        atomic.write(stub / "HEAD", b"ref: refs/heads/main\n", durable=False)
        objects = os.path.realpath(location.common / "objects")
        git = Git(stub, {"GIT_DIR": scratch, "GIT_OBJECT_DIRECTORY": objects})
        args = ("log", f"--max-count={_COMMITS}", "--format=%s", "--no-merges", commit)
        shown = git.run(*args, seconds=_SECONDS).decode("utf-8", "replace")
    return [line.strip()[:_MAX_SUBJECT] for line in masked(shown).splitlines()]


def _head(location: RepositoryLocation) -> str:
    """Return the id of the commit that is checked out, or an empty string."""

    def read(path: Path) -> str:
        with contextlib.suppress(OSError):
            return plain_files.read(path, plain_files.MAX_STATE_BYTES).decode("utf-8", "replace")
        return ""

    head = read(location.folder / "HEAD").strip()
    if location.branch:
        ref = f"refs/heads/{location.branch}"
        head = "" if ".." in ref else read(location.common / ref).strip()
        if not head:
            packed = (
                line.partition(" ") for line in read(location.common / "packed-refs").split("\n")
            )
            head = next((commit for commit, _, name in packed if name == ref), "")
    return head if _OBJECT_ID.fullmatch(head) else ""
