"""What a user states: variables, factors, evidence, graphs. Python and NumPy only."""
