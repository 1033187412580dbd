"""Which state joins next: one policy a file."""
