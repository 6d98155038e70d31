"""The bounds on rounding errors of a layer, against the same derivation written down a second time.

No network can show that a bound is large enough: rounding errors are rarely as bad as they may be. So every
term is compared here with what the errors of one affine map and of one sum give.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numba.core.caching import NullCache

from hardmax.compiling import kernel
from hardmax.regions.engine import layer_kernels as k

TABLE_OF = {  # kind, scores, outputs
    "units": (k.FOLD, 0, 0),
    "units with rows as they enter": (k.FOLD, -1, 0),
    "heads": (k.WALL, 0, 0),
    "heads on coordinates": (k.WALL, -1, 0),
    "maxima": (k.WALL, 0, -1),
    "affine": (k.AFFINE, 0, 0),
    "shifts": (k.AFFINE, -1, 0),
}


@kernel
def bounds_of(table, f, e, y_na, y_nc, z_na, z_nc):
    k.bound_errors(table, 0, f, e, y_na, y_nc, z_na, z_nc)


@kernel
def values_of(columns, e, z_na, z_nc):
    k.bound_values(columns, e, z_na, z_nc)


@kernel
def norm_of(total, numbers):
    return k.norm_above(total, numbers, 0, numbers.shape[0])


for _kernel in (bounds_of, values_of, norm_of):
    _kernel._cache = NullCache()  # the stamp of a cache here would not see edits of the sources


def through(row, spectral, absolute, gamma, largest, norm, error, size):
    """M y + b with y off by ``error`` and as long as ``size``: errors of an entry, and of all in 2-norm.

    An entry takes over |M_i| |error|; products and sums of |M_i| |y| and |b_i| are rounded up to gamma.
    """
    return (
        row * error + gamma * row * size + gamma * largest,
        spectral * error + gamma * absolute * size + gamma * norm,
    )


def expected(kind, has_matrix, outputs, skip, f, entry, error, size, rows, constant):
    """Errors of scores and of what leaves, of an entry and in 2-norm; constants have biases and offsets."""
    biases = (f[k.B_MAX], f[k.B_NORM]) if constant else (0.0, 0.0)
    offsets = (f[k.O_MAX], f[k.O_NORM]) if constant else (0.0, 0.0)
    if has_matrix:
        scores = through(f[k.RHO], f[k.SIGMA], f[k.SIGMA_ABS], f[k.GAMMA], *biases, error, size)
    else:  # a copy is exact, a bias is one sum: of an entry, and of all
        rounded = f[k.GAMMA] if constant else 0.0
        scores = (entry + rounded * (size + biases[0]), error + rounded * (size + biases[1]))
    norms = f[k.RHO_OUT], f[k.SIGMA_OUT], f[k.SIGMA_ABS_OUT], f[k.GAMMA_OUT]
    added = f[k.GAMMA_OUT] * size
    if kind == k.FOLD:
        leaving = np.array(through(*norms, *offsets, scores[1], rows))
        if skip:
            leaving += [entry + added, error + added]
    elif kind == k.AFFINE:
        leaving = np.array(scores)
    elif outputs < 0:  # the winning scores leave, beside what entered
        leaving = np.array([max(scores[0], entry), scores[1] + error]) if skip else np.array(scores)
    else:  # values of keys are constants: a mean of them and, with a skip, a sum
        leaving = f[k.GAMMA_OUT] * np.array(offsets)
        if skip:
            leaving += [entry, error]
            leaving += added if constant else 0.0
    kept = size if skip else 0.0
    steps = [norms[0] * rows + offsets[0] + kept, norms[2] * rows + offsets[1] + kept]
    return scores, leaving, 2.0 * k.UNIT * np.array(steps)


@pytest.mark.parametrize("name", TABLE_OF)
@pytest.mark.parametrize("skip", [0, 1])
def test_bounds_have_every_term_of_the_derivation(name, skip):
    kind, scores, outputs = TABLE_OF[name]
    table = np.zeros((1, k.ROW), np.int64)
    for column, value in ((k.KIND, kind), (k.SKIP, skip), (k.SCORES, scores), (k.OUTPUTS, outputs)):
        table[0, column] = value
    rng = np.random.default_rng(0)
    for loud, _ in product(range(12), range(10)):
        # one norm is much larger than the others, so that no term hides behind another
        f = rng.uniform(0.5, 2.0, 12)
        f[loud] *= 1e6
        e = np.full(k.ERRORS, np.nan)
        e[:4] = rng.uniform(0.5, 2.0, 4) * 10.0 ** rng.integers(-6, 7, 4)
        y_na, y_nc, z_na, z_nc = rng.uniform(0.5, 2.0, 4) * 10.0 ** rng.integers(-6, 7, 4)
        bounds_of(table, f, e, y_na, y_nc, z_na, z_nc)
        for constant, entry, error, size, rows in (
            (False, e[k.DA], e[k.EA], y_na, z_na),
            (True, e[k.DC], e[k.EC], y_nc, z_nc),
        ):
            found = e[[k.RC, k.NEXT_DC, k.NEXT_EC] if constant else [k.RA, k.NEXT_DA, k.NEXT_EA]]
            of_scores, leaving, steps = expected(
                kind, scores >= 0, outputs, skip, f, entry, error, size, rows, constant
            )
            assert found == pytest.approx([of_scores[0], *leaving], rel=1e-12)
            if kind == k.FOLD:
                found = e[[k.STEP_DC, k.STEP_EC] if constant else [k.STEP_DA, k.STEP_EA]]
                assert found == pytest.approx(steps, rel=1e-12)


def test_values_are_as_large_and_as_wrong_as_their_rows_allow():
    """A sum of D products is wrong by its rows, and by D + 2 roundings."""
    rng = np.random.default_rng(1)
    for columns in (2, 3, 7):
        e = np.full(k.ERRORS, np.nan)
        e[[k.RA, k.RC]] = ra, rc = rng.uniform(0.5, 2.0, 2) * 10.0 ** rng.integers(-20, -10, 2)
        z_na, z_nc = rng.uniform(0.5, 2.0, 2)
        values_of(columns, e, z_na, z_nc)
        assert e[[k.A_MAX, k.C_MAX]] == pytest.approx([z_na + ra, z_nc + rc], rel=1e-15)
        rounded = (columns + 2) * k.UNIT
        assert e[[k.T_A, k.T_C]] == pytest.approx([ra + rounded * z_na, rc + rounded * z_nc], rel=1e-12)


def test_norms_are_rounded_up_and_infinite_where_squares_prove_nothing():
    for numbers in ([3.0, 4.0], [0.1] * 7, [1e-130, 1e-131], [1e138], [0.0, 0.0]):
        a = np.array(numbers)
        exact = float(np.linalg.norm(a))
        assert exact <= norm_of(float(a @ a), a) <= 1.001 * exact
    for numbers in ([1e-200, 0.0], [5e-324], [1e160], [1e308, 1.0]):
        a = np.array(numbers)
        with np.errstate(over="ignore"):
            assert norm_of(float(a @ a), a) == np.inf
