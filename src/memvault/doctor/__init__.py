"""Check a vault for problems, and fix some of them.

``inspection`` reads the files in the vault once. Each function in a module ``checks_*`` is declared
with its code by ``@check`` and yields findings, without changing anything; a finding that can be
repaired has a ``Fix``. ``doctor`` runs the checks and applies the fixes.
"""
