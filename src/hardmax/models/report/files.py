"""What a report writes: the page, its numbers and its drawings, all of them or none."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hardmax.results import strict
from hardmax.storage import written_whole


def write_report(
    folder: str | os.PathLike[str],
    page: str,
    numbers: dict[str, Any],
    tables: Mapping[str, str],
    drawings: Mapping[str, str],
) -> tuple[Path, ...]:
    """Write ``report.html``, ``report.json``, tables and ``figures/*.svg``; what each is called, in order.

    Every file is written under a temporary name first; they get their names together at the end, the page
    last. A failure before that leaves an older report as it was.
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"cannot write the report into {target}: it is a file.")
    contents = {
        "report.html": page,
        "report.json": json.dumps(strict(numbers), indent=1, allow_nan=False) + "\n",
        **tables,
        **{f"figures/{name}.svg": drawing for name, drawing in drawings.items()},
    }
    (target / "figures").mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:  # leaves in reverse: the page is renamed last
        for name, content in contents.items():
            file = stack.enter_context(written_whole(target / name))
            file.write(content.encode("utf-8", errors="replace"))
    return tuple(target / name for name in contents)


def in_frame(page: str) -> str:
    """A page in a frame of its own, without the rights of the notebook around it."""
    inside = html.escape(page, quote=True)
    return (
        f'<iframe srcdoc="{inside}" sandbox="allow-scripts allow-downloads" title="hardmax report" '
        'style="width:100%;height:44rem;border:1px solid #d9dce0"></iframe>'
    )
