"""A vault's pages in a browser: access, content, and that no code runs."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import HTTPCookieProcessor, OpenerDirector, Request, build_opener

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Run, examples, only_with, refused, succeeded, until, write
from made_secrets import made
from memvault import open_vault
from memvault.web.access import Access
from memvault.web.markdown_html import to_html

if TYPE_CHECKING:
    from starlette.testclient import TestClient

pytestmark = only_with("starlette", "uvicorn", "jinja2", extra="web")
HOST = "127.0.0.1:8421"
ACCESS = Access("its-folder", "the-token", "the-session")
BASE = f"http://{HOST}{ACCESS.base}"
PICTURE = b"\x89PNG\r\n"
HOSTILE = """# <script>alert(1)</script>

<img src=x onerror=alert(1)> [click](javascript:alert(1)) ![t](https://evil.example/x.png)
[[../../etc/passwd]] ![[secret.md]] [data](data:text/html,<script>alert(1)</script>)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with linked, hostile and secret memories, and an image."""
    root = tmp_path_factory.mktemp("web") / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "fact/tea.md", "---\nid: tea-7k2m9q\ntags: [hot]\n---\n\n# Tea\n\nSee [[Cups]].\n")
    write(
        root,
        "cups.md",
        "---\nid: cups-7k2m9q\n---\n\n# Cups\n\n`<b> heat` ![[pot.png]] and [tea](fact/tea.md)\n\n"
        "![[huge.png]] ![[leaf.pdf]]\n",
    )
    write(root, "pot.png", PICTURE)
    write(root, "leaf.pdf", b"%PDF-1.4")
    write(root, "huge.png", b"\x89PNG" + bytes(6_000_000))
    write(root, "evil.md", f"---\nid: evil-7k2m9q\n---\n\n{HOSTILE}")
    write(root, "key.md", f"---\nid: key-7k2m9q\n---\n\n# Key\n\n{made('GitHub token')[1]}\n")
    return root


@pytest.fixture(scope="module")
def client(root: Path) -> Iterator[TestClient]:
    """A browser that has opened the address with the token."""
    from starlette.testclient import TestClient

    from memvault.web.app import application
    from memvault.web.session import WebSession

    session = WebSession(root)
    app = application(session, ACCESS, ("127.0.0.1", 8421))
    with TestClient(app, base_url=BASE) as opened:
        assert opened.get("/?token=the-token").status_code == 200
        yield opened
    session.close()


def test_web_search_does_not_wait_for_the_map(root: Path) -> None:
    """Searches and memory pages are answered while the map or the review is computed."""
    from memvault.web.addresses import ServedAddresses
    from memvault.web.session import WebSession

    session, free, begun = WebSession(root), threading.Event(), threading.Event()

    def held(*_: object) -> object:
        begun.set()
        return free.wait(60)

    working = threading.Thread(target=session.on_view, args=(held, True))
    working.start()
    try:
        assert begun.wait(60)
        waiting = [threading.Thread(target=make) for make in (session.map, session.review)]
        for thread in waiting:
            thread.start()
        assert session.search("tea")["memories"][0]["title"] == "Tea"
        assert session.search("tag:hot")["total"] == 1
        assert "Cups" in session.read("tea-7k2m9q", ServedAddresses()).text.html
        assert all(thread.is_alive() for thread in (working, *waiting))
    finally:
        free.set()
    for thread in (working, *waiting):
        thread.join(60)
    assert len(session.map()["nodes"]) == 4
    session.close()


class Elements(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {key: value or "" for key, value in attrs}))


@pytest.mark.promise("S82")
def test_web_requires_the_token(client: TestClient, root: Path) -> None:
    """Without the token, or with another host name, every URL is refused."""
    from starlette.testclient import TestClient

    cookie = {"Cookie": "memvault=the-session"}
    for path in ("/", "/map.json", "/m/tea-7k2m9q", "/f/pot.png", "/style.css", "/?token=x", "/no"):
        with TestClient(client.app, base_url=BASE) as other:
            assert other.get(path).status_code == 403, path
            for folder in ("", "/its-folde", "/its-folder2", "/x/its-folder"):
                found = other.get(f"http://{HOST}{folder}{path}", headers=cookie)
                assert found.status_code == 403, (folder, path)
                assert "the-session" not in str(found.headers)
        assert client.get(path, headers={"Host": "evil.example"}).status_code == 421
        for site in ("cross-site", "same-site"):  # a page from another port knows a URL
            assert client.get(path, headers={"Sec-Fetch-Site": site}).status_code == 403
    with TestClient(client.app, base_url=BASE) as other:
        assert other.get(f"http://{HOST}/?token=the-token").status_code == 403
    assert client.post("/").status_code == 405
    cookies = client.get("/?token=the-token", follow_redirects=False).headers["set-cookie"].lower()
    assert "httponly" in cookies
    assert "samesite=strict" in cookies
    assert "path=/its-folder/" in cookies
    assert "the-token" not in cookies


@pytest.mark.promise("S82")
def test_web_token_page_opened_from_file_redirects_itself(client: TestClient) -> None:
    """A browser that comes from a local file sends the cookie only from our own page."""
    answer = client.get(
        "/?token=the-token", headers={"Sec-Fetch-Site": "cross-site"}, follow_redirects=False
    )
    assert answer.status_code == 200
    assert 'content="0; url=/its-folder/"' in answer.text
    assert "memvault=the-session" in answer.headers["set-cookie"]


@pytest.mark.promise("S83")
def test_web_page_loads_only_its_own_resources(client: TestClient) -> None:
    """Each page allows only memvault's script and style and does not show external images."""
    for path in (
        "/",
        "/?q=tea",
        "/m/evil-7k2m9q",
        "/m/evil-7k2m9q/history",
        "/map",
        "/overview",
        "/review",
        "/tags",
    ):
        answer = client.get(path)
        assert answer.status_code == 200, path
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert answer.headers["x-content-type-options"] == "nosniff"
        for tag, given_attributes in Elements(answer.text).found:
            assert tag not in ("iframe", "object", "embed", "base", "style"), path
            assert not any(key.startswith("on") or key == "style" for key in given_attributes)
            for key in ("src", "href"):
                value = given_attributes.get(key, "/")
                assert re.match(r"/its-folder/|#|\?|https?://|mailto:|/$", value), (path, value)
                assert key == "href" or value.startswith("/")
    assert "&lt;script&gt;" in client.get("/m/evil-7k2m9q").text


_SAFE_ATTRIBUTES = {
    *("href", "src", "alt", "title", "rel", "class", "start", "id", "open"),
    *("type", "checked", "disabled", "aria-label"),
}


@given(text=st.text() | st.text(alphabet="<>[]()!\"'`javscript:dt/ \n=&#\\"))
@settings(max_examples=examples(300))
def test_web_memory_text_cannot_run_scripts(text: str) -> None:
    """Any memory is rendered without scripts or event handlers and with safe URLs only."""
    for tag, attributes in Elements(to_html(text).html).found:
        assert tag not in ("script", "iframe", "object", "embed", "form", "style", "link")
        assert tag != "input" or "disabled" in attributes
        assert set(attributes) <= _SAFE_ATTRIBUTES
        assert re.fullmatch(r"(?:h-|fn).*", attributes.get("id", "h-")), "an element of the page"
        assert tag != "img"
        address = attributes.get("href", "#")
        assert re.match(r"#|https?://|mailto:", address), address


def test_web_pages_show_the_vault(client: TestClient) -> None:
    """Search works; a memory shows its links, images and backlinks; the map shows all nodes."""
    results = client.get("/?q=tea").text
    assert "Tea" in results
    assert re.search(r'<span class="strength \w+">\w+ \d\.\d\d</span>', results)
    assert "Cups" not in client.get("/results?tag=hot").text
    cups = client.get("/m/cups-7k2m9q").text
    assert '<img src="/its-folder/f/pot.png"' in cups
    assert 'href="/its-folder/m/tea-7k2m9q"' in cups
    assert cups.count("<h1>") == 1
    tea = client.get("/m/tea-7k2m9q").text
    assert 'href="/its-folder/m/cups-7k2m9q"' in tea
    found = client.get("/map.json").json()
    assert len(found["nodes"]) == 4
    linked = [[found["nodes"][place]["title"] for place in pair] for pair in found["edges"]]
    assert linked in ([["Tea", "Cups"]], [["Cups", "Tea"]])
    assert {node["title"]: node["links"] for node in found["nodes"]} == (
        {"Tea": 1, "Cups": 1, "Key": 0, "<script>alert(1)</script>": 0}
    )
    around = client.get("/m/tea-7k2m9q/links.json").json()
    assert [node["title"] for node in around["nodes"]] == ["Tea", "Cups"]
    assert list(map(sorted, around["edges"])) == [[0, 1]]
    assert 'href="/its-folder/review"' in client.get("/overview").text
    assert "Items to review" in client.get("/review").text
    assert client.get("/m/none").status_code == 404


def test_web_pages_reflect_later_changes(tmp_path: Path) -> None:
    """A page that was shown before shows a new memory, a recall and changed settings."""
    from starlette.testclient import TestClient

    from memvault.web.app import application
    from memvault.web.session import WebSession

    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "fact/tea.md", "---\nid: tea-7k2m9q\ntags: [hot]\n---\n\n# Tea\n\nSee [[Cups]].\n")
    session = WebSession(root)
    app = application(session, ACCESS, ("127.0.0.1", 8421))
    with TestClient(app, base_url=BASE) as client:
        client.get("/?token=the-token")

        def shown() -> list[str]:
            return [client.get(f"/{name}").text for name in ("tags", "overview", "map", "review")]

        first = shown()
        assert shown() == first
        assert ["Iced" in page for page in first] == [False] * 4
        key = made("GitHub token")[1]
        text = f"---\nid: iced-7k2m9q\ntags: [cold]\n---\n\n# Iced\n\n{key}\n"
        write(root, "fact/iced.md", text)
        tags, overview, linked, review = shown()
        assert "cold" in tags
        assert "Iced" in overview
        assert "Iced" in linked
        assert "contains a secret" in review
        with open_vault(root) as vault:
            vault.call("recall_fact", query="iced")
        assert client.get("/overview").text != overview
        write(root, "memvault.toml", '[secrets]\non_write = "off"\n')
        assert "contains a secret" not in client.get("/review").text
    session.close()


