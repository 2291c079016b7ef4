"""The command line interface: parses arguments and writes results; holds no business logic."""
