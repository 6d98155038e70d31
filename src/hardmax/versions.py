"""What is installed: the versions that a result depends on, for bug reports and for provenance.

Versions are read from package metadata, so that asking for them imports none of the packages.
"""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

_CORE = ("numpy", "scipy", "numba", "python-flint", "jinja2", "joblib", "click", "rich")
_EXTRAS = ("matplotlib", "pandas", "onnx", "torch", "transformers", "safetensors")


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


@cache
def _read_versions() -> tuple[tuple[str, str | None], ...]:
    from hardmax import __version__  # the package is complete only after this module could be imported

    here = (
        ("hardmax", __version__),
        ("python", platform.python_version()),
        ("platform", platform.platform()),
    )
    return here + tuple((name, _version(name)) for name in _CORE + _EXTRAS)


def installed_versions() -> dict[str, str | None]:
    """Versions of hardmax, Python, the platform and every dependency; ``None`` for what is not installed.

    Returns
    -------
    dict
        Name to version, core dependencies first, then the extras.

    Examples
    --------
    >>> from hardmax.versions import installed_versions
    >>> sorted(installed_versions())[:3]
    ['click', 'hardmax', 'jinja2']
    """
    return dict(_read_versions())


@cache
def source_commit() -> str:
    """The commit of the checkout that hardmax runs from, with `` changed`` behind it if files under ``src``
    differ from it; ``"unknown"`` where it was installed from an archive.

    Examples
    --------
    >>> import re
    >>> bool(re.fullmatch("[0-9a-f]{40}( changed)?|unknown", source_commit()))
    True
    """
    folder = Path(__file__).resolve().parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        if git("ls-files", "--error-unmatch", Path(__file__).name) and (commit := git("rev-parse", "HEAD")):
            return commit + (" changed" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        pass
    return "unknown"


def show_versions() -> None:
    """Print the versions of hardmax and of everything it stands on, one per line.

    Paste the output into a bug report. The command ``hardmax versions`` prints the same.

    See Also
    --------
    hardmax.versions.installed_versions : the same as a dictionary.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.show_versions()  # doctest: +ELLIPSIS
    hardmax        0.1...
    python         3...
    platform       ...
    """
    for name, version in installed_versions().items():
        print(f"{name:<14} {version or 'not installed'}")  # noqa: T201 (printing is its purpose)
