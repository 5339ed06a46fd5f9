"""lit: text in, text out. Run it through ctest, or `python3 LIT build/test/passes` for one folder of a build."""

import os
import re
import shutil
import subprocess
import sys

import lit.formats

config.name = "shardc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".shard", ".shir", ".test"]
config.excludes = ["Inputs", "data", "cases", "golden", "unit", "fuzz", "acceptance"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.shardc_build_dir, "lit")


def tool(name, command):
    """Substitutes the word alone: not part of a path, of a file name or of a longer option."""
    config.substitutions.append((r"(?<![\w./%%-])%s(?![\w./-])" % re.escape(name), command))


tool("shardc-opt", os.path.join(config.shardc_build_dir, "shardc-opt"))
tool("shardc-prog", os.path.join(config.shardc_build_dir, "shardc-prog"))
tool("shardc", os.path.join(config.shardc_build_dir, "shardc"))
tool("FileCheck", config.filecheck + " --enable-var-scope")
tool("not", config.llvm_not)
config.substitutions.append(("%python", config.python))
config.substitutions.append(("%build_dir", config.shardc_build_dir))
config.substitutions.append(("%source_dir", os.path.dirname(config.test_source_root)))

# Ranks as processes. Several a core, and as root in a container: Open MPI wants to be told so.
if shutil.which("mpirun") and os.path.exists(os.path.join(config.shardc_build_dir, "lib/shardc/shardc_mpi.so")) and not config.shardc_sanitize:
    config.available_features.add("mpi")
    config.environment.update(SHARDC_MODULES=os.path.join(config.shardc_build_dir, "lib/shardc"), OMPI_MCA_rmaps_base_oversubscribe="1",
                              OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


# Kernels for CUDA are compiled where NVRTC is; a GPU is not needed.
sys.path.insert(0, os.path.join(config.test_source_root, "ptx"))
import nvrtc

nvrtc_path = nvrtc.find(os.path.join(config.shardc_build_dir, "nvrtc"))
if nvrtc_path is not None:
    config.available_features.add("nvrtc")
if nvrtc_path:
    os.environ["SHARDC_NVRTC"] = nvrtc_path
for variable in ("CUDA_HOME", "CUDA_PATH", "SHARDC_NVRTC"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]

# Programs for GPUs run on stubs of CUDA's libraries, which compile kernels with the machine's C++ compiler (test/cuda_stub).
stubs = {v: os.path.join(config.shardc_build_dir, "test/cuda_stub/libsc_%s_stub.so" % n)
            for v, n in (("SHARDC_NVRTC", "nvrtc"), ("SHARDC_LIBCUDA", "cuda"), ("SHARDC_CUBLASLT", "cublaslt"), ("SHARDC_NCCL", "nccl"))}
if all(map(os.path.exists, stubs.values())) and any(map(shutil.which, (os.environ.get("CXX") or "c++", "g++", "clang++"))) and not config.shardc_sanitize:
    config.available_features.add("stub")
if os.environ.get("SHARDC_TEST_PTX"):
    # What NVRTC itself makes, on the interpreter of PTX (test/ptx): for the virtual architecture, since stubs take no machine code.
    stubs.pop("SHARDC_NVRTC")
    config.test_exec_root += "_ptx"
    if nvrtc_path is None:
        config.available_features.discard("stub")
    config.substitutions.append(("cuda:sm_80", "cuda:compute_80"))
config.substitutions.append(("%gpus", "env " + " ".join("%s=%s" % pair for pair in stubs.items())))


def is_version_14(program):
    """The tools of Debian 12: another version formats otherwise, and finds other things."""
    return shutil.which(program) and " version 14." in subprocess.run([program, "--version"], capture_output=True, text=True).stdout


# What they say of the source depends on no build, so one build asks them.
for program in ("clang-format", "clang-tidy"):
    if not config.shardc_sanitize and is_version_14(program):
        config.available_features.add(program + "-14")

if "address" in config.shardc_sanitize:
    config.available_features.add("asan")
if "thread" in config.shardc_sanitize:
    config.available_features.add("tsan")
# Compiled kernels are kept beside the build, so that a second run compiles nothing.
config.environment["SHARDC_CACHE"] = os.environ.get("SHARDC_CACHE", os.path.join(config.shardc_build_dir, "kernels"))
for variable in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]
