"""limited.py MIB COMMAND..: runs the command in that many MiB of address space (as `ulimit -v` does; 0: no limit), and prints on the last line
of stdout its exit code and the most memory that it had. Exits with 0 if the command has run."""
import os
import resource
import subprocess
import sys

limit = int(sys.argv[1]) << 20


def limit_address_space():
    if limit > 0:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


child = subprocess.Popen(sys.argv[2:], preexec_fn=limit_address_space)
_, status, used = os.wait4(child.pid, 0)
print('exit code %d, peak resident size %d MiB' % (os.waitstatus_to_exitcode(status), used.ru_maxrss >> 10), flush=True)
