"""Owns what the C library is told about freed memory. Knows no request.

Left alone, glibc gives a large freed block back to the system at once until it has seen one of that size, and from then
on keeps up to twice as much of it: bodies of some megabytes are served at two speeds, and where the second begins is
chance. Told the sizes once, it keeps a little always, gives all else back, and is equally quick all the time.
"""

import ctypes
from collections.abc import Mapping

_MIB = 2**20
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8  # as malloc.h has them

KEPT_BYTES = 8 * _MIB
"""Freed memory that a process keeps at most, at the end of its heap."""

OPTIONS = {
    _MMAP_THRESHOLD: 32 * _MIB,  # the highest that glibc takes; larger blocks are given back when they are freed
    _TRIM_THRESHOLD: KEPT_BYTES,
    _TOP_PAD: KEPT_BYTES,
    _ARENA_MAX: 1,  # each heap would keep as much again; few allocate without the interpreter lock
}


def keep_freed_blocks(environ: Mapping[str, str]) -> bool:
    """Tell the C library; whether it took all of it.

    False, and nothing told, where the environment has its own wishes (``MALLOC_*`` or ``GLIBC_TUNABLES``) and where
    there is no glibc.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl and macOS; Windows
        return False
    taken = [mallopt(option, value) for option, value in OPTIONS.items()]
    return all(taken)
