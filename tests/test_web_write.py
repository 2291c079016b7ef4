"""Editing in the browser: only the user's changes are written."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Callable, Iterator
from html import unescape
from http.cookiejar import CookieJar
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import examples, only_with, write
from made_secrets import made
from memvault import open_vault
from memvault.memories.edit import form_text, with_form_text
from memvault.web.access import Access
from test_web import code_of, served

if TYPE_CHECKING:
    from starlette.testclient import TestClient

pytestmark = only_with("starlette", "uvicorn", "jinja2", extra="web")
HOST = "127.0.0.1:8421"
ACCESS = Access("its-folder", "the-token", "the-session", "the-form")
BASE = f"http://{HOST}{ACCESS.base}"
OWN = {"Sec-Fetch-Site": "same-origin", "Origin": f"http://{HOST}"}
TEA = "---\nid: tea-7k2m9q\ntags: [hot] # always\n---\n\n# Tea\n\nSee [[Cups]].\n"
CUPS = "---\nid: cups-7k2m9q\n---\n\n# Cups\n\nFor [[Tea]] and [tea](fact/tea.md).\n"


class Browser:
    """A browser that has opened the pages with ``--write``."""

    def __init__(self, client: TestClient, root: Path) -> None:
        self.client = client
        self.root = root

    def get(self, path: str, status: int = 200) -> str:
        """Open a page and return it."""
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text
        return answer.text

    def post(self, path: str, status: int = 303, /, **fields: str) -> str:
        """Send a form; return the page, or the address that it leads to."""
        answer = self.client.post(
            path, data={"token": ACCESS.form, **fields}, headers=OWN, follow_redirects=False
        )
        assert answer.status_code == status, answer.text
        return answer.headers.get("location", answer.text)

    def saved(self, path: str, /, **fields: str) -> str:
        """Send a form, and return the page that the browser then shows."""
        return self.get(self.post(path, 303, **fields).removeprefix(ACCESS.base))

    def form(self, path: str) -> dict[str, str]:
        """Return the hidden fields, the title and the text on a page, as a browser sends them."""
        return fields_of(self.get(path))

    def read(self, path: str) -> bytes:
        """Return the bytes of a file in the vault."""
        return (self.root / path).read_bytes()


def fields_of(page: str) -> dict[str, str]:
    """Return the fields in a page, with the line endings that a browser sends."""
    inputs = re.findall(
        r"<input (?:type=\"hidden\" |id=\"\w+\" )name=\"(\w+)\" value=\"(.*?)\"", page
    )
    area = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page, re.DOTALL)
    text = {"text": unescape(area[1].replace("\r\n", "\n")).replace("\n", "\r\n")} if area else {}
    return {**{name: unescape(value) for name, value in inputs}, **text}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A vault with two memories that link to each other."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "fact/tea.md", TEA)
    write(root, "cups.md", CUPS)
    return root


@pytest.fixture
def browser(root: Path) -> Iterator[Browser]:
    """A browser with the vault's pages open."""
    from starlette.testclient import TestClient

    from memvault.web.app import application
    from memvault.web.session import WebSession

    session = WebSession(root)
    app = application(session, ACCESS, ("127.0.0.1", 8421), writes=True)
    with TestClient(app, base_url=BASE) as client:
        client.get("/?token=the-token")
        yield Browser(client, root)
    session.close()


def test_web_edit_changes_only_the_edited_lines(browser: Browser, root: Path) -> None:
    """Line endings, front matter comments and a missing final newline survive an edit."""
    text = b"---\r\nid: old-7k2m9q # mine\r\nx:   1\r\n---\r\n\r\n# Old\r\n\r\nOne.\nTwo.\r\n\fLast"
    write(root, "old.md", text)
    form = browser.form("/m/old-7k2m9q/edit")
    assert form["text"] == "# Old\r\n\r\nOne.\r\nTwo.\r\n\fLast"
    browser.post("/m/old-7k2m9q/edit", 303, **form)
    assert browser.read("old.md") == text
    with open_vault(root) as vault:
        assert vault.call("memory_log")["changes"] == []
    form["text"] = form["text"].replace("Two.", "2.\r\nNew.")
    assert "Saved" in browser.saved("/m/old-7k2m9q/edit", **form)
    assert browser.read("old.md") == text.replace(b"Two.\r\n", b"2.\r\nNew.\r\n")
    write(root, "bare.md", b"---\nid: bare-7k2m9q\n---")
    form = browser.form("/m/bare-7k2m9q/edit")
    browser.post("/m/bare-7k2m9q/edit", 303, **{**form, "text": "Text"})
    assert browser.read("bare.md") == b"---\nid: bare-7k2m9q\n---\nText"


