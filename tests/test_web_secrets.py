"""Pages, map files and published sites never show a memory's secrets."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from conftest import Run, only_with, succeeded, write
from made_secrets import made
from memvault.secrets.detector import BUILTIN
from memvault.vault.markdown import inner_links, links
from memvault.web.markdown_html import PlacedLink, to_html
from test_web import ACCESS, HOST, Elements

pytestmark = only_with("starlette", "uvicorn", "jinja2", extra="web")

PLACES = (
    *("title", "tag", "type", "memId", "file name", "other file name", "heading", "bold"),
    *("escaped", "link", "address", "picture", "code", "text file", "drawing", "attachment"),
)
"""The locations of secrets in the fixture's vault."""


@pytest.fixture(scope="module")
def secretive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A vault with a secret in each place that pages show, and the secrets by place."""
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


def leaked(secrets: dict[str, str], text: str) -> list[str]:
    """Return the places of the secrets that have eight characters in a page."""
    return [
        place
        for place, value in secrets.items()
        if any(value[at : at + 8] in text for at in range(len(value) - 7))
    ]


@pytest.mark.promise("S84")
@pytest.mark.promise("S75")
def test_web_pages_mask_secrets_and_link_every_memory(
    secretive: tuple[Path, dict[str, str]],
) -> None:
    """All linked pages and files mask secrets, and a memory with a secret memId has a URL."""
    from starlette.testclient import TestClient

    from memvault.web.app import application
    from memvault.web.session import WebSession

    root, told = secretive
    session = WebSession(root)
    with TestClient(application(session, ACCESS, ("127.0.0.1", 8421)), f"http://{HOST}") as opened:
        opened.get(ACCESS.first)
        pages = ("/", "/?q=zebra", "/map", "/map.json", "/tags", "/overview", "/review")
        waiting = [f"{ACCESS.base}{page}" for page in pages]
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
                waiting += [
                    one
                    for one in found
                    if re.match(f"{ACCESS.base}/[mf]/", one) and one not in seen
                ]
        assert opened.get(f"{ACCESS.base}/f/{told['attachment']}.txt").status_code == 404
        keys = opened.get(f"{ACCESS.base}/f/keys.txt").content.decode("utf-16")
        assert keys == "one\n[masked: GitHub token]\nthree\n"
    session.close()
    (hidden,) = [
        address for address in seen if re.fullmatch(f"{ACCESS.base}/m/hidden-[0-9a-f]+", address)
    ]
    assert "Zebras" in seen[hidden]


@pytest.mark.promise("S85")
def test_site_and_graph_exports_mask_secrets(
    run: Run, secretive: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    """No exported file or file name contains a secret, and each memory has a separate page."""
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


@pytest.mark.promise("S85")
def test_site_masks_secret_split_by_comment(run: Run, tmp_path: Path) -> None:
    """No part of a secret is in an exported site if the secret contains a hidden comment."""
    value = made("GitHub token")[0]
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "a.md", f"# A\n\nUse {value[:20]}%%c%%{value[20:]} here.\n")
    target = tmp_path / "site"
    succeeded(run("export", str(target), "--to", "site", cwd=root))
    shown = [file.read_text("utf-8") for file in target.rglob("*.*") if file.is_file()]
    assert not [text for text in shown if value[:20] in text or value[20:] in text]
    assert sum("masked: GitHub token" in text for text in shown) == 2


@pytest.mark.promise("S84")
def test_web_masks_secret_split_by_markup() -> None:
    """A secret is masked in attributes and in rendered text, even if markup splits it."""
    value = made("GitHub token")[0]
    for text in (
        f"**{value[:6]}**{value[6:]}",
        f"{value[:6]}*{value[6:20]}*`{value[20:]}`",
        f"![{value}](/memvault-link/0)",
        f'[x](https://x.example/{value} "{value}")',
        f"    {value}",
        f"| a |\n|---|\n| ~~{value[:9]}~~{value[9:]} |",
    ):
        html = to_html(text, [], BUILTIN).html
        assert leaked({"": value}, html) == [], html
        assert "[masked: GitHub token]" in unquote(html)


@pytest.mark.promise("S84")
@pytest.mark.parametrize("link", ["[[{}]]", "![[{}]]", "[[#{}]]", "[[x|{}]]", "[{}](x.md)"])
def test_web_masks_secret_split_by_broken_link(link: str) -> None:
    """A secret is masked if part of it is the label of a link without a target."""
    value = made("GitHub token")[0]
    for block in ("{}", "- {}", "# {}", "| a |\n|---|\n| {} |"):
        text = BUILTIN.masked(block.format(value[:20] + link.format(value[20:])))
        placed = [
            PlacedLink(found.span, "", found.shown or found.target or found.heading, found.is_embed)
            for found in (*links(text), *inner_links(text))
        ]
        html = to_html(text, placed, BUILTIN).html
        assert leaked({"": value}, html) == [], html


@pytest.mark.promise("S84")
def test_web_page_shows_memory_with_several_masked_keys(tmp_path: Path) -> None:
    """A memory with several secret header keys and a secret memId can still be displayed."""
    from memvault.tools.vault import memory_show
    from memvault.web.session import WebSession

    values = [made("GitHub token")[0] for _ in range(3)]
    write(tmp_path, "memvault.toml", "version = 1\n")
    write(
        tmp_path, "a.md", f"---\nid: {values[0]}\n{values[1]}: 1\n{values[2]}: 2\n---\n\n# Okapi\n"
    )
    session = WebSession(tmp_path)
    shown = session.call(memory_show, values[0])
    session.close()
    assert shown["memId"].startswith("hidden-")
    assert leaked(dict(zip("abc", values, strict=True)), str(shown)) == []
