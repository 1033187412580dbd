"""Slow, obvious twins of what the library computes."""
