"""`python -m bench [SUITE…]`: measure, show, and write bench/results/<suite>.json."""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from pathlib import Path

import click

from bench import machine, report, suites

_RESULTS = Path(__file__).parent / "results"
_QUICK = {"items": 2_000, "seconds": 1.0}
_FULL = {"items": 20_000, "seconds": 2.0}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(suites.NAMES), metavar="[SUITE]...")
@click.option("--items", type=int, help="Items per cell (20,000; quick 2,000).")
@click.option("--seconds", type=float, help="The most one round of a cell may take (2; quick 1).")
@click.option("--rounds", type=int, help="Rounds per cell; the median counts (3; quick 1).")
@click.option("--only", multiple=True, help="Measure this subject only; may be repeated.")
@click.option("--quick", is_flag=True, help="A glance, not evidence: kept in results/quick.")
@click.option("--json", "as_json", is_flag=True, help="Print the documents instead of tables.")
@click.option("--dir", "directory", type=click.Path(exists=True, path_type=Path), help="On disk.")
def main(
    *,
    names: tuple[str, ...],
    items: int | None,
    seconds: float | None,
    rounds: int | None,
    only: tuple[str, ...],
    quick: bool,
    as_json: bool,
    directory: Path | None,
) -> None:
    """Measure Rota beside its peers. Without names, every suite; bench/README.md says what each
    measures."""
    defaults = _QUICK if quick else _FULL
    options = suites.Options(
        items=items or int(defaults["items"]),
        seconds=seconds or defaults["seconds"],
        rounds=rounds or (1 if quick else 3),
        quick=quick,
        directory=directory or Path(tempfile.gettempdir()),
        only=frozenset(only),
    )
    if machine.filesystem(options.directory) == "tmpfs":
        raise click.UsageError(f"{options.directory} is in memory, not durable; name a --dir")
    failed = [name for name in names or suites.NAMES if not _one(name, options, as_json)]
    if failed:
        raise click.ClickException(f"not measured: {', '.join(failed)}")


def _one(name: str, options: suites.Options, as_json: bool) -> bool:
    """Whether the suite could be measured. A failure costs its own figures, not the others'."""
    print(f"{name}:", file=sys.stderr, flush=True)
    found = machine.facts(options.directory)
    if busy := machine.is_busy():
        print("  others are at work on this machine: not evidence", file=sys.stderr, flush=True)
    try:
        outcome = suites.run(name, options)
    except Exception:  # noqa: BLE001 - whatever it was, the next suite has its own chance
        traceback.print_exc()
        return False
    content = report.document(name, outcome, found | {"busy_before": busy})
    path = report.write(_RESULTS / "quick" if options.quick else _RESULTS, content)
    if as_json:
        print(json.dumps(content, ensure_ascii=False))
    else:
        report.show(outcome)
        sync = found["fdatasync_4k_us"]
        print(f"fdatasync 4 KiB: p50 {sync['p50']} µs, p99 {sync['p99']} µs. Written: {path}")
    return True


if __name__ == "__main__":
    main()
