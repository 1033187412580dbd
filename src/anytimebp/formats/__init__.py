"""Files and foreign models, to and from graphs and results. Never the engine."""
