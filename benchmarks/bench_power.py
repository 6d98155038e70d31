"""Power diagrams in high dimension: empty cells against HiGHS, locating points against the matrix product.

* 512 Gaussian keys in 64-d, each scaled by a uniform number: some lie inside the hull of the others. Ours
  decides every key and gives a witness or a certificate; the reference solves one warm-started HiGHS linear
  program per key. To save time HiGHS runs on a sample of 64 keys and its time is scaled up to 512.
* ``locate`` of a million queries; the reference is the product of queries and keys alone, in the same blocks.
"""

from __future__ import annotations

import time

from timing import Comparison, print_table, side_by_side, spell

import highspy  # isort: skip (the thread counts come first)
import numpy as np  # isort: skip

import hardmax as hm

N_KEYS, D = 512, 64
SAMPLE = 64
QUERIES = 1_000_000
BLOCK = 4096


def radial_keys(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N_KEYS, D)) * rng.uniform(size=(N_KEYS, 1))


class CombinationProgram:
    """Is key j a convex combination of the others? One model, warm-started from key to key.

    Minimise the weight of key j itself over ``w >= 0``, ``sum w = 1``, ``sum w_i a_i = a_j``: zero means
    that the cell is empty. Only the right-hand side and two costs change. Of the forms tried (this one, its
    feasibility version, its dual with one row per key; primal and dual simplex, with and without presolve)
    none was faster.
    """

    def __init__(self, keys: np.ndarray) -> None:
        self.keys = keys
        n_keys, d = keys.shape
        self.highs = highspy.Highs()
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("threads", 1)
        self.highs.setOptionValue("solver", "simplex")
        self.highs.setOptionValue(
            "simplex_strategy", 4
        )  # primal: twice as fast here as the default, the dual
        self.highs.setOptionValue("presolve", "off")
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = n_keys, d + 1
        program.col_cost_ = np.zeros(n_keys)
        program.col_lower_ = np.zeros(n_keys)
        program.col_upper_ = np.ones(n_keys)
        program.row_lower_ = program.row_upper_ = np.append(keys[0], 1.0)
        program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        program.a_matrix_.start_ = np.arange(n_keys + 1, dtype=np.int32) * (d + 1)
        program.a_matrix_.index_ = np.tile(np.arange(d + 1, dtype=np.int32), n_keys)
        program.a_matrix_.value_ = np.column_stack([keys, np.ones(n_keys)]).ravel()
        self.highs.passModel(program)
        self.current = 0
        self.rows = np.arange(d + 1, dtype=np.int32)

    def own_weight(self, j: int) -> float:
        self.highs.changeColCost(self.current, 0.0)
        self.highs.changeColCost(j, 1.0)
        self.current = j
        for row, value in enumerate(self.keys[j]):
            self.highs.changeRowBounds(row, value, value)
        self.highs.run()
        if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise SystemExit(f"HiGHS did not solve the program of key {j}: {self.highs.getModelStatus()}")
        return self.highs.getInfo().objective_function_value


def empty_cells() -> Comparison:
    keys = radial_keys()
    diagram = hm.attention_diagram(keys)  # also compiles
    empty = np.flatnonzero(~diagram.nonempty)
    sample = np.sort(np.random.default_rng(1).choice(N_KEYS, size=SAMPLE, replace=False))
    program = CombinationProgram(keys)
    program.own_weight(int(sample[-1]))  # a first solve, so that the timed ones start warm

    decisions: list[bool] = []

    def reference() -> None:
        decisions[:] = [program.own_weight(int(j)) > 0.5 for j in sample]

    def ours() -> None:
        built = hm.attention_diagram(keys)
        for j in np.flatnonzero(~built.nonempty):
            built.empty_certificate(int(j))

    spent_ours, spent = side_by_side(ours, reference, repeats=3, rounds=1)
    if decisions != diagram.nonempty[sample].tolist():
        raise SystemExit("HiGHS and hardmax disagree about which cells are empty")
    begin = time.process_time()
    for j in empty:
        _ = diagram.empty_certificate(int(j)).weights
    fractions = time.process_time() - begin
    note = (
        f"{len(empty)} of {N_KEYS} keys empty, each with its certified support; writing the weights out as "
        f"fractions takes {spell(fractions)} more; HiGHS timed on {SAMPLE} keys, scaled by {N_KEYS // SAMPLE}"
    )
    name = f"empty cells N={N_KEYS} d={D}"
    return Comparison(name, spent_ours, spent * (N_KEYS / SAMPLE), 50.0, note=note)


def location() -> Comparison:
    rng = np.random.default_rng(2)
    keys = rng.standard_normal((N_KEYS, D))
    queries = rng.standard_normal((QUERIES, D))
    diagram = hm.attention_diagram(keys)
    located = diagram.locate(queries[:BLOCK])
    if not np.array_equal(located, (queries[:BLOCK] @ keys.T).argmax(axis=1)):
        raise SystemExit("locate and argmax disagree")
    transposed = np.ascontiguousarray(keys.T)
    buffer = np.empty((BLOCK, N_KEYS))

    def product() -> None:
        for start in range(0, QUERIES, BLOCK):
            block = queries[start : start + BLOCK]
            np.matmul(block, transposed, out=buffer[: len(block)])

    product()
    ours, reference = side_by_side(lambda: diagram.locate(queries), product, repeats=1, rounds=3)
    note = f"reference: the matrix product alone, blocks of {BLOCK} queries into one buffer"
    return Comparison(
        f"locate {QUERIES:,} queries N={N_KEYS} d={D}", ours, reference, 2.0, at_most=True, note=note
    )


def run() -> list[Comparison]:
    return [empty_cells(), location()]


if __name__ == "__main__":
    print_table(run())
