"""What only the published methods need: they grow domains one state at a time."""
