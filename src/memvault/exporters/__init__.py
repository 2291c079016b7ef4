"""Export of a vault: as JSON lines, a zip, a folder, one markdown file, or a static site.

``files`` lists what is exported, ``formats`` has the table of formats. A format is a row of
``formats.FORMATS`` and a module here with ``write(files, target, replaces)``, which returns the
number of files written and goes through ``files.target``. ``importers.memvault`` reads
the formats that keep every byte.
"""
