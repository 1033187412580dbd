"""Which message is sent next: one strategy a file."""
