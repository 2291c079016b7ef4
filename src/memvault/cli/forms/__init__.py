"""Lines for people of the results whose keys and values are not good enough."""
