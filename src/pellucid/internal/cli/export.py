"""``pellucid export``: a pipeline in another tool's language."""

from __future__ import annotations

import click


@click.command()
@click.argument("target", metavar="FILE[:NAME]")
@click.option(
    "--format", "style", type=click.Choice(["smv"]), default="smv", show_default=True, help="NuSMV and nuXmv."
)
@click.option(
    "--ints",
    default="mod:4",
    show_default=True,
    metavar="mod:N|LO..HI",
    help="Which integers: modulo N, or from LO to HI.",
)
@click.option(
    "--queue", "queues", multiple=True, metavar="N|ID=N", help="The bound of every queue, or of one.  [default: 3]"
)
@click.option("--property", "formulas", multiple=True, metavar="FORMULA", help="A property to ask; repeat it for more.")
@click.option("--out", metavar="FILE", default="-", help="Where to write; - is stdout (the default).")
def export(target: str, style: str, ints: str, queues: tuple[str, ...], formulas: tuple[str, ...], out: str) -> None:
    """Write a pipeline as a model for NuSMV or nuXmv, with properties to ask of it.

    \b
    Examples:
      pellucid export pipeline.py:totals --property "AG EF out" --out totals.smv
      pellucid export pipeline.py:totals --ints 0..7 --queue 2 --property "!EF full"
    """
    from pellucid.internal.cli.check import _bounds, _ints
    from pellucid.internal.export.smv.model import export as smv
    from pellucid.internal.load import load_pipeline

    pipeline = load_pipeline(target)
    text = smv(pipeline.graph, domain=_ints(ints), properties=formulas, **_bounds(queues, pipeline))
    if out == "-":
        click.echo(text, nl=False)
        return
    from pellucid.internal.base.files import write_whole

    write_whole(out, text)
