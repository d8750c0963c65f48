"""Anonymous rounds as a pure function: everybody sends one block per round, and nobody learns who spoke in it."""
