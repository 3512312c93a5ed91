"""Run `trimtab` and kill it with SIGKILL at the n-th call of os.fsync or os.replace: python killed.py N ARGUMENTS..."""

import os
import signal
import sys

from trimtab import cli


def dying(original, counter, at):
    def call(*arguments, **options):
        counter[0] += 1
        if counter[0] == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **options)

    return call


if __name__ == "__main__":
    calls, moment = [0], int(sys.argv[1])
    os.fsync, os.replace = dying(os.fsync, calls, moment), dying(os.replace, calls, moment)
    sys.exit(cli.main(sys.argv[2:]))
