"""The old place of ``analyze_runs``, kept while callers move to ``analyzer.analysis``."""

from analyzer.analysis import analyze_runs as analyze_runs
