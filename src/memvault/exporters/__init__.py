"""Export of a vault as JSON lines, a zip, a folder, one markdown file, or a static site.

``files`` lists the exported files, ``formats`` the formats. A format is a row of
``formats.FORMATS`` and a module with ``write(files, target, replaces)``, which writes through
``files.target`` and returns the number of files. ``importers.memvault`` reads the lossless formats.
"""
