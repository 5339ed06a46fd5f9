"""each_plan.py SHARDC FILE COMMAND: runs the command with each plan of the file; prints the plan's name, the exit code and the messages."""

import re
import subprocess
import sys

shardc, path, command = sys.argv[1:]
with open(path) as file:
    plans = re.findall(r"^plan (\w+) ", file.read(), re.M)
for plan in plans:
    # `twice` runs its stack twice, which no pipeline can; only the plan for that asks for it
    entry = ["--entry", "twice" if plan == "loops" else "loss"]
    done = subprocess.run([shardc, command, path, "--plan", plan] + entry, capture_output=True, text=True, timeout=60)
    print("%s: exit %d\n%s" % (plan, done.returncode, done.stderr))
