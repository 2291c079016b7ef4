"""The language server: the protocol's requests, each answered by one thread in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.exceptions import FeatureRequestError, JsonRpcException
from pygls.io_ import run_async
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

from memvault import __version__
from memvault.errors import Bug, to_memvault_error
from memvault.lsp import completion, diagnostics, edits, navigation
from memvault.lsp.documents import MAX_TEXT, Buffer, EditorDocument, EditorState, EditorVaults
from memvault.process import claimed_stdio, write_whole
from memvault.sanitize import escape_line
from memvault.secrets.detector import masked
from memvault.serial_executor import SerialExecutor
from memvault.workspace import UNUSED_SECONDS, return_memory

Answer = TypeVar("Answer")
_NOT_READY, _REQUEST_FAILED = -32002, -32803
_PAUSE = 0.3
"""Seconds without a keystroke after which a text is checked."""


def serve(only: Path | None) -> int:
    """Serve an editor over standard input and output until it exits; return the exit code.

    With ``only``, files outside that vault are not served.
    """
    for name in ("pygls", "asyncio"):  # They log complete messages, including file contents.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    with claimed_stdio("an editor", "lsp") as (read, written):
        server = MemoryServer(EditorVaults(only))
        asyncio.run(server.run(read, written))
        return server.exit_code


class _Input:
    """Reads the editor's messages in a thread that does not delay process exit."""

    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "rb", closefd=False)

    def readline(self) -> Awaitable[bytes]:
        return self._in_thread(lambda: self._file.readline(1 << 10))

    def readexactly(self, count: int) -> Awaitable[bytes]:
        return self._in_thread(lambda: self._file.read(count))

    def _in_thread(self, read: Callable[[], bytes]) -> Awaitable[bytes]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes] = loop.create_future()

        def run() -> None:
            try:
                data = read()
            except (OSError, ValueError, MemoryError, OverflowError):
                data = b""  # the end of the input
            with contextlib.suppress(RuntimeError):  # The loop has ended.
                loop.call_soon_threadsafe(deliver, data)

        def deliver(data: bytes) -> None:
            if not future.done():
                future.set_result(data)

        threading.Thread(target=run, name="memvault reads", daemon=True).start()
        return future


class _Output:
    """Writes messages to the editor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, data: bytes) -> None:
        write_whole(self._descriptor, data)

    def close(self) -> None:
        """Leave the descriptor open for ``claimed_stdio``."""


class _Protocol(LanguageServerProtocol):
    """The protocol, in which a request with invalid parameters gets an answer."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if isinstance(data.get("method"), str) and isinstance(data.get("id"), int | str):
                self._send_response(data["id"], error=error.to_response_error())
            raise


Files = Mapping[str, Buffer]
"""The files that are open in the editor, by URI."""


