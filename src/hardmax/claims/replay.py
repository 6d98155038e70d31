"""Check certificates of hardmax without hardmax: one file, nothing but the standard library.

    python replay.py certificate.json ...        files, or folders of them

A certificate is a JSON object {schema, kind, claim, statement, data, expected}. For its kind there is one
function ``check_<kind>(data)`` below that recomputes a value in exact arithmetic; the certificate is accepted
if that value is ``expected``. Exact numbers are integers or strings "p/q"; a string with "0x" is a float64 as
``float.hex`` writes it. Floating-point literals are refused, so nothing is rounded on the way.

Exit code 0: every certificate was accepted. 1: at least one was not. 2: a file is no certificate.
"""

import json
import sys
from fractions import Fraction
from pathlib import Path

SCHEMA = 1


class Rejected(Exception):
    """A certificate that does not show what it says."""


# What all kinds share
# ----------------------------------------------------------------------------------------------------------


def number(value):
    """An exact number: an integer, "p/q", or the hexadecimal form of a float."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise Rejected(f"{value!r} is no exact number")
    try:
        if isinstance(value, str) and "0x" in value:
            return Fraction(float.fromhex(value))
        return Fraction(value)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise Rejected(f"{value!r} is no exact number") from None


def natural(value):
    """An integer of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Rejected(f"{value!r} is no natural number")
    return value


def vector(values):
    """A list of exact numbers."""
    return [number(value) for value in values]


def matrix(rows):
    """A list of vectors of one length."""
    made = [vector(row) for row in rows]
    require(len({len(row) for row in made}) <= 1, "rows of different lengths")
    return made


def dot(a, b):
    """The inner product of two vectors of one length."""
    require(len(a) == len(b), "vectors of different lengths")
    return sum((p * q for p, q in zip(a, b, strict=True)), Fraction(0))


def text(value):
    """An exact number as certificates write it."""
    return int(value) if value.denominator == 1 else str(value)


def require(condition, why):
    """Reject the certificate unless the condition holds."""
    if not condition:
        raise Rejected(why)


# Claims of hardmax.claims.tropical_geometry
# ----------------------------------------------------------------------------------------------------------


def check_diagrams(data):
    """Which scores a.x + b of each diagram win on an open set.

    A winner has a point at which its score is larger than every other; a loser is at most a convex
    combination of the others everywhere. Every score must be one or the other.
    """
    return {"winning": [winning_scores(diagram) for diagram in data["diagrams"]]}


def winning_scores(diagram):
    """The numbers of the winners, each proven, and each of the others proven to lose."""
    rows = matrix(diagram["scores"])
    winners = {natural(int(j)): vector(point) for j, point in diagram["winners"].items()}
    losers = {natural(int(j)): vector(weights) for j, weights in diagram["losers"].items()}
    require(not set(winners) & set(losers), "a score both wins and loses")
    require(set(winners) | set(losers) == set(range(len(rows))), "a score is not accounted for")
    for j, point in winners.items():
        scores = [dot(row, [*point, 1]) for row in rows]
        require(
            all(scores[j] > s for l, s in enumerate(scores) if l != j), f"score {j} does not win at its point"
        )
    for j, weights in losers.items():
        require(
            len(weights) == len(rows) and weights[j] == 0, f"score {j} must be below a combination of others"
        )
        require(min(weights) >= 0 and sum(weights) == 1, f"no convex combination for score {j}")
        mixed = [dot(weights, column) for column in zip(*rows, strict=True)]
        require(
            mixed[:-1] == rows[j][:-1] and mixed[-1] >= rows[j][-1], f"score {j} is not below its combination"
        )
    return sorted(winners)


# Claims of hardmax.claims.tropical_counting
# ----------------------------------------------------------------------------------------------------------


def check_power(data):
    """An integer power, multiplied out."""
    base, exponent = natural(data["base"]), natural(data["exponent"])
    value = 1
    for _ in range(exponent):
        value *= base
    return {"value": value}


# Claims of hardmax.claims.tropical_temperature
# ----------------------------------------------------------------------------------------------------------


# Claims of hardmax.claims.tropical_experiments
# ----------------------------------------------------------------------------------------------------------


# Claims of hardmax.claims.infoflow_theorems
# ----------------------------------------------------------------------------------------------------------


# Claims of hardmax.claims.infoflow_flow
# ----------------------------------------------------------------------------------------------------------


# Claims of hardmax.claims.infoflow_tables
# ----------------------------------------------------------------------------------------------------------


# Reading certificates
# ----------------------------------------------------------------------------------------------------------


def value_of(kind, data):
    """What the function of ``kind`` computes from ``data``."""
    check = globals().get(f"check_{kind}") if isinstance(kind, str) else None
    require(callable(check), f"unknown kind {kind!r}")
    try:
        return check(data)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise Rejected(f"the data do not fit together ({type(error).__name__}: {error})") from None


def failure(record):
    """Why a certificate is not accepted, or None if it is."""
    if not isinstance(record, dict) or not {
        "schema",
        "kind",
        "claim",
        "statement",
        "data",
        "expected",
    } <= set(record):
        return "it is no certificate: schema, kind, claim, statement, data and expected are needed"
    if record["schema"] != SCHEMA:
        return f"its schema is {record['schema']!r}, this file reads schema {SCHEMA}"
    try:
        value = value_of(record["kind"], record["data"])
    except Rejected as reason:
        return str(reason)
    if json.dumps(value, sort_keys=True) != json.dumps(record["expected"], sort_keys=True):
        return f"computed {shortened(value)}, expected {shortened(record['expected'])}"
    return None


def shortened(value):
    """A value for one line of output."""
    line = json.dumps(value, sort_keys=True)
    return line if len(line) <= 200 else f"{line[:200]}..."


def no_floats(literal):
    """Refuse floating-point literals."""
    raise ValueError(f"{literal} is a floating-point literal")


def read(path):
    """The certificate in a file."""
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)  # region bounds have thousands of digits
    with open(path, encoding="utf-8") as file:
        return json.load(file, parse_float=no_floats, parse_constant=no_floats)


def files_in(arguments):
    """The files that are meant: folders stand for the JSON files in them."""
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            yield from sorted(path.glob("*.json"))
        else:
            yield path


def main(arguments):
    """Check every certificate, print a line for each, and return the exit code."""
    paths = list(files_in(arguments))
    if not paths:
        sys.stderr.write(__doc__)
        return 2
    code = 0
    for path in paths:
        try:
            record = read(path)
        except (OSError, ValueError, RecursionError) as error:
            sys.stdout.write(f"unreadable {path}: {error}\n")
            code = 2
            continue
        why = failure(record)
        claim = record.get("claim", path) if isinstance(record, dict) else path
        if why is None:
            sys.stdout.write(f"accepted   {claim}: {record['kind']} = {shortened(record['expected'])}\n")
        else:
            sys.stdout.write(f"REJECTED   {claim}: {why}\n")
            code = max(code, 1)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
