"""processes.py N COMMAND..: N processes that are the ranks of a job, as a launcher would start them; what the first one prints."""
import os
import socket
import subprocess
import sys

with socket.socket() as free:
    free.bind(('127.0.0.1', 0))
    port = free.getsockname()[1]
count = int(sys.argv[1])
ranks = [subprocess.Popen(sys.argv[2:], stdout=None if rank == 0 else subprocess.DEVNULL,
                          env=dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR='127.0.0.1',
                                   MASTER_PORT=str(port)))
         for rank in range(count)]
sys.exit(max(rank.wait() for rank in ranks))
