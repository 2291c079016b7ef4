"""The web pages in a real browser: keys, light and dark, a phone, no external resources."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import until, write
from memvault.cli.desktop import redirect_file
from test_web import other_port

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
RUNS = "document.title = 'ran'"
HOSTILE = f'# Evil\n\n<script>{RUNS}</script><img src=x onerror="{RUNS}">\n'


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of a vault's pages."""
    yield from pages_of(tmp_path)


@pytest.fixture
def editable(tmp_path: Path) -> Iterator[str]:
    """The address of a vault's pages with ``--write``."""
    yield from pages_of(tmp_path, "--write")


def pages_of(tmp_path: Path, *options: str) -> Iterator[str]:
    """Serve a vault's pages; yield their address."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "tea.md", "---\nid: tea-7k2m9q\n---\n\n# Tea\n\nGreen tea, see [[Cups]].\n")
    write(
        root, "cups.md", "---\nid: cups-7k2m9q\n---\n\n# Cups\n\n![x](https://evil.example/x.png)\n"
    )
    write(root, "evil.md", f"---\nid: evil-7k2m9q\n---\n\n{HOSTILE}")
    command = [sys.executable, "-m", "memvault", "--vault", str(root), "web", *options]
    with subprocess.Popen([*command, "--no-open"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.fixture
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    assert CHROMIUM, "Chromium is missing"
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is missing")
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        opened = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield opened
        opened.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_browser_search_reading_and_map_work(
    address: str, browser: Browser, scheme: Any, width: int
) -> None:
    """Search, reading and map work by keyboard, in light and dark mode and at phone width."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    page = context.new_page()
    problems: list[str] = []
    asked: set[str] = set()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: asked.add(request.url.split("/")[2]))
    page.goto(address)
    assert "token" not in page.url
    page.keyboard.press("/")
    page.keyboard.type("green tea")
    page.wait_for_selector(".results .strong")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("article")
    assert page.inner_text("h1") == "Tea"
    page.click("text=Cups")
    page.wait_for_selector("text=Backlinks")
    page.keyboard.press("g")
    page.wait_for_selector("body[data-ready='3']")
    page.goto(f"{address.partition('/?')[0]}/overview")
    page.wait_for_selector("#review:not(:has(a[data-page=review]))")
    assert "Nothing" in page.inner_text("#review")
    page.goto(f"{address.partition('/?')[0]}/m/evil-7k2m9q")
    assert page.title() != "ran"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert [text for text in problems if "GL Driver Message" not in text] == []
    assert asked == {address.split("/")[2]}


def test_browser_edits_by_keyboard(editable: str, browser: Browser, tmp_path: Path) -> None:
    """Keys edit, preview, save, cancel and add; the user is asked before unsaved text is lost."""
    context = browser.new_context()
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    file = tmp_path / "vault/tea.md"
    write(tmp_path / "vault", "tea.md", file.read_bytes().replace(b"\n", b"\r\n"))
    base = editable.partition("/?")[0]
    page.goto(editable)
    page.goto(f"{base}/m/tea-7k2m9q")
    page.keyboard.press("e")
    page.wait_for_selector("#preview >> text=Green tea")
    page.keyboard.press("Control+End")
    page.keyboard.type("<b>More</b> [[Cups]]")
    page.wait_for_selector("#preview >> text=<b>More</b>")
    asked: list[str] = []

    def stay(dialog: Any) -> None:
        asked.append(dialog.type)
        dialog.dismiss()

    page.on("dialog", stay)
    page.keyboard.press("Escape")
    until(lambda: asked == ["confirm"])
    page.click("nav >> text=Map", no_wait_after=True)
    until(lambda: asked == ["confirm", "beforeunload"])
    context.set_offline(True)
    page.keyboard.press("Control+s")
    until(lambda: asked == ["confirm", "beforeunload", "alert"])
    context.set_offline(False)
    assert "More" in page.input_value("#text")
    page.keyboard.press("Control+s")
    page.wait_for_selector(".notice >> text=Saved")
    assert file.read_bytes().endswith(
        b"\r\n# Tea\r\n\r\nGreen tea, see [[Cups]].\r\n<b>More</b> [[Cups]]"
    )
    page.keyboard.press("e")
    page.wait_for_selector("#preview >> text=More")
    page.keyboard.press("Escape")
    page.wait_for_selector("article")
    page.keyboard.press("n")
    page.wait_for_selector("#title")
    page.keyboard.type("Kettle")
    page.fill("#text", "Boils.")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".notice >> text=Added")
    assert page.inner_text("h1") == "Kettle"
    page.click("text=Undo")
    page.click("text=Undo this change")
    page.wait_for_selector(".notice >> text=Undone")
    assert not (tmp_path / "vault/context/kettle.md").exists()
    plain = browser.new_context(java_script_enabled=False).new_page()
    plain.goto(editable)
    plain.goto(f"{base}/m/cups-7k2m9q/edit")
    plain.fill("#text", "# Cups\n\nBlue.")
    plain.click("text=Preview")
    plain.wait_for_selector("#preview >> text=Blue.")
    plain.click("text=Save")
    plain.wait_for_selector(".notice >> text=Saved")
    assert problems == []


