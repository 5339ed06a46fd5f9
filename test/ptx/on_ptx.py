#!/usr/bin/env python3
"""on_ptx.py BUILD COMMAND..: runs it on the stubs of CUDA's libraries with NVRTC itself, so that its GPUs, for compute_80, execute the PTX
that NVRTC makes on the interpreter (test/ptx): approximations are off, new memory has no zeros. Exit status 77: there is no NVRTC; else the
command's."""
import os
import sys

import nvrtc

if len(sys.argv) < 3:
    sys.exit(__doc__)
build, command = os.path.abspath(sys.argv[1]), sys.argv[2:]
found = nvrtc.find(os.path.join(build, "nvrtc"))
if found is None:
    print("skipped: there is no NVRTC, which makes the PTX: neither where SHARDC_NVRTC says, nor in CUDA's folders, nor of PyPI's nvidia-cuda-nvrtc")
    sys.exit(77)
stubs = os.path.join(build, "test/cuda_stub/libsc_%s_stub.so")
defaults = {"SHARDC_STUB_ERRORS": "3", "SHARDC_STUB_POISON": "1", "SHARDC_STUB_MEMORY": "4096"}
environment = {**defaults, **os.environ, "SHARDC_LIBCUDA": stubs % "cuda", "SHARDC_CUBLASLT": stubs % "cublaslt", "SHARDC_NCCL": stubs % "nccl"}
environment.update({"SHARDC_NVRTC": found} if found else {})
os.execvpe(command[0], command, environment)
