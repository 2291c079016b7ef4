"""The full-screen program of ``memvault browse``, and the picker of commands without a memory.

``start`` runs it where there is a terminal, ``session`` searches and changes the vault in a thread
of its own, without Textual; ``app`` is the screen, ``dialogs`` are the questions that it asks, and
``driver`` ends with a terminal that is gone.
Textual is imported only here.
"""
