"""What the engines of every dimension share."""
