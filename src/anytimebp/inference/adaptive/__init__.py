"""The rounds of `adaptive`."""
