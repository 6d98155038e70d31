"""Wrong cores against the tests that must notice: `python tests/scripts/core_mutants.py`.

A mutant is one change in one function of the core on which all exact counts rest: the entry into layers and
its error bounds, the ladder of floats, double-doubles and primes, the proofs that a number is zero, the
certificates of linear programs, and the merging of cells into regions. Some are written by hand (a prime too
few, a bound halved); the others are drawn from all comparisons, sums, products, constants and conditions of
the functions named in ``CORE``, with a seed.

All of them stand in one copy of the sources, which is compiled once; a number in the environment chooses the
one in force. For each, tests that are part of `make test` run until one fails. They first run with no mutant
in force, which must pass and gives a time to compare with. A mutant that takes twice as much time of the
processor, and a minute more, is stopped and counts as caught, by the limit: a proof that accepts too much
can send an engine in circles.

    python tests/scripts/core_mutants.py --jobs 2              # all of them: hours, resumable
    python tests/scripts/core_mutants.py --only sign_kernels   # parts of names
    python tests/scripts/core_mutants.py --table               # what the record says

``docs/results/mutants.json`` keeps what became of every mutant of the sources as they are; a run that was
ended goes on from there, and tries those that survived again.

The exit code is 1 unless at least 95 % are caught.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import math
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import records

RECORD = records.RESULTS / "mutants.json"
ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "hardmax"
LADDER = "regions/engine/sign_kernels.py"
TWINS = "regions/engine/twin_kernels.py"
LINE = "regions/segment/sign_kernels.py"
WHOLE = "regions/search/integer_kernels.py"
DEPENDENCE = "regions/search/dependence_kernels.py"
ENTRY = "regions/engine/layer_kernels.py"
PAIRS = "exact/double_double_kernels.py"
PROGRAMS = "geometry/feasibility/linear_programs.py"
RATIONAL = "geometry/feasibility/rational_programs.py"
MERGING = "regions/maps/merging.py"
EXACT_MAPS = "regions/maps/exact_maps.py"
MAPS = "regions/maps/map_kernels.py"

REGIONS = "tests/unit/regions"
ORACLES = "tests/oracles"
TESTS = {
    "plane": [f"{REGIONS}/test_signs.py", "-k",
              "(but_one or dependent or at_vertices) and not -1] and not 3] and not rationals[4]"],
    "line": [f"{REGIONS}/test_signs.py", "-k", "but_one and -1]"],
    "lines": [
        f"{REGIONS}/test_segment.py",
        f"{REGIONS}/test_signs.py",
        f"{ORACLES}/test_structured_properties.py",
    ],
    "ties": [f"{REGIONS}/test_tied_keys.py", "-k", "denominators and (-2] or several_heads)"],
    "search": [f"{REGIONS}/test_search_programs.py", "-k", "prime or prove or exact_up or taken_for_equal"],
    "whole": [f"{REGIONS}/test_tied_keys.py", "-k", "whole_numbers"],
    "engines": [
        f"{REGIONS}/test_error_bounds.py",
        f"{REGIONS}/test_plane_arithmetic.py",
        f"{ORACLES}/test_regions_properties.py",
        f"{ORACLES}/test_structured_properties.py",
        f"{ORACLES}/test_space_properties.py",
        f"{REGIONS}/test_signs.py",
        f"{REGIONS}/test_tied_keys.py",
        f"{REGIONS}/test_segment.py",
        f"{REGIONS}/test_range_of_floats.py",
        f"{REGIONS}/test_extreme_numbers.py",
        f"{REGIONS}/test_search_programs.py",
        f"{REGIONS}/test_search.py",
    ],
    "searching": [
        f"{REGIONS}/test_search_programs.py",
        f"{REGIONS}/test_search.py",
        f"{REGIONS}/test_tied_keys.py",
        f"{ORACLES}/test_structured_properties.py",
        f"{ORACLES}/test_space_properties.py",
    ],
    "programs": [
        "tests/unit/geometry",
        f"{ORACLES}/test_minkowski_oracles.py",
        f"{ORACLES}/test_power_diagram_oracles.py",
    ],
    "maps": [
        f"{REGIONS}/test_merging.py",
        f"{REGIONS}/test_exact_maps.py",
        f"{REGIONS}/test_maps_any_dimension.py",
        f"{REGIONS}/test_regions_examples.py",
        f"{REGIONS}/test_verification.py",
        f"{ORACLES}/test_regions_properties.py",
        f"{ORACLES}/test_structured_properties.py",
    ],
}  # fmt: skip

CORE: dict[str, tuple[str, int, str]] = {
    # file: tests, how many are drawn, functions (all of them where none is named)
    ENTRY: (
        "engines",
        40,
        "rows_of sparse_rows_of squares shifted_squares norm_above largest_norm enter "
        "bound_errors bound_scores bound_values bound_leaving leave leave_units given_units "
        "add_units add_sparse_units",
    ),
    LADDER: (
        "engines",
        40,
        "_row_mod _row_pairs _add_unit_mod _add_unit_pairs _difference_mod _difference_pairs "
        "_named_mod _named_pairs _ray_mod _ray_pairs _norms _bits zero_at pair_sign_at sign_at "
        "_proven_zero _proven_multiple multiple_of vanishes agree",
    ),
    TWINS: (
        "engines",
        15,
        "add_twin twin followed share_of has_twins add_output common_multiple mean_bits mean_multiple",
    ),
    PAIRS: (
        "engines",
        12,
        "_two_sum _two_product add multiply quotient products dot sparse_dot",
    ),
    WHOLE: (
        "searching",
        15,
        "largest mark_exact leave_exactly whole_number same_key is_zero whole_row",
    ),
    DEPENDENCE: (
        "searching",
        20,
        "bound_row invert whole power rank_at_most dependent_as_integers combination never_negative recedes",
    ),
    PROGRAMS: (
        "programs",
        15,
        "certify_zero_kernel _wins_surely _surely_positive settle_keys_kernel",
    ),
    RATIONAL: (
        "programs",
        15,
        "separate_exactly convex_weights settle smallest _shrink_to_inside _primitive "
        "_smallest_affine_weights _independent separate _not_positive",
    ),
    MERGING: ("maps", 15, ""),
    EXACT_MAPS: ("maps", 15, ""),
}


LIMIT, CRASH = "the limit", "no test, a crash"
WAITING = 20.0  # by the clock, as a multiple of the limit of processor time

# Why nothing is wrong with a mutant that no test notices.
HARMLESS: dict[str, str] = {}


class Mutant(NamedTuple):
    name: str
    file: str
    before: str
    after: str
    tests: str


BY_HAND = [
    Mutant("vertices: one prime fewer", LADDER, "known = -2.0 ", "known = 21.9 ", "plane"),
    Mutant("vertices: bound halved", LADDER, "    if not (bits < 1e6):\n        return OPEN\n    known",
           "    bits *= 0.5\n    if not (bits < 1e6):\n        return OPEN\n    known", "plane"),
    Mutant("vertices: no denominators", LADDER,
           "bits += rungs.denominators[layer] + state.errors[layer, MEANS]", "bits += 0.0", "plane"),
    Mutant("vertices: dependent facets accepted", LADDER, "known > bits and independent",
           "known > bits", "plane"),
    Mutant("zero rows: one prime fewer", LADDER, "bits = 2.0 + _bits(most) + denominator\n",
           "bits = 2.0 + _bits(most) + denominator - modulo.BITS\n", "plane"),
    Mutant("zero rows: bound halved", LADDER, "bits = 2.0 + _bits(most) + denominator\n",
           "bits = 0.5 * (2.0 + _bits(most) + denominator)\n", "plane"),
    Mutant("zero rows: one coordinate too few", LADDER,
           "        for c in range(D):\n            z = here.z_at + c * here.rows\n            value",
           "        for c in range(D - 1):\n            z = here.z_at + c * here.rows\n            value",
           "plane"),
    Mutant("twins: one prime fewer", LADDER, "bits = 2.0 + _bits(most) + 2.0 * denominator",
           "bits = 2.0 + _bits(most) + 2.0 * denominator - modulo.BITS", "plane"),
    Mutant("twins: bound halved", LADDER, "bits = 2.0 + _bits(most) + 2.0 * denominator",
           "bits = 0.5 * (2.0 + _bits(most) + 2.0 * denominator)", "plane"),
    Mutant("twins: one denominator", LADDER, "bits = 2.0 + _bits(most) + 2.0 * denominator",
           "bits = 2.0 + _bits(most) + denominator\n", "plane"),
    Mutant("tied keys: no shares in denominators", TWINS, "return bits + math.log2(float(common)) + 1e-9",
           "return 0.0", "ties"),
    Mutant("tied keys: bits of shares halved", TWINS, "return bits + math.log2(float(common)) + 1e-9",
           "return 0.5 * (bits + math.log2(float(common)))", "ties"),
    Mutant("tied keys: one prime fewer", LADDER, "bits = 2.0 + _bits(most) + denominator\n",
           "bits = 2.0 + _bits(most) + denominator - modulo.BITS\n", "ties"),
    Mutant("line: one prime fewer", LADDER, "known = -2.0 ", "known = 21.9 ", "line"),
    Mutant("line: bound of vertices halved", LADDER,
           "    if not (bits < 1e6):\n        return OPEN\n    known",
           "    bits *= 0.5\n    if not (bits < 1e6):\n        return OPEN\n    known", "line"),
    Mutant("line: bound of zero rows halved", LADDER, "bits = 2.0 + _bits(most) + denominator\n",
           "bits = 0.5 * (2.0 + _bits(most) + denominator)\n", "line"),
    Mutant("line: values at places halved", LINE,
           "    t = alpha * (abs(s) + e) + kappa + abs(a) * e + 5.0 * UNIT * (size_a * abs(s) + size_c)\n",
           "    t = 1e-3 * (alpha * (abs(s) + e) + kappa)\n", "lines"),
    Mutant("search: one prime fewer", DEPENDENCE, "while bits > 0.0:", "while bits > PRIME_BITS:", "search"),
    Mutant("search: bound halved", DEPENDENCE, "bits += 0.5 * np.log2(square) + 1e-6",
           "bits += 0.25 * np.log2(square)", "search"),
    Mutant("search: one rank more", DEPENDENCE, "if rank == most:", "if rank == most + 1:", "search"),
    Mutant("search: rows nearly whole", WHOLE, "+ rounding < 0.49", "+ rounding < 0.98", "whole"),
    Mutant("search: no last rounding", WHOLE, "3.0 * UNIT * abs(found)", "0.0 * abs(found)", "whole"),
    Mutant("search: one digit more", WHOLE, "DIGITS = 2.0**53", "DIGITS = 2.0**54", "search"),
    Mutant("search: no shares of tied keys", WHOLE, "multiple = e[MULTIPLE] * u[DENOMINATOR]",
           "multiple = min(e[MULTIPLE], 1.0) * u[DENOMINATOR]", "whole"),
    Mutant("search: no denominators", WHOLE, "multiple = e[MULTIPLE] * u[DENOMINATOR]",
           "multiple = e[MULTIPLE]", "whole"),

]  # fmt: skip


# Drawn mutants ------------------------------------------------------------------------------------------


class Change(NamedTuple):
    """A part of a source, as offsets of characters, and what stands there instead."""

    begin: int
    end: int
    text: str


_ORDERS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}


def _turned(node: ast.Compare, text: str) -> Iterator[str]:
    """The comparison with its border moved, and the opposite one."""
    left, right, order = ast.unparse(node.left), ast.unparse(node.comparators[0]), type(node.ops[0])
    if order in _ORDERS:
        yield f"({left} {_ORDERS[order]} {right})"
    if order not in (ast.Eq, ast.NotEq):
        yield f"(not {text})"


def _changed(node: ast.AST, text: str) -> Iterator[str]:
    """What may stand in place of an expression: nearly the same, and wrong."""
    match node:
        case ast.Compare(ops=[_]):
            yield from _turned(node, text)
        case ast.BoolOp():
            parts = [ast.unparse(value) for value in node.values]
            word = " or " if isinstance(node.op, ast.And) else " and "
            yield f"({word.join(parts)})"
            yield f"({parts[0]})"
        case ast.UnaryOp(op=ast.Not()):
            yield f"({ast.unparse(node.operand)})"
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            left, right = ast.unparse(node.left), ast.unparse(node.right)
            yield f"({left} {'-' if isinstance(node.op, ast.Add) else '+'} ({right}))"
            yield f"({left})"
        case ast.BinOp(op=ast.Mult()):
            yield f"({ast.unparse(node.left)})"
            # half of it, unless it may be an index
            is_float = re.search(r"\d\.|UNIT", text)
            yield f"(0.5 * {text})" if is_float else f"({ast.unparse(node.right)})"
        case ast.Constant(value=bool()):
            yield str(not node.value)
        case ast.Constant(value=int()):
            yield f"{node.value + 1}"
        case ast.Constant(value=float()):
            yield f"{0.5 * node.value}"


def changes(text: str, functions: tuple[str, ...]) -> list[Change]:
    """Every change of the named functions of a source, or of all; signatures and docstrings stay."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef) or (functions and function.name not in functions):
            continue
        for statement in function.body:
            if isinstance(statement, ast.Raise) or (
                isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            ):
                continue
            for node in ast.walk(statement):
                if isinstance(node, ast.expr) and text.isascii():
                    begin = starts[node.lineno - 1] + node.col_offset
                    end = starts[node.end_lineno - 1] + node.end_col_offset
                    found += [Change(begin, end, new) for new in _changed(node, text[begin:end])]
    return sorted({change for change in found if change.text != text[change.begin : change.end]})