LINES = st.lists(st.sampled_from(("a", "b", "", "\f\0", "# x", "é")), max_size=8)
ENDS = st.sampled_from(("\n", "\r\n", "\r"))


@given(body=st.lists(st.tuples(LINES, ENDS), max_size=4), last=st.text("ab\0\r\n", max_size=4))
@settings(max_examples=examples(200))
def test_form_text_round_trips_any_body(body: list[tuple[list[str], str]], last: str) -> None:
    """A body sent back unchanged keeps its bytes, and so do unchanged lines of an edited one."""
    text = "".join(f"{line}{end}" for lines, end in body for line in lines) + last
    sent = form_text(text).replace("\n", "\r\n")
    assert with_form_text(text, sent, "\n") == text if text else True
    if text.strip("\r\n"):
        assert with_form_text(text, f"new\r\n{sent}", "\n").endswith(text.lstrip("\r\n"))


def test_web_edit_of_a_changed_file_shows_both_versions(browser: Browser, root: Path) -> None:
    """If the file changed after it was opened, nothing is written until the user overwrites it."""
    form = browser.form("/m/tea-7k2m9q/edit")
    form["text"] = form["text"].replace("See", "Mine <b>&amp; see")
    theirs = TEA.replace("See", "Theirs")
    write(root, "fact/tea.md", theirs)
    page = browser.post("/m/tea-7k2m9q/edit", 409, **form)
    assert browser.read("fact/tea.md") == theirs.encode()
    assert "has changed since you opened it" in page
    assert "data-unsaved" in page
    assert re.search(r'<tr class="removed">.*<mark>Theirs</mark>', page)
    assert re.search(r'<tr class="added">.*Mine', page)
    again = fields_of(page)
    assert again["text"] == form["text"]
    assert again["etag"] != form["etag"]
    assert "Saved" in browser.saved("/m/tea-7k2m9q/edit", **again)
    assert b"Mine <b>&amp; see" in browser.read("fact/tea.md")
    with open_vault(root) as vault:
        assert len(vault.call("memory_show", memId="tea-7k2m9q")["revisions"]) == 1


def test_web_edit_follows_move_or_saves_deleted_as_new(browser: Browser, root: Path) -> None:
    """A memory that was moved is saved at its new path; a deleted one can be saved as new."""
    form = browser.form("/m/tea-7k2m9q/edit")
    form["text"] += "More.\r\n"
    (root / "fact/tea.md").rename(root / "moved.md")
    browser.post("/m/tea-7k2m9q/edit", 303, **form)
    assert browser.read("moved.md").endswith(b"More.\n")
    form = browser.form("/m/tea-7k2m9q/edit")
    form["text"] += "Even more.\r\n"
    (root / "moved.md").unlink()
    page = browser.post("/m/tea-7k2m9q/edit", 404, **form)
    assert 'action="/its-folder/new"' in page
    assert fields_of(page)["text"] == form["text"]
    browser.saved("/new", **fields_of(page))
    assert browser.read("context/tea.md").endswith(b"Even more.\n")


def test_web_edit_of_title_renames_and_rewrites_links(browser: Browser, root: Path) -> None:
    """A changed title, or heading that was the title, changes the links to the memory."""
    form = browser.form("/m/tea-7k2m9q/edit")
    form |= {"title": "Green tea", "text": f"{form['text']}More.\r\n"}
    assert "Green tea" in browser.saved("/m/tea-7k2m9q/edit", **form)
    assert b"[[green-tea]] and [tea](fact/green-tea.md)" in browser.read("cups.md")
    assert browser.read("fact/green-tea.md").endswith(b"# Green tea\n\nSee [[Cups]].\nMore.\n")
    assert "changed" in browser.get("/undo")
    change = fields_of(browser.get("/undo"))
    assert "Undone" in browser.saved("/undo", **change)
    assert (browser.read("fact/tea.md"), browser.read("cups.md")) == (TEA.encode(), CUPS.encode())
    form = browser.form("/m/tea-7k2m9q/edit")
    form["text"] = form["text"].replace("# Tea", "# Mint")
    browser.post("/m/tea-7k2m9q/edit", 303, **form)
    assert b"[[mint]] and [tea](fact/mint.md)" in browser.read("cups.md")


