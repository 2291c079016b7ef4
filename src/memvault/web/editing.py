"""Edit memories through the pages of ``memvault web --write``.

Changes are made by the same tools as on the command line, so etags, the secret policy, the journal
and undo apply. Nothing here depends on the web framework.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Concatenate, ParamSpec
from urllib.parse import parse_qsl

from memvault.arguments.parameters import Arg, parameters_of, split_tags
from memvault.call import Call
from memvault.errors import Conflict, MemvaultError, NotFound, Refused, UsageError
from memvault.history import log
from memvault.memories import create, edit
from memvault.model import FileState, Memory
from memvault.named_tuple import NamedTuple
from memvault.store.memory_store import require_memory
from memvault.tools.core import available, invoke
from memvault.tools.core.registry import Tool
from memvault.tools.history import memory_undo
from memvault.tools.notes import memory_rename, tag_add, tag_remove
from memvault.tools.recall import memory_remember
from memvault.tools.save_delete import memory_delete
from memvault.vault.markdown import first_heading
from memvault.web import pages
from memvault.web.addresses import Addresses, public_id
from memvault.web.markdown_html import RenderedMarkdown
from memvault.web.renderer import Renderer
from memvault.web.session import WebSession

Arguments = ParamSpec("Arguments")
Form = Mapping[str, str]
"""The fields of a submitted form; empty if the user opens its page."""
_MAX_FIELDS = 20
_MAX_NOTICES = 100
_UNDO_LISTED = 20
_EMPTY = dict.fromkeys(("title", "type", "tags", "text", "to"), "")
_STATUS = {"not_found": 404, "conflict": 409}


class Page(NamedTuple):
    """A page to show: its template's name, its values and its status."""

    name: str
    values: Mapping[str, Any]
    status: int = 200


class FormRoute(NamedTuple):
    """The functions of a form. ``show`` returns its page, after an error with the user's input.

    ``submit`` returns a page or the URL to redirect to; both get the name in the URL and the
    fields.
    """

    show: Callable[[str, Form, MemvaultError | None], Page] | None
    submit: Callable[[str, Form], Page | str]


def parse_form(body: bytes) -> dict[str, str]:
    """Return a form's fields.

    Raises:
        UsageError: it is not a URL-encoded form in UTF-8.
    """
    try:
        text = body.decode("ascii")
        return dict(parse_qsl(text, True, errors="strict", max_num_fields=_MAX_FIELDS))
    except ValueError as error:
        raise UsageError("The form is invalid", "open the page again") from error


def memory_edit(
    call: Call,
    path: Annotated[str, Arg("The path")],
    title: Annotated[str, Arg("The title")],
    text: Annotated[str, Arg("The text", text=True)],
    etag: Annotated[str, Arg("The etag of the edited file")],
) -> dict[str, str]:
    """Write an edited title and text, and rewrite links to the memory if its title changes.

    A new heading changes the title if the heading was the title before.
    """
    memory = call.store.read_listed(path)
    if memory is None:
        raise NotFound(f"There is no file {path} in the vault", "it was moved or deleted")
    body = edit.with_form_text(memory.body, text, memory.newline)
    if edit.form_text(title).split() == edit.form_text(memory.title).split():
        is_heading = first_heading(memory.body) == memory.title
        name = (is_heading and first_heading(body)) or memory.title
    else:
        name = create.clean_title(title)
    if etag != memory.etag and (body, name) != (memory.body, memory.title):
        raise Conflict(
            "The memory has changed since you opened it",
            "nothing was saved; compare the versions, then overwrite or cancel",
        )
    if body != memory.body:
        memory = edit.replace_body(call.store, memory, body, etag, call.citations)
    if name != memory.title:
        memory_rename(call, memory.mem_id, title=name, confirm=True)
    return {"memId": memory.mem_id, "filePath": memory.path}


_EDIT = Tool(
    "edit", "", "web", memory_edit, destructive=True, own_parameters=parameters_of(memory_edit)
)


def _find_edit(*_: object) -> Tool:
    return _EDIT


