"""Exact inference on a junction tree: orders, trees, predicted cost, the two passes, and what is read from them."""
