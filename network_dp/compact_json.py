"""JSON without blanks, of values that are encoded once a hop: the encoder is set up once instead of at every call."""

from __future__ import annotations

import json
from collections.abc import Callable
from json import encoder
from typing import Any


def _set_up() -> Callable[[Any], str]:
    """The encoder ``json`` sets up for every call, kept; where there is none (not CPython), ``json`` as it comes."""
    make: Any = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
    default = json.JSONEncoder().default  # refuses what JSON has no name for
    pieces = make(None, default, encoder.encode_basestring_ascii, None, ":", ",", False, False, False)
    return lambda value: "".join(pieces(value, 0))


#: Compact, ASCII, finite numbers only (``ValueError``).
encode: Callable[[Any], str] = _set_up()
