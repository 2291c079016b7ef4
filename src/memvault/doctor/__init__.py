"""Doctor: checks that report problems of a vault, and fixes for some of them.

``inspection`` reads the vault once and changes nothing. Each check in ``checks_files`` and
``checks_vault`` is a function from that inspection to findings; a finding that the program can
repair carries a ``Fix``, an immutable value. ``doctor`` runs the checks and applies the fixes;
``status`` reports the state of a vault.
"""
