#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The install tree as its users meet it: install_test.py --build BUILD [--cmake CMAKE] [--compiler CXX]

Installs into a temporary folder, moves the tree, builds the examples against it through find_package and through pkg-config, runs them, and compares what they print
with ONNX Runtime.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import harness as h            # ends with 77 where numpy or onnx is missing
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--build", type=Path, required=True)
parser.add_argument("--cmake", default="cmake")
parser.add_argument("--compiler", default="c++")
options = parser.parse_args()
START = time.time()


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def step(what):
    print(f"{time.time() - START:5.1f} s  {what}", flush=True)


def install(folder):
    run(options.cmake, "--install", options.build, "--prefix", folder / "first", "--strip")
    tree = folder / "moved"    # nothing in it may name the place that it was installed to
    (folder / "first").rename(tree)
    have = {str(p.relative_to(tree)) for p in tree.rglob("*") if p.is_file() or p.is_symlink()}
    for name in ("bin/stax", "include/stax/stax.h", "include/stax/trace.h", "include/stax/c_api.h", "lib/libstax.so", "lib/libstax_runtime.so", "lib/libstax_llvm.so",
                 "lib/cmake/stax/stax-config.cmake", "lib/pkgconfig/stax.pc", "lib/pkgconfig/stax-runtime.pc"):
        assert name in have, f"{name} is not installed; there are {sorted(have)}"
    strangers = [n for n in have if not re.match(r"bin/stax$|include/stax/\w+\.h$|lib/libstax(_runtime|_llvm)?\.so|lib/cmake/stax/|lib/pkgconfig/|share/doc/stax/", n)]
    assert not strangers, strangers
    for text in [p for p in tree.rglob("*") if p.suffix in (".cmake", ".pc", ".h")]:
        assert str(folder) not in text.read_text() and str(options.build) not in text.read_text(), f"{text} names a folder of this machine"
    return tree