def drawn(seed: int) -> Iterator[Mutant]:
    """The mutants of ``CORE``, each named by where it is and what changes."""
    for file, (tests, count, names) in CORE.items():
        functions = tuple(names.split())
        text = (SOURCES / file).read_text()
        missing = [name for name in functions if f"def {name}(" not in text]
        if missing:
            raise SystemExit(f"{file} has no {missing[0]}.")
        some = changes(text, functions)
        for change in random.Random(f"{seed} {file}").sample(some, min(count, len(some))):
            line = text.count("\n", 0, change.begin) + 1
            was = " ".join(text[change.begin : change.end].split())
            name = f"{file}:{line}: {was} -> {change.text}"
            yield Mutant(name, file, text, text[: change.begin] + change.text + text[change.end :], tests)


# Weaving ------------------------------------------------------------------------------------------------

# Compiling the kernels takes minutes, running the tests seconds. So all mutants go into one copy of the
# sources, and a number in the environment chooses one when the program runs.
CHOOSING = """
import ctypes
import mmap
import os

from numba import types
from numba.extending import intrinsic, overload

MUTANT = int(os.environ.get("HARDMAX_MUTANT", "0"))

# at a fixed address, which compiled kernels know although they outlive the process
ADDRESS, FIXED = 0x100000000000, 0x100000
_libc = ctypes.CDLL(None)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *3 * [ctypes.c_int], ctypes.c_long]
_flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | FIXED
assert _libc.mmap(ADDRESS, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE, _flags, -1, 0) == ADDRESS
ctypes.c_int64.from_address(ADDRESS).value = MUTANT


@intrinsic
def _load(typing_context):
    def generate(context, builder, signature, arguments):
        integer = context.get_value_type(types.int64)
        return builder.load(builder.inttoptr(integer(ADDRESS), integer.as_pointer()))

    return types.int64(), generate


def mutant_in_force():
    return MUTANT


@overload(mutant_in_force)
def _():
    return lambda: _load()
"""


