"""What only the published methods need, which grow domains one state at a time."""
