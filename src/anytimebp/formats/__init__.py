"""Files and foreign models, to and from graphs and results. They do not know inference."""
