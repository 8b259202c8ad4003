#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the pages and the help texts show is run as it stands there.

Commands are the indented lines that call `stax`, without their comments. They run in a folder with a small model under each name that is used
(M.onnx, m.onnx, ..), whose dims are those that the command names, and with inputs for it. Devices are the stand-ins for drivers. Examples in C++ and C
are compiled, inside of a function where they are not whole programs.
"""
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import subprocess
import tempfile

import harness
from harness import FLOAT, ROOT, STAX, node, np

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = re.compile(r"^    ((?:[A-Z_]+=\S+ )*(?:build/)?stax .*)$", re.M)
COMMANDS = ["run", "compile", "dump", "verify", "bisect", "replay", "doctor", "bench", "report"]


def commands_of(text):
    """The commands in a text, without those that leave something out (`..`, <name>)."""
    for line in re.sub(r" \\\n +", " ", text).splitlines():
        if match := COMMAND.match(line):
            command = re.split(r"   ?#|  +", match.group(1))[0].strip()
            if not re.search(r" \.\.$|<|^stax COMMAND", command):
                yield command


def prepare(folder, command):
    """Files of the names in the command. The model: softmax(relu(x @ w + b)) with the dims of the command."""
    dims = re.findall(r"(?:--dim|--at|--sweep) (\S+)", command)
    names = list(dict.fromkeys(re.findall(r"([a-z]+)=", ",".join(dims)))) or ["batch", "length"]
    rng = np.random.default_rng()
    model = harness.model(
        [node("MatMul", "x w", "p"), node("Add", "p b", "q"), node("Relu", "q", "r"), node("Softmax", "r", "y", axis=-1)],
        {"x": (FLOAT, [*names, 16])}, ["y"], {"w": harness.normal(rng, 16, 24), "b": harness.normal(rng, 24)})
    for name in re.findall(r"\b([\w-]+)\.onnx", command):
        harness.save(model, folder / f"{name}.onnx")
    text = harness.stax("dump", harness.save(model, folder / "model_of_text.onnx"), "--stage", "import").expect(0).out
    for name in re.findall(r"\b([\w-]+)\.stax", command):
        if command.startswith("stax run"):
            harness.stax("compile", folder / "model_of_text.onnx", "-o", folder / f"{name}.stax").expect(0)
        else:
            (folder / f"{name}.stax").write_text(text)
    for name in ["a", *re.findall(r"\b(\w+)\.npz", command)]:
        np.savez(folder / f"{name}.npz", x=harness.normal(rng, *([4] * len(names)), 16))
    for name in re.findall(r"--shapes (\S+)", command):
        harness.stax("run", folder / "model_of_text.onnx", "--inputs", folder / "a.npz", "--record", folder / name).expect(0)


def run_all(folder, where, commands):
    """Returns what did not end as it should."""
    build = Path(STAX).resolve().parent
    failed = []
    for command in commands:
        work = Path(tempfile.mkdtemp(dir=folder))
        prepare(work, command)
        (work / "build").symlink_to(build)
        environment = {"PATH": f"{build}:/usr/local/bin:/usr/bin:/bin", "STAX_CACHE": "off", "HOME": str(work)}
        for device in ["cuda", "hip"]:
            if f"--device {device}" in command:
                environment["LD_LIBRARY_PATH"] = str(build / f"fake_{device}")
        done = subprocess.run(["bash", "-c", command], cwd=work, env=environment, capture_output=True, text=True, errors="replace", timeout=600)
        # What is replayed here is a plain model.
        if done.returncode != 0 and not (" replay " in command and "is no repro" in done.stderr):
            failed.append(f"{where}: `{command}` ends with {done.returncode}: {done.stderr[-400:]}{done.stdout[-200:]}")
    return failed


def test_commands_of_the_pages(folder):
    ran, failed = 0, []
    for page in PAGES:
        commands = list(dict.fromkeys(commands_of(page.read_text())))
        ran += len(commands)
        failed += run_all(folder, page.name, commands)
    assert not failed, "\n".join(failed)
    assert ran > 25, f"only {ran} commands were found"
    return f"{ran} commands"


def test_commands_of_the_help(folder):
    ran, failed = 0, []
    for command in COMMANDS:
        text = harness.stax(command, "--help").expect(0).out
        examples = list(commands_of(re.sub(r"^  (?=stax )", "    ", text, flags=re.M)))
        assert examples, f"`stax {command} --help` shows no example"
        ran += len(examples)
        failed += run_all(folder, f"{command} --help", examples)
    assert not failed, "\n".join(failed)
    return f"{ran} commands"


# What examples that are no whole programs use without declaring it.
CPP_FRAME = """#include <stax/stax.h>
#include <cstdio>
#include <vector>
void* my_memory(size_t, stax::DType, std::span<const int64_t>);
void example(stax::Model model, stax::Tensor x, const std::vector<float>& w, const std::vector<float>& b) {{
%s
}}
"""
C_FRAME = """#include <stax/c_api.h>
#include <stdio.h>
#include <stdlib.h>
void example(float* data, int64_t rows) {{
%s
}}
"""


def test_examples_compile(folder):
    text = (ROOT / "docs" / "cpp-guide.md").read_text()
    blocks = re.findall(r"^```(cpp|c)\n(.*?)^```", text, flags=re.M | re.S)
    assert {language for language, _ in blocks} == {"cpp", "c"}
    compilers = {"cpp": [shutil.which("g++"), "-std=c++20"], "c": [shutil.which("gcc"), "-std=c99"]}
    for k, (language, block) in enumerate(blocks):
        frame = {"cpp": CPP_FRAME, "c": C_FRAME}[language]
        file = folder / f"example{k}.{language}"
        file.write_text(block if "int main" in block else frame % block)
        done = subprocess.run([*compilers[language], "-fsyntax-only", "-Wall", "-Wno-unused", "-I", ROOT / "include", file], capture_output=True, text=True)
        assert done.returncode == 0, f"{block}\n{done.stderr[-3000:]}"
    return f"{len(blocks)} examples"


if __name__ == "__main__":
    harness.main()
