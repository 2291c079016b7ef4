"""What can be done with memories beyond reading and writing a file."""
