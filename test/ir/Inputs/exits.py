"""exits.py CODE COMMAND..: fails unless the command exits with CODE."""

import subprocess
import sys

code = subprocess.call(sys.argv[2:])
if code != int(sys.argv[1]):
    sys.exit("exit code %d, expected %s: %s" % (code, sys.argv[1], " ".join(sys.argv[2:])))
