"""requirements.py PYPROJECT run|build: what is needed of the package index to run, or to build, one a line.

Dependencies are an image layer of their own, made from this list: a change of our code does not fetch them again.
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text())
print("\n".join({"run": project["project"]["dependencies"], "build": project["build-system"]["requires"]}[sys.argv[2]]))