@pytest.mark.promise("S84")
def test_web_serves_only_attachments_and_masks_secrets(client: TestClient, root: Path) -> None:
    """Hidden files, settings, memory files and files outside are never served."""
    answer = client.get("/f/pot.png")
    assert (answer.headers["content-type"], answer.status_code) == ("image/png", 200)
    assert "sandbox" in answer.headers["content-security-policy"]
    for path in ("memvault.toml", "key.md", ".memvault/journal", "%2e%2e/x.png"):
        assert client.get(f"/f/{path}").status_code == 404, path
    assert client.get("/f/../outside.png").status_code == 404  # the client asks for /outside.png
    token = re.search(r"\S+$", (root / "key.md").read_text("utf-8").strip())
    assert token is not None
    for path in ("/m/key-7k2m9q", "/?q=key", "/overview", "/review"):
        assert token[0] not in client.get(path).text
    assert "[masked: GitHub token]" in client.get("/m/key-7k2m9q").text


def test_web_search_filters_and_marks_words(client: TestClient) -> None:
    """The search offers types and tags with counts, marks words, and formats code spans."""
    page = client.get("/?q=green+tea&tag=hot").text
    assert '<input type="checkbox" name="tag" value="hot" checked><span>#hot <small>1' in page
    assert '<input type="radio" name="type" value="fact"><span>fact <small>1' in page
    assert re.search(r'<a href="/its-folder/m/tea-7k2m9q"><mark>Tea</mark></a>', page)
    assert "<code>&lt;b&gt; <mark>heat</mark></code>" in client.get("/results?q=heat").text
    assert "cups-7k2m9q" not in client.get("/results?q=tea&type=fact").text
    assert "Cups" in client.get("/results?since=7d").text
    assert client.get("/results?since=nonsense&type=none&tag=none").status_code == 200


