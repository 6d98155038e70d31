"""The search engine: linear programs instead of vertices, any d."""
