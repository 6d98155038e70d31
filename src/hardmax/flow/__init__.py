"""Which input positions are still available at which token, what decoding them costs, and what a target needs (P2)."""
