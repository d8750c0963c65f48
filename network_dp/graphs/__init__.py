"""Walks among peers: how graphs are made and weighted, and what they promise to each pair (THEORY.md#graphs)."""
