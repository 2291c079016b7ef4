"""The language server with hostile texts, positions, messages and vaults."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import only_with, refused, write
from lsp_client import LspClient, position
from ran import Ran

pytestmark = only_with("pygls", "lsprotocol", extra="lsp")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with two notes."""
    root = tmp_path_factory.mktemp("lsp") / "vault"
    write(root, "memvault.toml", 'version = 1\nignore = ["README.md"]\n')
    write(root, "pg.md", "# Use PostgreSQL\n")
    write(root, "a.md", "# Alpha\n\n[[Use PostgreSQL]]\n")
    write(root, "README.md", "# Read me\n")
    return root


@pytest.mark.parametrize(
    ("line", "character"), [(0, 99), (99, 0), (2, 1), (2, 10**9), (10**9, 10**9)]
)
def test_positions_outside_the_text_are_answered(
    editor: LspClient, line: int, character: int
) -> None:
    """A position beyond the end, or within a character, gets an answer."""
    editor.open("a.md", "# A\r\n\r\n😀[[pg]]")
    place = {"line": line, "character": character}
    uri = {"uri": editor.uri("a.md")}
    for method in ("completion", "hover", "definition", "references", "prepareRename"):
        more = {"context": {"includeDeclaration": True}} if method == "references" else {}
        editor.ask(f"textDocument/{method}", textDocument=uri, position=place, **more)
    assert editor.hover("a.md", "[[p¦g]]")


@pytest.mark.parametrize(
    "before", ["é", "日本語 ", "👩‍👩‍👧 ", "שלום ", "a\u2028b\x0b\x85 ", "\tx\r\n\r\n", "e\u0301 "]
)
def test_ranges_count_utf16_units(editor: LspClient, before: str) -> None:
    """A link's range is exact after emoji, CJK, right-to-left text and odd line separators."""
    found = editor.problems("a.md", f"# A\n\n{before}[[Nowhere]] x\n")
    assert found["link-broken"] == "[[Nowhere]]"


_TEXTS = st.lists(st.sampled_from(["a", "\n", "\r\n", " ", "é", "😀", "\u2028"])).map("".join)


@given(_TEXTS, _TEXTS)
def test_edits_and_positions_round_trip(old: str, new: str) -> None:
    """Offsets convert to positions and back in each encoding, and edits produce the new text."""
    from memvault.lsp.positions import TextLines

    for encoding in ("utf-8", "utf-16", "utf-32"):
        lines = TextLines(old, encoding)
        for at in range(len(old) + 1):
            if old[at - 1 : at + 1] != "\r\n" and old[at : at + 1] not in ("\r", "\n"):
                assert lines.offset(lines.position(at)) == at
    lines = TextLines(old)
    text = old
    for edit in reversed(lines.edits(new)):
        start, end = (lines.offset(place) for place in (edit.range.start, edit.range.end))
        text = f"{text[:start]}{edit.new_text}{text[end:]}"
    assert text.replace("\r\n", "\n") == new.replace("\r\n", "\n")


def test_files_outside_vault_get_empty_answers(
    editor: LspClient, root: Path, tmp_path: Path
) -> None:
    """Files outside a vault, other kinds of files and excluded files get empty answers."""
    outside = write(tmp_path, "x.md", "[[pg]]\n")
    write(root, "x.txt", "[[pg]]\n")
    (root / "link.md").symlink_to(outside)
    for uri in (
        outside.as_uri(),
        editor.uri("x.txt"),
        editor.uri("README.md"),
        editor.uri("link.md"),
        editor.uri(".hidden/x.md"),
        editor.uri("agents/main/x.md"),
        f"{root.as_uri()}/a%00.md",
        "untitled:Untitled-1",
        "file://server/a.md",
        "x",
    ):
        document = {"uri": uri, "languageId": "markdown", "version": 1, "text": "[[pg]]\n"}
        editor.notify("textDocument/didOpen", textDocument=document)
        place = {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 3}}
        for method in ("completion", "hover", "definition"):
            assert editor.request(f"textDocument/{method}", **place) is None, uri
        editor.notify("textDocument/didClose", textDocument={"uri": uri})
    (root / "link.md").unlink()


