"""The formats of a vault's files: headers, markdown, file names, memIds, and the scan of folders.

``decoding`` decodes bytes, with ``encodings`` if they are not UTF-8. ``memory_file`` parses a
memory, ``document`` edits a file without loss. ``front_matter`` splits off headers, ``header_yaml``
and ``header_lines`` read them, ``header_patch`` changes them; ``header_dates`` reads their times,
``header_links`` the names of other memories. ``markdown`` finds headings, links, tags, tasks and
code with ``markdown_blocks`` and ``markdown_inline``, ``sections`` the text below a heading.
``names`` compares names, ``aliases`` derives aliases, ``naming`` makes file names and ids,
``date_ranges`` reads days in names. ``paths`` checks paths, ``private_folder`` is ``.memvault``.
``scan`` lists memories, ``folder_watch`` their changes, ``header_files`` reads folders of files.
``program_files`` has the files that programs read as instructions or settings, ``init`` creates a
vault.
"""
