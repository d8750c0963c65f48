"""One user of a run, one process."""
