"""``hardmax verify``: does a property hold at every input of a network? With a certificate."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import click

import hardmax as hm
from hardmax.cli.networks import read_network
from hardmax.cli.numbers import NUMBER, REAL
from hardmax.cli.outputs import FILE, JSON, check_folder, counted, print_json
from hardmax.errors import CertificateError, InvalidInputError
from hardmax.verification import read_certificate

CODES = {"holds": 0, "violated": 1, "unknown": 3}


@click.command()
@click.argument("network", metavar="[NETWORK]", required=False)
@click.argument("property_text", metavar="[PROPERTY]", required=False)
@click.option("--box", nargs=2, type=NUMBER, metavar="LOW HIGH", help="Look in the cube [LOW, HIGH]^d.")
@click.option("--time-limit", type=REAL, metavar="S", help="Stop after this many seconds: unknown.")
@click.option("--certificate", type=FILE, metavar="FILE.json[.gz]", help="Write what proves the verdict.")
@click.option("--resume", is_flag=True, help="Go on from the certificate file of a search that was stopped.")
@click.option("--replay", type=FILE, metavar="FILE", help="Check a certificate; needs no network.")
@JSON
def verify(
    network: str | None,
    property_text: str | None,
    box: tuple[object, object] | None,
    time_limit: float | None,
    certificate: Path | None,
    resume: bool,
    replay: Path | None,
    as_json: bool,
) -> int:
    """Does a property hold at every input? Holds, violated or unknown, in exact arithmetic.

    NETWORK is a saved network or an ONNX file. PROPERTY is a VNN-LIB file, which describes what must not be,
    or a text that says what shall hold, as in "y0 <= 3 and y1 > y0". Exit code 0: holds, 1: violated, 3:
    unknown, 2: bad input.

    \b
    Examples:
      hardmax verify net.onnx far.vnnlib --certificate far.json.gz
      hardmax verify controller.npz "y0 <= 2" --box -1 1 --time-limit 60 --json
      hardmax verify --replay far.json.gz
    """
    if replay is not None:
        return _replayed(replay, as_json)
    if network is None or property_text is None:
        raise InvalidInputError("NETWORK and PROPERTY must be given, or a certificate with --replay.")
    if resume and certificate is None:
        raise InvalidInputError("--resume must come with --certificate, the file to go on from.")
    net = read_network(network)
    domain = None if box is None else hm.Box.cube(net.d, *box)
    stated: str | Path = property_text
    if Path(property_text).suffix == ".vnnlib":
        stated = Path(property_text)
    if certificate is not None:
        check_folder(certificate)
    found = hm.verify(
        net,
        stated,
        domain,
        time_limit=time_limit,
        checkpoint=certificate if resume else None,
        progress=sys.stderr.isatty() or None,
    )
    if certificate is not None and not resume:  # an older file stays until the new one is whole
        found.certificate.save(certificate)
    if as_json:
        print_json(
            {
                "verdict": found.verdict,
                "counterexample": _texts(found.counterexample),
                "outputs": _texts(found.outputs),
                "share": found.share,
                "nodes": found.n_nodes,
                "leaves": found.certificate.n_leaves,
                "network_sha256": found.certificate.network_sha256,
                "property_sha256": found.certificate.property_sha256,
            }
        )
    else:
        click.echo(found.verdict)
        if found.counterexample is not None:
            for name, values in (("x", found.counterexample), ("y", found.outputs or ())):
                for i, value in enumerate(values):
                    click.echo(f"  {name}{i} = {value} ({float(value):.6g})")
        elif found.verdict == "unknown":
            click.echo(f"  {100 * found.share:.3g} % of the volume is proven")
        click.echo(f"  {counted(found.n_nodes, 'node')}, {found.seconds:.1f} s", err=True)
    return CODES[found.verdict]


def _texts(values: tuple[Fraction, ...] | None) -> list[str] | None:
    return None if values is None else [str(value) for value in values]


def _replayed(path: Path, as_json: bool) -> int:
    certificate = read_certificate(path)
    why = None
    try:
        certificate.replay()
    except CertificateError as error:
        why = str(error)
    expected = certificate.record.get("expected", {})
    if as_json:
        print_json({"accepted": why is None, "reason": why, **expected})
    elif why is None:
        click.echo(f"accepted: {expected['verdict']}")
        click.echo(f"  network  {expected['network']}\n  property {expected['property']}")
    else:
        click.echo(f"REJECTED: {why}")
    return 0 if why is None else 1
