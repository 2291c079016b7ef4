"""Parse command lines and print results, without domain logic."""
