"""Two models head by head, and one model along its training."""
