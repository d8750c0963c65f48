"""Any durable state, and any history that leads to one."""

from __future__ import annotations

from hypothesis import strategies as st

from node.protocols.walk.messages import Result
from node.protocols.walk.state import Arrived, Durable, Ended, Entry, Planned
from node.protocols.walk.values import Hop

START = Durable(promised=(0, 0))

_numbers = st.integers(-1, 2**40)
_epochs = st.tuples(_numbers, _numbers)
_hops = st.builds(Hop, _epochs, _numbers)
_bytes = st.binary(max_size=40)
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_values = st.none() | _numbers | st.floats(allow_nan=False) | _texts | st.lists(_numbers, max_size=3)
_entries = st.builds(Entry, _texts, st.dictionaries(_texts, _values, max_size=4))
_visits = (_hops, _numbers, _texts, _entries)
_tokens = (_hops, _bytes, _bytes)
_custodies = (
    st.builds(Arrived, *_visits, _bytes, _bytes)
    | st.builds(Planned, *_visits, _numbers, *_tokens, _bytes, st.booleans(), _numbers, _entries)
    | st.builds(Ended, *_visits, *_tokens, st.booleans(), _numbers, _entries)
)
_results = st.builds(Result, _epochs, _bytes, _bytes)
_users = st.integers(0, 5)

#: what a field may become; maps only grow
_FIELDS = {
    "promised": _epochs,
    "high_water": _hops,
    "high_water_digest": _bytes,
    "high_water_from": _users,
    "custody": st.none() | _custodies,
    "started": st.booleans(),
    "visits": _numbers,
    "contributions": _numbers,
    "result": st.none() | _results,
    "withheld": _bytes,
    "final": st.booleans(),
    "rejoined": st.booleans(),
}
_MAPS = {"edges": _numbers, "taken": _hops, "given": _hops, "votes": _epochs}


@st.composite
def histories(draw: st.DrawFn) -> list[Durable]:
    """States one after the other, from the start on."""
    states = [START]
    for _ in range(draw(st.integers(1, 6))):
        before = states[-1]
        names = draw(st.sets(st.sampled_from(sorted(_FIELDS | _MAPS)), min_size=1, max_size=5))
        changes = {name: draw(_FIELDS[name]) for name in sorted(names) if name in _FIELDS}
        changes |= {
            name: {**getattr(before, name), **draw(st.dictionaries(_users, _MAPS[name], max_size=3))}
            for name in sorted(names)
            if name in _MAPS
        }
        states.append(before._replace(**changes))
    return states
