"""Processes of `rota` that need no start: one process imports everything and forks for each.

Most of what a command costs is the start of an interpreter and its imports. A zygote has done
both; its children are real processes with their own pid, streams, signals and exit code, and they
begin as a fresh one does: environment, directory, time zone, streams, warnings and random numbers
are their own. What a fork cannot be given makes a true start instead: another encoding, or
variables that only a starting interpreter reads. Two differences remain: the order of sets is the
same in all children, and `/proc/PID/environ` and `cmdline` are those of the zygote.

    done = zygote.run(["list", "--json"], env=env, cwd=place)
    with zygote.start(["up", "--port", "0"], env=env, cwd=place, stdout=PIPE) as server: …
"""

from rota.testing.zygote.client import Forked, Process, run, start, the_zygote

__all__ = ["Forked", "Process", "run", "start", "the_zygote"]
