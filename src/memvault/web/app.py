"""HTTP routes of the pages, which are local and require a token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from memvault.errors import MemvaultError, NotFound
from memvault.files.plain_files import MAX_MEMORY_BYTES
from memvault.recall import query_filters
from memvault.recall.matched_words import query_terms
from memvault.tools.history import memory_diff, memory_log
from memvault.tools.vault import memory_show
from memvault.web import pages
from memvault.web.access import COOKIE, Access
from memvault.web.addresses import PICTURES, Addresses, ServedAddresses
from memvault.web.editing import Editing, FormRoute, Page, parse_form
from memvault.web.memory_map import around
from memvault.web.session import WebSession

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HTTP = 80
_UNOPENED = "Open the URL that `memvault web` printed"
_FILE_POLICY = "default-src 'none'; sandbox"
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES = {
    **PICTURES,
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".txt": "text/plain; charset=utf-8",
}
_ASSET_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_OWN_SITE = ("same-origin", "none")
"""Values of ``Sec-Fetch-Site`` for requests by the pages themselves and by the user."""
_FORM_TYPE = "application/x-www-form-urlencoded"
_MAX_FORM_BYTES = MAX_MEMORY_BYTES
Handler = Callable[[Request], Awaitable[Response]]


def application(
    session: WebSession,
    access: Access,
    address: tuple[str, int],
    opened: Callable[[], None] = lambda: None,
    writes: bool = False,
) -> Starlette:
    """Return the application, which answers only requests for this address and port.

    ``opened`` is called when a browser has opened the URL with the token. Unless ``writes`` is set,
    there are no pages for editing, and only GET requests are answered.
    """
    to = ServedAddresses(access.base, writes)
    guard = _Guard(access, _hosts(*address), to, opened)
    editing = Editing(session, to, access.form) if writes else None
    routes = _Routes(session, to, editing)
    table = {
        "/": routes.search,
        "/results": routes.results,
        "/m/{name}": routes.memory,
        "/m/{name}/history": routes.history,
        "/tags": routes.tags,
        "/map": routes.map,
        "/map.json": routes.map_json,
        "/similar.json": routes.similar_json,
        "/m/{name}/links.json": routes.links_json,
        "/overview": routes.overview,
        "/review": routes.review,
        "/f/{path:path}": routes.file,
    }
    table |= {f"/{name}": routes.asset(name) for name in pages.ASSETS}
    table |= {"/write.js": routes.asset("write.js")} if editing is not None else {}
    forms = editing.routes if editing is not None else {}
    table |= {path: routes.form(route) for path, route in forms.items() if route.show}
    below = {f"/{{folder}}{path}": handle for path, handle in table.items()}
    below["/{folder:path}"] = _missing
    submitted = {f"/{{folder}}{path}": routes.submitted(route) for path, route in forms.items()}
    return Starlette(
        routes=[
            Route(path, guard.guarded(handle), methods=[method])
            for method, handles in (("POST", submitted), ("GET", below))
            for path, handle in handles.items()
        ]
    )


class _Guard:
    """Checks the host, token and cookie of each request."""

    def __init__(
        self, access: Access, hosts: frozenset[str], to: Addresses, opened: Callable[[], None]
    ) -> None:
        self._access = access
        self._hosts = hosts
        self._to = to
        self._call_opened = opened

    def guarded(self, handle: Callable[[Request], Response]) -> Handler:
        """Return a handler that checks each request and adds headers to each answer."""

        async def answer(request: Request) -> Response:
            response, body = self._refusal(request), None
            if response is None and request.method == "POST":
                body = await _body(request)
                if body is None:
                    response = _refused("The form is too large or incomplete", 413, self._to)
            if response is None:
                response = await run_in_threadpool(self._answer, request, handle, body)
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
            if self._to.writes:  # With no-referrer, browsers send forms without their origin.
                response.headers["Referrer-Policy"] = "same-origin"
            return response

        return answer

    def _refusal(self, request: Request) -> Response | None:
        """Return the answer to a request that is refused, or that opens the pages, or None."""
        headers = request.headers
        if headers.get("host", "") not in self._hosts:
            return _refused("This page is only available on the machine that serves it", 421)
        folder = request.path_params["folder"].partition("/")[0]
        if not self._access.is_folder(folder):
            return _refused(_UNOPENED, 403)
        is_own = headers.get("sec-fetch-site", "none") in _OWN_SITE
        is_form = request.method == "POST"
        if not is_form and self._access.is_token(request.query_params.get("token", "")):
            return self._opened(is_own)
        if is_form:
            sites, origins = headers.getlist("sec-fetch-site"), headers.getlist("origin")
            is_known = bool(sites or origins) and set(sites) <= {"same-origin"}
            is_own = is_known and set(origins) <= {f"http://{headers['host']}"}
        if not is_own or not self._access.is_in(headers.getlist("cookie")):
            return _refused(_UNOPENED, 403)
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if is_form and media_type != _FORM_TYPE:
            return _refused("This page accepts only forms", 415)
        return None

    def _answer(
        self, request: Request, handle: Callable[[Request], Response], body: bytes | None
    ) -> Response:
        try:
            if body is not None:
                request.state.form = parse_form(body)
                if not self._access.is_form(request.state.form.pop("token", "")):
                    return _refused("The form is outdated; open its page again", 403, self._to)
            return handle(request)
        except NotFound as error:
            return _refused(error.message, 404, self._to)
        except MemvaultError as error:
            return _refused(f"{error.message}; {error.hint}".rstrip("; "), 400, self._to)

    def _opened(self, is_own_site: bool) -> Response:
        """Set the cookie and redirect to the first page.

        If another site or a file started the request, a page redirects, because a browser would not
        send the cookie otherwise.
        """
        self._call_opened()
        response: Response
        if is_own_site:
            response = RedirectResponse(self._to.page("search"), 303)
        else:
            response = HTMLResponse(pages.render("opened", self._to))
        path = f"{self._access.base}/"
        response.set_cookie(
            COOKIE, self._access.session, path=path, httponly=True, samesite="strict"
        )
        return response


async def _body(request: Request) -> bytes | None:
    """Return a request's body, or None if it is too large or incomplete."""
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 12 or int(length) > _MAX_FORM_BYTES:
        return None
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_FORM_BYTES:
                return None
    except ClientDisconnect:
        return None
    return bytes(body)


