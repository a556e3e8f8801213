"""`python -m rota.testing.zygote FD DIRECTORY`: started by the client, and gone with it."""

import sys

from rota.testing.zygote.fresh import run_as_a_program
from rota.testing.zygote.server import serve

if __name__ == "__main__":
    # Children return through here, too, so that nothing of the server is left on their stack.
    order = serve(int(sys.argv[1]), sys.argv[2])
    if order is not None:
        run_as_a_program(order)
