"""Doctor: what is wrong in a vault, and putting it right.

``look`` reads the vault once and changes nothing. Each check, in ``headers``,
``names``, ``links``, ``secrets`` and ``place``, is a function from that look to
findings; a finding that the program may put right carries a ``Fix``, a frozen value.
``fixing`` does those, and ``visit`` is the way through all of it.
"""
