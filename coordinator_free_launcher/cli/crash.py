"""The one place where an error nobody expected ends: its exit code is neither a verdict's nor that of bad input."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Final

CRASHED: Final = 70  # sysexits.h: internal software error
DEBUG: Final = "NETWORK_DP_DEBUG"


def guarded(main: Callable[[], None]) -> None:
    """Run ``main``; an error is told by its type alone, since its text may hold data, unless one asks for more."""
    try:
        main()
    except Exception as error:
        if os.environ.get(DEBUG) == "1":
            traceback.print_exc()
        sys.stderr.write(
            f"network-dp: a fault of the program itself ({type(error).__name__}), not of the run or its input; "
            f"set {DEBUG}=1 to see where.\n"
        )
        raise SystemExit(CRASHED) from None