class MemoryServer(LanguageServer):
    """A language server for the memories that are open in one editor.

    Requests are answered in order by one thread, so messages are read while a vault is indexed.
    """

    def __init__(self, vaults: EditorVaults) -> None:
        super().__init__(
            "memvault", __version__, types.TextDocumentSyncKind.Full, protocol_cls=_Protocol
        )
        self.exit_code = 1
        self._vaults = vaults
        self._executor = SerialExecutor()
        self._shown: set[str] = set()
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._release: asyncio.TimerHandle | None = None
        self._register()

    async def run(self, read: int, written: int) -> None:
        """Answer messages until the input ends or the editor sends ``exit``."""
        self.protocol.set_writer(_Output(written))
        with contextlib.suppress(BrokenPipeError, SystemExit):
            await run_async(
                threading.Event(),
                _Input(read),
                self.protocol,
                error_handler=self.report_server_error,
            )

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Print an error that is unrelated to any request to standard error."""
        if source is not FeatureRequestError:
            print(f"memvault lsp: {escape_line(masked(str(error)))}", file=sys.stderr)

    def _register(self) -> None:
        """Register a handler for each request and notification."""
        document = self._for_document
        markdown = types.FileOperationFilter(types.FileOperationPattern("**/*.md"), "file")
        self._on(
            types.TEXT_DOCUMENT_COMPLETION,
            document(lambda doc, params: completion.complete(doc, params.position)),
            types.CompletionOptions(trigger_characters=completion.TRIGGERS),
        )
        self._on(types.TEXT_DOCUMENT_HOVER, document(self._hover))
        self._on(
            types.TEXT_DOCUMENT_DEFINITION,
            document(lambda doc, params: navigation.definition(doc, params.position)),
        )
        self._on(
            types.TEXT_DOCUMENT_REFERENCES,
            document(lambda doc, params: navigation.references(doc, params.position)),
        )
        self._on(
            types.TEXT_DOCUMENT_DOCUMENT_SYMBOL,
            document(lambda doc, _: navigation.document_symbols(doc)),
        )
        self._on(types.WORKSPACE_SYMBOL, self._workspace_symbols)
        self._on(
            types.TEXT_DOCUMENT_CODE_ACTION,
            document(self._code_actions),
            types.CodeActionOptions(
                [types.CodeActionKind.QuickFix, types.CodeActionKind.RefactorRewrite]
            ),
        )
        self._on(types.TEXT_DOCUMENT_PREPARE_RENAME, document(self._prepare_rename), shows=True)
        self._on(
            types.TEXT_DOCUMENT_RENAME,
            document(self._rename, complete=True),
            types.RenameOptions(prepare_provider=True),
            shows=True,
        )
        self._on(
            types.WORKSPACE_WILL_RENAME_FILES,
            self._will_rename_files,
            types.FileOperationRegistrationOptions([markdown]),
        )
        self._after(types.TEXT_DOCUMENT_DID_OPEN, lambda p: self._check(p.text_document.uri, 0.0))
        self._after(
            types.TEXT_DOCUMENT_DID_CHANGE, lambda p: self._check(p.text_document.uri, _PAUSE)
        )
        self._after(types.TEXT_DOCUMENT_DID_SAVE, lambda _: self._check_all())
        self._after(types.TEXT_DOCUMENT_DID_CLOSE, lambda p: self._clear(p.text_document.uri))
        self._after(types.SHUTDOWN, lambda _: setattr(self, "exit_code", 0))

    def _after(self, method: str, work: Callable[[Any], object]) -> None:
        async def handle(params: Any) -> None:
            work(params)

        self.feature(method)(handle)

    def _on(
        self,
        method: str,
        answer: Callable[[Any, Files], Any],
        options: Any = None,
        shows: bool = False,
    ) -> None:
        async def handle(params: Any) -> Any:
            return await self._answer(lambda files: answer(params, files), shows)

        self.feature(method, options)(handle)

    async def _answer(self, work: Callable[[Files], Answer], shows: bool = False) -> Answer | None:
        """Run work in the vault thread with the currently open files.

        With ``shows``, an error is the answer, because the user waits for it. Otherwise, the answer
        is empty, and the editor shows each error message once.
        """
        try:
            documents = self.workspace.text_documents
        except RuntimeError:
            raise JsonRpcException("The first request must be initialize", _NOT_READY) from None
        try:
            files = {
                uri: Buffer(document.uri, document.version, document.source)
                for uri, document in documents.items()
            }
            self._postpone_release()
            return await asyncio.wrap_future(self._executor.submit(lambda: work(files)))
        except Exception as error:
            failed = to_memvault_error(error)
            if isinstance(failed, Bug) and os.environ.get("MEMVAULT_DEBUG"):
                traceback.print_exception(error)
            hint = f" ({failed.hint})" if failed.hint else ""
            text = escape_line(masked(f"{failed.message}{hint}"))
            if shows:
                raise JsonRpcException(text, _REQUEST_FAILED) from None
            if text not in self._shown:
                self._shown.add(text)
                warning = types.ShowMessageParams(types.MessageType.Warning, f"memvault: {text}")
                self.window_show_message(warning)
            return None

    def _postpone_release(self) -> None:
        """Restart the timer that releases memory when there are no requests."""
        if self._release is not None:
            self._release.cancel()

        def release() -> None:
            self._vaults.free_memory()
            return_memory()

        loop = asyncio.get_running_loop()
        self._release = loop.call_later(UNUSED_SECONDS, self._executor.submit, release)

    @property
    def _encoding(self) -> str:
        return str(getattr(self.workspace.position_encoding, "value", "utf-16"))

    def _for_document(
        self, answer: Callable[[EditorDocument, Any], Answer], complete: bool = False
    ) -> Callable[[Any, Files], Answer | None]:
        """Return the answer to a request about an open file; None if it is not a memory.

        With ``complete``, wait while another process indexes the vault.
        """

        def answered(params: Any, files: Files) -> Answer | None:
            uri = params.text_document.uri
            document = self._vaults.open(uri, files, self._encoding, complete)
            return answer(document, params) if document is not None else None

        return answered

    def _hover(self, document: EditorDocument, params: types.HoverParams) -> types.Hover | None:
        known = self.client_capabilities.text_document
        formats = known.hover.content_format if known is not None and known.hover else None
        markdown = types.MarkupKind.Markdown in (formats or ())
        return navigation.hover(document, params.position, markdown)

    def _workspace_symbols(
        self, params: types.WorkspaceSymbolParams, files: Files
    ) -> list[types.WorkspaceSymbol]:
        folders = [folder.uri for folder in self.workspace.folders.values()]
        for folder in folders or filter(None, [self.workspace.root_uri]):
            self._vaults.find(f"{folder}/any.md")  # opens the vault
        return [
            symbol
            for vault in self._vaults.all()
            for symbol in navigation.workspace_symbols(
                self._vaults.state(vault, files), params.query
            )
        ]

    def _new_edit(self, state: EditorState) -> edits.EditBuilder:
        known = self.client_capabilities.workspace
        support = known.workspace_edit if known is not None else None
        kinds = (support.resource_operations if support is not None else None) or ()
        resources = [getattr(kind, "value", str(kind)) for kind in kinds]
        # Neovim 0.7 declares only the operations.
        versioned = support is not None and bool(support.document_changes or resources)
        return edits.EditBuilder(state, self._encoding, versioned, resources)

    def _code_actions(
        self, document: EditorDocument, params: types.CodeActionParams
    ) -> list[types.CodeAction]:
        invoked = params.context.trigger_kind != types.CodeActionTriggerKind.Automatic
        new_edit = partial(self._new_edit, document.state)
        return edits.code_actions(document, new_edit, params.range, invoked)

    def _prepare_rename(
        self, document: EditorDocument, params: types.PrepareRenameParams
    ) -> types.PrepareRenamePlaceholder:
        lines = document.lines
        memory, span = edits.rename_target(document, lines.offset(params.position))
        title = document.state.mask(memory.title)
        return types.PrepareRenamePlaceholder(lines.range(*span), title)

    def _rename(self, document: EditorDocument, params: types.RenameParams) -> types.WorkspaceEdit:
        offset = document.lines.offset(params.position)
        memory, _ = edits.rename_target(document, offset)
        state = document.state
        return edits.renamed(self._new_edit(state), state, memory, params.new_name)

    def _will_rename_files(
        self, params: types.RenameFilesParams, files: Files
    ) -> types.WorkspaceEdit | None:
        places = [
            (self._vaults.find(file.old_uri), self._vaults.find(file.new_uri))
            for file in params.files
        ]
        pairs = [(old, new) for old, new in places if old and new and old[0] is new[0]]
        if not pairs:
            return None
        vault = pairs[0][0][0]  # An editor moves files of one vault at a time.
        moves = [(old[1], new[1]) for old, new in pairs if old[0] is vault]
        state = self._vaults.state(vault, files, complete=True)
        return edits.moved(self._new_edit(state), state, moves)

    def _check(self, uri: str, pause: float) -> None:
        """Schedule a check of a text, which replaces a pending check of an earlier version."""
        if uri in self._checks:
            self._checks[uri].cancel()
        self._checks[uri] = asyncio.get_running_loop().create_task(self._publish(uri, pause))

    def _check_all(self) -> None:
        """Check all open texts, which may link to a file that was saved."""
        for document in self.workspace.text_documents.values():
            self._check(document.uri, 0.0)

    def _clear(self, uri: str) -> None:
        """Clear the problems shown for a closed text."""
        if uri in self._checks:
            self._checks.pop(uri).cancel()
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    async def _publish(self, uri: str, pause: float) -> None:
        await asyncio.sleep(pause)
        version = self.workspace.get_text_document(uri).version
        found = await self._answer(lambda files: self._diagnostics(uri, files))
        if found is not None:
            params = types.PublishDiagnosticsParams(uri, found, version)
            self.text_document_publish_diagnostics(params)

    def _diagnostics(self, uri: str, files: Files) -> list[types.Diagnostic] | None:
        """Return the problems in an open text; None if the index is incomplete."""
        document = self._vaults.open(uri, files, self._encoding)
        if document is not None:
            is_partial = document.state.saved.missing > 0
            return None if is_partial else diagnostics.diagnose(document)
        is_large = any(len(b.text) > MAX_TEXT for b in files.values() if b.uri == uri)
        return diagnostics.too_large() if is_large and self._vaults.find(uri) else []