def test_web_adds_tags_renames_and_forgets(browser: Browser, root: Path) -> None:
    """Forms add a memory, change its tags, rename it after a preview, and move it to the trash."""
    new = {"title": "Kettle <i>", "type": "fact", "tags": "hot, blue", "text": "Boils.\r\n"}
    page = browser.saved("/new", **new)
    assert "Kettle &lt;i&gt;" in page
    assert ">Boils.<" in page
    assert b"tags: [hot, blue]\n" in browser.read("fact/kettle-i.md")
    place = re.search(r"/m/kettle-i-\w+", page)
    assert place is not None
    name = place[0]
    browser.post(f"{name}/tags", 303, add="new")
    assert "#new" in browser.saved(f"{name}/tags", remove="blue")
    assert "#blue" not in browser.get(f"{name}/tags")
    assert "does not have the tag" in browser.post(f"{name}/tags", 404, remove="x")
    assert "No tag is given" in browser.post(f"{name}/tags", 400, add=" ")

    form = {**browser.form("/m/tea-7k2m9q/rename"), "title": "Green <tea>", "to": "drinks/"}
    page = browser.post("/m/tea-7k2m9q/rename", 200, **form)
    assert "<code>cups.md</code>: 2 links" in page
    assert "Green &lt;tea&gt;" in page
    assert browser.read("fact/tea.md") == TEA.encode()
    write(root, "cups.md", f"{CUPS}Later.\n")
    assert "does not match" in browser.post("/m/tea-7k2m9q/rename", 409, **fields_of(page))
    page = browser.post("/m/tea-7k2m9q/rename", 200, **form)
    assert "Renamed" in browser.saved("/m/tea-7k2m9q/rename", **fields_of(page))
    assert b"[[green-tea]] and [tea](drinks/green-tea.md)" in browser.read("cups.md")
    assert not (root / "fact/tea.md").exists()

    form = browser.form("/m/cups-7k2m9q/forget")
    write(root, "cups.md", CUPS)
    page = browser.post("/m/cups-7k2m9q/forget", 409, **form)
    assert "changed since you opened" in page
    assert (root / "cups.md").exists()
    page = browser.saved("/m/cups-7k2m9q/forget", **fields_of(page))
    assert "Forgot Cups; it is in the trash" in page
    assert not (root / "cups.md").exists()
    page = browser.get("/undo")
    assert "forgotten: Cups" in page
    browser.post("/undo", 303, **fields_of(page))
    assert browser.read("cups.md") == CUPS.encode()


def test_web_undo_lists_later_changes_that_cannot_be_undone(browser: Browser, root: Path) -> None:
    """If a file has changed since the last change, the page says so and offers the previous one."""
    assert "There is nothing to undo" in browser.get("/undo")
    for name, path in (("cups-7k2m9q", "cups.md"), ("tea-7k2m9q", "fact/tea.md")):
        form = browser.form(f"/m/{name}/edit")
        browser.post(f"/m/{name}/edit", 303, **{**form, "text": f"{form['text']}More.\r\n"})
        assert browser.read(path).endswith(b"More.\n")
    write(root, "fact/tea.md", TEA)
    page = browser.get("/undo")
    write(root, "fact/tea.md", f"{TEA}Mine.\n")
    assert "cannot be undone" in browser.get("/undo")
    assert "No change is given" in browser.post("/undo", 400)
    browser.post("/undo", 303, **fields_of(page))
    assert browser.read("cups.md") == CUPS.encode()
    assert browser.read("fact/tea.md").endswith(b"Mine.\n")


