"""What exists before the fork stays shared by all users, for ever: its references are no longer counted.

Every use of a Python object writes its reference count, and the first write after a fork copies the page around it: a
user that had walked owned 6 MiB of pages whose objects it had only looked at. Since Python 3.12 an object whose count
carries a certain mark is immortal (PEP 683): the count is neither raised nor lowered, and nothing is written. Here
every object there is gets that mark.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import sysconfig
from types import CodeType, FrameType
from typing import Any


def make_immortal() -> int:
    """Mark every object that can be reached now. Returns how many; 0 where the interpreter counts all references."""
    if not _possible():
        return 0
    mark = _count(None).value
    left: list[Any] = gc.get_objects()
    seen: set[int] = set()  # made after the list, so that neither is marked
    while left:
        thing = left.pop()
        if id(thing) in seen or type(thing) is FrameType:  # isinstance would run code of the object's own
            continue
        seen.add(id(thing))
        _count(thing).value = mark
        left += (found for found in _parts(thing) if id(found) not in seen)
    return len(seen)


def _count(thing: object) -> ctypes.c_uint32:
    """The half of an object's reference count that decides (CPython on little-endian machines)."""
    return ctypes.c_uint32.from_address(id(thing))


def _parts(thing: object) -> list[Any]:
    """What an object holds. Code does not tell the collector, so it is asked itself."""
    if type(thing) is CodeType:
        texts = (thing.co_filename, thing.co_name, thing.co_qualname, thing.co_linetable, thing.co_exceptiontable)
        return [thing.co_consts, thing.co_names, *texts]
    return gc.get_referents(thing)


def _possible() -> bool:
    """CPython 3.12 or newer with a global lock, and of two objects of our own the one without the mark is counted."""
    known = sys.implementation.name == "cpython" and sys.byteorder == "little"
    if not known or sys.version_info < (3, 12) or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    marked, counted = object(), object()
    _count(marked).value = _count(None).value
    before = _count(marked).value, _count(counted).value
    references = [marked, counted] * 8
    return (_count(references[0]).value, _count(references[1]).value) == (before[0], before[1] + 8)
