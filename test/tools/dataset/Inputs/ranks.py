"""ranks.py PROG SIZE ARG..: starts PROG as so many processes that find each other over TCP; fails if one does. An argument @ is the rank."""
import os
import socket
import subprocess
import sys

program, size = sys.argv[1], int(sys.argv[2])
with socket.socket() as holder:
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(('127.0.0.1', 0))
    ranks = [subprocess.Popen([program, *(a.replace('@', str(rank)) for a in sys.argv[3:])],
                              env=dict(os.environ, RANK=str(rank), WORLD_SIZE=str(size), MASTER_PORT=str(holder.getsockname()[1]), OMP_NUM_THREADS='1'))
             for rank in range(size)]
    sys.exit(max(rank.wait(timeout=120) != 0 for rank in ranks))
