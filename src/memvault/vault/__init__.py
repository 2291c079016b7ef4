"""Read and write the formats of a vault's files: headers, markdown, file names and memIds.

``decoding`` decodes bytes, with ``encodings`` if they are not UTF-8. ``memory_file`` parses a
memory, ``document`` edits a file without loss. ``front_matter`` splits off headers, ``header_yaml``
and ``header_lines`` parse them, ``header_patch`` changes them; ``header_dates`` reads their times,
``header_links`` their links to other memories. ``markdown`` finds headings, links, tags, tasks and
code with ``markdown_blocks`` and ``markdown_inline``, ``sections`` finds the text below a heading.
``names`` compares names, ``aliases`` derives aliases, ``naming`` creates file names and ids,
``date_ranges`` parses the days in names and in a header's ``date``. ``paths`` checks paths,
``private_folder`` manages ``.memvault``. ``scan`` lists memories, ``folder_watch`` detects their
changes, ``header_files`` reads folders of files. ``program_files`` lists the files that programs
read as instructions or settings, and ``init`` creates a vault.
"""
