"""Tools for everyday use: daily notes, tasks in notes, random memories and saved searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.errors import NotFound, UsageError, exclusive, suggestion
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.result_parts import item, paginate, without_none
from memvault.tools.core.shared_args import (
    CONTENT_ARG,
    LISTED,
    MEMORY_ARG,
    QUERY_FILTERS,
    QUERY_LINE_ARG,
    Expression,
    Limit,
    Offset,
    QueryLine,
    Since,
    TagFilter,
    TypeName,
    Until,
    filters,
    parse_date_argument,
    warn_unknown_filters,
)

if TYPE_CHECKING:
    from memvault import results
    from memvault.memories.tasks import Task

group = ToolGroup("daily", "Daily notes, tasks and review", place=96)


@group.tool(
    "today",
    paged_keys=("content",),
    examples=(
        "memvault today bought the tickets",
        "memvault today --date yesterday",
        "git log -1 --format=%s | memvault today --json",
    ),
    view="""{title}  {memId}  {filePath}  {isNew:new|}
           {added:each}
        {content:markdown}""",
    reveals=True,
)
def memory_today(
    call: Call,
    text: Annotated[
        str, CONTENT_ARG._replace(help="Text to add to the note; omit it to show the note")
    ] = "",
    day: Annotated[
        str | None, Arg("Another day, such as yesterday or 2026-11-05", key="date", flag="--date")
    ] = None,
) -> results.DailyNote:
    """Add an entry to today's daily note, or show the note.

    The text becomes a list item with the time; text that begins with `[ ]` becomes a task. A new
    note is created from the vault's template. The path, template and target heading come from
    settings; the path and template can also come from Obsidian's daily notes.
    """
    from memvault import clock
    from memvault.memories import daily_notes

    chosen = clock.today(parse_date_argument(day, "date", False))
    if text.strip():
        entry = daily_notes.add(call.store, chosen, text)
        memory, details = entry.memory, without_none(line=entry.line, added=entry.text)
        is_new = entry.is_new
    else:
        daily_note = daily_notes.find(call.store, chosen)
        if daily_note is None:
            path = daily_notes.place(call.root, call.settings).path_of(call.root, chosen)
            return {
                "date": chosen.isoformat(),
                "filePath": path,
                "isNew": False,
                "message": f"There is no note for {chosen.isoformat()} yet",
            }
        memory, details, is_new = daily_note, without_none(content=daily_note.body), False
    return {
        "date": chosen.isoformat(),
        "filePath": memory.path,
        "memId": memory.mem_id,
        "title": memory.title,
        "isNew": is_new,
        **details,
    }


@group.tool(
    "tasks",
    paged_keys=("tasks",),
    read_only=True,
    openable_list="tasks",
    examples=(
        "memvault tasks",
        "memvault tasks tag:work in:projects --due week",
        "memvault tasks --done -n 20",
    ),
    view="""*tasks | There are no such tasks
        [{mark}] {text}  {due}  {isCancelled:canceled|}
           {title}  {filePath}:{line}""",
)
def list_tasks(
    call: Call,
    query: QueryLine = "",
    done: Annotated[bool, Arg("List only done and canceled tasks")] = False,
    include_done: Annotated[bool, Arg("List all tasks", flag="--all", key="all")] = False,
    due: Annotated[
        Literal["overdue", "today", "week"] | None,
        Arg("Only tasks that are overdue, due today, or due within the next 7 days"),
    ] = None,
    memory_type: TypeName = None,
    tags: TagFilter = None,
    since: Since = None,
    until: Until = None,
    expression: Expression = None,
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> results.NoteTasks:
    """List tasks in notes, such as `- [ ] Call Ann`, by due date; undated tasks come last.

    A task marked `[-]` is canceled. The due date follows `📅` or `due:` in the task's text. Tasks
    without a due date are sorted by their note's last change. Tasks in code are ignored. The
    filters apply to the notes.
    """
    from memvault import clock
    from memvault.memories import tasks
    from memvault.recall import query_filters
    from memvault.recall.filters import Filters

    exclusive({"--done": done, "--all": include_done})
    line = query_filters.parse(query)
    call.notes += line.notes
    chosen = filters(memory_type, tags, since, until, expression, query_filters.listing(line))
    with_tasks = Filters(passes=lambda record: tasks.may_have_tasks(call.reader, record))
    records = call.engine.list_records(chosen.both(with_tasks))
    matching_tasks = [
        task
        for task in tasks.tasks_in(call.reader, records)
        if (include_done or task.is_done == done)
        and (due is None or task.is_due(due, clock.today()))
    ]
    matching_tasks.sort(key=lambda task: task.due or "9999")
    shown, paging = paginate(matching_tasks, limit, offset)
    return {**paging, "tasks": [_task(task) for task in shown]}


def _task(task: Task) -> results.NoteTask:
    from memvault.recall.answer import memory_reference

    return {
        **memory_reference(task.memory),
        "line": task.line,
        "text": task.text,
        "isDone": task.is_done,
        "mark": task.mark,
        **without_none(due=task.due or None, isCancelled=task.is_cancelled or None),
    }


@group.tool(
    "task done",
    examples=(
        'memvault task done "Deploy notes" 17',
        "memvault task done context/deploy-notes.md:17",
    ),
    view="[x] {text}  {filePath}:{line}",
)
def complete_task(
    call: Call,
    memory: Annotated[str, MEMORY_ARG._replace(help="Memory id, path or title; or PATH:LINE")],
    line: Annotated[
        int | None, Arg("The task's line in the file", positional=True, minimum=1)
    ] = None,
) -> results.CompletedTask:
    """Mark a task as done: `- [ ]` becomes `- [x]`.

    `memvault tasks` lists the lines.
    """
    from memvault.memories import tasks

    name, _, number = memory.rpartition(":")
    if line is None:
        if not (name and number.isdigit()):
            raise UsageError(
                "No line number was given for the task",
                "pass PATH:LINE, as listed by `memvault tasks`",
            )
        line = int(number)
    else:
        name = memory
    task, _ = tasks.complete(call.store, call.resolve(name, writes=True), line)
    return {**_task(task)}


@group.tool(
    "random",
    read_only=True,
    examples=("memvault random", "memvault random --type issue"),
    view="""{title}  {memoryType}  {tags}
           {memId}  {filePath}  {modified:day}
        {content:markdown}""",
)
def memory_random(
    call: Call,
    memory_type: TypeName = None,
    tags: TagFilter = None,
    since: Since = None,
    until: Until = None,
    expression: Expression = None,
) -> results.RandomMemory:
    """Show a random memory, to rediscover forgotten ones."""
    from memvault import clock
    from memvault.index.protocol import by_time
    from memvault.model import is_example
    from memvault.recall.filters import Filters

    chosen = filters(memory_type, tags, since, until, expression)
    places = call.engine.visit_records(
        lambda records: sorted(by_time(r) for r in records if not is_example(r.metadata)), chosen
    )
    if not places:
        if chosen == Filters():
            raise NotFound("The vault has no memories yet", "add one with `memvault remember`")
        warn_unknown_filters(call, chosen)
        raise NotFound("No memory matches the filters", "run `memvault list` to see all memories")
    _, path = places[-1 - clock.random_number(len(places))]
    memory = call.reader.read(path)
    return {**item(memory), "content": memory.body}


_SEARCH_VIEW = """@{name}  {query}  {memoryType}  {tags}  {since}  {until}  {filter}"""
_NAME = Annotated[str, Arg("The search's name, one word", positional=True, completes="saved")]


@group.tool(
    "searches save",
    examples=(
        "memvault searches save blockers deploy blocked type:issue since:30d",
        "memvault searches save home --filter \"area == 'home'\"",
    ),
    view=f"Saved {_SEARCH_VIEW}",
)
def save_search(
    call: Call,
    name: _NAME,
    query: Annotated[str, QUERY_LINE_ARG._replace(help=f"Search query; {QUERY_FILTERS}")] = "",
    memory_type: TypeName = None,
    tags: TagFilter = None,
    since: Since = None,
    until: Until = None,
    expression: Expression = None,
) -> results.SavedSearchResult:
    """Save a search under a name; use @NAME in place of a query.

    An existing search with that name is replaced. Searches are stored in memvault.toml under
    [searches].
    """
    from memvault.memories import saved_searches

    filters(memory_type, tags, since, until, expression).predicate()
    if not (query.strip() or memory_type or tags or since or until or expression):
        raise UsageError("The search is empty", "pass a query, a filter or both")
    entry = without_none(
        memoryType=memory_type, tags=tags, since=since, until=until, filter=expression
    )
    saved_searches.save(call.store, name, {"query": query.strip(), **entry})
    return {"name": name, "query": query.strip(), **entry}


@group.tool(
    "searches list",
    read_only=True,
    examples=("memvault searches list", "memvault searches list --json"),
    view=f"""*searches | There are no saved searches; `memvault searches save NAME QUERY` adds one
        {_SEARCH_VIEW}""",
)
def list_searches(call: Call) -> results.SavedSearches:
    """List the vault's saved searches."""
    searches = call.settings.searches
    return {"searches": [_search(name, searches[name]) for name in sorted(searches)]}


def _search(name: str, saved: Mapping[str, Any]) -> results.SavedSearch:
    details = without_none(**{key: value for key, value in saved.items() if key != "query"})
    return {"name": name, "query": str(saved.get("query", "")), **details}


@group.tool(
    "searches delete",
    examples=("memvault searches delete blockers", "memvault searches delete blockers --json"),
    view=f"Deleted {_SEARCH_VIEW}",
)
def delete_search(call: Call, name: _NAME) -> results.SavedSearchResult:
    """Delete a saved search."""
    from memvault.memories import saved_searches

    saved = call.settings.searches.get(name)
    if saved is None:
        saved_names = ", ".join(sorted(call.settings.searches))
        hint = f"saved searches: {saved_names}" if saved_names else "there are no saved searches"
        hint = suggestion(name, call.settings.searches, hint)
        raise NotFound(f"There is no saved search {name!r}", hint)
    saved_searches.save(call.store, name, None)
    return {**_search(name, saved)}
