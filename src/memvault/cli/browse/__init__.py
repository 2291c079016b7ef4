"""The ``memvault browse`` TUI, also used to pick a memory for a command.

``start`` runs it if there is a terminal, ``session`` searches and changes the vault in its own
thread, without Textual; ``app`` is the screen, ``dialogs`` are its questions, and ``driver`` lets
it exit when the terminal is gone. Textual is imported only in this package.
"""