def _missing(_: Request) -> Response:
    raise NotFound("There is no such page", "")


def _hosts(address: str, port: int) -> frozenset[str]:
    """Return the ``Host`` header values accepted for a local address and port."""
    names = (address, *(("localhost",) if address == "127.0.0.1" else ()))
    bare = names if port == _HTTP else ()  # Browsers omit the port of HTTP.
    return frozenset([*(f"{name}:{port}" for name in names), *bare])


def _refused(message: str, code: int, to: Addresses | None = None) -> Response:
    return HTMLResponse(pages.render("refused", to, title="memvault", message=message), code)


class _Routes:
    """The handlers of the routes."""

    def __init__(self, session: WebSession, to: Addresses, editing: Editing | None) -> None:
        self._session = session
        self._to = to
        self._editing = editing

    def _page(self, name: str, **values: Any) -> Response:
        return HTMLResponse(pages.render(name, self._to, vault=self._session.name, **values))

    def _notice(self, request: Request) -> str:
        key = request.query_params.get("done", "")
        return self._editing.notice(key) if self._editing is not None else ""

    def form(self, route: FormRoute) -> Callable[[Request], Response]:
        """Return a handler that shows a form."""

        def handle(request: Request) -> Response:
            assert route.show is not None
            page = route.show(request.path_params.get("name", ""), {}, None)
            return self._page(page.name, **page.values, notice=self._notice(request))

        return handle

    def submitted(self, route: FormRoute) -> Callable[[Request], Response]:
        """Return a handler for a submitted form."""

        def handle(request: Request) -> Response:
            assert self._editing is not None
            name = request.path_params.get("name", "")
            result = self._editing.submit(route, name, request.state.form)
            if isinstance(result, Page):
                response = self._page(result.name, **result.values)
                response.status_code = result.status
                return response
            return RedirectResponse(result, 303)

        return handle

    def search(self, request: Request) -> Response:
        values = self._found(request)
        chips = pages.chips(self._session.quick_tags(), values["filters"])
        notice = self._notice(request)
        return self._page("search", title="Search", notice=notice, chips=chips, **values)

    def results(self, request: Request) -> Response:
        return self._page("results", **self._found(request))

    def _found(self, request: Request) -> dict[str, Any]:
        parameters = request.query_params
        query = parameters.get("q", "")[:1_000]
        tags = [tag for tag in dict.fromkeys(parameters.getlist("tag")) if tag]
        kind, since = (parameters.get(key, "") for key in ("type", "since"))
        results = self._session.search(query, tags, kind, since if since in pages.AGES else "")
        filters = {"tags": tags, "kind": kind, "since": since}
        terms = query_terms(query_filters.parse(query).words)
        return {"query": query, "filters": filters, "terms": terms, "found": results}

    def memory(self, request: Request) -> Response:
        read = self._session.read(request.path_params["name"], self._to)
        values = {
            "entry": read.entry,
            "text": pages.as_html(read.text.html),
            "headings": read.text.headings,
            "backlinks": read.backlinks,
            "file": read.file,
            "notice": self._notice(request),
        }
        return self._page("memory", title=read.entry["title"], **values)

    def history(self, request: Request) -> Response:
        name = self._session.path_of(request.path_params["name"])
        log = self._session.call(memory_log, name)
        entry = self._session.call(memory_show, name)
        revision = request.query_params.get("from", "")
        diff = ""
        if revision:
            compared = self._session.call(memory_diff, name, revision)
            diff = str(compared.get("diff", ""))
        values = {"entry": entry, "changes": log["changes"], "revision": revision}
        title = f"History of {entry['title']}"
        return self._page("history", title=title, lines=pages.diff_lines(diff), **values)

    def tags(self, _: Request) -> Response:
        tags, types = self._session.tags()
        return self._page("tags", title="Tags and types", tags=tags, types=types)

    def map(self, _: Request) -> Response:
        values = pages.map_values(self._session.map())
        return self._page("map", title="Map", **values)

    def map_json(self, _: Request) -> Response:
        return JSONResponse(self._session.map())

    def similar_json(self, _: Request) -> Response:
        return JSONResponse(self._session.similar())

    def links_json(self, request: Request) -> Response:
        return JSONResponse(around(self._session.map(), request.path_params["name"]))

    def overview(self, _: Request) -> Response:
        overview = self._session.overview()
        values = {"stats": overview.stats, "orphans": overview.orphans}
        weeks = pages.calendar(overview.days)
        return self._page("overview", title="Overview", weeks=weeks, **values)

    def review(self, _: Request) -> Response:
        review = self._session.review()
        return self._page("review", title="Review", review=review)

    def file(self, request: Request) -> Response:
        path = request.path_params["path"]
        data = self._session.file(path)
        kind = _TYPES.get(PurePosixPath(path).suffix.lower())
        headers = {"Content-Security-Policy": _FILE_POLICY}
        if kind is None:
            headers["Content-Disposition"] = "attachment"
        return Response(data, media_type=kind or "application/octet-stream", headers=headers)

    def asset(self, name: str) -> Callable[[Request], Response]:
        """Return the handler for an asset, which browsers may cache."""
        kind = _ASSET_TYPES[PurePosixPath(name).suffix]

        def handle(_: Request) -> Response:
            headers = {"Cache-Control": "private, max-age=86400"}
            return Response(pages.asset(name), media_type=kind, headers=headers)

        return handle
