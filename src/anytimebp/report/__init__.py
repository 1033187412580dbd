"""Showing a run to people."""
