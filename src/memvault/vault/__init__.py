"""The formats of a vault's files: headers, markdown, file names, memIds, and the scan of folders.

``document`` converts bytes to memories and back without loss, ``front_matter`` parses and patches
headers, ``markdown`` finds headings, links and tags, ``sections`` the text below a heading,
``paths`` makes names and ids, ``reader`` lists files and reads folders of them, ``program_files``
has the files that programs read as instructions or settings, ``init`` creates a
vault.
"""
