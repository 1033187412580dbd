"""Which states take part, and each variable's prior over them."""
