"""Errors of a user's process: each knows its exit code, and its message says what to do next."""

from __future__ import annotations

from network_dp.errors import UserError
from node.protocols import exits


class NodeError(UserError):
    """A node cannot start or go on."""

    exit_code = exits.INTERNAL


class BundleError(NodeError):
    """Plan, certificate, key or data cannot be used."""

    exit_code = exits.BAD_INPUT


class TaskFailedError(NodeError):
    """The task raised. What it said is not repeated: it may be a value."""

    exit_code = exits.BAD_INPUT


class LockedError(NodeError):
    """Another process uses this state directory."""

    exit_code = exits.LOCKED


class LostDiskError(NodeError):
    """The state directory is not the one this user's life began on."""

    exit_code = exits.OLD_DISK


class CorruptJournalError(NodeError):
    """The journal is damaged where no crash can damage it."""

    exit_code = exits.CORRUPT


class DiskFullError(NodeError):
    """A record could not be written; nothing of it remains."""

    exit_code = exits.STOPPED
