"""Settings of the whole suite: no deadline for a property's example, since the machine may be busy."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("busy-machine", deadline=None)
settings.load_profile("busy-machine")
