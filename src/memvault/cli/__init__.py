"""The command line: arguments in, results out; nothing is decided here."""
