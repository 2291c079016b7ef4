"""Graphs of Logseq 0.10: a page with properties, a journal, a block reference, an asset; and more.

The graphs follow docs.logseq.com and published graphs; no export was available.
"""

from __future__ import annotations

from pathlib import Path

from conftest import write

BLOCK = "65f0a1b2-0000-4000-8000-000000000001"
AREA = "65f0a1b2-0000-4000-8000-000000000002"
CONFIG = """{:meta/version 1
 ;; :journal/page-title-format "EEE, MM/dd/yyyy"
 :journal/page-title-format "EEEE, dd.MM.yyyy" ; as in German
 :journal/file-name-format "yyyy-MM-dd"
 :pages-directory "notes"
 :file/name-format :triple-lowbar}
"""
PAGE = f"""- title:: The Bees
  alias:: [[Apis, honey]], honey bees
  tags:: #[[bee house]], insects
  type:: book
  read-on:: [[Monday, 04.03.2024]]
  icon:: 🐝
- TODO [#A] feed them, see [[monday, 04.03.2024]]
  SCHEDULED: <2024-03-06 Wed 10:30 .+2w>
  DEADLINE: <2024-03-09 Sat>
  :LOGBOOK:
  CLOCK: [2024-03-04 Mon 10:00:00]--[2024-03-04 Mon 10:05:00] =>  00:05:00
  :END:
- DOING count, `TODO ((x))` and [[HIVES]] and [[Hives|the hives]]
  effort:: 3
  background-color:: yellow
- Let it rest, [[deep [[Hives]]]]
  id:: {BLOCK}
\t- first
\t  logseq.order-list-type:: number
\t- second
\t  logseq.order-list-type:: number
\t\t- below
- ```js
  - TODO in code [[Hives]]
  collapsed:: true
    kept
  ```
- #+BEGIN_QUOTE
  Be good to [[honey bees]].
  #+END_QUOTE
- #+BEGIN_WARNING
  They sting.
  #+END_WARNING
- #+BEGIN_SRC python
  - TODO = "#+BEGIN_QUOTE"
  #+END_SRC
- heading of two
  heading:: 2
- {{{{query (and [[Hives]] (task TODO))}}}} {{{{renderer :todo, x}}}} {{{{poem}}}}
- {{{{video https://example.org/bees.mp4}}}} {{{{youtube abc123}}}} {{{{tweet https://x.com/b/status/1}}}}
- {{{{embed [[Hives]]}}}}
- ![a hive](../assets/a hive.png){{:height 100, :width 200}}
- #[[two words]] #[[a, b]] [shown]([[Hives]])
- | [[a/Hives]] | ((x)) |
  |---|---|
"""
HIVES = f"""public:: true

- see (({BLOCK})), [the rest]((({BLOCK})))
- {{{{embed (({BLOCK}))}}}} and ((65f0a1b2-0000-4000-8000-00000000000f))
- [[draws/2024-03-04-10-00-00.excalidraw]]

Text below the list, [[The bees]].
"""
HIGHLIGHTS = f"""file:: [bees.pdf](../assets/bees_1.pdf)
file-path:: ../assets/bees_1.pdf

- They tell the way.
  ls-type:: annotation
  hl-page:: 12
  hl-color:: yellow
  id:: 65f0a1b2-0000-4000-8000-000000000003
- [:span]
  ls-type:: annotation
  hl-page:: 3
  hl-type:: area
  hl-stamp:: 1709546400000
  id:: {AREA}
"""


def make(folder: Path) -> Path:
    """Write the folder."""
    made = folder / "graph"
    write(made, "logseq/config.edn", "{:meta/version 1}\n")
    write(
        made,
        "pages/recipes___bread.md",
        "tags:: [[baking]], #sour dough\nalias:: Loaf\nserves:: 4\n\n- Mix it.\n"
        f"\t- Let it rest.\n\t  id:: {BLOCK}\n\t  collapsed:: true\n"
        "- ![crust](../assets/crust.png)\n",
    )
    journal = f"- TODO bake, see (({BLOCK}))\n- DONE [[recipes/bread]]\n"
    write(made, "journals/2026_11_03.md", journal)
    write(made, "assets/crust.png", b"a crust")
    write(made, "logseq/bak/old.md", "old\n")
    return made


def make_settings(folder: Path) -> Path:
    """Write a graph with custom day formats and all markup that is converted."""
    made = folder / "beekeeping"
    write(made, "logseq/config.edn", CONFIG)
    write(made, "notes/bees.md", PAGE)
    write(made, "notes/Hives.md", HIVES)
    write(made, "notes/a%2FHives.md", "- another page of this name\n")
    write(made, "notes/hls__bees_1.md", HIGHLIGHTS)
    write(made, "notes/old.org", "* TODO an outline\n")
    write(made, "journals/2024-03-04.md", "- yesterday, [[The Bees]]\n")
    for name in ("a hive.png", "bees_1.pdf", f"bees_1/3_{AREA}_1709546400000.png"):
        write(made, f"assets/{name}", name.encode())
    write(made, "assets/bees_1.edn", "{:highlights []}")
    write(made, "draws/2024-03-04-10-00-00.excalidraw", "{}")
    write(made, "whiteboards/plan.edn", "{}")
    return made
