"""``python -m coordinator_free_launcher``: the command line, where the console script is not installed."""

from coordinator_free_launcher.start import main

main()
