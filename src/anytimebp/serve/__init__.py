"""The page on which a model is explored, and its JSON interface: `anytimebp serve`."""
