"""Web pages for people: search, read, and explore the vault.

``session`` reads the vault, ``markdown_html`` renders markdown, ``layout`` places the nodes of the
map, ``pages`` fills in the templates, ``app`` serves them to the browser that ``access``
recognizes, and ``graph_file`` writes the map with all memories as one file. Jinja2, Starlette and
uvicorn are imported in one module each; the extra ``web`` installs them.
"""
