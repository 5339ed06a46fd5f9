"""A text of CUDA, to PTX by NVRTC."""

import ctypes
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import nvrtc  # noqa: E402


def library(folder):
    """NVRTC, or None."""
    found = nvrtc.find(folder)
    if found is None:
        return None
    homes = [os.environ[v] for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)] + ["/usr/local/cuda"]
    names = [found] if found else [*nvrtc.NAMES, *(os.path.join(h, lib, n) for n in nvrtc.NAMES for h in homes for lib in ("lib64", "lib"))]
    return ctypes.CDLL(next(filter(nvrtc.loads, names)))


def to_ptx(lib, text, options):
    program = ctypes.c_void_p()
    check(lib, None, lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"matmul.cu", 0, None, None))
    given = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    check(lib, program, lib.nvrtcCompileProgram(program, len(options), given))
    size = ctypes.c_size_t()
    check(lib, program, lib.nvrtcGetPTXSize(program, ctypes.byref(size)))
    ptx = ctypes.create_string_buffer(size.value)
    check(lib, program, lib.nvrtcGetPTX(program, ptx))
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    return ptx.value.decode()


def check(lib, program, code):
    if code == 0:
        return
    size = ctypes.c_size_t()
    log = b""
    if program is not None and lib.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0:
        buffer = ctypes.create_string_buffer(size.value)
        lib.nvrtcGetProgramLog(program, buffer)
        log = buffer.value
    sys.exit("NVRTC: %d\n%s" % (code, log.decode()))
