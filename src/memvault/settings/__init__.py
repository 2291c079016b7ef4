"""Settings of a vault and of its user, and where they come from.

``vault_settings`` and ``user_settings`` hold a row for each setting; ``table`` loads and checks a
file by these rows, and ``toml_file`` reads and changes it. ``locate`` decides which vault a command
means, ``vaults`` holds named and trusted vaults, ``grants`` what the user allowed on this machine,
and ``local_paths`` hides its paths.
"""
