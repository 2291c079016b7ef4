"""Doctor: checks that report problems of a vault, and fixes for some of them.

``inspection`` reads the files of the vault once. Each function in ``checks_files`` and
``checks_vault`` is declared with its code by ``@check`` and yields findings, without changing
anything; a finding that the program can repair carries a ``Fix``. ``doctor`` runs the checks and
applies the fixes.
"""
