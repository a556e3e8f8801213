"""The command line: a face like the others, which talks to a server or opens the database."""

import sys


def main(arguments: list[str] | None = None) -> int:
    """The entry point `rota`; what it returns is the exit code."""
    from rota.cli.ending import exit_code_of
    from rota.cli.root import rota

    words = sys.argv[1:] if arguments is None else arguments
    return exit_code_of(
        lambda: rota.main(words, prog_name="rota", standalone_mode=False),
        as_json="--json" in words,
    )