def test_large_open_text_is_not_parsed(editor: LspClient) -> None:
    """A text of over two million characters gets one note and no other answers."""
    editor.open("a.md", "[[pg]] " * 300_000)
    (note,) = editor.diagnostics("a.md")
    assert note["code"] == "too-large"
    place = {"textDocument": {"uri": editor.uri("a.md")}, "position": {"line": 0, "character": 3}}
    assert editor.request("textDocument/hover", **place) is None


def test_long_names_are_shortened(editor: LspClient) -> None:
    """A title of megabytes is neither listed nor repeated in hovers, symbols and actions."""
    editor.open("long.md", f"# {'long ' * 200_000}\n\n[[Alpha]]\n")
    editor.open("a.md", "[[long]] al\n")
    assert len(editor.hover("a.md", "[[lo¦ng")) < 2_000
    uri = {"uri": editor.uri("long.md")}
    assert len(json.dumps(editor.request("textDocument/documentSymbol", textDocument=uri))) < 2_000
    editor.open("a.md", "[[long\n")
    place = editor.at("a.md", "[[long¦")
    (item,) = editor.request("textDocument/completion", **place)["items"]
    assert item["textEdit"]["newText"] == "long]]"


HOSTILE = (
    "[" * 2_000 + "]" * 2_000,
    "[[" * 3_000,
    "---\n" + "a: [" * 500 + "\n---\n[[x]]",
    "---\na: &a [*a]\nb: !!python/object/apply:os.system [x]\n---\n[[pg]]",
    "---\ntitle: [\n",
    "---\n\n---\n---\n",
    "#" * 9_000,
    "<<<<<<< a\n[[pg]]\n=======\nx\n>>>>>>> b\n",
    "\ud83d [[pg]] \udc00",
    "\x00\x1b[31m [[pg\x00]]",
    "a\r" * 500,
    "```\n[[pg]]",
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_are_answered(editor: LspClient, text: str) -> None:
    """Broken headers, conflicts, lone surrogates and deep nesting are answered without errors."""
    editor.open("a.md", text)
    editor.diagnostics("a.md")
    uri = {"uri": editor.uri("a.md")}
    valid = text.encode("utf-16", "replace").decode("utf-16")
    for place in (position(valid, at) for at in (0, 4, len(text))):
        at = {"textDocument": uri, "position": place}
        for method in ("completion", "hover", "definition"):
            editor.request(f"textDocument/{method}", **at)
        editor.request(
            "textDocument/codeAction",
            textDocument=uri,
            range={"start": place, "end": place},
            context={"diagnostics": []},
        )
        editor.request("textDocument/references", **at, context={"includeDeclaration": True})
    editor.request("textDocument/documentSymbol", textDocument=uri)


def test_malformed_messages_do_not_stop_the_server(editor: LspClient) -> None:
    """Requests with wrong parameters get an error without a traceback, and the next is answered."""
    uri = {"uri": editor.uri("a.md")}
    for method, params in (
        ("textDocument/hover", {}),
        ("textDocument/hover", {"textDocument": uri, "position": {"line": -5, "character": -1}}),
        ("textDocument/hover", {"textDocument": uri, "position": "x"}),
        ("textDocument/completion", [1]),
        ("textDocument/rename", {"textDocument": uri, "position": None, "newName": 3}),
        ("workspace/symbol", {"query": None}),
        ("workspace/executeCommand", {"command": "rm", "arguments": ["/"]}),
        ("workspace/willRenameFiles", {"files": [{"oldUri": "x", "newUri": "\0"}]}),
        ("unknown/method", {"x": 1}),
    ):
        editor.send({"jsonrpc": "2.0", "id": 70_000, "method": method, "params": params})
        answer = editor.response(70_000)
        assert "Traceback" not in json.dumps(answer)
    for junk in (b"{}", b"[]", b"nonsense", b"null", b"\xff", b'{"jsonrpc":"2.0"}', b"7"):
        editor.send_bytes(b"Content-Length: %d\r\n\r\n%b" % (len(junk), junk))
    editor.send_bytes(b"Content-Type: x\r\nContent-Length: 0\r\n\r\n\r\n\r\nrubbish\r\n")
    missing = {"uri": editor.uri("never-opened.md"), "version": 3}
    editor.notify("textDocument/didChange", textDocument=missing, contentChanges=[{"text": "x"}])
    editor.notify("textDocument/didClose", textDocument=missing)
    editor.notify("$/cancelRequest", id=12345)
    editor.open("a.md")
    assert editor.hover("a.md", "[[Use Post¦greSQL")


def test_broken_or_deleted_vault_is_reported_once(tmp_path: Path) -> None:
    """Invalid settings cause one message; a deleted vault is not served until it is back."""
    root = tmp_path / "gone"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "a.md", "# A\n\n[[b]]\n")
    write(root, "b.md", "# B\n")
    with LspClient(root) as editor:
        editor.open("a.md")
        assert editor.hover("a.md", "[[b¦]]")
        write(root, "memvault.toml", "version = [\n")
        place = editor.at("a.md", "[[b¦]]")
        for _ in range(3):
            assert editor.request("textDocument/hover", **place) is None
        shown = [m for m in editor.notifications if m["method"] == "window/showMessage"]
        assert len(shown) == 1
        assert "memvault.toml" in shown[0]["params"]["message"]
        shutil.rmtree(root)
        assert editor.request("textDocument/hover", **place) is None
        assert editor.request("workspace/symbol", query="x") in (None, [])
        write(root, "memvault.toml", "version = 1\n")
        write(root, "b.md", "# New B\n")
        assert "New B" in editor.hover("a.md", "[[b¦]]")
        assert editor.exit() == 0
        assert not editor.errors


