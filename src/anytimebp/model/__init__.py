"""The stated model: variables, factors, evidence, graphs. Python and NumPy only."""
