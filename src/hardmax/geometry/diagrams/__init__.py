"""P1 section IV: power diagrams and attention diagrams."""
