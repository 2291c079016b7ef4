"""The HTTP routes of the pages, on loopback, for who has the token."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from memvault.errors import MemvaultError, NotFound
from memvault.web import pages
from memvault.web.session import WebSession

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HTTP = 80
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
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".avif": "image/avif",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".txt": "text/plain; charset=utf-8",
}
Handler = Callable[[Request], Awaitable[Response]]


def application(session: WebSession, token: str, port: int) -> Starlette:
    """Return the application for a port of this machine, which accepts no other host's name."""
    hosts = _hosts(port)
    cookie = f"memvault-{port}"  # browsers send the cookies of all ports

    def guarded(handle: Callable[[Request], Response]) -> Handler:
        async def answer(request: Request) -> Response:
            response = await run_in_threadpool(_checked, request, handle)
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return answer

    def _checked(request: Request, handle: Callable[[Request], Response]) -> Response:
        if request.headers.get("host", "") not in hosts:
            return _refused("This page is only served to this machine", 421)
        given = request.query_params.get("token")
        if given is not None and hmac.compare_digest(given.encode(), token.encode()):
            response = RedirectResponse(request.url.path, 303)
            response.set_cookie(cookie, token, httponly=True, samesite="strict")
            return response
        if not hmac.compare_digest(request.cookies.get(cookie, "").encode(), token.encode()):
            return _refused("Open the address that memvault web printed", 403)
        try:
            return handle(request)
        except NotFound as error:
            return _refused(error.message, 404)
        except MemvaultError as error:
            return _refused(f"{error.message}; {error.hint}".rstrip("; "), 400)

    routes = _Routes(session)
    table = {
        "/": routes.search,
        "/results": routes.results,
        "/m/{name}": routes.memory,
        "/m/{name}/history": routes.history,
        "/tags": routes.tags,
        "/map": routes.map,
        "/map.json": routes.map_json,
        "/overview": routes.overview,
        "/review": routes.review,
        "/f/{path:path}": routes.file,
        "/style.css": routes.style,
        "/app.js": routes.script,
    }
    return Starlette(
        routes=[Route(path, guarded(handle), methods=["GET"]) for path, handle in table.items()]
    )


def _hosts(port: int) -> frozenset[str]:
    """Return the values of the header ``Host`` for a port of this machine."""
    names = ("127.0.0.1", "localhost")
    bare = names if port == _HTTP else ()  # browsers leave out the port of HTTP
    return frozenset([*(f"{name}:{port}" for name in names), *bare])


def _refused(message: str, code: int) -> Response:
    return HTMLResponse(pages.render("refused", title="memvault", message=message), code)


class _Routes:
    """What each address answers."""

    def __init__(self, session: WebSession) -> None:
        self._session = session

    def search(self, request: Request) -> Response:
        return HTMLResponse(pages.render("search", title="Search", **self._found(request)))

    def results(self, request: Request) -> Response:
        return HTMLResponse(pages.render("results", **self._found(request)))

    def _found(self, request: Request) -> dict[str, Any]:
        query = request.query_params.get("q", "")[:1_000]
        tag, kind = (request.query_params.get(key, "") for key in ("tag", "type"))
        filters: dict[str, Any] = {}
        if tag:
            filters["tags"] = [tag]
        if kind:
            filters["memoryType"] = kind
        found = self._session.search(query, filters)
        return {"query": query, "tag": tag, "kind": kind, "found": found}

    def memory(self, request: Request) -> Response:
        read = self._session.read(request.path_params["name"])
        text = pages.as_html(read.html)
        values = {"entry": read.entry, "text": text, "backlinks": read.backlinks}
        return HTMLResponse(pages.render("memory", title=read.entry["title"], **values))

    def history(self, request: Request) -> Response:
        name = self._session.path_of(request.path_params["name"])
        log = self._session.call("memory_log", memId=name)
        entry = self._session.call("memory_show", memId=name)
        revision = request.query_params.get("from", "")
        diff = ""
        if revision:
            arguments = {"memId": name, "from": revision}
            diff = str(self._session.call("memory_diff", **arguments).get("diff", ""))
        values = {"entry": entry, "changes": log["changes"], "revision": revision}
        lines = diff.splitlines()
        title = f"History of {entry['title']}"
        return HTMLResponse(pages.render("history", title=title, lines=lines, **values))

    def tags(self, _: Request) -> Response:
        tags = self._session.call("tag_list", limit=1_000)
        types = self._session.call("memory_list_types")
        return HTMLResponse(pages.render("tags", title="Tags and types", tags=tags, types=types))

    def map(self, _: Request) -> Response:
        values = pages.map_values(self._session.map())
        return HTMLResponse(pages.render("map", title="Map", **values))

    def map_json(self, _: Request) -> Response:
        return JSONResponse(self._session.map())

    def overview(self, _: Request) -> Response:
        stats = self._session.call("vault_stats")
        orphans = self._session.call("memory_orphans", limit=30)
        plots: Any = {key: pages.bars(stats[key]) for key in ("months", "days")}
        values: dict[str, Any] = {"stats": stats, "orphans": orphans, "plots": plots}
        return HTMLResponse(pages.render("overview", title="Overview", **values))

    def review(self, _: Request) -> Response:
        found = self._session.review()
        return HTMLResponse(pages.render("review", title="What needs a person", review=found))

    def file(self, request: Request) -> Response:
        path = request.path_params["path"]
        data = self._session.file(path)
        kind = _TYPES.get(PurePosixPath(path).suffix.lower())
        headers = {"Content-Security-Policy": _FILE_POLICY}
        if kind is None:
            headers["Content-Disposition"] = "attachment"
        return Response(data, media_type=kind or "application/octet-stream", headers=headers)

    def style(self, _: Request) -> Response:
        return Response(pages.asset("style.css"), media_type="text/css")

    def script(self, _: Request) -> Response:
        return Response(pages.asset("app.js"), media_type="text/javascript")
