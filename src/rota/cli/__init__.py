"""The command line: a face like the others, which talks to a server or opens the database."""

import os
import sys


def main(arguments: list[str] | None = None) -> int:
    """The entry point `rota`; what it returns is the exit code."""
    from rota.cli.ending import exit_code_of
    from rota.cli.root import rota

    if "_ROTA_COMPLETE" in os.environ:  # a shell asks what could come next
        rota.main(prog_name="rota")
    words = sys.argv[1:] if arguments is None else arguments

    def command() -> object:
        # Not by click's own main, which turns a closed pipe into exit code 1.
        with rota.make_context("rota", list(words)) as context:
            return rota.invoke(context)

    return exit_code_of(command, as_json="--json" in words)
