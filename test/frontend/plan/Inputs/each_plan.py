"""each_plan.py SHARDC FILE COMMAND: runs the command with each plan of the file; prints the plan's name, the exit code and the messages."""

import re
import subprocess
import sys

shardc, path, command = sys.argv[1:]
with open(path) as file:
    plans = re.findall(r"^plan (\w+) ", file.read(), re.M)
for plan in plans:
    done = subprocess.run([shardc, command, path, "--plan", plan], capture_output=True, text=True, timeout=60)
    print("%s: exit %d\n%s" % (plan, done.returncode, done.stderr))
