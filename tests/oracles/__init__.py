"""Independent checks: plain, slow, and sharing no code with the library that they judge."""
