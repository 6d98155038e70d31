"""P2 section 4, appendices C.1, C.3 and E, figures 3 to 5: information sets, and the cost of decoding them.

Figure 4 trains a head that reads fixed positions (mechanism III): one layer, one head, learned positions, the
sum of the first three of ten tokens. The attention of CLS should be 1/3 at each of these positions, whatever
the tokens are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.flow.architectures import Architecture
from hardmax.flow.costs.cost_law import cost_exponents
from hardmax.flow.information_sets import InformationFlow, information_sets
from hardmax.flow.plans import BilinearScore, GlobalRead, KeyScore, MaxPosition, Plan, Positions, Rule
from hardmax.papers import training_runs as runs
from hardmax.papers.ledger import (
    Certificate,
    Effort,
    Finding,
    Verdict,
    claim,
    earned,
    failing,
    holding,
    within,
)
from hardmax.papers.recipes import NOT_RUN, Comparison, Option, Outcome, Settings, compared, measured, recipe
from hardmax.targets import builtin

APPENDIX_E: list[list[Any]] = [[0, -1], ["7/10", "7/10"], [0, 1], ["-1/5", "-9/10"]]
"""The four tokens of the example in appendix E."""

_EXAMPLE = np.array([[[float(Fraction(entry)) for entry in row] for row in APPENDIX_E]])


@claim(
    "infoflow.law.versions", "Sections 4.2, 5.2 and 6, appendices A.3 and B.2", Verdict.INCONSISTENT
).states(
    "The cost of decoding an information set of M tokens is epsilon^-(Md/E - 1) (section 5.2), "
    "epsilon^-(Md/E) (A.3, 6), epsilon^-(M/E) (4.2, B.2).",
    hypotheses="T = 64 tokens of d = 4 numbers in width E = 36, read by one global head",
    computation="the exponents as fractions",
    correction="Used here: max(M d/E - 1, 0), labelled law, with the upper M d/E beside it. Section 4.2 "
    "takes its T/E from Yu et al. (2026), whose abstract alone was at hand.",
)
def _versions(effort: Effort) -> Finding:
    T, d, E = 64, 4, 36
    exponents = cost_exponents(T, d, E).versions
    different = set(exponents.values())
    words = ", ".join(f"{name} {float(value):.3f}" for name, value in exponents.items())
    return earned(
        Verdict.INCONSISTENT,
        len(different) > 1,
        f"T = 64, d = 4, E = 36, one head that reads everything: {words}",
        exponents,
        Certificate(
            "exponents",
            {"tokens": T, "d": d, "width": E},
            {
                "section 5.2": exponents["law"],
                "appendix A.3, section 6": exponents["upper"],
                "section 4.2, appendix B.2": exponents["appendix_b"],
            },
        ),
    )


@claim("infoflow.if.appe", "Appendix E, figure 5", Verdict.MISPRINT).states(
    "With the least inner product as score, the argmax positions are 3, 4, 1, 3 and CLS ends with {1, 3}.",
    hypotheses="the four tokens of the example; the lowest position wins a tie",
    computation="both layers in fractions, and by the simulator",
    correction="True for the negated score; as printed the argmax is 1, 2, 3, 1 and CLS ends with {1}.",
)
def _appendix_e(effort: Effort) -> Finding:
    tokens = [[Fraction(entry) for entry in row] for row in APPENDIX_E]
    printed, negated = (_small_flow(tokens, sign) for sign in (1, -1))
    least = min(_dot(a, b) for a in tokens for b in tokens)
    active = {t for t, a in enumerate(tokens) if any(_dot(a, b) == least for b in tokens)}
    simulated = set(np.flatnonzero(_simulated(-1.0).sets()[0]).tolist())
    agrees = simulated == negated[2] and negated[0] == [2, 3, 0, 2]  # what the paper prints, from 0
    return earned(
        Verdict.MISPRINT,
        not active <= printed[2] and active <= negated[2] and agrees,
        f"the printed score (least product) has its argmax at {names_of(printed[0])}, and CLS ends with "
        f"{_set(printed[2])}; with the other sign the argmax is {names_of(negated[0])} as printed, and CLS "
        f"ends with {_set(negated[2])} = I_F",
        {"printed": printed[0], "negated": negated[0]},
        Certificate(
            "information_sets",
            {"tokens": APPENDIX_E},
            {"printed": sorted(printed[2]), "negated": sorted(negated[2])},
        ),
    )


def _small_flow(
    tokens: Sequence[Sequence[Fraction]], sign: int
) -> tuple[list[int], list[set[int]], set[int]]:
    """Appendix E in fractions, with both scores multiplied by ``sign``: winners, sets, and what CLS holds."""

    def dot(s: int, t: int) -> Fraction:
        return _dot(tokens[s], tokens[t])

    T = range(len(tokens))
    winners = [max(T, key=lambda s: (sign * dot(s, t), -s)) for t in T]
    sets = [{t, winners[t]} for t in T]
    least = [min(dot(a, b) for a in held for b in held) for held in sets]
    best = max(T, key=lambda s: (sign * least[s], -s))
    return winners, sets, sets[best]


def _dot(x: Sequence[Fraction], y: Sequence[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(x, y, strict=True)), Fraction(0))


def _simulated(sign: float) -> InformationFlow:
    """Appendix E by the simulator, with both scores multiplied by ``sign``."""

    def least_product(keys: np.ndarray) -> np.ndarray:
        products = np.einsum("btid,btjd->btij", keys, keys)
        return np.asarray(sign * products.min(axis=(2, 3)))

    plan = Plan(
        [
            {"tokens": MaxPosition(BilinearScore(sign * np.eye(2)))},
            {"cls": MaxPosition(KeyScore(least_product))},
        ]
    )
    return information_sets(Architecture(4, 2, (1, 1), 4), plan, _EXAMPLE, keep="all")


@claim("infoflow.c1.two-layer", "Appendix C.1", Verdict.FAILS).states(
    "A two-layer transformer needs h_1 >= D heads for the retrieval of D maxima.",
    hypotheses="D = 6, T = 64, max-position retrieval",
    computation="information sets of a plan with heads (3, 3), on 1000 sequences uniform in [0, 1]^6; with "
    "(2, 3) the last maximum is read only by chance, with probability 1 - (63/64)^5 = 0.076",
    correction="CLS reads in both layers, so h_1 + h_2 >= D is enough.",
)
def _two_layers(effort: Effort) -> Finding:
    D, T = 6, 64
    target = builtin.retrieval(D)
    X = target.sample(4000 if effort == Effort.FULL else 1000, T, 0)
    shares = {}
    for heads in ((3, 3), (2, 3)):
        plan = _reading_in_turn(heads)
        flow = information_sets(Architecture(T, D, heads, 12), plan, X)
        shares[heads] = flow.learns(target).share
    tokens = np.random.default_rng(3).permuted(np.tile(np.arange(T), (D, 1)), axis=1).T
    tokens = np.roll(tokens, -int(tokens[:, 0].argmax()), axis=0)
    winners = tokens.argmax(axis=0).tolist()
    return failing(
        shares[3, 3] == 1.0,
        f"D = 6, T = 64, CLS reads h_1 maxima in layer 1 and h_2 in layer 2: (3, 3) learns on a share of "
        f"{shares[3, 3]:.3f}, (2, 3) on {shares[2, 3]:.3f}",
        {"(3, 3)": shares[3, 3], "(2, 3)": shares[2, 3]},
        Certificate("information_sets", {"tokens": tokens}, {"maxima": winners, "cls": sorted(set(winners))}),
    )


def _reading_in_turn(heads: tuple[int, int]) -> Plan:
    """CLS reads the maxima of the first coordinates in layer 1, of the next ones in layer 2."""

    def largest(i: int) -> MaxPosition:
        return MaxPosition(KeyScore(lambda keys: keys[:, :, 0, i]))

    layers = [range(heads[0]), range(heads[0], sum(heads))]
    return Plan([{"cls": [largest(i) for i in layer]} for layer in layers])


def names_of(positions: Sequence[int]) -> str:
    """``x1, x3``, as traces print positions."""
    return ", ".join(f"x{t + 1}" for t in positions)


def _set(positions: set[int]) -> str:
    return "{" + names_of(sorted(positions)) + "}"


def _same(quantity: str, paper: str, computed: str, claim: str = "") -> Comparison:
    return compared(quantity, paper, computed, paper == computed, claim=claim, exactly=True)


def positions_set(positions: Iterable[int]) -> str:
    """Positions counted from 1, as the paper prints them."""
    return "{" + ", ".join(str(int(t) + 1) for t in sorted(positions)) + "}"


# Figure 3
# ----------------------------------------------------------------------------------------------------------


@recipe(
    "infoflow.fig3",
    "The three ways in which a token reads others",
    Option("tokens", 4, "how many tokens", least=2),
    Option("reader", 2, "the token that reads, counted from 0", least=0),
    Option("winner", 0, "the key with the largest score", least=0),
    Option("positions", (0, 1), "the positions that rule 3 reads", least=0),
)
def _run_figure_3(settings: Settings) -> Outcome:
    from hardmax.plotting.flows import draw_rules

    T, token, winner = settings["tokens"], settings["reader"], settings["winner"]
    positions = tuple(settings["positions"])

    def wins(keys: np.ndarray) -> np.ndarray:
        places = np.broadcast_to(np.arange(keys.shape[1]), keys.shape[:2])
        return np.asarray(-np.abs(places - winner + 0.0))

    rules: dict[str, Rule] = {
        "max-position": MaxPosition(KeyScore(wins)),
        "global": GlobalRead(),
        "positions": Positions(positions, residual=False),
    }
    sets = {}
    for name, rule in rules.items():
        plan = Plan([{token: rule}, {}])
        flow = information_sets(Architecture(T, 1, (1, 1), 1), plan, np.zeros((1, T, 1)), keep="all")
        sets[name] = positions_set(np.flatnonzero(flow.sets(1, token)[0]).tolist())
    expected = {
        "max-position": positions_set({winner, token}),
        "global": positions_set(range(T)),
        "positions": positions_set(positions),
    }
    return Outcome(
        {"fig3": draw_rules(T, token, winner, positions)},
        {"sets": {"rule": list(sets), "information set": list(sets.values())}},
        tuple(_same(f"set of token {token + 1}, {name}", expected[name], sets[name]) for name in sets),
    )


# Figure 5
# ----------------------------------------------------------------------------------------------------------


@recipe("infoflow.fig5", "The example of appendix E, layer by layer")
def _run_figure_5(settings: Settings) -> Outcome:
    from hardmax.plotting.flows import draw_flow

    target = builtin.depth_separation(2)
    active = target.active_set(_EXAMPLE)
    flows = {"negated": _simulated(-1.0), "as printed": _simulated(1.0)}
    winners = [_winners(flow) for flow in flows.values()]
    sets = [_token_sets(flow) for flow in flows.values()]
    ends = [positions_set(np.flatnonzero(flow.sets()[0]).tolist()) for flow in flows.values()]
    claim = "infoflow.if.appe"
    comparisons = (
        _same("positions read in layer 1, score as printed", "3, 4, 1, 3", winners[1], claim),
        _same("positions read in layer 1, score negated", "3, 4, 1, 3", winners[0], claim),
        _same("sets after layer 1, score negated", "{1, 3} {2, 4} {1, 3} {3, 4}", sets[0], claim),
        _same("I(5, 2), score as printed", "{1, 3}", ends[1], claim),
        _same("I(5, 2), score negated", "{1, 3}", ends[0], claim),
        _same("I_F", "{1, 3}", positions_set(np.flatnonzero(active[0]).tolist()), claim),
    )
    notes = (
        "The printed scores have the wrong sign: their argmax is another one. The second layer ties between "
        "tokens 1 and 3.",
    )
    figures: dict[str, Any] = {
        name: draw_flow(flow, active=active[0]).figure
        for name, flow in (("fig5", flows["negated"]), ("fig5_as_printed", flows["as printed"]))
    }
    columns = {"layer 1 reads": winners, "sets after layer 1": sets, "CLS at the end": ends}
    return Outcome(figures, {"sets": {"score": list(flows), **columns}}, comparisons, notes)


def _winners(flow: InformationFlow) -> str:
    return ", ".join(str(int(s) + 1) for s in flow.routings[0][0, :-1, 0])


def _token_sets(flow: InformationFlow) -> str:
    return " ".join(positions_set(np.flatnonzero(row).tolist()) for row in flow.sets(1, "tokens")[0])


@claim("infoflow.fig4", "Figure 4, appendix C.3", Verdict.PROVED).states(
    "With positional encoding one head can give weight 1/3 to each of positions 1, 2, 3 and 0 to the others, "
    "whatever the tokens are.",
    hypotheses="T = 10; weight 0: below any given bound, since softmax weights are positive",
    computation="weights of a head that scores b on three positions and 0 elsewhere, in intervals",
    correction="That training finds this head is an experiment (hardmax reproduce infoflow.fig4); the model "
    "of appendix C.3 has a layer normalisation that section 3 does not have.",
    proof="advise.md#a-head-that-reads-fixed-positions",
)
def _positional(effort: Effort) -> Finding:
    leaks = {b: 7 * np.exp(-b) / (3 + 7 * np.exp(-b)) for b in (5, 10, 15)}
    rng = np.random.default_rng(0)
    content = rng.standard_normal((1000, 10))
    scores = np.where(np.arange(10) < 3, 20.0, 0.0)[None] + 0 * content
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    off = float(np.abs(weights[:, :3] - 1 / 3).max())
    return holding(
        leaks[5] > leaks[10] > leaks[15] and off < 1e-8,
        "the other seven positions together get "
        + ", ".join(f"{leak:.2g} at b = {b}" for b, leak in leaks.items())
        + f"; at b = 20 the three weights are 1/3, the difference {within(off, 1e-8)}",
        {"others": {str(b): float(leak) for b, leak in leaks.items()}},
        Certificate("positional_weights", {"score": 20}, {"each": "3.33333e-1", "others": "4.80935e-9"}),
    )


@claim("infoflow.rules", "Section 5.1, rules (1) to (3)", Verdict.CHECKED).states(
    "(not in the paper) Rule (3) leaves out the residual that (1) keeps; rule (2) brings back what an "
    "earlier layer has dropped.",
    own=True,
    hypotheses="T = 4, one head per layer; the architecture has x + attention in every layer",
    computation="the sets of both rules as printed, position by position, beside what the residual stream "
    "holds",
    correction="Add I(t, l) on the right of rule (3), and in rule (2) the union of the sets of layer l.",
)
def _rules(effort: Effort) -> Finding:
    T, chosen = 4, (0, 1)
    before = [{t} for t in range(T)]
    printed = [set().union(*(before[j] for j in chosen)) for _ in range(T)]  # rule (3): fixed positions 1, 2
    held = [after | before[t] for t, after in enumerate(printed)]
    lost = [t + 1 for t in range(T) if printed[t] != held[t]]
    pruned = [{0}] * T  # every token dropped all but position 1
    resurrected = set(range(T)) - set().union(*pruned)  # rule (2) says {1, ..., T}
    return holding(
        lost == [3, 4] and resurrected == {1, 2, 3},
        f"rule (3) with fixed positions 1, 2: tokens {', '.join(map(str, lost))} lose themselves, though the "
        f"residual holds them; after a layer that kept position 1 only, rule (2) still says {{1, ..., 4}}",
        {"lost": lost},
        by=Verdict.CHECKED,
    )


@claim("infoflow.pe.floor", "Section 4.2, mechanism III", Verdict.PROVED).states(
    "Reading fixed positions needs positional encoding.",
    hypotheses="independent tokens of one distribution, F = x(1) + x(2) + x(3), T = 10",
    computation="the error of the best permutation-invariant predictor, exact and sampled",
    proof="advise.md#without-positions-the-error-is-at-least-1---3t",
)
def _permutation_floor(effort: Effort) -> Finding:
    T, n = 10, 200_000 if effort == Effort.FULL else 40_000
    x = np.random.default_rng(0).standard_normal((n, T))
    wanted = x[:, :3].sum(axis=1)
    symmetric = 3 / T * x.sum(axis=1)
    squares = (wanted - symmetric) ** 2 / 3  # the variance of the target is 3
    measured, spread = float(squares.mean()), float(squares.std() / np.sqrt(n))
    floor, c = 1 - Fraction(3, T), Fraction(3, T)
    exact = (3 * (1 - c) ** 2 + (T - 3) * c**2) / 3  # of c times the sum of all tokens
    agree = exact == floor and abs(measured - float(floor)) < 4 * spread
    return holding(
        agree,
        f"T = 10: the best symmetric predictor has NMSE {exact} = 1 - 3/T; on {n} samples {measured:.3f}, "
        f"standard error {spread:.3f}",
        {"measured": measured, "floor": floor},
    )


_READ = (0, 1, 2)


@recipe(
    "infoflow.fig4",
    "A head that reads three fixed positions",
    Option("tokens", 10, "sequence length T", least=4),
    Option("d", 2, "dimension of a token", least=2),
    Option("d_model", 32, "width E (not stated)", least=1),
    Option("hidden", 0, "hidden width of the output block; 0 for twice the width (not stated)", least=0),
    Option("shown", 1000, "inputs whose attention is shown", least=1),
    *runs.training_options(
        (768_000, 2_560_000, 100_000_000),
        rates=((3e-3,), (1e-3, 3e-3), (1e-3,)),
        seeds=(1, 3, 3),
        batch=256,
        train_size=50_000,
        validation_size=10_000,
        beta=0.1767766952966369,  # 1/sqrt(32)
    ),
)
def _run_positions(settings: Settings) -> Outcome:
    from hardmax.plotting.trainings import draw_weights
    from hardmax.training.layout import TransformerShape

    T, d, width = settings["tokens"], settings["d"], settings["d_model"]
    shape = TransformerShape(
        n_tokens=T,
        d_token=d,
        widths=(width,),
        heads=(1,),
        hidden=(settings["hidden"] or 2 * width,),
        n_outputs=d,
        activation=settings["activation"],
        positions="additive",
        beta=settings["beta"],
        layer_norm=True,
        cls_position=True,
    )
    target = {"name": "positions", "positions": list(_READ), "d": d}
    trials = runs.sweep(settings, "one layer, one head", target, shape, schedule="cosine then constant")
    groups = runs.trainings(settings, {"one head": trials})
    group = groups["one head"]
    best = group.best
    X = settings.rng("shown").standard_normal((settings["shown"], T, d))
    weights = None if best is None else _weights(best[1], X)
    figures: dict[str, Any] = {}
    columns = ("mean", "deviation", "least", "most")
    table: dict[str, list[Any]] = {"position": list(range(1, T + 1)), **{c: [NOT_RUN] * T for c in columns}}
    if weights is not None:
        figures["fig4"] = draw_weights(weights, expected=1 / 3, title=f"F(X) = x(1) + x(2) + x(3), T = {T}")
        found = (weights.mean(axis=0), weights.std(axis=0), weights.min(axis=0), weights.max(axis=0))
        table |= {name: values.tolist() for name, values in zip(columns, found, strict=True)}
    return Outcome(
        figures,
        {"weights": table, "summary": runs.summary_table(groups), "runs": runs.runs_table(groups)},
        _rows(group, weights),
        (
            f"{settings['samples']:,} samples in batches of {settings['batch']}: half of them with a cosine, "
            f"half at 1e-4, as in the paper, which has 1000 epochs of 50,000 for each. {_rates(settings)}",
            f"d_model = {width}, hidden width {shape.hidden[0]}, beta = {settings['beta']:.4g}, "
            f"{settings['activation']} (not stated; the theory asks for a sigmoidal one). CLS attends to the "
            f"{T} inputs only.",
            "NMSE is MSE over variance; the variance of the sum of three standard normal tokens is 3 per "
            "coordinate.",
            runs.stuck_note(groups),
            *((runs.quick_note(settings),) if settings.profile == "quick" else ()),
        ),
    )


def _rates(settings: Settings) -> str:
    tried = ", ".join(f"{rate:g}" for rate in settings["rates"])
    same = "as in the paper" if settings["rates"] == (1e-3,) else "the paper has 0.001"
    return f"The cosine starts at the rate {tried}: {same}."


def _weights(result: Any, X: Any) -> Any:
    from hardmax.training.states import run_states

    first = run_states(result.shape, result.best_parameters, X)[0][0]
    return first.weights(first.cls_scores)[:, 0]


def _rows(group: runs.Group, weights: Any) -> tuple[Comparison, ...]:
    if weights is None:
        return tuple(
            measured(name, paper, NOT_RUN)
            for name, paper in (("attention at positions 1 to 3", "1/3 each"), ("attention elsewhere", "0"))
        )
    read, rest = weights[:, list(_READ)], np.delete(weights, _READ, axis=1)
    return (
        measured(
            "attention at positions 1 to 3, mean",
            "1/3 each",
            ", ".join(f"{value:.3f}" for value in read.mean(axis=0)),
        ),
        measured("attention at any other position, mean", "0", f"at most {rest.mean(axis=0).max():.4f}"),
        measured(
            "the same for all inputs", "yes", f"deviation over inputs at most {weights.std(axis=0).max():.4f}"
        ),
        measured("validation NMSE", "near zero", runs.spread(group.values)),
        measured("validation MSE", "near zero", runs.formatted(3 * min(group.values))),
    )
