"""`make bench`: what this system costs, as ratios to bare transports measured in the same run."""
