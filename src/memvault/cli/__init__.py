"""The command line interface: parses arguments and prints results, without domain logic."""
