"""The names of the methods. Apart from what runs them, so that they can be listed without loading it."""

METHODS = ("bp", "residual", "truncated", "random", "fixed", "dynamic", "adaptive", "exact", "auto")
"""The methods, by the names that `infer` takes."""

DEFAULT_METHOD = "auto"

FULL_METHODS = ("bp", "residual")
"""Methods that work on all states from the start."""

GROWING_METHODS = ("random", "fixed", "dynamic")
"""Methods that start from one state a variable."""

IN_PARTS = ("bp", "residual", "adaptive", "auto")
"""Methods that can run on a graph in parts, in threads or on Ray."""
MAP_METHODS = ("auto", "exact", "bp")  # of `infer_map`
