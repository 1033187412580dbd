"""Experiments on what the methods are worth: the paper's, and a real task; nothing of the library needs them."""
