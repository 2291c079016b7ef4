"""The pages of a vault in a browser: who may see them, what they show, and that nothing runs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Run, examples, only_with, refused, succeeded, write
from made_secrets import made
from memvault.secrets.detector import BUILTIN
from memvault.web.markdown_html import to_html

if TYPE_CHECKING:
    from starlette.testclient import TestClient

pytestmark = only_with("starlette", "uvicorn", "jinja2", extra="web")
HOST = "127.0.0.1:8421"
HOSTILE = """# <script>alert(1)</script>

<img src=x onerror=alert(1)> [click](javascript:alert(1)) ![t](https://evil.example/x.png)
[[../../etc/passwd]] ![[secret.md]] [data](data:text/html,<script>alert(1)</script>)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with linked, hostile and secret memories, and a picture."""
    root = tmp_path_factory.mktemp("web") / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "fact/tea.md", "---\nid: tea-7k2m9q\ntags: [hot]\n---\n\n# Tea\n\nSee [[Cups]].\n")
    write(
        root,
        "cups.md",
        "---\nid: cups-7k2m9q\n---\n\n# Cups\n\n![[pot.png]] and [tea](fact/tea.md)\n",
    )
    write(root, "pot.png", b"\x89PNG\r\n")
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
    app = application(session, "the-token", 8421)
    with TestClient(app, base_url=f"http://{HOST}") as opened:
        assert opened.get("/?token=the-token").status_code == 200
        yield opened
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
def test_only_the_browser_with_the_token_sees_anything(client: TestClient, root: Path) -> None:
    """Without the token, or under another host's name, every address is refused."""
    from starlette.testclient import TestClient

    for path in ("/", "/map.json", "/m/tea-7k2m9q", "/f/pot.png", "/style.css", "/?token=x"):
        with TestClient(client.app, base_url=f"http://{HOST}") as other:
            assert other.get(path).status_code == 403, path
        assert client.get(path, headers={"Host": "evil.example"}).status_code == 421
    assert client.post("/").status_code == 405
    cookie = client.get("/?token=the-token", follow_redirects=False).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.promise("S83")
def test_no_page_loads_or_runs_anything_else(client: TestClient) -> None:
    """Each page allows its own script and style only, and names no other machine's picture."""
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
                assert re.match(r"/|#|\?|https?://|mailto:", value), (path, value)
                assert key == "href" or value.startswith("/")
    assert "&lt;script&gt;" in client.get("/m/evil-7k2m9q").text


@given(text=st.text() | st.text(alphabet="<>[]()!\"'`javscript:dt/ \n=&#\\"))
@settings(max_examples=examples(300))
def test_no_text_becomes_an_element_that_runs(text: str) -> None:
    """Whatever a memory holds, it has no script, no handler, and no address but safe ones."""
    for tag, attributes in Elements(to_html(text)).found:
        assert tag not in ("script", "iframe", "object", "embed", "form", "input", "style", "link")
        assert set(attributes) <= {"href", "src", "alt", "title", "rel", "class", "start"}
        assert tag != "img"
        address = attributes.get("href", "#")
        assert re.match(r"#|https?://|mailto:", address), address


def test_pages_show_the_vault(client: TestClient) -> None:
    """Search finds, a memory has its links, pictures and backlinks, the map all nodes."""
    assert "Tea" in client.get("/?q=tea").text
    assert "Cups" not in client.get("/results?tag=hot").text
    cups = client.get("/m/cups-7k2m9q").text
    assert '<img src="/f/pot.png"' in cups
    assert 'href="/m/tea-7k2m9q"' in cups
    assert cups.count("<h1>") == 1
    tea = client.get("/m/tea-7k2m9q").text
    assert 'href="/m/cups-7k2m9q"' in tea
    found = client.get("/map.json").json()
    assert len(found["nodes"]) == 4
    assert len(found["edges"]) >= 2
    assert all(-1.3 <= value <= 1.3 for node in found["nodes"] for value in node["links"])
    assert 'href="/review"' in client.get("/overview").text
    assert "needs a person" in client.get("/review").text
    assert client.get("/m/none").status_code == 404


@pytest.mark.promise("S84")
def test_only_attachments_are_served_and_secrets_are_masked(client: TestClient, root: Path) -> None:
    """Nothing hidden, no settings, no memory's file, nothing outside is served; keys are masked."""
    answer = client.get("/f/pot.png")
    assert (answer.headers["content-type"], answer.status_code) == ("image/png", 200)
    assert "sandbox" in answer.headers["content-security-policy"]
    for path in ("memvault.toml", "key.md", ".memvault/journal", "../outside.png", "%2e%2e/x.png"):
        assert client.get(f"/f/{path}").status_code == 404, path
    token = re.search(r"\S+$", (root / "key.md").read_text("utf-8").strip())
    assert token is not None
    for path in ("/m/key-7k2m9q", "/?q=key", "/overview", "/review"):
        assert token[0] not in client.get(path).text
    assert "[masked: GitHub token]" in client.get("/m/key-7k2m9q").text


PLACES = (
    *("title", "tag", "type", "memId", "file name", "other file name", "heading", "bold"),
    *("escaped", "link", "address", "picture", "code", "text file", "drawing", "attachment"),
)
"""Where the vault of the next fixture has a secret."""


@pytest.fixture(scope="module")
def secretive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A vault with a secret in each place that pages show, and these by their places."""
    root = tmp_path_factory.mktemp("secretive") / "vault"
    told = {place: made("GitHub token")[0] for place in PLACES}
    bold, escaped = told["bold"], told["escaped"].replace("_", "\\_")
    write(root, "memvault.toml", "version = 1\n")
    write(
        root,
        "holder.md",
        f"---\nid: holder\ntitle: {told['title']}\ntags: [{told['tag']}]\n"
        f"memory_type: {told['type']}\n---\n\n# {told['title']}\n\n## {told['heading']}\n\n"
        f"**{bold[:9]}**{bold[9:]} {escaped} [[{told['link']}]] [[named]] [[Zebras]]\n"
        f"[x](https://x.example/{told['address']}) ![{told['picture']}](pot.png 'a pot')\n"
        f"[keys](keys.txt) [drawing](keys.svg) [other](<{told['attachment']}.txt>)\n\n"
        f"```{told['code']}\n{told['code']}\n```\n",
    )
    write(root, f"{told['file name']}.md", "---\nid: named\n---\n\n# Zebra\n\n[[holder]]\n")
    write(root, f"{told['other file name']}.md", "---\nid: other\n---\n\n# Okapi\n")
    write(root, "hidden.md", f"---\nid: {told['memId']}\n---\n\n# Zebras\n\n[[holder]]\n")
    write(root, "keys.txt", f"one\n{told['text file']}\nthree\n".encode("utf-16"))
    write(root, "keys.svg", f"<svg><text>{told['drawing']}</text></svg>")
    write(root, f"{told['attachment']}.txt", "x")
    write(root, "pot.png", b"\x89PNG\r\n")
    return root, told


def leaked(told: dict[str, str], text: str) -> list[str]:
    """Return the places of the secrets of which eight characters are in a text."""
    return [
        place
        for place, value in told.items()
        if any(value[at : at + 8] in text for at in range(len(value) - 7))
    ]


@pytest.mark.promise("S84")
@pytest.mark.promise("S75")
def test_pages_show_no_secret_and_lead_to_every_memory(
    secretive: tuple[Path, dict[str, str]],
) -> None:
    """All pages and files that are linked are masked; a memId that is a secret has an address."""
    from starlette.testclient import TestClient

    from memvault.web.app import application
    from memvault.web.session import WebSession

    root, told = secretive
    session = WebSession(root)
    with TestClient(application(session, "t", 8421), base_url=f"http://{HOST}") as opened:
        opened.get("/?token=t")
        waiting = ["/", "/?q=zebra", "/map", "/map.json", "/tags", "/overview", "/review"]
        seen: dict[str, str] = {}
        while waiting:
            address = waiting.pop()
            answer = opened.get(address)
            assert answer.status_code == 200, address
            seen[address] = f"{unquote(address)} {answer.text}"
            assert leaked(told, seen[address]) == [], address
            assert leaked(told, answer.content.decode("utf-16", "replace")) == [], address
            if "text/html" in answer.headers["content-type"]:
                found = [one.get("href", "") for _, one in Elements(answer.text).found]
                waiting += [one for one in found if re.match("/[mf]/", one) and one not in seen]
        assert opened.get(f"/f/{told['attachment']}.txt").status_code == 404
        keys = opened.get("/f/keys.txt").content.decode("utf-16")
        assert keys == "one\n[masked: GitHub token]\nthree\n"
    session.close()
    (hidden,) = [address for address in seen if re.fullmatch("/m/hidden-[0-9a-f]+", address)]
    assert "Zebras" in seen[hidden]


@pytest.mark.promise("S85")
def test_sites_and_graphs_show_no_secret_and_miss_no_memory(
    run: Run, secretive: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    """No file or file name of an export has a secret, and each memory has a page of its own."""
    root, told = secretive
    target = tmp_path / "site"
    succeeded(run("export", str(target), "--to", "site", cwd=root))
    succeeded(run("graph", str(tmp_path / "graph.html"), cwd=root))
    for file in [*target.rglob("*.*"), tmp_path / "graph.html"]:
        data = file.read_bytes() if file.is_file() else b""
        shown = f"{file.name} {data.decode('utf-8', 'replace')} {data.decode('utf-16', 'replace')}"
        assert leaked(told, shown) == [], file
    titles = [page.read_text("utf-8") for page in (target / "notes").glob("*.html")]
    assert len(titles) == 4
    assert sum("<h1>Zebra</h1>" in text or "<h1>Okapi</h1>" in text for text in titles) == 2


@pytest.mark.promise("S84")
def test_rendered_text_is_masked_even_where_markup_cuts_a_secret() -> None:
    """Text that is one word on the page is masked, with whatever markup, and so are attributes."""
    value = made("GitHub token")[0]
    for text in (
        f"**{value[:6]}**{value[6:]}",
        f"{value[:6]}*{value[6:20]}*`{value[20:]}`",
        f"![{value}](/memvault-link/0)",
        f'[x](https://x.example/{value} "{value}")',
        f"    {value}",
        f"| a |\n|---|\n| ~~{value[:9]}~~{value[9:]} |",
    ):
        html = to_html(text, [], BUILTIN)
        assert leaked({"": value}, html) == [], html
        assert "[masked: GitHub token]" in unquote(html)


def test_the_map_is_the_same_each_time() -> None:
    """Positions depend on the links and vectors only; linked nodes are near each other."""
    import numpy as np

    from memvault.web import layout

    edges = [(number, number + 1) for number in range(0, 60, 2)]
    first, second = layout.by_links(62, edges), layout.by_links(62, edges)
    assert first == second
    points = np.array(first)
    linked = np.mean([np.linalg.norm(points[a] - points[b]) for a, b in edges])
    assert linked < np.mean(np.linalg.norm(points[:, None] - points[None], axis=2)) / 2
    assert layout.by_links(0, []) == []
    assert len(layout.by_meaning(np.eye(2))) == 2
    vectors = np.repeat(np.eye(4, 16), 8, axis=0)
    meant = np.array(layout.by_meaning(vectors))
    within = np.linalg.norm(meant[:8] - meant[:8].mean(axis=0), axis=1).mean()
    assert within < np.linalg.norm(meant - meant.mean(axis=0), axis=1).mean()


def test_the_map_is_a_file_that_needs_nothing(run: Run, root: Path, tmp_path: Path) -> None:
    """It has all texts, a policy by hashes and no secret; a file of others stays as it is."""
    target = tmp_path / "map.html"
    said = succeeded(run("graph", str(target), "--json", cwd=root)).json
    assert said["memories"] == 4
    text = unescape(target.read_text("utf-8"))
    assert "default-src 'none'; script-src 'sha256-" in text
    assert "made by memvault graph" in text
    assert "[masked: GitHub token]" in text
    assert "<script>alert" not in target.read_text("utf-8")
    succeeded(run("graph", str(target), cwd=root))
    target.write_text("<p>mine</p>", "utf-8")
    assert "did not make it" in refused(run("graph", str(target), cwd=root), 1)
    assert target.read_text("utf-8") == "<p>mine</p>"
    assert "is no HTML file" in refused(run("graph", "map.txt", cwd=root), 2)
    for inside in ("map.html", "no/such/map.html"):
        assert "is inside the vault" in refused(run("graph", inside, cwd=root), 1)
        assert not (root / inside).exists()


@pytest.fixture
def site(root: Path, run: Run, tmp_path: Path) -> Path:
    """The same vault, with odd names, as a static site."""
    root = shutil.copytree(root, tmp_path / "copied")
    write(root, "notes/odd #1?.md", "---\nid: odd-7k2m9q\n---\n\n# Odd\n\n[[Tea]] ![[logo.svg]]\n")
    write(root, "notes/logo.svg", "<svg onload='alert(1)'/>")
    write(root, "unused.png", b"\x89PNG\r\n")
    target = tmp_path / "site"
    said = succeeded(run("export", str(target), "--to", "site", "--json", cwd=root)).json
    assert (target / ".memvault-site").exists()  # the list of the site's files, not counted
    assert (said["format"], said["files"]) == ("site", sum(1 for _ in target.rglob("*.*")) - 1)
    return target


@pytest.mark.promise("S85")
def test_all_that_a_site_needs_is_in_its_folder(site: Path) -> None:
    """Each address is relative and leads to a file and a place in it; nothing runs or loads."""
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
def test_a_site_has_what_is_shown_and_no_more(site: Path) -> None:
    """Linked pictures are copied, secrets masked; a drawing that may run a script is left out."""
    copied = sorted(file.name for file in (site / "files").rglob("*") if file.is_file())
    assert copied == ["pot.png"]
    cups = (site / "notes/cups.html").read_text("utf-8")
    assert 'src="../files/pot.png"' in cups
    assert 'href="fact/tea.html"' in cups
    whole = "".join(file.read_text("utf-8", "replace") for file in site.rglob("*.*"))
    assert "[masked: GitHub token]" in whole
    assert made("GitHub token")[1].split()[-1] not in whole
    assert "<script>alert" not in whole.replace((site / "data.js").read_text("utf-8"), "")


def test_a_site_of_some_memories_says_nothing_of_others(
    run: Run, root: Path, tmp_path: Path
) -> None:
    """A link to a memory that is not on the site is its text, and no page or list names it."""
    target = tmp_path / "site"
    succeeded(run("export", str(target), "--to", "site", "--tags", "hot", cwd=root))
    assert [file.name for file in (target / "notes").rglob("*.html")] == ["tea.html"]
    whole = "".join(file.read_text("utf-8") for file in target.rglob("*.*"))
    assert "cups.md" not in whole
    assert "cups-7k2m9q" not in whole
    assert "See Cups." in whole


def test_a_site_is_written_again(run: Run, tmp_path: Path) -> None:
    """What is no longer in the vault is deleted, other files stay; a folder of others is kept."""
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


def test_a_port_that_is_taken_is_named() -> None:
    """A given port must be free; without one another is taken."""
    from memvault.errors import Refused
    from memvault.web.server import listening

    with listening(0) as first:
        with pytest.raises(Refused, match="cannot be used"):
            listening(first.getsockname()[1])
        with listening(None) as second:
            assert second.getsockname()[0] == "127.0.0.1"