@pytest.mark.promise("S107")
def test_web_edit_neither_shows_nor_loses_secrets(browser: Browser, root: Path) -> None:
    """A memory with a secret cannot be edited here, and a refused secret stays in the form."""
    secret = made("GitHub token")[1]
    write(root, "key.md", f"---\nid: key-7k2m9q\n---\n\n# Key\n\n{secret}\n")
    for page in ("edit", "rename", "tags", "forget"):
        text = browser.get(f"/m/key-7k2m9q/{page}", 400)
        assert "contains a secret" in text
        assert "memvault edit key-7k2m9q" in text
        assert secret.split()[-1] not in text
    before = browser.read("key.md")
    mask = {"title": "Key", "text": "# Key\r\n\r\n[masked: GitHub token]\r\n", "etag": "x"}
    assert "contains a secret" in browser.post("/m/key-7k2m9q/edit", 400, **mask)
    assert browser.read("key.md") == before
    form = browser.form("/m/tea-7k2m9q/edit")
    form["text"] += f"{secret}\r\n"
    write(root, "memvault.toml", '[secrets]\non_write = "refuse"\n')
    page = browser.post("/m/tea-7k2m9q/edit", 400, **form)
    assert fields_of(page)["text"] == form["text"]
    assert browser.read("fact/tea.md") == TEA.encode()
    assert secret.split()[-1] not in browser.post("/preview", 200, text=form["text"])
    write(root, "memvault.toml", "")
    page = browser.saved("/m/tea-7k2m9q/edit", **form)
    assert "Saved" in page
    assert "secret" in page
    assert secret.split()[-1] not in page


def test_web_edit_keeps_text_if_it_cannot_be_written(
    browser: Browser, root: Path, write_protect: Callable[[Path], None]
) -> None:
    """A full disk, protected file or excluded folder is reported above the user's text."""
    form = browser.form("/m/tea-7k2m9q/edit")
    form["text"] += "More.\r\n" * 1_000
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, before[1]))
        page = browser.post("/m/tea-7k2m9q/edit", 400, **form)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert 'class="notice error" role="alert"' in page
    assert fields_of(page)["text"] == form["text"]
    assert browser.read("fact/tea.md") == TEA.encode()
    write_protect(root / "fact/tea.md")
    page = browser.post("/m/tea-7k2m9q/edit", 400, **form)
    assert fields_of(page)["text"] == form["text"]
    browser.get("/m/tea-7k2m9q/edit", 400)
    write(root, "memvault.toml", 'version = 1\nignore = ["context/"]\n')
    new = {"title": "Kettle", "text": "Boils."}
    page = browser.post("/new", 400, **new)
    assert "excluded" in page
    assert fields_of(page)["text"] == "Boils."
    write(
        root, "conflict.md", "---\nid: conflict-7k2m9q\n---\n<<<<<<< a\n1\n=======\n2\n>>>>>>> b\n"
    )
    form = browser.form("/m/conflict-7k2m9q/edit")
    page = browser.post("/m/conflict-7k2m9q/edit", 400, **{**form, "text": f"{form['text']}x"})
    assert "conflict markers" in page


@pytest.mark.promise("S107")
def test_web_refuses_forms_from_other_pages(browser: Browser, root: Path) -> None:
    """A form needs the cookie, this server's origin and the form token; nothing else is read."""
    fields = {"token": ACCESS.form, "title": "Tea", "text": "Gone", "etag": ""}
    path, data = "/m/tea-7k2m9q/edit", urlencode(fields)
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    own = {**OWN, **kind}
    origin = {"Origin": f"http://{HOST}"}

    def code(headers: dict[str, str], content: str | bytes = data, where: str = path) -> int:
        return browser.client.post(where, content=content, headers=headers).status_code

    for site in ("cross-site", "same-site", "none", "", "Same-Origin"):
        assert code({**own, "Sec-Fetch-Site": site}) == 403, site
    for other in ("null", "http://127.0.0.1", "https://127.0.0.1:8421", "http://evil.example"):
        assert code({**own, "Origin": other}) == 403, other
        assert code({**kind, "Origin": other}) == 403, other
    assert code(kind) == 403
    assert code({**own, "Host": "evil.example"}) == 421
    for content_type in ("text/plain", "multipart/form-data; boundary=x", "application/json", ""):
        assert code({**own, "Content-Type": content_type}) == 415, content_type
    for token in ("", "the-token", "the-session", "the-for", "the-form2"):
        assert code(own, urlencode({**fields, "token": token})) == 403, token
    assert code(own, urlencode({"text": "Gone"})) == 403
    assert code(own, b"\xff" + data.encode()) == 400
    assert code(own, f"{data}&text=%FF") == 400
    assert code(own, f"{data}{'&a=1' * 100}") == 400
    assert code(own, where=f"http://{HOST}/other-folder{path}") == 403
    browser.client.cookies.clear()
    assert code(own) == 403
    assert code({**own, "Cookie": "memvault=x"}) == 403
    assert browser.read("fact/tea.md") == TEA.encode()
    cookie = {"Cookie": f"memvault={ACCESS.session}"}
    assert code({**kind, **origin, **cookie}) == 409, "a browser without Sec-Fetch-Site"
    with open_vault(root) as vault:
        assert vault.call("memory_log")["changes"] == []


