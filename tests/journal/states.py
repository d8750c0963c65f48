"""Any durable state, and any history that leads to one."""

from __future__ import annotations

from hypothesis import strategies as st

from node.protocol.messages import Result
from node.protocol.state import Custody, Durable
from node.protocol.values import Hop

START = Durable(promised=(0, 0))

_numbers = st.integers(-1, 2**40)
_epochs = st.tuples(_numbers, _numbers)
_hops = st.builds(Hop, _epochs, _numbers)
_bytes = st.binary(max_size=40)
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_custodies = st.builds(
    Custody,
    hop=_hops,
    visit=_numbers,
    cause=_texts,
    next=_numbers,
    out_hop=_hops,
    out=_bytes,
    key=_bytes,
    real=st.booleans(),
    units=_numbers,
    visit_line=_texts,
    sent_line=_texts,
    out_digest=_bytes,
)
_results = st.builds(Result, _epochs, _bytes, _bytes)
_users = st.integers(0, 5)

#: what a field may become; maps only grow
_FIELDS = {
    "promised": _epochs,
    "mark": _hops,
    "mark_digest": _bytes,
    "mark_from": _users,
    "custody": st.none() | _custodies,
    "started": st.booleans(),
    "visits": _numbers,
    "contributions": _numbers,
    "result": st.none() | _results,
    "kept": _bytes,
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
