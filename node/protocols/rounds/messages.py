"""What users of anonymous rounds say to each other, as values; the transport turns them into bytes and back.

=========== ===================== ==================================================================================
request     answer                sent
=========== ===================== ==================================================================================
``Block``   ``Outcome``           to the adder, one per user and round, on the beat. The answer comes when the round is
                                  over: its deadline is ``Context.answer_s``
``Shuffle`` ``Taken``             to the next shuffler of a batch, and after the last one to the adder, whose next
                                  outcome takes it to everybody; a large one
``Want``    ``Shuffle``, ``Taken`` to any user, for a batch of labels that did not arrive; ``Taken``: it has none
=========== ===================== ==================================================================================

Sizes, in bytes, which never depend on who holds the token. ``block_bytes`` is fixed by the plan (``Context``):

* ``life`` LIFE_BYTES = 16; all whole numbers are unsigned 64-bit, user numbers below n.
* ``Block.data`` is 0 (a wish to take part, ``counter`` 0) or ``block_bytes``; ``Block.news`` is 0, or, in a
  wish, ``block_bytes``. ``Block.met`` is 0, or, in a wish, LIFE_BYTES for each user of the plan;
  ``Block.own`` 0, or, in a wish, LIFE_BYTES for each of at most MOST_OWN = 64 lives.
* ``Outcome.total`` is 0 or ``block_bytes``; so is ``Outcome.news``.
* A roll has at most n entries of a user and a life. A list of labels is a point of POINT_BYTES = 32, and one more for
  each user of its crowd (at most n); a batch has at most BATCH = 8 lists.

Whoever decodes refuses other sizes. Run and plan are checked by the transport, so they do not appear here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

BATCH = 8  # steps of a batch of labels: batch k is for the steps 8k + 1 to 8k + 8


class Call(NamedTuple):
    """The adder asks everybody on the roll (user -> life) for one block; a counter is never used twice in its life."""

    adder: int
    counter: int
    roll: Mapping[int, bytes]


class Block(NamedTuple):
    """To the adder: a block for its call, or (counter 0) a wish to be on the next roll.

    ``promised``, ``accepted``: in the clear, the epoch this user promised to (0: it has no vote, its disk was lost) and
    the one under which it accepted a result (0: none). In a wish, ``news``: the last message that it heard;
    ``met``: the latest life of each user that it met, ``own``: its own lives (``lives``)."""

    life: bytes
    counter: int
    promised: int
    accepted: int
    data: bytes
    news: bytes
    met: bytes = b""
    own: bytes = b""


class Batch(NamedTuple):
    """Labels for the steps of batch ``number`` in an epoch. ``crowd``: whose they are, in plan order; ``first``: the
    place in the crowd of the first shuffler, ``turns``: how many have had them. Finished after colluders + 1.
    ``lists``: points (``labels``), a list for each step."""

    epoch: int
    number: int
    crowd: tuple[int, ...]
    first: int
    turns: int
    lists: tuple[bytes, ...]


class Outcome(NamedTuple):
    """From the adder: the sum of all blocks of the call that a block was for, and the next call.

    Without a call: ask ``adder``. ``promises`` users of the call promised to ``promised``, the highest of their epochs;
    ``accepts`` of them accepted a result under ``accepted``. ``final``: the result in ``news`` is. ``old``: somebody
    met a later life of this user, so its disk is an old one. ``batch``: finished labels, for all alike."""

    total: bytes
    call: Call | None
    adder: int
    news: bytes
    promised: int
    promises: int
    accepted: int
    accepts: int
    final: bool
    old: bool
    batch: Batch | None = None


class Shuffle(NamedTuple):
    """A batch, for its next shuffler or, finished, for the adder or for who asked."""

    batch: Batch


class Want(NamedTuple):
    """Have you this batch, finished?"""

    epoch: int
    number: int


class Taken(NamedTuple):
    """Heard, and nothing to say."""


Request = Block | Shuffle | Want
Answer = Outcome | Shuffle | Taken
