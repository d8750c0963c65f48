"""Deterministic fault simulation: the real protocol core and tasks under a virtual clock, network and disk."""
