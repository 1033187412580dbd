"""The names of the methods. Apart from what runs them, so that they can be listed without loading it."""

METHODS = ("bp", "residual", "truncated", "random", "fixed", "dynamic", "adaptive", "exact", "auto")
"""The methods, by the names that `infer` takes."""

DEFAULT_METHOD = "auto"

FULL_METHODS = ("bp", "residual")
"""Methods that work on all states from the start."""

GROWING_METHODS = ("random", "fixed", "dynamic")
"""Methods that start from one state a variable."""

IN_PARTS = ("bp", "adaptive", "auto")
"""Methods whose sweeps can go over parts of a graph at the same time."""
IN_PARTS_OF_THEIR_OWN = ("bp", "residual", "adaptive", "auto")
"""Methods that parts of a graph can run in several processes, each with messages of its own."""
MAP_METHODS = ("auto", "exact", "bp")  # of `infer_map`
