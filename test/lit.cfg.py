"""lit: text in, text out. Run it through ctest, or `python3 LIT build/test/passes` for one folder of a build."""

import os
import re

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
tool("shardc", os.path.join(config.shardc_build_dir, "shardc"))
tool("FileCheck", config.filecheck + " --enable-var-scope")
tool("not", config.llvm_not)
config.substitutions.append(("%python", config.python))
config.substitutions.append(("%source_dir", os.path.dirname(config.test_source_root)))

if "address" in config.shardc_sanitize:
    config.available_features.add("asan")
if "thread" in config.shardc_sanitize:
    config.available_features.add("tsan")
# Compiled kernels are kept beside the build, so that a second run compiles nothing.
config.environment["SHARDC_CACHE"] = os.environ.get("SHARDC_CACHE", os.path.join(config.shardc_build_dir, "kernels"))
for variable in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]
