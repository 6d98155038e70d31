"""Whatever stands where a number should: one sentence, exit code 2, at once."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from hardmax.cli import main

BIG = "1" + "0" * 40
LINES = {
    "bounds": "bounds --n-tokens 4 --heads 2 --d-model 3",
    "flow advise": "flow advise pairwise:2 --n-tokens 8 --samples 16",
    "flow estimate": "flow estimate pairwise:2 --n-tokens 8 --heads 2 --widths 8 --samples 16",
    "flow trace": "flow trace pairwise:2 --n-tokens 8 --heads 2",
    "flow trees": "flow trees pairwise:2 --n-tokens 8",
    "estimate": "estimate mlp:2,3,2,seed=0 --box -1 1 --samples 100 --time-limit 1",
    "stability": "stability --n-tokens 512 --margin 2 --temperature 0.125",
}


def options():
    """Every option of every command that takes a number."""

    def of(command, path):
        if isinstance(command, click.Group):
            for name in command.commands:
                yield from of(command.commands[name], [*path, name])
            return
        for option in command.params:
            if option.opts[0].startswith("--") and option.type.name.startswith(
                ("integer", "float", "number")
            ):
                yield " ".join(path), option.opts[0], option.nargs

    return sorted(of(main, []))


def ended(line, *more):
    result = CliRunner().invoke(main, [*line.split(), *more])
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize(("command", "option", "nargs"), options())
@pytest.mark.parametrize("text", ["1_000", "٣", "", "1.5e", "0x10"])
def test_a_text_that_is_no_number_is_refused(command, option, nargs, text):
    result = ended(command, option, *[text] * nargs)
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert option in result.stderr


@pytest.mark.parametrize("text", [BIG, "-1", "-" + BIG, "9223372036854775808", "2147483648"])
@pytest.mark.parametrize(("command", "option", "nargs"), [each for each in options() if each[0] in LINES])
def test_numbers_of_any_size_are_answered_or_refused_with_one_sentence(command, option, nargs, text):
    result = ended(LINES[command], option, *[text] * nargs)
    assert result.exit_code in (0, 2)
    assert result.exit_code == 0 or len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "line",
    [
        f"flow advise k-hop:{BIG} --n-tokens 8",
        "flow advise k-hop:² --n-tokens 8",
        f"flow advise k-hop:3 --n-tokens {BIG}",
        "flow advise pairwise:10 --n-tokens 8 --max-depth 40",
        f"flow trees retrieval:{BIG} --n-tokens 8",
        "flow trees pairwise:-1 --n-tokens 8",
        f"flow trees pairwise:2 --n-tokens {BIG}",
        f"flow trace pairwise:2 --n-tokens 8 --heads {BIG}",
        f"stability --network mlp:2,3,1,seed=0 --box -1 1 --temperature 0.1 --samples {BIG}",
    ],
)
def test_targets_and_heads_beyond_reason(line):
    result = ended(line)
    assert result.exit_code in (0, 2)
    if result.exit_code == 2:
        assert len(result.stderr.strip().splitlines()) == 1
