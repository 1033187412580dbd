"""The graph compiled once into flat arrays."""
