"""Tools that save and delete long-term memories; ``memory_load`` loads them by query."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from memvault.arguments.binding import read_object
from memvault.arguments.parameters import Arg, CommandLineForm
from memvault.call import Call
from memvault.errors import UsageError
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.shared_args import CONTENT_ARG

if TYPE_CHECKING:
    from memvault import results

group = ToolGroup("long-term", "Long-term memory", place=30)

_METADATA_HELP = "More front matter: strings, numbers, booleans, or lists of these"
_IDS_HELP = "Memory ids or their beginnings, paths, or exact titles, separated by commas"


def _pairs(entry: str) -> dict[str, Any]:
    if entry.lstrip().startswith("{"):
        return read_object(entry, "metadata is", 'pass an object such as {"key": "value"}')
    key, equals, text = entry.partition("=")
    if not equals:
        raise UsageError(f"`--metadata {entry!r}` has no =", "pass `--metadata KEY=VALUE`")
    value: Any = None
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
    return {key.strip(): text if value is None else value}


@group.tool(
    "save",
    examples=(
        """memvault save "The user's name is Ana." --area main""",
        "memvault save @notes.txt --metadata source=chat --metadata lang=en",
    ),
    view="Saved {id}",
)
def memory_save(
    call: Call,
    text: Annotated[
        str, CONTENT_ARG._replace(help="The text to save; its first words become the title")
    ],
    area: Annotated[
        str | None, Arg("The area that the text belongs to, for filters such as area == 'main'")
    ] = None,
    metadata: Annotated[
        dict[str, Any] | None,
        Arg(
            _METADATA_HELP,
            cli_override=CommandLineForm(
                f"{_METADATA_HELP}; a JSON object or KEY=VALUE, repeatable", _pairs
            ),
        ),
    ] = None,
) -> results.SavedText:
    """Save text as a new memory, exactly as it is.

    Metadata is stored as front matter, by which `memvault load --query` and `memvault recall` can
    filter. Keys that only memvault may set, such as created, are rejected.
    """
    from memvault.memories import create

    title = create.title_of(text, detector=call.settings.detector)
    header = create.metadata_header(metadata or {}, area)
    memory = create.add(call.store, title, text, "", header)
    return {"id": memory.mem_id, "title": memory.title, "filePath": memory.path}


@group.tool(
    "delete",
    destructive=True,
    idempotent=True,
    examples=('memvault delete "Old notes"', 'memvault delete "Old notes" "Deploy notes"'),
    view="""Moved to the trash: {deleted:each}
        Not found: {missing:each}""",
)
def memory_delete(
    call: Call,
    ids: Annotated[
        list[str] | str,
        Arg(_IDS_HELP, positional=True, completes="memory", json_aliases=("id", "memIds", "memId")),
    ],
) -> results.DeletedMemories:
    """Move exactly these memories to the trash, all or none.

    Unknown ids are listed under missing, which is not an error. An ambiguous id is an error, and
    nothing is deleted. On a terminal, an incomplete name must be confirmed. `memvault restore`
    restores deleted memories.
    """
    from memvault.memories import delete

    names = [ids] if isinstance(ids, str) else ids
    chosen, missing = delete.resolve_all(
        call.engine, partial(call.resolve, whole=True, suggests=False), names
    )
    if not chosen and not missing:
        raise UsageError("No ids are given", "find memory ids with `memvault search QUERY`")
    delete.delete(call.store, chosen)
    return {"deleted": [memory.mem_id for memory in chosen], "missing": missing}
