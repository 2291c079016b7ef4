"""The formats of a vault's files: headers, markdown, file names, memIds, and the scan of folders.

``document`` converts bytes to memories and back without loss, ``encodings`` finds how they are
encoded. ``front_matter`` patches headers, ``header_yaml`` and ``header_lines`` read them,
``header_dates`` their times. ``markdown`` finds headings, links, tags, tasks and code with
``markdown_blocks`` and ``markdown_inline``, ``sections`` the text below a heading. ``paths`` makes
names and ids, ``reader`` lists files and reads folders of them, ``program_files`` has the files
that programs read as instructions or settings, ``init`` creates a vault.
"""
