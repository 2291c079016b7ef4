"""Find a section by its heading, or by a path of headings such as ``Setup/Linux``."""

from __future__ import annotations

from collections.abc import Sequence

from memvault.errors import Ambiguous, NotFound, UsageError, closest
from memvault.named_tuple import NamedTuple
from memvault.vault.markdown import headings, without_block_id

_MAX_LISTED = 20


class MarkdownSection(NamedTuple):
    """A heading and the text below it, up to the next heading of its level or above.

    ``start`` and ``end`` are positions in the body, ``content`` is where the text after the
    heading's line starts, and ``headings`` are the headings from the outermost to its own.
    """

    start: int
    content: int
    end: int
    level: int
    headings: tuple[str, ...]

    @property
    def path(self) -> str:
        """The headings, separated by slashes."""
        return "/".join(self.headings)


def find_section(body: str, reference: str) -> MarkdownSection:
    """Return the section whose heading matches, including its subsections.

    A path ends with the heading and contains some of the headings above it, in order. Case, heading
    marks and repeated spaces are ignored. A complete path selects its section even if it also
    matches other sections.

    Raises:
        UsageError: no heading is given.
        NotFound: no section has this heading.
        Ambiguous: several have it; their paths are ``sections`` in the details.
    """
    sections = _sections(body)
    section = _only(sections, reference)
    if section is None:
        raise NotFound(f"There is no section {reference.strip()!r}", _hint(reference, sections))
    return section


def find_place(body: str, reference: str) -> tuple[MarkdownSection | None, MarkdownSection | None]:
    """Return the section of a path, and the section that would contain it if it is missing.

    A missing section is None.

    Raises:
        UsageError: no heading is given.
        Ambiguous: several sections match; their paths are ``sections`` in the details.
    """
    sections = _sections(body)
    section = _only(sections, reference)
    above = "" if section else reference.rpartition("/")[0]
    return section, _only(sections, above) if above else None


def _only(sections: Sequence[MarkdownSection], reference: str) -> MarkdownSection | None:
    """Return the only section that a path selects, or None.

    Raises:
        UsageError: no heading is given.
        Ambiguous: several sections match; their paths are ``sections`` in the details.
    """
    matches = _matching(sections, reference)
    if len(matches) > 1:
        paths = [section.path for section in matches]
        listed = ", ".join(dict.fromkeys(paths[:_MAX_LISTED])) + " …" * (len(paths) > _MAX_LISTED)
        raise Ambiguous(
            f"{reference.strip()!r} is the heading of {len(matches)} sections",
            f"choose one of {listed}"
            if len(set(paths)) == len(paths)
            else f"give them different headings first: {listed}",
            {"sections": paths},
        )
    return matches[0] if matches else None


def _sections(body: str) -> list[MarkdownSection]:
    marks = list(headings(body))
    following = [len(body)] * 7  # For each level, the start of its next heading.
    ends = []
    for start, _, level, _ in reversed(marks):  # Iterate backward to stay linear.
        ends.append(min(following[: level + 1]))
        following[level] = start
    above: list[tuple[int, str]] = []
    sections = []
    for (start, content, level, text), end in zip(marks, reversed(ends), strict=True):
        above = [*(entry for entry in above if entry[0] < level), (level, text)]
        names = tuple(name for _, name in above)
        sections.append(MarkdownSection(start, content, end, level, names))
    return sections


def _matching(sections: Sequence[MarkdownSection], reference: str) -> list[MarkdownSection]:
    """Return the section with this complete path, or else all sections that match it.

    Raises:
        UsageError: the path has an empty heading.
    """
    names = [_normalize(name) for name in reference.split("/")]
    if not all(names):
        raise UsageError("The section is empty", "pass a heading such as Setup or Setup/Linux")
    path = _normalize(reference)
    fitting = [
        section
        for section in sections
        if _normalize(section.path) == path or _fits(section, reference, names)
    ]
    whole = [section for section in fitting if _normalize(section.path) == path]
    return whole if len(whole) == 1 else fitting


def _normalize(name: str) -> str:
    return " ".join(without_block_id(name.strip().lstrip("#")).split()).casefold()


def _fits(section: MarkdownSection, reference: str, names: Sequence[str]) -> bool:
    """Return whether a section matches a path: its last heading, and others above it in order.

    A heading may itself contain a slash.
    """
    *above, heading = map(_normalize, section.headings)
    ancestors = iter(above)
    return heading == _normalize(reference) or (
        heading == names[-1] and all(name in ancestors for name in names[:-1])
    )


def _hint(reference: str, sections: Sequence[MarkdownSection]) -> str:
    if not sections:
        return "the memory has no headings; omit section to show all of it"
    by_name = {_normalize(section.path): section.path for section in sections}
    suggestion = by_name.get(closest(_normalize(reference), by_name), "")
    listed = ", ".join(list(by_name.values())[:_MAX_LISTED]) + " …" * (len(by_name) > _MAX_LISTED)
    return f"did you mean {suggestion}? " * bool(suggestion) + f"sections: {listed}"