@pytest.mark.promise("S93", "S94")
def test_browser_vault_opens_from_file_and_rejects_other_ports(
    address: str, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The private file opens the pages; a page on another port can neither open nor read them."""
    monkeypatch.setenv("MEMVAULT_STATE", f"{tmp_path}/state")
    context = browser.new_context()
    page = context.new_page()
    with redirect_file(address) as file:
        page.goto(file.as_uri())
        page.wait_for_selector("#q")
    assert page.url == address.partition("?")[0]
    page.reload()
    assert page.title().startswith("Search")
    for host in ("127.0.0.1", address.split("/")[2].partition(":")[0]):
        with other_port("memvault=tossed; Path=/", host) as (other, received):
            visit = context.new_page()
            visit.goto(f"{other}/")
            visit.goto(f"{other}/m/tea-7k2m9q")
            assert not any(re.search(r"memvault=(?!tossed\b)", text) for text in received)
            read = """async (address) => {
                try { return await (await fetch(address, {credentials: "include"})).text(); }
                catch { return ""; }
            }"""
            assert visit.evaluate(read, address.partition("?")[0]) == ""
            framed = """(address) => new Promise((done) => {
                const frame = document.createElement("iframe");
                frame.onload = () => { try { done(frame.contentDocument.body.innerText); }
                    catch { done(""); } };
                frame.src = address;
                document.body.append(frame);
            })"""
            assert visit.evaluate(framed, address.partition("?")[0]) == ""
            token = address.partition("token=")[2]
            assert not any(token in text for text in received)
    page.goto(f"{address.partition('?')[0]}m/tea-7k2m9q")
    assert page.inner_text("h1") == "Tea", "a cookie from another port"


def test_map_file_embeds_images(browser: Browser, tmp_path: Path) -> None:
    """The map file embeds images from the vault and lists other attachments by name."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    picture = (Path(__file__).parents[2] / "docs/pictures/web-map.png").read_bytes()
    write(root, "pics/a.png", picture)
    write(root, "tea.md", "# Tea\n\n![[pics/a.png]] ![cup](pics/a.png) ![[a.pdf]] and [[Cups]]\n")
    write(root, "cups.md", "# Cups\n\n![[pics/a.png]]\n")
    write(root, "a.pdf", b"%PDF-1.4")
    target = tmp_path / "map.html"
    command = [sys.executable, "-m", "memvault", "--vault", str(root), "graph", str(target)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    page = browser.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.goto(target.as_uri())
    page.click("#results >> text=Tea")
    loaded = "[...document.images].filter((one) => one.naturalWidth > 1).length"
    until(lambda: page.evaluate(loaded) == 2)
    assert "a.pdf" in page.inner_text("#reading")
    page.click("#reading >> text=Cups")
    until(lambda: page.evaluate(loaded) == 1)
    assert [text for text in problems if "GL Driver Message" not in text] == []


def test_browser_pages_pass_accessibility_check(editable: str, browser: Browser) -> None:
    """Axe does not report serious violations on any page."""
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="axe is missing").Axe()
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.goto(editable)
    base = editable.partition("/?")[0]
    for path in (
        "/new",
        "/undo",
        *(f"/m/tea-7k2m9q/{form}" for form in ("edit", "tags", "rename", "forget")),
        "/",
        "/?q=tea",
        "/m/tea-7k2m9q",
        "/m/tea-7k2m9q/history",
        "/map",
        "/tags",
        "/overview",
        "/review",
    ):
        page.goto(f"{base}{path}")
        found = axe.run(page)["violations"]
        serious = [one["id"] for one in found if one["impact"] in ("serious", "critical")]
        assert serious == [], path


def test_static_site_works_from_file_urls(tmp_path: Path, browser: Browser) -> None:
    """Search, shortcuts, links, tags and map work without a server and pass the axe check."""
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="axe is missing").Axe()
    root, target = tmp_path / "vault", tmp_path / "site"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "tea.md", "---\ntags: [hot]\n---\n\n# Tea\n\nGreen, see [[Cups]].\n")
    write(root, "a #1/cups.md", f"# Cups\n\n{HOSTILE}\n")
    command = [sys.executable, "-m", "memvault", "--vault", str(root), "export", str(target)]
    subprocess.run([*command, "--to", "site"], check=True, stdout=subprocess.DEVNULL)
    page = browser.new_context(bypass_csp=False).new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text))
    page.goto((target / "index.html").as_uri())
    page.wait_for_selector("body[data-ready='2']")
    page.keyboard.press("/")
    page.keyboard.type("green")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Backlinks")
    assert page.inner_text("h1") == "Tea"
    page.click("text=Cups")
    page.wait_for_selector("text=script")
    assert page.title() != "ran"
    page.click("text=Tea")
    page.click("text=#hot")
    page.wait_for_selector("h2#tag-hot")
    page.keyboard.press("g")
    page.wait_for_selector("canvas")
    assert [text for text in problems if "GL Driver Message" not in text] == []
    checked = browser.new_context(bypass_csp=True).new_page()
    for name in ("index", "all", "tags", "map", "notes/tea"):
        checked.goto((target / f"{name}.html").as_uri())
        found = axe.run(checked)["violations"]
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == [], name
