"""Anonymous rounds under seeded disasters."""
