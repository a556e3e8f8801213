"""Starts `rota` processes quickly: one process imports everything and forks for each of them.

Most of the cost of a command is starting an interpreter and its imports. A zygote has done both.
Its children are real processes with their own pid, streams, signals and exit code, and they begin
like a fresh process: environment, directory, time zone, streams, warnings and random numbers are
their own. Where a fork is not enough, a new interpreter is started: for another encoding, or for
variables that only a starting interpreter reads. Two differences remain: the order of sets is the
same in all children, and `/proc/PID/environ` and `cmdline` are those of the zygote.

    done = zygote.run(["list", "--json"], env=env, cwd=place)
    with zygote.start(["up", "--port", "0"], env=env, cwd=place, stdout=PIPE) as server: …
"""

from rota.testing.zygote.client import Forked, Process, run, start, the_zygote

__all__ = ["Forked", "Process", "run", "start", "the_zygote"]