@pytest.mark.promise("S107")
def test_web_writes_only_with_option_and_post(browser: Browser, root: Path) -> None:
    """Without ``--write`` no form exists or is read, and no GET request changes anything."""
    from starlette.testclient import TestClient

    from memvault.web.app import application
    from memvault.web.session import WebSession

    pages = ["/new", "/undo", *(f"/m/tea-7k2m9q/{page}" for page in ("edit", "rename", "forget"))]
    asked = urlencode({"token": ACCESS.form, "title": "X", "text": "X", "remove": "hot"})
    for path in (*pages, "/m/tea-7k2m9q/tags"):
        browser.get(f"{path}?{asked}")
    for path in ("/preview", "/m/tea-7k2m9q"):
        assert browser.client.put(path).status_code == 405
    browser.get("/preview", 404)
    assert browser.client.get("/new").headers["referrer-policy"] == "same-origin"
    session = WebSession(root)
    with TestClient(application(session, ACCESS, ("127.0.0.1", 8421)), base_url=BASE) as reader:
        assert reader.get("/?token=the-token").headers["referrer-policy"] == "no-referrer"
        for path in (*pages, "/m/tea-7k2m9q/tags", "/preview"):
            assert reader.get(path).status_code == 404, path
            form = {"token": ACCESS.form, "title": "X", "text": "X"}
            assert reader.post(path, data=form, headers=OWN).status_code == 405, path
        assert reader.get("/write.js").status_code == 404
        page = reader.get("/m/tea-7k2m9q").text
        assert "write.js" not in page
        assert "/edit" not in page
        assert "Read-only" in page
    session.close()
    with open_vault(root) as vault:
        assert vault.call("memory_log")["changes"] == []


