"""`python -m rota.testing.tracker --port 0`: the stub in a process of its own."""

import argparse

from rota.testing.tracker.server import run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m rota.testing.tracker", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--seed", default="0", help="what the faults are drawn from")
    parser.add_argument(
        "--until-stdin-ends", action="store_true", help="end with whoever started it"
    )
    given = parser.parse_args()
    run(given.port, given.seed, until_stdin_ends=given.until_stdin_ends)


if __name__ == "__main__":
    main()
