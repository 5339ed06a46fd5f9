"""stop.py SIGNAL LOG COMMAND..: runs the command, sends it the signal once LOG has a line, and shows what it prints; its exit code is that of
the command. What the command says of steps must be what the log has."""

import os
import re
import signal
import subprocess
import sys
import time

log = sys.argv[2]
process = subprocess.Popen(sys.argv[3:], stdout=subprocess.PIPE, text=True)
begin = time.time()
while not (os.path.exists(log) and os.path.getsize(log) > 0):
    if process.poll() is not None or time.time() - begin > 120:
        process.kill()
        sys.exit("it ended before the first step, or there was none for long")
    time.sleep(0.01)
process.send_signal(getattr(signal, sys.argv[1]))
out, _ = process.communicate(timeout=120)
sys.stdout.write(out)
said, logged = re.search(r"after step (\d+) of", out), len(open(log).readlines())
if said is None or int(said.group(1)) != logged:
    sys.exit("the log has %d steps" % logged)
sys.exit(process.returncode)
