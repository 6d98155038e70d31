"""Which input positions are still available at which token, and what decoding them costs (P2)."""
