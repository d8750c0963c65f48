"""A commented plan to start from: what `network-dp plan new` writes."""

from __future__ import annotations

from dataclasses import dataclass

from network_dp.plan import PlanError

FIRST_PORT = 20000


@dataclass(frozen=True, slots=True)
class Wish:
    """What a user asks `plan new` for."""

    name: str
    topology: str
    task: str
    users: int
    length: int  # rounds on a ring, steps on the complete graph
    mechanism: str
    epsilon: float
    delta: float
    host: str = "127.0.0.1"
    port: int = FIRST_PORT


_TASKS = {
    "sum": """dimension = 1
lower = 0.0                  # public bounds of every value; what lies outside is clipped
upper = 1.0
rows = "average"             # average: one value per user, the mean of its rows; per_visit: visit k takes row k""",
    "histogram": """buckets = 8                  # every row is a bucket 0 .. 7
rows = "average"             # average: the shares of a user's rows (rr: one row); per_visit: visit k takes row k""",
    "sgd": """loss = "logistic"            # logistic, ridge or smoothed_hinge
features = 30
intercept = true
step_size = 1.0              # at most 2/beta: amplification needs a contraction
radius = 10.0                # projection on a ball; leave it out for none""",
}


def write_plan(wish: Wish) -> str:
    """TOML text with a sentence beside every choice."""
    if wish.task != "mean" and wish.task not in _TASKS:
        raise PlanError(f'task.kind = "{wish.task}": must be one of sum, mean, histogram, sgd')
    ring = wish.topology == "ring"
    length = f"rounds = {wish.length}" if ring else f"steps = {wish.length}"
    meaning = "everybody contributes this often" if ring else "visits in all; the next user is drawn among all"
    against = "local" if ring and wish.task == "sgd" else "network"
    reserve = ""
    if ring and wish.mechanism != "rr":
        reserve = "reissues = 1                 # how often the token may be lost and taken up again as promised\n"
    users = "\n".join(
        f'\n[[users]]\nname = "user-{i}"\naddress = "{wish.host}:{wish.port + i}"' for i in range(wish.users)
    )
    return f"""# A network-dp plan: the one public description of a run. Everybody has the same.
# Check it with `network-dp plan check FILE`, run it here with `network-dp run FILE`.
schema = 1
name = "{wish.name}"

[walk]
topology = "{wish.topology}"
{length:<28} # {meaning}
release = "all"              # all: everybody gets the result; holder: only the last one
durability = "machine"       # machine: survives power loss; process: survives kill -9, faster

[task]
kind = "{wish.task}"
{_TASKS["sum" if wish.task == "mean" else wish.task]}

[noise]
mechanism = "{wish.mechanism}"
# A target: provisioning computes the least noise that meets it. Or give the size itself (sigma, scale or gamma).
epsilon = {wish.epsilon!r}
delta = {wish.delta!r}
against = "{against}"          # network: what one other user may learn; local: what somebody who sees all may learn
{reserve}
[timing]
preset = "local"             # local, lan or wan
{users}
"""
