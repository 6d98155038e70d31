"""What heads do with their scores: rules, weights, sets of keys, mixtures of experts."""
