"""The full-screen program of ``memvault browse``, and the picker of commands without a memory.

``start`` runs it where there is a terminal, ``session`` searches and changes the vault in a thread
of its own, without Textual; ``app`` is the screen, and ``dialogs`` are the questions that it asks.
Textual is imported only here.
"""
