# SPDX-License-Identifier: Apache-2.0
"""Text tests: a file of IR with the command to run on it and the lines to expect.

  python tests/ir/run.py FILE... [--update]

  // run: dump FILE --stage tensor        commands of stax, one or more; FILE stands for the test itself
  tensor_ir 1 ..                          the input
  // expect:                              what all commands print, in order, each line behind `// `; `exit N` where they end with another status than 0
  // %y: f32[n] = ..

--update writes what is printed now in the place of what was expected. Where the input is legal, its printed form is read back and printed
again: both must be the same.
"""
import difflib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

STAX = os.environ.get("STAX", str(Path(__file__).resolve().parents[2] / "build" / "stax"))
RUN, EXPECT = "// run: ", "// expect:"
NOTES = ("// stage ", "// imported: ", "// pass ")  # what a dump says of itself


def stax(words):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STAX_")}
    done = subprocess.run([STAX, *words], capture_output=True, text=True, env=environment, timeout=120)
    return done.stdout + done.stderr, done.returncode


def printed(path, command):
    text, status = stax([str(path) if word == "FILE" else word for word in command.split()])
    lines = [line.rstrip().replace(str(path), "FILE") for line in text.splitlines() if line.strip() and not line.startswith(NOTES)]
    return lines + ([f"exit {status}"] if status else [])


def round_trip(path):
    """What differs between the printed form of the input and the printed form of that, or nothing."""
    once, status = stax(["dump", str(path), "--stage", "import"])
    if status:
        return []
    with tempfile.NamedTemporaryFile("w", suffix=".stax") as file:
        file.write(once)
        file.flush()
        again, _ = stax(["dump", file.name, "--stage", "import"])
    return list(difflib.unified_diff(once.splitlines(), again.splitlines(), "printed", "read and printed again", lineterm=""))


def check(path, update):
    lines = path.read_text().splitlines()
    commands = [line[len(RUN):] for line in lines if line.startswith(RUN)]
    at = lines.index(EXPECT) if EXPECT in lines else len(lines)
    expected = [line[3:] for line in lines[at + 1:]]
    got = [line for command in commands for line in printed(path, command)]
    if not commands:
        return ["there is no `// run: ` line"]
    if update:
        path.write_text("\n".join([*lines[:at], EXPECT, *("// " + line for line in got)]) + "\n")
        got = expected
    return list(difflib.unified_diff(expected, got, "expected", "printed", lineterm="")) + round_trip(path)


def main():
    update = "--update" in sys.argv
    files = [Path(word).resolve() for word in sys.argv[1:] if not word.startswith("--")] or sorted(Path(__file__).parent.glob("*.stax"))
    failed = 0
    for path in files:
        difference = check(path, update)
        failed += bool(difference)
        if difference:
            print(f"FAIL  {path.name}\n" + "\n".join("  " + line for line in difference))
    print(f"{len(files) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
