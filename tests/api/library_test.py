#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shared libraries as files: library_test.py LIBSTAX LIBSTAX_RUNTIME LIBSTAX_LLVM RUNTIME_TEST MODELS

What they need, what they export, how large they are; and the runtime library in a process where neither LLVM nor protobuf can be loaded.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FULL, RUNTIME, NATIVE, PROGRAM, MODELS = sys.argv[1:6]
LARGEST_RUNTIME = 2 << 20
BASE = {"libc.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "ld-linux-x86-64.so.2"}


def output(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def dynamic(path, tag):
    return set(re.findall(rf"\({tag}\).*\[(.*)\]", output("readelf", "-d", path)))


def exports(path):
    lines = output("nm", "-D", "--defined-only", path).splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if line.split()[-2] not in "A"}


def check_needed():
    needed = {re.sub(r"\.so.*", "", n) for n in dynamic(RUNTIME, "NEEDED") - BASE}
    assert needed <= {"libfmt"}, f"libstax_runtime needs {needed}"
    for library in output("ldd", RUNTIME).splitlines():
        assert not re.search("LLVM|protobuf|libz|libxml|not found", library), library
    assert any("LLVM" in n for n in dynamic(NATIVE, "NEEDED")), "this test looks at the wrong file"
    assert any("protobuf" in n for n in dynamic(FULL, "NEEDED")), "this test looks at the wrong file"
    assert not re.search("LLVM", output("ldd", FULL)), "libstax needs LLVM before it compiles anything"
    assert not any("libzip" in n for n in dynamic(FULL, "NEEDED")), "libstax needs libzip, which is for the command line"


def check_names():
    for path, name in ((FULL, "libstax"), (RUNTIME, "libstax_runtime")):
        [soname] = dynamic(path, "SONAME")
        assert re.fullmatch(rf"{name}\.so\.\d+\.\d+", soname), soname
        # Everything that is visible is in the public headers' namespace; only their types appear.
        for symbol in exports(path):
            assert re.match(r"stax_|_ZN4stax|_ZNK4stax|_ZT[ISV]N4stax", symbol), f"{name} exports {symbol}"
        internal = [s for s in exports(path) if re.search("4stax(2ir|4loop|4emit|6tensor|7program|7runtime|8symbolic|5embed|7session|7compile|8frontend)", s)]
        assert not internal, f"{name} exports {internal[:3]}"
    assert exports(NATIVE) == {"stax_native_compiler"}, exports(NATIVE)
    only_full = exports(FULL) - exports(RUNTIME)
    assert not exports(RUNTIME) - exports(FULL), "libstax lacks what libstax_runtime has"
    assert all(re.search("Dim|Var|Operand|trace|3dim", s) for s in only_full), only_full


def check_size():
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder) / "stripped.so"
        for path in (NATIVE, FULL, RUNTIME):
            output("strip", "-o", stripped, path)
            print(f"{Path(path).name}: {stripped.stat().st_size / 1e6:.2f} MB stripped, {len(exports(path))} symbols")
        assert stripped.stat().st_size < LARGEST_RUNTIME


def check_without_compiler():
    """A file that is no library, in the place of LLVM and protobuf: whoever needs them does not start."""
    with tempfile.TemporaryDirectory() as folder:
        lines = (output("ldd", FULL) + output("ldd", NATIVE)).splitlines()
        for name in {Path(line.split("=>")[0].strip()).name for line in lines if re.search("LLVM|protobuf", line)}:
            (Path(folder) / name).write_text("no library")
        environment = {**os.environ, "LD_LIBRARY_PATH": folder + ":" + os.environ.get("LD_LIBRARY_PATH", "")}
        for library in (FULL, NATIVE):
            control = subprocess.run([sys.executable, "-c", f"import ctypes; ctypes.CDLL({library!r})"], env=environment, capture_output=True)
            assert control.returncode != 0, f"what {library} needs was not hidden"
        print(output(PROGRAM, MODELS, env=environment), end="")


for check in (check_needed, check_names, check_size, check_without_compiler):
    check()
    print(f"ok    {check.__name__}")
