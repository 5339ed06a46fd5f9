"""Processes, and what goes wrong with them."""
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEXT = 'LICENSE'  # bytes as tokens
# A child has what its parent has open until it becomes another program; what is open for writing cannot be run.
STARTS = threading.Lock()
UNRECORDED = 'cannot be recorded as a graph'
RUNTIME = os.path.join('build', 'shardc-prog')


class Failed(Exception):
    pass


class LeftOut(Exception):
    """Something cannot be done here, which is no failure."""


def opens(library):
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def say(*words):
    print('..', *words, file=sys.stderr, flush=True)


def run(command, limit, env=None, cwd=None, last=3, fails=True):
    """Its output; Failed with its last lines where it outlives `limit` seconds or, if it `fails` by that, has another exit status than 0. All
    that it started ends with it."""
    with STARTS:
        child = subprocess.Popen([str(c) for c in command], env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, errors='replace', start_new_session=True)
    try:
        out, err = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
        raise Failed('%s: not done after %d s' % (os.path.basename(str(command[0])), limit)) from None
    if fails and child.returncode != 0:
        words = (err.strip() or out.strip() or 'nothing is said').splitlines()
        raise Failed('%s: exit status %d: %s' % (os.path.basename(str(command[0])), child.returncode, ' / '.join(words[-last:])[-200 * last:]))
    if fails and UNRECORDED in err:  # it went on without a graph
        raise Failed(next(line for line in err.splitlines() if UNRECORDED in line))
    return out


def lines_of_json(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith('{')]