INSIDE = ("body", "orelse", "finalbody")


def statements_of(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements inside a statement."""
    for field in INSIDE:
        if isinstance(inner := getattr(node, field, None), list):
            yield inner


def alike(one: ast.AST, other: ast.AST) -> bool:
    return ast.dump(one) == ast.dump(other)


def headless(node: ast.AST) -> str:
    """A statement without the statements inside it."""
    fields = {name: value for name, value in ast.iter_fields(node) if name not in INSIDE}
    return type(node).__name__ + ast.dump(type(node)(**fields))


def difference(old: list[ast.stmt], new: list[ast.stmt]) -> list[tuple[ast.stmt, list[ast.stmt]]]:
    """The smallest statements of ``old`` that must be replaced to get ``new``, and by which."""
    shorter = min(len(old), len(new))
    begin = next((i for i in range(shorter) if not alike(old[i], new[i])), shorter)
    same = next((i for i in range(shorter - begin) if not alike(old[-1 - i], new[-1 - i])), shorter - begin)
    before, after = old[begin : len(old) - same], new[begin : len(new) - same]
    if len(before) == len(after) == 1 and headless(before[0]) == headless(after[0]):
        pairs = zip(statements_of(before[0]), statements_of(after[0]), strict=True)
        different = [(a, b) for a, b in pairs if list(map(ast.dump, a)) != list(map(ast.dump, b))]
        if len(different) == 1 and all(different[0]):
            return difference(*different[0])
    if not before:  # something was put in: it goes with a neighbour
        at = min(begin, len(old) - 1)
        return [(old[at], [old[at], *after] if at < begin else [*after, old[at]])]
    return [(before[0], after), *((each, []) for each in before[1:])]


def woven(text: str, mutants: dict[int, Mutant]) -> str:
    """A source with all its mutants, each in force where ``mutant_in_force()`` is its number."""
    tree = ast.parse(text)
    instead: dict[int, list[tuple[int, list[ast.stmt]]]] = {}
    for number, mutant in mutants.items():
        changed = ast.parse(text.replace(mutant.before, mutant.after))
        for statement, other in difference(tree.body, changed.body):
            instead.setdefault(id(statement), []).append((number, copy.deepcopy(other)))

    def weave(statements: list[ast.stmt]) -> list[ast.stmt]:
        result = []
        for statement in statements:
            for inner in statements_of(statement):
                inner[:] = weave(inner)
            node = statement
            for number, other in instead.get(id(statement), []):
                test = ast.parse(f"mutant_in_force() == {number}", mode="eval").body
                node = ast.If(test, other or [ast.Pass()], [node])
            result.append(node)
        return result

    tree.body = weave(tree.body)
    last = max(i for i, node in enumerate(tree.body) if isinstance(node, (ast.Import, ast.ImportFrom)))
    tree.body[last + 1 : last + 1] = ast.parse("from hardmax.mutants import mutant_in_force").body
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def weave_all(numbered: dict[int, Mutant], out: Path) -> Path:
    """A copy of the sources with all mutants in it."""
    texts = {file: (SOURCES / file).read_text() for file in sorted({m.file for m in numbered.values()})}
    for mutant in numbered.values():
        if texts[mutant.file].count(mutant.before) != 1:
            times = texts[mutant.file].count(mutant.before)
            raise SystemExit(f"{mutant.before!r} stands {times} times in {mutant.file}.")
    made = {"mutants.py": CHOOSING.encode()}
    for file, text in texts.items():
        made[file] = woven(text, {k: m for k, m in numbered.items() if m.file == file}).encode()
    # kernels that are compiled stay so for as long as the files that they come from are not written again
    for path in SOURCES.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            made.setdefault(str(path.relative_to(SOURCES)), path.read_bytes())
    for file, content in made.items():
        path = out / "woven" / "hardmax" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
    return (out / "woven").resolve()


# Running ------------------------------------------------------------------------------------------------


class DoesNotCompile(Exception):
    """Mutants whose types do not fit: nobody could build a program with them."""


def misfits_in(said: str) -> set[str]:
    """The mutants at which numba points: in each excerpt that a caret ends, the last one begun there."""
    excerpts = re.split(r"^E?\s*\^$", said, flags=re.MULTILINE)[:-1]
    begun = (
        re.findall(r"if mutant_in_force\(\) == (\d+):", each.rpartition('File "')[2]) for each in excerpts
    )
    return {numbers[-1] for numbers in begun if numbers}


def run(sources: Path, tests: str, number: int, limit: float | None) -> tuple[str, float]:
    """The first test that fails with a mutant in force (0: none), "" if none does; the processor's seconds.

    Limits are time of the processor, so that other work on the machine changes nothing; only a mutant that
    waits for ever is stopped by the clock.
    """
    environment = {**os.environ, "PYTHONPATH": str(sources), "HARDMAX_MUTANT": str(number)}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-m", "pytest", *TESTS[tests], "-q", "-x", "-m", "not slow"]
    command += ["-p", "no:cacheprovider"]

    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit) + 5))

    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT, preexec_fn=limited,
            start_new_session=True,
        )  # fmt: skip
        end = math.inf if limit is None else time.monotonic() + WAITING * limit
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.1)
        _, status, used = ended
        out.seek(0)
        said = out.read()
    process.returncode = code = os.waitstatus_to_exitcode(status)
    seconds = used.ru_utime + used.ru_stime
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return LIMIT, seconds
    if code == 0:
        return "", seconds
    if not number and (misfits := misfits_in(said)):
        raise DoesNotCompile(misfits)
    failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].partition(" - ")[0].partition(" ")[2] if failed else CRASH, seconds


def key_of(mutant: Mutant) -> str:
    """Names a mutant of these sources: another text of the file is another mutant."""
    text = (SOURCES / mutant.file).read_text()
    return hashlib.sha256(f"{text}\0{mutant.before}\0{mutant.after}\0{mutant.tests}".encode()).hexdigest()[
        :20
    ]


def table(record: dict[str, dict[str, str]]) -> str:
    """What was caught, file by file, and every survivor with the reason why it is harmless."""
    lines: list[tuple[object, ...]] = []
    for file in sorted({entry["file"] for entry in record.values()}):
        failed = [entry["failed"] for entry in record.values() if entry["file"] == file]
        odd = sum(each in (LIMIT, CRASH) for each in failed)
        lines.append((f"`{file}`", len(failed), sum(map(bool, failed)), odd, failed.count("")))
    sums = (sum(column) for column in zip(*(line[1:] for line in lines), strict=True))
    head = ("file", "mutants", "caught", "of these by the limit or a crash", "survived")
    survivors = [entry["name"] for entry in record.values() if not entry["failed"]]
    said = [f"- `{name}`: {HARMLESS.get(name, 'not explained.')}" for name in survivors]
    return "\n".join([records.rows(head, *lines, ("all", *sums)), *(["", *said] if said else [])])


def measure_usual(sources: Path, groups: set[str], usual: dict[str, float]) -> None:
    """How long tests take with no mutant in force; they must pass. Compiles what they use.

    The groups that are measured already are left out; those whose mutants are compiled last come first.
    """
    for tests in sorted(groups - usual.keys(), reverse=True):
        for what in ("compiling", "usual"):
            failed, usual[tests] = run(sources, tests, 0, None)
            if failed:
                raise SystemExit(f"{tests}: {failed} fails although no mutant is chosen.")
            print(f"{usual[tests]:5.0f} s  {what}: {tests}", flush=True)


def try_all(mutants: list[Mutant], record: dict[str, Any], options: argparse.Namespace) -> None:
    """Those that are not in the record; what it says of other sources is taken out."""
    known = {key_of(mutant) for mutant in mutants}
    if not options.only:
        for key in [key for key in record if key not in known]:
            del record[key]
    numbered, usual = dict(enumerate(mutants, 1)), dict[str, float]()
    left = numbered
    while {mutant.tests for mutant in left.values()} - usual.keys():
        sources = weave_all(numbered, options.out)
        left = {
            number: mutant
            for number, mutant in numbered.items()
            if not record.get(key_of(mutant), {}).get("failed")
        }
        try:
            measure_usual(sources, {mutant.tests for mutant in left.values()}, usual)
        except DoesNotCompile as misfits:
            for number in map(int, misfits.args[0]):
                print(f"does not compile: {numbered.pop(number).name}", flush=True)

    def judge(number: int) -> str:
        mutant = left[number]
        failed, seconds = run(sources, mutant.tests, number, 60.0 + 2.0 * usual[mutant.tests])
        print(
            f"{seconds:5.0f} s  {f'caught by {failed}' if failed else 'SURVIVED'}  {mutant.name}", flush=True
        )
        return failed

    with ThreadPoolExecutor(options.jobs) as pool:
        for number, failed in zip(left, pool.map(judge, left), strict=True):
            mutant = left[number]
            record[key_of(mutant)] = {"file": mutant.file, "name": mutant.name, "failed": failed}
            records.write(options.record, record)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--out", type=Path, default=Path("out/core_mutants"), help="folder of the sources")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--table", action="store_true", help="try nothing")
    options = parser.parse_args()
    mutants = [
        m
        for m in (*BY_HAND, *drawn(options.seed))
        if not options.only or any(o in m.name for o in options.only)
    ]
    record = records.read(options.record)
    if not options.table:
        try_all(mutants, record, options)
    print(table(record))
    failed = [entry["failed"] for entry in record.values()]
    return 0 if failed and sum(map(bool, failed)) >= 0.95 * len(failed) else 1


if __name__ == "__main__":
    sys.exit(main())
