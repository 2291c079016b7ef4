"""Define the tools as typed functions, register them, and run them."""
