"""Export a vault as JSON lines, a zip, a folder, one markdown file, or a static site.

``files`` lists the exported files, ``formats`` the formats with the functions of ``writers`` and
``static_site`` that write them.
"""