class Editing:
    """The forms of the pages; ``token`` is the token in each of them."""

    def __init__(self, session: WebSession, to: Addresses, token: str) -> None:
        self._session = session
        self._to = to
        self._token = token
        self._notices: dict[str, str] = {}
        self._rename = self._form("rename", "Rename")
        self.routes = {
            "/new": FormRoute(self._new, self._create),
            "/m/{name}/edit": FormRoute(self._edit, self._save),
            "/m/{name}/tags": FormRoute(self._form("change_tags", "Tags of"), self._change_tags),
            "/m/{name}/rename": FormRoute(self._rename, self._change_name),
            "/m/{name}/forget": FormRoute(self._form("forget", "Forget"), self._delete),
            "/undo": FormRoute(self._undo, self._revert),
            "/preview": FormRoute(None, self._preview),
        }

    def submit(self, route: FormRoute, name: str, form: Form) -> Page | str:
        """Submit a form; if that fails, return its page with the error and the user's input."""
        try:
            return route.submit(name, form)
        except MemvaultError as error:
            if route.show is None:
                raise
            return route.show(name, form, error)

    def notice(self, key: str) -> str:
        """Return the notice to show after a change, or an empty string."""
        return self._notices.get(key, "")

    def _new(self, _: str, form: Form, error: MemvaultError | None = None) -> Page:
        types: list[str] = []
        with contextlib.suppress(MemvaultError), self._session.reading() as call:
            types = sorted(call.store.known_types)
        return self._page("edit", "New memory", error, form=form, etag="", types=types)

    def _create(self, _: str, form: Form) -> Page | str:
        if "preview" in form:
            return self._preview("", form, self._new("", form))
        result = self._run(
            memory_remember,
            title=form.get("title", ""),
            content=edit.form_text(form.get("text", "")) or " ",
            memory_type=form.get("type") or None,
            tags=split_tags(form.get("tags", "")) or None,
        )
        return self._done("Added", result)

    def _edit(self, name: str, form: Form, error: MemvaultError | None = None) -> Page:
        try:
            public, memory = self._load(name)
        except MemvaultError as problem:
            if error is None:
                raise
            return self._new("", form, problem)  # The user can save the text as a new memory.
        title, text = memory.title, edit.form_text(memory.body)
        form = form or {"title": title, "text": text, "etag": memory.etag}
        etag, lines = form.get("etag", ""), list[pages.DiffLine]()
        if error is not None and etag != memory.etag:
            etag, lines = memory.etag, self._difference({"title": title, "text": text}, form)
        heading = f"Edit {title}"
        return self._page("edit", heading, error, public, memory, form, etag=etag, lines=lines)

    def _difference(self, saved: Form, form: Form) -> list[pages.DiffLine]:
        with self._session.reading() as call:
            masked = call.settings.detector.masked
        first, second = (
            f"{fields.get('title', '')}\n\n{edit.form_text(fields.get('text', ''))}".encode()
            for fields in (saved, form)
        )
        compared = log.difference(first, second, "saved", "yours", "utf-8", masked)
        return pages.diff_lines(compared["diff"])

    def _save(self, name: str, form: Form) -> Page | str:
        if "preview" in form:
            return self._preview("", form, self._edit(name, form))
        _, memory = self._load(name)
        fields = {key: form.get(key, "") for key in ("title", "text", "etag")}
        return self._done("Saved", self._run(memory_edit, path=memory.path, **fields))

    def _preview(self, _: str, form: Form, page: Page | None = None) -> Page:
        """Return a page with the preview, or only the preview, with secrets masked."""
        name = form.get("name", "")
        path = self._load(name)[1].path if name else "new.md"
        text = edit.form_text(form.get("text", ""))

        def prepared(call: Call, view: Any) -> Callable[[], RenderedMarkdown]:
            memory = call.store.parse(b"", FileState.of(path, b""))._replace(body=text)
            return Renderer(call, view).prepared(memory, self._to)

        html = pages.as_html(self._session.on_view(prepared)().html)
        page = page or Page("preview", {})
        return page._replace(values={**page.values, "preview": html})

    def _change_tags(self, name: str, form: Form) -> str:
        mem_id = self._load(name)[1].mem_id
        if removed := form.get("remove"):
            return self._done("Removed", self._run(tag_remove, name=mem_id, tags=[removed]))
        if tags := split_tags(form.get("add", "")):
            return self._done("Added", self._run(tag_add, name=mem_id, tags=tags))
        raise UsageError("No tag is given", "enter a tag")

    def _form(self, template: str, heading: str) -> Callable[..., Page]:
        """Return a function that shows a form about a memory."""

        def show(name: str, form: Form, error: MemvaultError | None = None, **values: Any) -> Page:
            public, memory = self._load(name)
            form = {"title": memory.title, "to": memory.path, **form}
            title = f"{heading} {memory.title}"
            return self._page(template, title, error, public, memory, form, **values)

        return show

    def _change_name(self, name: str, form: Form) -> Page | str:
        _, memory = self._load(name)
        title, to = form.get("title", ""), form.get("to", "")
        result = self._run(
            memory_rename,
            name=memory.mem_id,
            title=None if title == memory.title else title,
            to=None if to == memory.path else to,
            confirm=form.get("confirm") or None,
        )
        if result.get("confirmRequired"):
            return self._rename(name, form, changes=result)
        return self._done("Renamed", result)

    def _delete(self, name: str, form: Form) -> str:
        _, memory = self._load(name)
        if form.get("etag") != memory.etag:
            raise Conflict("The memory has changed since you opened the page", "review it again")
        self._run(memory_delete, ids=[memory.mem_id])
        return self._done(f"Forgot {memory.title}; it is in the trash", {}, "search")

    def _undo(self, _: str, __: Form, error: MemvaultError | None = None) -> Page:
        """Return the latest change that can be undone, and the later ones that cannot."""
        shown = []
        for change in self._run(memory_undo, listing=True, limit=_UNDO_LISTED)["changes"]:
            if "undoes" not in change and "undoneBy" not in change:
                shown.append(change)
                if "obstacle" not in change:
                    break
        return self._page("undo", "Undo", error, changes=shown)

    def _revert(self, _: str, form: Form) -> str:
        if not form.get("change"):
            raise UsageError("No change is given", "open the page again")
        self._run(memory_undo, change=form["change"])
        return self._done("Undone", {}, "undo")

    def _load(self, name: str) -> tuple[str, Memory]:
        """Return the public id and the content of a memory that can be edited.

        Its memId then selects it in the tools, because they ignore spaces around a path.

        Raises:
            NotFound: there is no such memory.
            Refused: it contains a secret, which the page would show or replace by its mask.
            StorageError: the file cannot be written.
        """
        path = self._session.path_of(name)
        with self._session.reading() as call:
            invoke.require_local_files(call, "editing")
            memory = call.resolve(path, writes=True)
            require_memory(memory.path)
            masked = call.settings.detector.masking(memory.metadata)
            shown = (memory.path, memory.title, memory.body, *memory.tags)
            if any(masked(text) != text for text in shown):
                raise Refused(
                    "This memory contains a secret, so it cannot be edited in the browser",
                    f"run `memvault edit {masked(memory.mem_id)}`",
                )
            call.store.require_writable(memory.path)
            return public_id(memory, call.settings.detector), memory

    def _run(
        self,
        function: Callable[Concatenate[Call, Arguments], Mapping[str, Any]],
        /,
        *positional: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Mapping[str, Any]:
        find = _find_edit if function is memory_edit else available.find_tool
        return self._session.write(function, find, *positional, **named)

    def _done(self, notice: str, result: Mapping[str, Any], page: str = "") -> str:
        """Return the URL of a result's memory, or of a page, with a notice."""
        key = secrets.token_hex(4)
        self._notices[key] = ". ".join([notice, *result.get("warnings", ())])
        for old in [*self._notices][:-_MAX_NOTICES]:
            self._notices.pop(old, None)
        address = self._to.page(page) if page else self._to.memory(result["memId"])
        return f"{address}?done={key}"

    def _page(
        self,
        template: str,
        title: str,
        error: MemvaultError | None,
        public: str = "",
        memory: Memory | None = None,
        form: Form = _EMPTY,
        **values: Any,
    ) -> Page:
        common = {"title": title, "token": self._token, "mem_id": public, "memory": memory}
        shown = {**common, "form": {**_EMPTY, **form}, **values}
        if error is None:
            return Page(template, shown)
        message = f"{error.message}; {error.hint}".rstrip("; ")
        return Page(template, {**shown, "error": message}, _STATUS.get(error.code, 400))