def test_map_export_is_self_contained(run: Run, root: Path, tmp_path: Path) -> None:
    """The map file has all memories, a hash-based policy and no secret; other files are kept."""
    target = tmp_path / "map.html"
    said = succeeded(run("graph", str(target), "--json", cwd=root)).json
    assert said["memories"] == 4
    text = unescape(target.read_text("utf-8"))
    whole = target.read_text("utf-8")
    data = json.loads(whole.partition('id="data">')[2].partition("</script>")[0])
    assert '<img src="data:,0.png" alt="pot.png"' in data["texts"]["cups-7k2m9q"]
    assert data["texts"]["cups-7k2m9q"].count("<img") == 1, "a picture that is too large"
    assert "huge.png leaf.pdf" in data["texts"]["cups-7k2m9q"]
    assert data["pictures"] == [f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"]
    assert "default-src 'none'; script-src 'sha256-" in text
    assert "made by memvault graph" in text
    assert "[masked: GitHub token]" in text
    assert "<script>alert" not in target.read_text("utf-8")
    succeeded(run("graph", str(target), cwd=root))
    target.write_text("<p>mine</p>", "utf-8")
    assert "did not create it" in refused(run("graph", str(target), cwd=root), 1)
    assert target.read_text("utf-8") == "<p>mine</p>"
    assert "is not an HTML file" in refused(run("graph", "map.txt", cwd=root), 2)
    for inside in ("map.html", "no/such/map.html"):
        assert "is inside the vault" in refused(run("graph", inside, cwd=root), 1)
        assert not (root / inside).exists()


def test_map_export_shows_embeds_and_links_sections(run: Run, tmp_path: Path) -> None:
    """The map file shows embedded sections and blocks, and links lead to them, as in the pages."""
    root, target = tmp_path / "vault", tmp_path / "map.html"
    write(root, "memvault.toml", "version = 1\n")
    write(
        root, "a.md", "---\nid: a-1\n---\n\n# A\n\n![[B#Two]]\n\n![[B^x]]\n\n[[B#Two]] [[B#^x]]\n"
    )
    write(root, "b.md", "---\nid: b-1\n---\n\n# B\n\nFirst ^x\n\n## Two\n\nSecond\n")
    succeeded(run("graph", str(target), cwd=root))
    data = target.read_text("utf-8").partition('id="data">')[2].partition("</script>")[0]
    html = json.loads(data)["texts"]["a-1"]
    assert html.count('<blockquote class="embed">') == 2
    assert (html.count("First"), html.count("Second")) == (1, 1)
    assert re.findall(r'href="/m/b-1#([\w-]+)" rel', html) == ["h-two", "b-x"]


@pytest.fixture(scope="module")
def changed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same vault with changes by tools, attachments of each kind, and unusual names."""
    root = shutil.copytree(root, tmp_path_factory.mktemp("changed") / "vault")
    write(root, "notes/odd #1?.md", "# Odd & strange\n\n[[Tea]] ![[leaf.pdf]] [[a list.csv]]\n")
    write(root, "notes/a list.csv", "a,b\n")
    write(root, "notes/no id.md", '---\ntags: ["a/b", c++]\n---\n\n# No id\n\n[[Odd & strange]]\n')
    with open_vault(root) as vault:
        vault.call("memory_remember", title="Kettle", content="Boils. [[Tea]]", tags=["hot"])
        vault.call("memory_compound", query="tea-7k2m9q", modifications="Steep it. ![[pot.png]]")
        vault.call("memory_compound", query="tea-7k2m9q", modifications="Then drink it.")
        vault.call("memory_compound", query="notes/odd #1?.md", modifications="Stranger.")
        vault.call("memory_rename", memId="cups-7k2m9q", title="Cups and pots")
    return root


def test_web_links_all_resolve(changed: Path) -> None:
    """Every link on every page, from search to revision differences, can be opened."""
    from starlette.testclient import TestClient

    from memvault.web.app import application
    from memvault.web.session import WebSession

    session = WebSession(changed)
    found: dict[str, str] = {}
    try:
        with TestClient(application(session, ACCESS, ("127.0.0.1", 8421)), base_url=BASE) as client:
            client.get("/?token=the-token")
            pending = [f"{BASE}/", f"{BASE}/?q=tea"]
            while pending:
                address = pending.pop()
                if address in found:
                    continue
                answer = client.get(address)
                assert answer.status_code == 200, (address, answer.text)
                is_page = answer.headers["content-type"].startswith("text/html")
                found[address] = answer.text if is_page else ""
                for tag, attributes in Elements(found[address]).found:
                    for key in ("href", "src", "action"):
                        link = urljoin(address, attributes.get(key, address)).partition("#")[0]
                        if link.startswith(f"http://{HOST}/"):
                            assert link.startswith(f"{BASE}/"), (address, tag, link)
                            pending.append(link)
    finally:
        session.close()
    diffs = {link: text for link, text in found.items() if "/history?from=" in link}
    assert len(diffs) >= 3
    added = re.compile(r'<tr class="added">.*Then drink it\.')
    assert any(added.search(text) for text in diffs.values())
    for path in ("/review", "/overview", "/map", "/f/pot.png", "/f/leaf.pdf", "/?tag=a%2Fb"):
        assert f"{BASE}{path}" in found, path


@contextmanager
def served(
    root: Path, *options: str, **variables: str
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run ``memvault web``; yield the printed address and the process."""
    command = [sys.executable, "-m", "memvault", "--vault", str(root), "web", *options]
    environment = {**os.environ, **variables}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, cwd=root
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


@contextmanager
def other_port(cookie: str, host: str = "127.0.0.1") -> Iterator[tuple[str, list[str]]]:
    """Serve another port, which sets a cookie; yield its address and the received headers."""
    received: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(f"{self.requestline}\n{self.headers}")
            self.send_response(200)
            self.send_header("Set-Cookie", cookie)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((host, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{host}:{server.server_port}", received
    finally:
        server.shutdown()
        server.server_close()


def code_of(browser: OpenerDirector, address: str | Request, **headers: str) -> int:
    """Return the status code of a response."""
    request = Request(address, headers=headers) if isinstance(address, str) else address
    try:
        with browser.open(request) as answer:
            return int(answer.status)
    except HTTPError as error:
        error.close()
        return error.code


@pytest.mark.promise("S94")
def test_web_does_not_send_cookie_to_another_port(root: Path) -> None:
    """A browser with the vault open does not send credentials to a server on another port."""
    browser = build_opener(HTTPCookieProcessor(CookieJar()))
    with (
        served(root, "--no-open", "--port", "0") as (address, _),
        other_port("memvault=tossed; Path=/") as (other, received),
    ):
        folder = urlsplit(address).path
        base = address.partition("?")[0]
        assert code_of(browser, address) == 200
        for path in ("/", "/m/tea-7k2m9q", "/m/", "/x", f"{folder[:-4]}/"):
            assert code_of(browser, f"{other}{path}") == 200
        secrets = (folder.strip("/"), address.partition("token=")[2])
        assert not any(secret in text for text in received for secret in secrets)
        assert not any(re.search(r"memvault=(?!tossed\b)", text) for text in received)
        assert code_of(browser, f"{base}m/tea-7k2m9q") == 200, "a cookie of the other port"
        assert code_of(browser, f"{other}{folder}") == 200  # if the other port learns the folder
        cookie = re.findall(r"memvault=(?!tossed)\w+", received[-1])
        stranger = build_opener()
        host = f"http://{urlsplit(address).netloc}"
        assert code_of(stranger, f"{host}/", Cookie=cookie[0]) == 403
        assert code_of(stranger, base) == 403, "the folder alone is not enough"


FAKE = """#!/bin/sh
echo "$0 $*" >> {log}.new
mv {log}.new {log}
"""


def program(path: Path, log: Path) -> Path:
    """Create a program that records its arguments."""
    made = write(path.parent, path.name, FAKE.format(log=log))
    made.chmod(0o755)
    return made


def command_lines() -> str:
    """Return the process information visible to every user on the machine."""
    texts = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            texts.append(file.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return "\n".join(texts)


@pytest.mark.promise("S93")
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
@pytest.mark.parametrize("ends", ["opened", "terminated"])
def test_web_address_never_appears_in_command_lines(root: Path, tmp_path: Path, ends: str) -> None:
    """The browser gets a private file that redirects to the URL and is soon deleted."""
    log = tmp_path / "opened"
    browser = program(tmp_path / "bin/browser", log)
    with served(root, BROWSER=f"{browser} %s", MEMVAULT_STATE=f"{tmp_path}/state") as (
        address,
        process,
    ):
        until(log.exists)
        called = log.read_text("utf-8")
        token, folder = address.partition("token=")[2], urlsplit(address).path.strip("/")
        assert token
        for secret in (token, folder, "http:"):
            assert secret not in called
        seen = command_lines()
        assert str(root) in seen
        assert not any(secret in seen for secret in (token, folder))
        file = Path(called.split()[1])
        assert not file.is_relative_to(root)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        text = unescape(file.read_text("utf-8"))
        assert f"url={address}" in text
        if ends == "opened":
            cross = {"Sec-Fetch-Site": "cross-site"}
            assert code_of(build_opener(HTTPCookieProcessor(CookieJar())), address, **cross) == 200
        else:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        until(lambda: not file.exists())
        assert list(file.parent.iterdir()) == []


@pytest.mark.promise("S93")
def test_web_redirect_files_of_killed_processes_are_deleted(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process deletes a killed process's redirect file, which is no longer valid."""
    from memvault.cli.desktop import redirect_file

    monkeypatch.setenv("MEMVAULT_STATE", f"{tmp_path}/state")
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    with redirect_file("http://127.0.0.1:1/") as file:
        left = write(file.parent, f"{ended.pid}.html", "")
        other = write(file.parent, f"{os.getppid()}.html", "")
    with redirect_file("http://127.0.0.1:1/") as file:
        assert sorted(file.parent.iterdir()) == sorted([file, other])
    assert not left.exists()
    monkeypatch.setenv("MEMVAULT_STATE", str(root / "state"))
    with pytest.raises(OSError, match="vault"), redirect_file("http://127.0.0.1:1/"):
        pass
    assert not (root / "state").exists()


@pytest.mark.promise("S95")
def test_web_vault_cannot_supply_the_browser(root: Path, tmp_path: Path) -> None:
    """PATH, BROWSER and xdg-open never start a program from the vault or current folder."""
    root = shutil.copytree(root, tmp_path / "copied")
    evil, good = tmp_path / "evil", tmp_path / "good"
    for name in ("xdg-open", "firefox", "x-www-browser"):
        program(root / name, evil)
        program(root / "bin" / name, evil)
    other = write(tmp_path, "second/memvault.toml", "version = 1\n").parent
    program(other / "browser", evil)
    (tmp_path / "linked").symlink_to(root / "bin" / "firefox")
    # Like real openers, this one starts programs that it finds.
    opener = write(tmp_path, "own/xdg-open", f"#!/bin/sh\n$BROWSER\nfirefox\necho x > {good}\n")
    opener.chmod(0o755)
    path = os.pathsep.join(["", ".", str(root), f"{root}/bin", str(opener.parent), os.defpath])
    browsers = ("./firefox", "bin/firefox", f"{root}/bin/firefox", f"{tmp_path}/linked")
    browser = os.pathsep.join([*browsers, f"{other}/browser", "'", "firefox %s"])
    with served(root, PATH=path, BROWSER=browser, MEMVAULT_STATE=f"{tmp_path}/state"):
        until(good.exists)
    assert not evil.exists()


@pytest.mark.promise("S95")
def test_web_works_without_a_browser(root: Path, tmp_path: Path) -> None:
    """If no program can open the URL, it is still printed and the pages are served."""
    state = f"{tmp_path}/state"
    with served(root, PATH=str(tmp_path), BROWSER="none", MEMVAULT_STATE=state) as (address, _):
        assert code_of(build_opener(HTTPCookieProcessor(CookieJar())), address) == 200


@pytest.fixture
def site(root: Path, run: Run, tmp_path: Path) -> Path:
    """The same vault, with unusual names, as a static site."""
    root = shutil.copytree(root, tmp_path / "copied")
    write(root, "notes/odd #1?.md", "---\nid: odd-7k2m9q\n---\n\n# Odd\n\n[[Tea]] ![[logo.svg]]\n")
    write(root, "notes/logo.svg", "<svg onload='alert(1)'/>")
    write(root, "unused.png", b"\x89PNG\r\n")
    target = tmp_path / "site"
    said = succeeded(run("export", str(target), "--to", "site", "--json", cwd=root)).json
    assert (target / ".memvault-site").exists()  # the list of the site's files is not counted
    assert (said["format"], said["files"]) == ("site", sum(1 for _ in target.rglob("*.*")) - 1)
    return target


@pytest.mark.promise("S85")
def test_site_is_self_contained(site: Path) -> None:
    """Each URL is relative and points to an existing file and anchor; no script is loaded."""
    for page in site.rglob("*.html"):
        elements = Elements(page.read_text("utf-8")).found
        policy = [one["content"] for tag, one in elements if "http-equiv" in one]
        assert policy[0].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        for tag, attributes in elements:
            assert tag not in ("iframe", "object", "embed", "base", "style"), page
            assert not any(key.startswith("on") or key == "style" for key in attributes)
            for address in (attributes.get("href"), attributes.get("src")):
                if address is None or re.match("https?://|mailto:", address):
                    assert tag == "a" or address is None, (page, tag)
                    continue
                path, _, place = address.partition("#")
                target = (page.parent / unquote(path)).resolve() if path else page
                assert target.is_relative_to(site.resolve())
                assert target.is_file(), (page, address)
                if place and target.suffix == ".html":
                    named = Elements(target.read_text("utf-8")).found
                    assert unquote(place) in [one.get("id") for _, one in named], address


@pytest.mark.promise("S85")
def test_site_contains_only_displayed_content(site: Path) -> None:
    """Linked images are copied, secrets masked, and drawings that may run scripts omitted."""
    copied = sorted(file.name for file in (site / "files").rglob("*") if file.is_file())
    assert copied == ["huge.png", "leaf.pdf", "pot.png"]
    cups = (site / "notes/cups.html").read_text("utf-8")
    assert 'src="../files/pot.png"' in cups
    assert 'href="fact/tea.html"' in cups
    whole = "".join(file.read_text("utf-8", "replace") for file in site.rglob("*.*"))
    assert "[masked: GitHub token]" in whole
    assert made("GitHub token")[1].split()[-1] not in whole
    assert "<script>alert" not in whole.replace((site / "data.js").read_text("utf-8"), "")


def test_partial_site_does_not_reveal_other_memories(run: Run, root: Path, tmp_path: Path) -> None:
    """A link to a memory outside the site becomes plain text, and no list contains it."""
    target = tmp_path / "site"
    succeeded(run("export", str(target), "--to", "site", "--tags", "hot", cwd=root))
    assert [file.name for file in (target / "notes").rglob("*.html")] == ["tea.html"]
    whole = "".join(file.read_text("utf-8") for file in target.rglob("*.*"))
    assert "cups.md" not in whole
    assert "cups-7k2m9q" not in whole
    assert "See Cups." in whole


def test_site_export_updates_its_folder(run: Run, tmp_path: Path) -> None:
    """Deleted memories' pages are deleted, other files stay, unrelated folders are unchanged."""
    root, target = tmp_path / "vault", tmp_path / "site"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "one.md", "# One\n")
    write(root, "two.md", "# Two\n")
    succeeded(run("export", str(target), "--to", "site", cwd=root))
    write(target, "CNAME", "notes.example\n")
    with (target / ".memvault-site").open("a", encoding="utf-8") as listed:
        listed.write("../vault/one.md\nCNAME\n")
    (root / "two.md").unlink()
    succeeded(run("export", str(target), "--to", "site", cwd=root))
    assert [file.name for file in (target / "notes").iterdir()] == ["one.html"]
    assert (target / "CNAME").exists()
    assert (root / "one.md").exists()
    (target / ".memvault-site").unlink()
    refused(run("export", str(target), "--to", "site", cwd=root), 1)


def test_web_refuses_port_in_use() -> None:
    """A given port must be free, and 0 selects a free one."""
    from memvault.errors import Refused
    from memvault.web.server import listening

    with listening(0) as first:
        with pytest.raises(Refused, match="is not available: Address already in use"):
            listening(first.getsockname()[1])
        with listening(0) as second:
            assert second.getsockname()[0] == "127.0.0.1"


@pytest.mark.promise("S94")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_web_uses_a_different_address_for_each_run(root: Path) -> None:
    """A service worker left in the browser by another server never applies to these pages."""
    from memvault.web.server import listening

    with listening(None) as first, listening(None) as second:
        hosts = {made.getsockname()[0] for made in (first, second)}
    assert len(hosts) == 2
    assert all(host.startswith("127.") and host != "127.0.0.1" for host in hosts)
    with served(root, "--no-open") as (address, _):
        assert re.match(r"http://127\.\d+\.\d+\.\d+:\d+/", address)
        browser = build_opener(HTTPCookieProcessor(CookieJar()))
        assert code_of(browser, address) == 200
        port = urlsplit(address).port
        assert code_of(browser, address.partition("?")[0], Host=f"127.0.0.1:{port}") == 421
