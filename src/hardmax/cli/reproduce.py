"""``hardmax reproduce``: redo a figure, table or example of the papers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hardmax.cli.numbers import TIME_LIMIT, WHOLE
from hardmax.cli.outputs import JSON, out_folder, print_json, print_table
from hardmax.errors import InvalidInputError

if TYPE_CHECKING:
    from hardmax.papers.recipes import Profile, Recipe, Reproduction


@click.command()
@click.argument("name", required=False)
@click.option("--list", "listing", is_flag=True, help="Show all recipes, or the options of NAME.")
@out_folder("The folder in which the folder NAME is made.", "out")
@click.option(
    "--profile",
    type=click.Choice(["quick", "medium", "paper"]),
    default="quick",
    show_default=True,
    help="How much is computed: seconds, minutes, or what the paper did.",
)
@click.option("--seed", type=WHOLE, default=0, show_default=True, help="Moves every random draw.")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="OPTION=VALUE",
    help="An option of the recipe; give it once per option. Lists are separated by commas.",
)
@TIME_LIMIT
@JSON
def reproduce(
    name: str | None,
    listing: bool,
    out: Path,
    profile: Profile,
    seed: int,
    assignments: Sequence[str],
    time_limit: float | None,
    as_json: bool,
) -> None:
    """Redo a figure, table or example of the papers.

    Writes DIR/NAME: the pictures (svg, png), the numbers (csv, numbers.json with settings, seed and
    versions) and comparison.md, which says for each number of the paper what was computed. What the paper
    leaves open is an option of the recipe.

    \b
    Examples:
      hardmax reproduce --list
      hardmax reproduce tropical.fig4
      hardmax reproduce tropical.fig6 --list
      hardmax reproduce tropical.fig6 --profile medium --seed 1 --set d_ff=16 --set box=4
    """
    from hardmax.papers.recipes import find_recipe, recipes
    from hardmax.papers.recipes import reproduce as run_recipe

    if name is None and not listing:
        raise InvalidInputError("NAME must be given; try hardmax reproduce --list to see all recipes.")
    if listing:
        chosen = list(recipes().values()) if name is None else [find_recipe(name)]
        if as_json:
            print_json([_description(recipe) for recipe in chosen])
        elif name is None:
            _print_names(chosen)
        else:
            _print_options(chosen[0])
        return
    done = run_recipe(
        str(name),
        out,
        profile,
        seed=seed,
        settings=_settings(assignments),
        time_limit=time_limit,
        progress=True if sys.stderr.isatty() else None,
    )
    click.echo(f"wrote {done.folder}", err=True)
    if as_json:
        print_json(done.to_dict())
    else:
        _print_comparison(done)


def _settings(assignments: Sequence[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for text in assignments:
        option, equals, value = text.partition("=")
        if not equals or not option.strip():
            raise InvalidInputError(f"--set must be OPTION=VALUE, but was {text!r}.")
        if option.strip() in settings:
            raise InvalidInputError(f"--set must name an option once, but {option.strip()} came twice.")
        settings[option.strip()] = value
    return settings


def _description(recipe: Recipe) -> dict[str, Any]:
    return {
        "name": recipe.name,
        "title": recipe.title,
        "options": [
            {
                "name": option.name,
                "default": option.default,
                "medium": option.value_in("medium"),
                "paper": option.value_in("paper"),
                "accepts": option.kind,
                "help": option.help,
            }
            for option in recipe.options
        ],
    }


def _print_names(chosen: Sequence[Recipe]) -> None:
    rows = [[recipe.name, recipe.title] for recipe in chosen]
    notes = ["hardmax reproduce NAME --list shows the options of a recipe."]
    columns = ["name", "what it shows"]
    print_table(f"{len(rows)} recipes", columns, rows, notes, most=len(rows))


def _print_options(recipe: Recipe) -> None:
    rows = [
        [
            option.name,
            *(_shown(option.value_in(profile)) for profile in ("quick", "medium", "paper")),
            option.help,
        ]
        for option in recipe.options
    ]
    columns = ["option", "quick", "medium", "paper", "meaning"]
    print_table(f"{recipe.name}: {recipe.title}", columns, rows)


def _print_comparison(done: Reproduction) -> None:
    rows = [[row.quantity, row.paper, row.computed, row.verdict, row.claim] for row in done.comparisons]
    columns = ["quantity", "paper", "computed", "verdict", "claim"]
    print_table(f"{done.name}: {done.title}", columns, rows, done.notes)


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
