"""Seals of checkpoints: the state of a machine is continued only if this user's hardmax wrote it.

A checkpoint is the memory of compiled code that follows its numbers without looking back. A digest tells
whether it is complete, but anybody can compute a digest. So a checkpoint also carries a seal: the digest,
signed (HMAC-SHA-256) with a random key that is kept in the user's configuration folder and never written
anywhere else. A checkpoint with another seal is refused.

``HARDMAX_CHECKPOINT_KEY`` gives another key, for machines that share checkpoints but no home folder, and
``HARDMAX_TRUST_CHECKPOINTS=1`` accepts checkpoints whatever their seal. Where no key can be kept, because
there is no home folder or it cannot be written, seals are made without one and say no more than the digest. A
key that is there but damaged is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from hardmax.errors import DamagedFileError, FileFormatError
from hardmax.untrusted import plain_bytes

_KEY_BYTES = 32
_MADE_BY_ANOTHER = b"?"


def seal_of(digest: str) -> str:
    """The seal of a file with this digest, with the key of this user."""
    return hmac.new(_key(), digest.encode(), hashlib.sha256).hexdigest()


def is_sealed(digest: str, seal: str) -> bool:
    """Whether a file may be continued: its seal is ours, or the user said that any will do."""
    if os.environ.get("HARDMAX_TRUST_CHECKPOINTS") == "1":
        return bool(digest)
    return bool(digest) and hmac.compare_digest(seal_of(digest).encode(), seal.encode())


def key_path() -> Path | None:
    """Where the key of this user is kept; ``None`` without a home folder."""
    try:
        folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    except RuntimeError:
        return None
    return Path(folder) / "hardmax" / "checkpoint.key"


def _key() -> bytes:
    given = os.environ.get("HARDMAX_CHECKPOINT_KEY")
    if given:
        return given.encode()
    path = key_path()
    if path is None:
        return b""
    for _ in range(2):  # another process may make it at the same moment
        try:
            kept = plain_bytes(path, most=_KEY_BYTES)
        except FileNotFoundError:
            kept = _new_key(path)
            if kept != _MADE_BY_ANOTHER:
                return kept
        except (IsADirectoryError, FileFormatError) as error:
            raise _no_key(path) from error
        except OSError:
            return b""
        else:
            if len(kept) < _KEY_BYTES:
                raise _no_key(path)
            return kept
    return b""


def _no_key(path: Path) -> DamagedFileError:
    """Without a key any seal could be forged: a damaged one must not count as none."""
    return DamagedFileError(
        f"{path} must hold the {_KEY_BYTES} bytes of the key that seals checkpoints, but does not; remove "
        "it, and the checkpoints that it has sealed."
    )


def _new_key(path: Path) -> bytes:
    """Make a key that only this user can read; empty where that is not possible."""
    key = secrets.token_bytes(_KEY_BYTES)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(key)
        try:
            os.link(draft, path)  # fails if another process was faster
        finally:
            os.unlink(draft)
    except FileExistsError:
        return _MADE_BY_ANOTHER  # to be read
    except OSError:
        return b""
    return key
