"""The pictures and notebooks of the tutorial, both made from its pages.

    python docs/tutorial/write.py          run the code of every page, keep its pictures, write its notebook
    python docs/tutorial/write.py 3-depth  of one page

A page's picture is the file that the code on the page saves, and a notebook holds the same code and the same
expected outputs, so the three cannot disagree.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import doctest
import io
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples"
PAGES = sorted(path.stem for path in HERE.glob("[0-9]*.md"))


def notebook(name: str) -> dict[str, Any]:
    """A page as a notebook: text becomes Markdown cells, code is divided where something is printed."""
    cells: list[dict[str, Any]] = []

    def add(kind: str, text: str, **more: Any) -> None:
        if text.strip():
            lines = text.strip("\n").splitlines(keepends=True)
            cells.append(
                {"cell_type": kind, "id": f"{name}-{len(cells)}", "metadata": {}, "source": lines, **more}
            )

    for piece in re.split(r"(```python\n.*?```)", (HERE / f"{name}.md").read_text(), flags=re.DOTALL):
        if not piece.startswith("```python"):
            add("markdown", piece)
            continue
        code = ""
        for example in doctest.DocTestParser().get_examples(piece):
            code += example.source
            if example.want:
                add("code", code, execution_count=None, outputs=[printed(example.source, example.want)])
                code = ""
        add("code", code, execution_count=None, outputs=[])
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def printed(source: str, want: str) -> dict[str, Any]:
    """What a notebook shows below a cell: the value of an expression, or the lines that were printed."""
    lines = want.rstrip("\n").splitlines(keepends=True)
    if "print(" in source:
        return {"output_type": "stream", "name": "stdout", "text": lines}
    return {
        "output_type": "execute_result",
        "execution_count": None,
        "metadata": {},
        "data": {"text/plain": lines},
    }


def text_of(made: dict[str, Any]) -> str:
    """A notebook as it stands in its file."""
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def run(made: dict[str, Any], folder: Path) -> list[str]:
    """Execute the cells of a notebook in a folder beside the examples; what differs from their outputs."""
    (folder / "examples").symlink_to(EXAMPLES)
    space: dict[str, Any] = {}
    wrong = []
    before = Path.cwd()
    os.chdir(folder)
    try:
        for cell in made["cells"]:
            if cell["cell_type"] == "code":
                shown = shown_by("".join(cell["source"]), space)
                outputs = [out.get("text") or out["data"]["text/plain"] for out in cell["outputs"]]
                wanted = "".join(line for lines in outputs for line in lines)
                if shown.split() != wanted.split():
                    wrong.append(f"{cell['id']} shows {shown!r} instead of {wanted!r}")
    finally:
        os.chdir(before)
    return wrong


def shown_by(code: str, space: dict[str, Any]) -> str:
    """Execute a cell; the text that a notebook shows below it."""
    body = ast.parse(code).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as screen:
        exec(compile(ast.Module(body, []), "cell", "exec"), space)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), space)  # noqa: S307 (our own pages)
            if value is not None:
                print(repr(value))
    return screen.getvalue()


def main() -> int:
    """Run from the command line; the exit code says whether the pages are right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=", ".join(PAGES))
    for name in parser.parse_args().pages or PAGES:
        made = notebook(name)
        with tempfile.TemporaryDirectory() as folder:
            if wrong := run(made, Path(folder)):
                print(*wrong, sep="\n", file=sys.stderr)
                return 1
            shutil.copy(Path(folder) / f"{name}.png", HERE)
        (HERE / f"{name}.ipynb").write_text(text_of(made))
        print(f"wrote docs/tutorial/{name}.png and {name}.ipynb")
    return 0


if __name__ == "__main__":
    sys.exit(main())
