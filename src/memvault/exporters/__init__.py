"""Export a vault as JSON lines, a zip, a folder, one markdown file, or a static site.

``files`` lists the exported files, and ``formats`` lists the formats. ``writers`` and
``static_site`` contain a function for each format.
"""
