"""One page about a model and a text."""
