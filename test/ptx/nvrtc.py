"""Where NVRTC is: the names and folders that codegen/toolchain/nvrtc.c takes, then the wheels of PyPI (nvidia-cuda-nvrtc)."""

import ctypes
import glob
import os
import site

NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
WHEELS = ("nvidia/cu13/lib", "nvidia/cu12/lib", "nvidia/cuda_nvrtc/lib")


def loads(path):
    try:
        ctypes.CDLL(path)
        return True
    except OSError:
        return False


def find():
    """What $SHARDC_NVRTC must be: '' where it need not be set; None: there is no NVRTC."""
    given = os.environ.get("SHARDC_NVRTC")
    if given:
        return given if loads(given) else None
    homes = [os.environ[v] for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)] + ["/usr/local/cuda"]
    if any(map(loads, [*NAMES, *(os.path.join(home, lib, name) for name in NAMES for home in homes for lib in ("lib64", "lib"))])):
        return ""
    folders = [*site.getsitepackages(), site.getusersitepackages()]
    wheels = [path for folder in folders for wheel in WHEELS for name in NAMES for path in glob.glob(os.path.join(folder, wheel, name))]
    return next(filter(loads, wheels), None)
