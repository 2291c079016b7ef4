"""Import of notes, memories and transcripts that other programs keep.

``items`` has the values that readers yield, ``source`` the folder, file or archive they read,
``kinds`` the table of kinds and their recognition, ``claims`` the files that a kind does not read,
``state`` what the vault holds already, ``planning`` the plan of an import, ``links`` the rewriting
of links, ``applying`` the writing. ``reader_process`` runs readers in a process with limits,
``records`` converts one record at a time, ``tally`` counts what is converted. ``outlines`` has
functions for the readers of outliners. ``memvault import``
(``cli.commands.import_export``) shows the plan, asks, and applies it.

How to add a kind:

1. Write a module here, named by the kind, with three functions. ``recognise(source)`` returns
   ``SURE`` if only this kind's program makes such a source, ``POSSIBLE`` if a more special kind may
   claim it, ``NO`` otherwise. It looks at names and, at most, the beginning of a file with
   ``Source.head``, which opens it once for all kinds.
   ``claims(source)`` returns the names of the files that ``read`` reads, and of those that the
   program wrote and that have no notes. ``read`` reads exactly these, from the same listing; other
   files that a user would miss are listed (``claims.missed``). A kind that claims less than half of
   the notes is imported only if the user chooses it. Claim nothing of a source of other programs:
   ``--from KIND`` is then an error. To leave the rest to the kind ``folder`` without duplicates,
   use the name of a note's file as its key, and set ``has_names``.
   ``read(source)`` is a generator of ``ImportedNote``, ``Attachment`` and ``Unreadable``. It is run
   twice, for the plan and for the writing, and must yield the same both times, in a stable order.
2. Add a row to ``kinds.KINDS``.
3. Import heavy libraries inside functions. Recognition loads every kind's module.
4. Read only through ``Source``, which limits sizes and follows no link. Hold one item at a time in
   memory, not the export. Convert each record with ``records.items_of``, which makes whatever it
   raises an ``Unreadable``: no record may end the generator or take minutes.
5. Count every record, block and property type in ``source.tally``: what is converted, and what no
   code converts. Escape plain text with ``plain_text.escaped``, and leave code as it is.
6. ``ImportedNote.key`` is the program's own id of the item, else its path: a second import finds
   the note by it. ``path`` is where the note is to go, below the target folder; use
   ``note_path(title)`` if the program has titles and no files. It is made safe and free later.
7. ``text`` is markdown that may begin with front matter, whose keys win over ``header``. Links to
   paths of the source stay as they are; they are rewritten if a file gets another name. A link to
   an id is written ``[[import:ID|shown text]]`` or ``![[import:ID]]``, with the id among the
   ``refs`` of the note or attachment; if there is none with that id, the shown text remains.
8. Write a test with a source made in the program's documented format (``tests/import_sources/``,
   which names the version and the documentation), and a section in a page of
   docs/importing/, listed in its README.md. Add the kind to ``fuzz/targets`` with a seed in
   ``fuzz/corpus``.
"""