@pytest.mark.promise("S107")
def test_web_form_larger_than_a_memory_is_refused(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body over the limit is refused by its declared length, or once that much has arrived."""
    from memvault.web import app

    monkeypatch.setattr(app, "_MAX_FORM_BYTES", 1_000)
    kind = {**OWN, "Content-Type": "application/x-www-form-urlencoded"}
    data = urlencode({"token": ACCESS.form, "title": "Big", "text": "x" * 2_000}).encode()
    assert browser.client.post("/new", content=data, headers=kind).status_code == 413
    parts = (data[start : start + 100] for start in range(0, len(data), 100))
    assert browser.client.post("/new", content=parts, headers=kind).status_code == 413
    for length in ("9" * 5_000, "-1", "x"):
        headers = {**kind, "Content-Length": length}
        assert browser.client.post("/new", content=b"", headers=headers).status_code == 413


@pytest.mark.promise("S107")
def test_web_rename_stays_in_the_vault(browser: Browser, root: Path) -> None:
    """A path outside the vault, a hidden one or another vault's memory is refused."""
    (root / "out").symlink_to(root.parent)
    form = browser.form("/m/tea-7k2m9q/rename")
    for target in (
        "../tea.md",
        "/tmp/tea.md",
        ".memvault/tea.md",
        "out/tea.md",
        "..",
        "a/../../b/",
    ):
        page = browser.post("/m/tea-7k2m9q/rename", 400, **{**form, "to": target})
        assert "notice error" in page, target
    assert "exists" in browser.post("/m/tea-7k2m9q/rename", 409, **{**form, "to": "cups.md"})
    assert browser.read("fact/tea.md") == TEA.encode()
    assert browser.read("cups.md") == CUPS.encode()
    for name in ("other:tea", "..%2F..%2Fetc%2Fpasswd", "te"):
        browser.get(f"/m/{name}/edit", 404)


def test_web_forms_change_the_file_that_they_show(browser: Browser, root: Path) -> None:
    """A file whose name differs only in spaces or a prefix is not changed instead."""
    for path in ("this:tea.md", " tea.md", "tea.md "):
        write(root, path if path.endswith(".md") else f"x/{path}.md", f"# Other {path!r}\n")
    write(root, "tea.md", "# Plain\n")
    before = {path: path.read_bytes() for path in root.rglob("*.md")}
    with open_vault(root) as vault:
        listed = vault.call("memory_list")["memories"]
    for place, title in ((entry["filePath"], entry["title"]) for entry in listed):
        if title.startswith("Other"):
            name = next(entry["memId"] for entry in listed if entry["filePath"] == place)
            browser.post(f"/m/{name}/tags", 303, add="seen")
            form = browser.form(f"/m/{name}/edit")
            browser.post(f"/m/{name}/edit", 303, **{**form, "text": f"{form['text']}More"})
            browser.post(f"/m/{name}/forget", 303, **browser.form(f"/m/{name}/forget"))
            assert not (root / place).exists(), place
    for file, data in before.items():
        assert b"Other" in data or file.read_bytes() == data


def test_web_preview_is_safe_and_works_without_scripts(browser: Browser) -> None:
    """The preview shows links of the vault and no HTML; a button shows it in the same form."""
    text = "# </textarea><script>x</script>\r\n\r\n[[Cups]] [x](javascript:y)\r\n"
    shown = browser.post("/preview", 200, text=text, name="tea-7k2m9q")
    assert 'href="/its-folder/m/cups-7k2m9q"' in shown
    assert "<script" not in shown
    assert 'href="javascript' not in shown
    form = {**browser.form("/m/tea-7k2m9q/edit"), "text": text, "preview": "1"}
    for path in ("/m/tea-7k2m9q/edit", "/new"):
        page = browser.post(path, 200, **form)
        assert fields_of(page)["text"] == text
        assert fields_of(page)["etag"] == (form["etag"] if path != "/new" else "")
        assert "<script>x" not in page
        assert "&lt;script&gt;x&lt;/script&gt;</h1>" in page
    assert browser.read("fact/tea.md") == TEA.encode()


def test_web_edits_title_with_markup(browser: Browser, root: Path) -> None:
    """A title with quotes and markup is escaped on each page, and does not count as a change."""
    title = '"><script>alert(1)</script>  &amp;'
    write(root, "odd.md", f"---\nid: odd-7k2m9q\ntitle: {json.dumps(title)}\n---\n\nOdd.\n")
    before = browser.read("odd.md")
    for page in ("edit", "rename", "tags", "forget"):
        assert "<script>alert" not in browser.get(f"/m/odd-7k2m9q/{page}")
    form = browser.form("/m/odd-7k2m9q/edit")
    browser.post("/m/odd-7k2m9q/edit", 303, **form)
    assert browser.read("odd.md") == before


@pytest.mark.promise("S107")
def test_web_write_option_serves_forms(root: Path) -> None:
    """``memvault web --write`` saves a form that a browser sends to the printed address."""
    browser = build_opener(HTTPCookieProcessor(CookieJar()))
    with served(root, "--no-open", "--write") as (address, _):
        browser.open(address).close()
        place = f"{address.partition('?')[0]}m/tea-7k2m9q/edit"
        with browser.open(place) as answer:
            form = fields_of(answer.read().decode())
        data = urlencode({**form, "text": f"{form['text']}More.\r\n"}).encode()
        assert code_of(browser, Request(place, data)) == 403
        origin = "/".join(address.split("/")[:3])
        assert code_of(browser, Request(place, data, {"Origin": origin})) == 200
    assert (root / "fact/tea.md").read_bytes().endswith(b"More.\n")


@only_with("pypdfium2", extra="documents")
def test_web_documents_cannot_be_edited(browser: Browser, root: Path) -> None:
    """The page of a document has no buttons that change it, and the forms refuse it."""
    write(root, "people.csv", "name,role\nAda,keeper\n")
    with open_vault(root) as vault:
        mem_id = vault.call("memory_show", memId="people.csv")["memId"]
    page = browser.get(f"/m/{mem_id}")
    assert "Ada" in page
    assert not any(f"{mem_id}/{action}" in page for action in ("edit", "rename", "forget", "tags"))
    for action in ("edit", "tags", "rename", "forget"):
        refusal = browser.get(f"/m/{mem_id}/{action}", 400)
        assert "is a document, which memvault never changes" in refusal
