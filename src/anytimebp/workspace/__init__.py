"""The mutable arrays of one run, sized by the domains."""
