"""Which factor is updated next."""
