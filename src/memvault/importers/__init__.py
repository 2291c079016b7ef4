"""Import notes, memories and sessions from other programs.

``source`` and ``archives`` open a folder, file or archive. ``formats`` lists the formats,
``detection`` recognizes them, and ``claims`` finds the files that a format does not read. A
format's module yields the values defined in ``items``; ``records`` converts one record at a time.
``planning`` makes the plan from the ``state`` of the vault, ``applying`` writes it, and ``links``
rewrites the links of its notes. ``reader_process`` reads untrusted sources in a process with
limits. ``memvault import`` (``cli.commands.import_export``) shows the plan, asks, and applies it.

How to add a format:

1. Add a row to ``formats.FORMATS``, and a module with the format's name here, with two or three
   functions. ``claims(source)`` returns the names of the files that ``read`` reads, and of the
   program's files that contain no notes; it returns nothing for other programs' sources. If the
   module does not define it, all visible files are claimed. The module ``claims`` lists the
   remaining files that a user would miss. A format that claims less than half of the notes is
   imported only if the user chooses it. If other files in the source may be imported as
   ``folder``, use a note's file name as its key, and add the format to
   ``formats._KEYED_BY_NAME``. ``recognize(source)`` returns a ``Confidence``; if the module does
   not define it, any claimed file means ``SURE``. It reads names and at most the beginning of a
   file, with ``Source.head``. ``read(source)`` yields ``ImportedNote``, ``Attachment`` and
   ``SkippedItem``. It runs twice, for the plan and for writing, and must yield the same items in
   the same order.
2. Import heavy libraries inside functions: recognition loads the modules of all formats.
3. Read only through ``Source``, which limits sizes and does not follow links. Keep one item in
   memory at a time. Convert each record with ``records.convert_record``, which turns any exception
   into a ``SkippedItem``: no record may stop the import or take minutes.
4. Count each record, block and property type in ``source.counts``, converted or not. Escape plain
   text with ``plain_text.escaped``; leave code unchanged.
5. ``ImportedNote.key`` is the item's id in the program, or its path if it has no id; a second
   import finds the note by this key. ``path`` is the desired path in the target folder; use
   ``note_path(title)`` if the program has titles instead of files. The path is made safe and unique
   later.
6. ``text`` is markdown that may start with front matter, whose keys take precedence over
   ``header``. Keep links to paths in the source; they are rewritten if a file gets another name.
   Write a link to an id as ``[[import:ID|label]]`` or ``![[import:ID]]``, with the id among the
   ``refs`` of its target. If no item has the id, the label remains as text.
7. Add a test source in the program's documented format (``tests/import_sources/``, which gives the
   version and the documentation), a section in docs/guide/importing/, and the format to
   ``fuzz/targets`` with a seed in ``fuzz/corpus``.
"""
