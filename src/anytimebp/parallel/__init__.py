"""Many graphs, or one graph under many kinds of evidence, at once."""
