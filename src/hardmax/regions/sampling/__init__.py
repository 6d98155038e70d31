"""The Monte Carlo estimate of the number of cells."""
