"""What states outside the domains would weigh."""
