"""Settings of a vault and of its user, and where they come from.

``vault_settings`` and ``user_settings`` have a row for each setting; ``table`` loads and checks a
file by these rows, and ``toml_file`` reads and changes it. ``exclusions`` decides which files are
memories, ``locate`` which vault a command is for.
"""
