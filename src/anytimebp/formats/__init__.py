"""Files and models of other libraries, to and from graphs and results, without any inference."""
