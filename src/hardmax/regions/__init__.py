"""Cells and linear regions of a network: enumerated exactly, or estimated by sampling (P1 sections V and VII)."""
