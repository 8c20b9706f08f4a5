"""What a service may still do once it runs (the C daemons: datapath/privileges.h)."""

from __future__ import annotations

import argparse
import ctypes
import os
import pwd
import resource

from datacast.core.errors import DatacastError

_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_CAPABILITY_VERSION_3 = 0x20080522
_CAPABILITIES = 64
KEPT = frozenset((1, 10, 23))
"""CAP_DAC_OVERRIDE, CAP_NET_BIND_SERVICE, CAP_SYS_NICE: root's database may lie in a user's folder, REST at port 443,
and masters ask for real-time priority."""
_libc = ctypes.CDLL(None, use_errno=True)


class PrivilegeError(DatacastError):
    """There is no such user, or this process may not become one."""


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--user",
        metavar="NAME",
        help="started as root: become this user before any file or socket is opened (its files must be the user's)",
    )


def drop(user: str | None, realtime: int = 0) -> None:
    """Files made from now on are their owner's alone, no program started gains rights, and root becomes `user`, with
    the right to real-time priority up to `realtime`; without `user` it keeps KEPT of its capabilities. Raises
    PrivilegeError."""
    os.umask(0o077)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if user is None:
        _keep(KEPT)
        return
    try:
        entry = pwd.getpwnam(user)
    except KeyError as error:
        raise PrivilegeError(f"--user {user}: there is no such user", what=user) from error
    if os.geteuid() == entry.pw_uid:
        return
    try:
        if realtime:
            resource.setrlimit(resource.RLIMIT_RTPRIO, (realtime, realtime))
        os.setgroups([])
        os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
        os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
    except OSError as error:
        raise PrivilegeError(f"--user {user}: {error.strerror}; start it as root, or as {user}", what=user) from error
    except ValueError as error:  # a container's root without CAP_SYS_RESOURCE
        text = f"--user {user}: the right to real-time priority cannot be kept; leave --realtime out"
        raise PrivilegeError(text, what=user) from error


def _keep(kept: frozenset[int]) -> None:
    """As privileges_keep in C, for the calling thread: none runs yet beside it. Without the right to it nothing is
    lost that was there."""
    for number in range(_CAPABILITIES):
        if number not in kept:
            _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice 32
    if _libc.capget(header, data) < 0:
        return
    mask = sum(1 << number for number in kept)
    for half in range(2):
        permitted = data[3 * half + 1] & (mask >> 32 * half & 0xFFFFFFFF)
        data[3 * half : 3 * half + 3] = [permitted, permitted, 0]
    _libc.capset(header, data)