@pytest.mark.promise("S13")
def test_untrusted_vault_is_not_served(tmp_path: Path) -> None:
    """A vault in a folder that every user can write to is used only if it is trusted."""
    root = tmp_path / "shared"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "a.md", "[[a]]\n")
    root.chmod(0o1777)
    with LspClient(root) as editor:
        editor.open("a.md")
        assert editor.request("textDocument/hover", **editor.at("a.md", "[[a¦]]")) is None
        (message,) = [m for m in editor.notifications if m["method"] == "window/showMessage"]
        assert "memvault vaults trust" in message["params"]["message"]


def test_requests_before_initialize_are_refused(folder: Path) -> None:
    """A request before initialize gets the protocol's error, and Content-Length is checked."""
    hover = {"textDocument": {"uri": "file:///a.md"}, "position": {"line": 0, "character": 0}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "textDocument/hover", "params": hover}
    body = json.dumps(request).encode()
    sent = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    sent += b"Content-Length: %b\r\n\r\n" % (b"9" * 5_000)
    command = [sys.executable, "-m", "memvault", "lsp"]
    done = subprocess.run(command, cwd=folder, input=sent, capture_output=True, check=False)
    assert done.returncode == 1
    assert b'"code": -32002' in done.stdout
    assert done.stderr == b""


def test_lsp_vault_option_limits_served_files(tmp_path: Path) -> None:
    """With --vault, files of other vaults are not served, and the server exits at end of input."""
    for name in ("one", "two"):
        write(tmp_path, f"{name}/memvault.toml", "version = 1\n")
        write(tmp_path, f"{name}/a.md", "# A\n\n[[a]]\n")
    with LspClient(tmp_path, "--vault", str(tmp_path / "one")) as editor:
        for name, is_served in (("one", True), ("two", False)):
            path = f"{name}/a.md"
            editor.open(path)
            answer = editor.request("textDocument/hover", **editor.at(path, "[[a¦]]"))
            assert bool(answer) is is_served
        assert editor.process.stdin is not None
        editor.process.stdin.close()
        assert editor.process.wait(60) == 1


def test_lsp_without_pygls_shows_install_command(folder: Path) -> None:
    """Without the extra, memvault lsp shows how to install it."""
    code = "import sys; sys.modules['pygls'] = None\n"
    code += "from memvault.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "lsp"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert refused(Ran(done.returncode, done.stdout, done.stderr), 1).endswith("needs pygls")
    assert "pip install '.[lsp]'" in done.stderr
