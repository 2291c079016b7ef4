"""The language server in a real editor without a screen, skipped where it is missing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import write

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "editors.md"
SCRIPT = """
local out = {}
local function wait(ready) assert(vim.wait(60000, ready, 20), "timeout") end
vim.cmd("edit a.md")
local client
wait(function()
  client = vim.tbl_values(vim.lsp.buf_get_clients(0))[1]
  return client and client.initialized and client.server_capabilities.hoverProvider
end)
local function ask(method, line, character, more)
  local params = {
    textDocument = vim.lsp.util.make_text_document_params(),
    position = { line = line, character = character },
  }
  params = vim.tbl_extend("force", params, more or {})
  local answers = vim.lsp.buf_request_sync(0, method, params, 60000)
  return (answers[client.id] or {}).result
end
wait(function() return #vim.diagnostic.get(0) > 0 end)
for _, found in ipairs(vim.diagnostic.get(0)) do
  out.problem = { found.code, found.lnum, found.col, found.end_col }
end
out.hover = ask("textDocument/hover", 2, 6).contents.value
vim.fn.cursor(3, 9)
vim.lsp.buf.definition()
wait(function() return vim.fn.expand("%:t") == "pg.md" end)
out.definition = { vim.fn.expand("%:t"), vim.fn.line(".") }
vim.cmd("edit a.md")
vim.fn.setline(4, "see [[use p")
vim.fn.cursor(4, 12)
vim.cmd("startinsert!")
local items = ask("textDocument/completion", 3, 11).items
out.completion = items[1].textEdit.newText
vim.fn.setline(4, "see [[Use PostgreSQL]]")
local edit = ask("textDocument/rename", 2, 8, { newName = "Use SQLite" })
vim.lsp.util.apply_workspace_edit(edit, client.offset_encoding)
out.saved_before = vim.fn.readfile("a.md")
vim.cmd("wall")
for _, action in ipairs(ask("textDocument/codeAction", 2, 30, {
  range = { start = { line = 2, character = 30 }, ["end"] = { line = 2, character = 30 } },
  context = { diagnostics = {} },
})) do
  vim.lsp.util.apply_workspace_edit(action.edit, client.offset_encoding)
end
vim.cmd("wall")
wait(function() return #vim.diagnostic.get(0) == 0 end)
vim.fn.writefile({ vim.fn.json_encode(out) }, "../out.json")
vim.cmd("qall!")
"""


@pytest.mark.skipif(shutil.which("nvim") is None, reason="nvim is not installed")
def test_neovim_works_with_documented_configuration(tmp_path: Path) -> None:
    """Neovim completes, follows, checks, renames and creates notes with the guide's settings."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "decision/pg.md", "# Use PostgreSQL\n\nJSON.\n\n## Why\n\nReasons.\n")
    write(root, "a.md", "# A\n\n😀 [[Use PostgreSQL#Why]] [[Missing]]\n")
    program = write(
        tmp_path, "bin/memvault", f'#!/bin/sh\nexec {sys.executable} -m memvault "$@"\n'
    )
    program.chmod(0o755)
    (settings, *_) = re.findall(r"```lua\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    init = write(tmp_path, "init.lua", settings)
    script = write(tmp_path, "script.lua", SCRIPT)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "MEMVAULT_DEEP": "off",
        **{f"XDG_{kind}_HOME": str(tmp_path / kind.lower()) for kind in ("DATA", "STATE", "CACHE")},
    }
    command = ["nvim", "--headless", "-n", "-u", str(init), "-c", f"luafile {script}"]
    done = subprocess.run(
        [*command, "-c", "cquit"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    out = json.loads((tmp_path / "out.json").read_text("utf-8"))
    line = "😀 [[Use PostgreSQL#Why]] "
    start = len(line.encode())
    assert out["problem"] == ["link-broken", 2, start, start + len("[[Missing]]")]
    assert "## Why\n\nReasons." in out["hover"]
    assert out["definition"] == ["pg.md", 5]
    assert out["completion"] == "Use PostgreSQL]]"
    assert out["saved_before"][2] == f"{line}[[Missing]]"
    text = (root / "a.md").read_text("utf-8")
    assert text == "# A\n\n😀 [[Use SQLite#Why]] [[Missing]]\nsee [[Use SQLite]]\n"
    assert "\n# Use SQLite\n" in (root / "decision/pg.md").read_text("utf-8")
    assert (root / "Missing.md").read_text("utf-8").rstrip().endswith("\n# Missing")
