"""P2: which positions are still available at which token, what decoding them costs, what a target needs."""
