"""A client of ``memvault lsp`` that runs in the test, with the server as a real process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from queue import Queue
from threading import Thread
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit

TIMEOUT = 60.0
_ENDS = ("start", "end")
CAPABILITIES: dict[str, Any] = {
    "textDocument": {"hover": {"contentFormat": ["markdown", "plaintext"]}},
    "workspace": {
        "workspaceEdit": {
            "documentChanges": True,
            "resourceOperations": ["create", "rename", "delete"],
        }
    },
}


class LspClient:
    """An editor without a screen: it opens texts, asks the server, and applies edits."""

    def __init__(self, folder: Path, *options: str, capabilities: Any = None) -> None:
        self.folder = folder
        self.texts: dict[str, str] = {}
        self.notifications: list[dict[str, Any]] = []
        self._next = self._version = 0
        command = [sys.executable, "-m", "memvault", *options, "lsp"]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, "MEMVAULT_DEEP": "off"},
        )
        self._messages: Queue[dict[str, Any] | None] = Queue()
        Thread(target=self._read, daemon=True).start()
        self.errors: list[bytes] = []
        Thread(target=self._read_errors, daemon=True).start()
        result = self.request(
            "initialize",
            processId=os.getpid(),
            rootUri=folder.as_uri(),
            capabilities=CAPABILITIES if capabilities is None else capabilities,
        )
        self.server_capabilities = result["capabilities"]
        self.notify("initialized")

    def __enter__(self) -> LspClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()

    def _read(self) -> None:
        out = self.process.stdout
        assert out is not None
        while True:
            length = 0
            while (line := out.readline()).strip():
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if not line:
                break
            self._messages.put(json.loads(out.read(length)))
        self._messages.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)

    def send_bytes(self, data: bytes) -> None:
        """Send raw bytes, which may not be a valid message."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: Any) -> None:
        """Send any JSON value as a message."""
        body = json.dumps(message).encode()
        self.send_bytes(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return the whole response."""
        self._next += 1
        self.send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        return self.response(self._next)

    def response(self, number: int) -> dict[str, Any]:
        """Return the response to a request, keeping the notifications before it."""
        while True:
            message = self._messages.get(timeout=TIMEOUT)
            assert message is not None, b"".join(self.errors).decode()
            if message.get("id") == number and "method" not in message:
                return message
            self.notifications.append(message)

    def request(self, method: str, **params: Any) -> Any:
        """Send a request and return its result; fail if it is an error."""
        response = self.ask(method, **params)
        assert "error" not in response, response
        return response["result"]

    def uri(self, path: str) -> str:
        """Return the URI of a file in the folder."""
        return (self.folder / path).as_uri()

    def path(self, uri: str) -> str:
        """Return the path of a URI in the folder."""
        return Path(unquote(urlsplit(uri).path)).relative_to(self.folder).as_posix()

    def open(self, path: str, text: str | None = None) -> str:
        """Open a file with its saved text, or with an unsaved one; return its URI."""
        uri = self.uri(path)
        if text is None:
            text = (self.folder / path).read_bytes().decode("utf-8", "replace")
        self._version += 1
        if uri in self.texts:
            document = {"uri": uri, "version": self._version}
            self.notify(
                "textDocument/didChange", textDocument=document, contentChanges=[{"text": text}]
            )
        else:
            document = {"uri": uri, "languageId": "markdown", "version": self._version}
            document["text"] = text
            self.notify("textDocument/didOpen", textDocument=document)
        self.texts[uri] = text
        return uri

    def close(self, path: str) -> None:
        """Close a file without saving it."""
        self.notify("textDocument/didClose", textDocument={"uri": self.uri(path)})
        self.texts.pop(self.uri(path))

    def at(self, path: str, marked: str, **more: Any) -> dict[str, Any]:
        """Return the request parameters for the position of ``¦`` in a text that occurs once."""
        text = self.texts[self.uri(path)]
        bare = marked.replace("¦", "")
        assert text.count(bare) == 1, (bare, text)
        place = position(text, text.index(bare) + marked.index("¦"))
        return {"textDocument": {"uri": self.uri(path)}, "position": place, **more}

    def diagnostics(self, path: str) -> list[dict[str, Any]]:
        """Wait for the diagnostics of the last opened or changed text and return them."""
        wanted = {"uri": self.uri(path), "version": self._version}
        while True:
            for message in self.notifications:
                params = message.get("params", {})
                if wanted.items() <= params.items() and "diagnostics" in params:
                    found: list[dict[str, Any]] = params["diagnostics"]
                    return found
            message = self._messages.get(timeout=TIMEOUT) or {}
            assert message, b"".join(self.errors).decode()
            self.notifications = [message]

    def hover(self, path: str, marked: str) -> str:
        """Return the text that hovering shows; empty if there is none."""
        result = self.request("textDocument/hover", **self.at(path, marked))
        return str(result["contents"]["value"]) if result else ""

    def problems(self, path: str, text: str | None = None) -> dict[str, str]:
        """Open a text and return the marked text of each of its problems by its code."""
        self.open(path, text)
        found = self.diagnostics(path)
        whole = self.texts[self.uri(path)]
        return {entry["code"]: range_text(whole, entry["range"]) for entry in found}

    def applied(self, edit: dict[str, Any], encoding: str = "utf-16") -> dict[str, str]:
        """Return the texts after an edit by path, as an editor applies it, without saving."""
        texts: dict[str, str] = {}
        changes = edit.get("documentChanges") or [
            {"textDocument": {"uri": uri}, "edits": edits}
            for uri, edits in edit.get("changes", {}).items()
        ]
        for change in changes:
            if change.get("kind") == "rename":
                old = texts.pop(self.path(change["oldUri"]), self._text(change["oldUri"]))
                texts[self.path(change["newUri"])] = old
            elif change.get("kind") == "create":
                texts[self.path(change["uri"])] = ""
            else:
                uri = change["textDocument"]["uri"]
                path = self.path(uri)
                text = texts[path] if path in texts else self._text(uri)
                for part in sorted(change["edits"], key=_start, reverse=True):
                    place = part["range"]
                    start, end = (offset(text, place[name], encoding) for name in _ENDS)
                    text = text[:start] + part["newText"] + text[end:]
                texts[path] = text
        return texts

    def _text(self, uri: str) -> str:
        if uri in self.texts:
            return self.texts[uri]
        return (self.folder / self.path(uri)).read_bytes().decode()

    def exit(self) -> int:
        """End the server as an editor does; return its exit code."""
        self.request("shutdown")
        self.notify("exit")
        return self.process.wait(TIMEOUT)


def _start(edit: dict[str, Any]) -> tuple[int, int]:
    return edit["range"]["start"]["line"], edit["range"]["start"]["character"]


def position(text: str, offset: int) -> dict[str, int]:
    """Return an offset as a line and UTF-16 code units."""
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    line = before.rpartition("\n")[2]
    return {"line": before.count("\n"), "character": len(line.encode("utf-16-le")) // 2}


def offset(text: str, place: dict[str, int], encoding: str = "utf-16") -> int:
    """Return the offset of a line and UTF-16 code units."""
    lines = text.split("\n")
    start = sum(len(line) + 1 for line in lines[: place["line"]])
    if place["line"] >= len(lines):
        return len(text)
    codec, size = {"utf-16": ("utf-16-le", 2), "utf-8": ("utf-8", 1)}[encoding]
    units = lines[place["line"]].encode(codec)[: size * place["character"]]
    return start + len(units.decode(codec))


def range_text(text: str, place: dict[str, Any]) -> str:
    """Return the text in a range."""
    return text[offset(text, place["start"]) : offset(text, place["end"])]