def build_with_cmake(tree, folder):
    ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
    launcher = [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX")] if shutil.which("ccache") else []
    run(options.cmake, *ninja, "-S", tree / "share/doc/stax/examples", "-B", folder / "examples", f"-DCMAKE_PREFIX_PATH={tree}",
        f"-DCMAKE_CXX_COMPILER={options.compiler}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror", *launcher)
    run(options.cmake, "--build", folder / "examples", "--parallel", "2")
    return folder / "examples"


def build_with_pkg_config(tree, folder):
    environment = {**os.environ, "PKG_CONFIG_PATH": str(tree / "lib/pkgconfig")}
    built = folder / "plain"
    built.mkdir()
    source = tree / "share/doc/stax/examples"
    for module, compiler, standard, name in (("stax", options.compiler, "c++20", "traced.cpp"), ("stax-runtime", "cc", "c99", "run_compiled.c")):
        flags = run("pkg-config", "--cflags", "--libs", module, env=environment).split()
        ccache = ["ccache"] if shutil.which("ccache") else []
        target = built / name.split(".")[0]
        # In two steps: the compiler's result can be kept.
        run(*ccache, compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-c", source / name, *[f for f in flags if f[1] not in "Ll"], "-o", f"{target}.o")
        run(compiler, f"{target}.o", *[f for f in flags if f[1] in "Ll"], f"-Wl,-rpath,{tree}/lib", "-o", target)
    version = run("pkg-config", "--modversion", "stax", env=environment).strip()
    assert f'"{version}"' in run("grep", "-r", "PACKAGE_VERSION ", tree / "lib/cmake/stax"), version
    return built


def pixels(*shape):
    count = int(np.prod(shape))
    return ((np.arange(count) * 7 % 255).astype(np.float32) / np.float32(255)).reshape(shape)


def oracle(path):
    import onnxruntime
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level, settings.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(str(path), settings)
    return lambda **feed: dict(zip([o.name for o in session.get_outputs()], session.run(None, feed)))


def close(got, want, tolerance=2e-5):
    assert abs(float(got) - float(want)) <= tolerance, f"{got} instead of {want}"


def check_classify(text, models):
    model = oracle(models / "classify.onnx")
    lines = re.findall(r"(\d+) x (\d+) picture: class (\d+), probability ([\d.]+)", text)
    want = [row for shape in ((1, 3, 32, 32), (3, 3, 48, 40), (2, 3, 17, 33)) for row in model(pixels=pixels(*shape))["probabilities"]]
    assert len(lines) == len(want) == 6, text
    for (_, _, best, probability), row in zip(lines, want):
        assert int(best) == int(row.argmax()), text
        close(probability, row.max())
    assert "3 calls, 0 compiles after that, 0 inputs packed, 0 outputs copied" in text, text


def check_read_text(text, models):
    model = oracle(models / "read_text.onnx")
    k = np.arange(64 * 512, dtype=np.int64)
    page = (((k * k // 7 + k * 13) % 97).astype(np.float32) / np.float32(48) - np.float32(1)).reshape(64, 512)
    for top, left, width in ((0, 0, 512), (16, 10, 100), (40, 200, 37), (48, 0, 4)):
        best = model(line=page[None, None, top:top + 16, left:left + width].copy())["scores"][0].argmax(-1)
        letters = [l for n, l in enumerate(best) if l and (n == 0 or l != best[n - 1])]
        line = "".join("_" if l == 27 else chr(ord("a") + l - 1) for l in letters)
        assert f"line of {width}: '{line}'" in text, f"expected '{line}'\n{text}"
    assert "packed 3 inputs" in text, text
    assert len(re.search(r"line of 512: '(.*)'", text)[1]) > 20, text


def check_kv_cache(text, models):
    model = oracle(models / "decoder.onnx")
    tokens, past, keys, values = [7, 3, 21], 0, np.zeros((4, 0, 8), np.float32), np.zeros((4, 0, 8), np.float32)
    for _ in range(12):
        y = model(tokens=np.array([tokens[past:]]), keys=keys, values=values)
        past, keys, values = len(tokens), y["new_keys"], y["new_values"]
        tokens.append(int(y["scores"][-1].argmax()))
    # The cache changes nothing: all tokens at once give the same.
    whole = model(tokens=np.array([tokens[:-1]]), keys=np.zeros((4, 0, 8), np.float32), values=np.zeros((4, 0, 8), np.float32))["scores"]
    assert int(whole[-1].argmax()) == tokens[-1]
    assert "tokens " + " ".join(map(str, tokens)) in text, f"{text}\nexpected {tokens}"
    close(re.search(r"score ([\d.]+)", text)[1], y["scores"][-1].max(), 1e-4)
    assert "12 calls, 0 compiles after load, 0 outputs copied" in text, text


def check_run_compiled(text, models):
    model = oracle(models / "classify.onnx")
    for height in (16, 32, 48):
        numbers = re.search(rf"^{height} x 24:(.*)$", text, re.M)[1].split()
        want = model(pixels=pixels(1, 3, height, 24))["probabilities"][0]
        assert len(numbers) == len(want)
        for a, b in zip(numbers, want):
            close(a, b)


def main():
    folder = Path(tempfile.mkdtemp(prefix="stax-install-"))
    try:
        tree = install(folder)
        step("installed")
        examples = build_with_cmake(tree, folder)
        step("examples built through find_package")
        ways = [examples]
        if shutil.which("pkg-config"):
            ways.append(build_with_pkg_config(tree, folder))
            step("examples built through pkg-config")
        else:
            print("no pkg-config here: that way is left out")
        models = folder / "models"
        run(sys.executable, tree / "share/doc/stax/examples/make_models.py", models)
        run(tree / "bin/stax", "compile", models / "classify.onnx", "-o", models / "classify.stax")
        check_classify(run(examples / "classify", models / "classify.onnx"), models)
        check_read_text(run(examples / "read_text", models / "read_text.onnx"), models)
        check_kv_cache(run(examples / "kv_cache", models / "decoder.onnx"), models)
        for built in ways:
            assert "largest error" in run(built / "traced", models / "traced.stax")
            check_run_compiled(run(built / "run_compiled", models / "classify.stax"), models)
        # What a user sees who makes a mistake.
        wrong = subprocess.run([examples / "run_compiled", models / "classify.onnx"], capture_output=True, text=True)
        assert wrong.returncode == 1 and "this is the runtime library" in wrong.stderr and "stax compile" in wrong.stderr, wrong.stderr
        assert (models / "traced.stax").stat().st_size > 1000
        step("examples run, numbers as ONNX Runtime's")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
