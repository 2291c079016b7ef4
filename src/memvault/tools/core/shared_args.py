"""Arguments that several tools share, such as filters and the tokens that confirm a preview."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from memvault.arguments.binding import FLAGS
from memvault.arguments.parameters import Arg, split_tags
from memvault.call import Call
from memvault.errors import Conflict, UsageError
from memvault.files.plain_files import digest_of

if TYPE_CHECKING:
    from memvault.recall.filters import Filters
    from memvault.recall.recall_engine import RecallEngine

Confirm = Annotated[
    bool | str | None,
    Arg(
        "true, or the token from the preview",
        json_aliases=("confirmed", "confirmation", "confirmToken", "token"),
    ),
]


def token_to_confirm(confirm: bool | str | None, items: Iterable[str], what: str) -> str:
    """Return the token to confirm an action on these items, or "" if it is already confirmed.

    ``items`` contains strings that identify them; they should include the items' state, so the
    token changes with it. ``what`` describes them. If this returns a token, the tool must return a
    preview.

    Raises:
        Conflict: the given token is a different one.
    """
    shown = "\n".join(sorted(items)).encode("utf-8", "surrogatepass")
    token = digest_of(shown, 6).hex()
    answer = "" if confirm is None else str(confirm).strip().lower()
    if not FLAGS.get(answer, answer):
        return token
    if answer != token and answer not in FLAGS:
        raise Conflict(
            f"The confirmation does not match {what}",
            "repeat it without the token for a new preview",
        )
    return ""


MEMORY_NAMES = "memory id or its beginning, path, or exact title"
MEMORY_HELP = f"M{MEMORY_NAMES[1:]}"
TYPE_HELP = "Such as design-decision (see `memvault types`)"
MEMORY_ALIASES = ("memory", "memId", "id", "memoryId", "filePath", "path", "title", "name")
TYPE_ALIASES = ("type", "kind", "category")
TAG_ALIASES = ("tag", "labels")
CONTENT_ALIASES = ("content", "text", "value", "body")
QUERY_ALIASES = ("q", "question", "search", "text")
LIMIT_ALIASES = ("limit", "topK", "maxResults", "numResults", "max", "n", "k", "count")
THRESHOLD_ALIASES = ("similarity", "minScore", "score")
MESSAGE_ALIASES = ("text", "content")
MEMORY_ARG = Arg(MEMORY_HELP, positional=True, completes="memory", json_aliases=MEMORY_ALIASES)
QUERY_ARG = Arg(
    "Search query", positional=True, join_words=True, completes="search", json_aliases=QUERY_ALIASES
)
CONTENT_ARG = Arg("Markdown text", positional=True, text=True, json_aliases=CONTENT_ALIASES)
MESSAGE_ARG = Arg("The message", positional=True, text=True, json_aliases=MESSAGE_ALIASES)
THRESHOLD_ARG = Arg("", minimum=0, maximum=1, json_aliases=THRESHOLD_ALIASES)
MemoryRef = Annotated[
    str, MEMORY_ARG._replace(key="memId", json_aliases=(*MEMORY_ALIASES, "query"))
]
Content = Annotated[
    str, CONTENT_ARG._replace(cli_optional=True, json_aliases=(*CONTENT_ALIASES, "memory"))
]
MessageText = Annotated[str, MESSAGE_ARG]
TypeName = Annotated[
    str | None, Arg(TYPE_HELP, flag="--type", completes="type", json_aliases=TYPE_ALIASES)
]
NewTags = Annotated[
    list[str] | None, Arg("The memory's tags", completes="tag", json_aliases=TAG_ALIASES)
]
TagFilter = Annotated[
    list[str] | None,
    Arg("Only memories with all of these tags", completes="tag", json_aliases=TAG_ALIASES),
]
Expression = Annotated[
    str | None,
    Arg(
        "Condition on the front matter, such as area == 'main' and 'db' in tags",
        key="filter",
        json_aliases=("where", "condition", "expression"),
    ),
]
QUERY_FILTERS = "filters: tag: type: in:FOLDER since: until: -WORD"
QUERY_LINE_ARG = QUERY_ARG._replace(
    help=f"Search words, all of which must occur; {QUERY_FILTERS}", completes="query"
)
QueryLine = Annotated[str, QUERY_LINE_ARG]
Since = Annotated[
    str | None,
    Arg(
        "Changed since a date, an age such as 7d, or words such as 'last week'",
        json_aliases=("from", "startDate"),
    ),
]
Until = Annotated[
    str | None, Arg("Changed until a date, in the same formats", json_aliases=("to", "endDate"))
]
LISTED = 50
"""Default limit of listings."""
Limit = Annotated[int, Arg("Maximum number", minimum=1, json_aliases=LIMIT_ALIASES)]
Offset = Annotated[
    int,
    Arg("Entries to skip: next of the previous result", minimum=0, json_aliases=("skip", "start")),
]


def require_text(text: str | None, name: str, hint: str) -> str:
    """Return an optional string without surrounding whitespace, or an empty string for None.

    Raises:
        UsageError: the string was given but is empty, for example from an unset shell variable.
    """
    if text is not None and not text.strip():
        raise UsageError(f"{name} is empty", hint)
    return (text or "").strip()


def filters(
    memory_type: str | None,
    tags: list[str] | None,
    since: str | None,
    until: str | None,
    expression: str | None,
    also: Filters | None = None,
) -> Filters:
    """Create filters from a tool's arguments, combined with the filters in its query.

    Raises:
        UsageError: ``since`` or ``until`` is not a date.
    """
    from memvault.recall.filters import Filters

    argument_filters = Filters(
        memory_type=(memory_type or "").strip(),
        tags=tuple(
            part
            for tag in tags or ()
            # A tag in a file may contain a comma.
            for part in (split_tags(tag) if " #" in tag or "\n" in tag else [tag])
            if part.strip()
        ),
        since=parse_date_argument(since, "since", False),
        until=parse_date_argument(until, "until", True),
        expression=expression or "",
    )
    return argument_filters if also is None else argument_filters.both(also)


def warn_unknown_filters(call: Call, chosen: Filters, engine: RecallEngine | None = None) -> None:
    """Add notes about types and tags in the filters that no memory has, after an empty result."""
    if any(
        part.memory_type or part.types or part.tags or part.folders for part in chosen.required()
    ):
        from memvault.recall.filters import unknown_value_notes

        call.notes += (engine or call.engine).visit_records(
            lambda records: unknown_value_notes(records, chosen, call.settings.types)
        )


def tags_in(query: str) -> Filters:
    """Convert the query of a tag search to filters."""
    from memvault.recall.filters import Filters

    return Filters(tags=tuple(query.replace(",", " ").split()))


def parse_date_argument(text: str | None, name: str, end: bool) -> datetime | None:
    """Parse a date argument to the first moment of that date, or with ``end`` the last.

    Raises:
        UsageError: the argument is not a date.
    """
    from memvault.recall import dates

    if not text or not text.strip():
        return None
    moment = dates.parse_moment(text, end)
    if moment is None:
        shown = text if len(text) <= 60 else f"{text[:60]}..."
        raise UsageError(
            f"{name} must be a date, a time, an age or a phrase, not {shown!r}",
            "use 2026-01-31, 2026-01-31T12:00:00Z, 2026-W05, 7d, 12h, 2w, or words such as "
            "'last week'",
        )
    return moment
