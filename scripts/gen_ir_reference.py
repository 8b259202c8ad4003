#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/ that say what the sources say: operations of the IRs, passes, layers, rules, polynomials.

  gen_ir_reference.py            rewrites what stands between `<!-- generated: NAME -->` and `<!-- end -->` in docs/*.md
  gen_ir_reference.py --check    changes nothing; exit status 1, and the sections named, if one of them is stale

One function a section, listed in SECTIONS. A section whose source no longer has the form that is expected here is a fault, too.
"""
import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Fault(Exception):
    pass


def read(path):
    return (ROOT / path).read_text()


def cell(text):
    """Free text in a cell of a table."""
    parts = text.strip().split("`")
    for k in range(0, len(parts), 2):       # outside of `code`
        parts[k] = re.sub(r"([*_])", r"\\\1", parts[k].replace("&", "&amp;").replace("<", "&lt;"))
    return "`".join(parts).replace("|", "\\|")


def code(text):
    return f"`{text}`".replace("|", "\\|")


def table(head, rows):
    if not rows:
        raise Fault(f"no rows for the table {head}")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def sentence(lines):
    return re.sub(r"\s+", " ", " ".join(line.strip() for line in lines)).strip()


# ---- docs/ir.md

def def_rows(path, macro, fields):
    """The entries of a .def list, each with the comment at the end of its line."""
    pattern = re.compile(rf"^{macro}\(([^()]*)\)\s*(?://\s*(.*))?$")
    rows = []
    for line in read(path).splitlines():
        if match := pattern.match(line):
            parts = [p.strip().strip('"') for p in match.group(1).split(",")]
            if len(parts) != fields:
                raise Fault(f"{path}: {line}")
            rows.append((*parts, match.group(2) or ""))
    return rows


def scalar_rows():
    """(name, text, arity, rule, note) of every scalar operation; the rule of those that floats alone have is Elementary."""
    path = "src/ir/scalar_op.def"
    of_rules = {row[0]: row for row in def_rows(path, "STAX_SCALAR_OP", 4)}
    elementary = {name: (name, word, arity, "Elementary", note) for name, word, arity, note in def_rows(path, "STAX_ELEMENTARY_OP", 3)}
    order = re.findall(r"^STAX_(?:SCALAR|ELEMENTARY)_OP\((\w+)", read(path), re.M)
    return [(of_rules | elementary)[name] for name in order]


def payload_comment(name, text):
    """What graph.h says of the payload struct: the comment above it, or the one behind it."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not re.match(rf"struct {name}\b", line):
            continue
        above = []
        first = number
        while first > 0 and lines[first - 1].startswith("///"):
            first -= 1
            above.insert(0, lines[first][3:])
        if above:
            return sentence(above)
        end = next(n for n in range(number, len(lines)) if "}" in lines[n])
        if behind := re.search(r"\};\s*//\s*(.*)$", lines[end]):
            return behind.group(1)
    raise Fault(f"src/tensor/graph.h says nothing of {name}")


def tensor_ops():
    text = read("src/tensor/graph.h")
    return table(["op", "text", "meaning"], [(code(name), code(word), cell(payload_comment(name, text))) for name, word, _ in def_rows("src/tensor/ops.def", "STAX_TENSOR_OP", 2)])


def scalar_ops():
    rules = {"Same": "T.. → T", "Elementary": "T.. → T, floats", "Bool": "T.. → bool", "Select": "bool, T, T → T", "Index": "i64, i64 → i64", "Hash": "i64, i64 → u32"}
    return table(["op", "text", "arity", "types", "notes"],
                 [(code(name), code(word), arity, rules[rule], cell(note)) for name, word, arity, rule, note in scalar_rows()])


def comment_entries(text, indent, least=0):
    """`//   word    meaning` with meanings that go on in lines further to the right."""
    entries = []
    for line in text.splitlines():
        if match := re.match(rf"^//\s{{{indent}}}(\S.*?)\s{{2,}}(\S.*)$", line):
            entries.append((match.group(1), [match.group(2)]))
        elif entries and re.match(rf"^//\s{{{max(indent + 4, least)},}}\S", line):
            entries[-1][1].append(line[2:])
        elif entries:
            break
    return entries


def statements_of(path, nodes, macro):
    header = read(path)
    begin = header.index("// Statements (nodes.def)")
    said = dict(comment_entries(header[begin:].split("\n", 1)[1], 3))
    rows = []
    for name, word, _ in def_rows(nodes, macro, 2):
        if name not in said:
            raise Fault(f"{path} says nothing of {name}")
        rows.append((code(name), code(word) if word else "—", cell(sentence(said[name]))))
    return table(["statement", "keyword", "meaning"], rows)


def statements():
    return statements_of("src/loop/loop_ir.h", "src/loop/nodes.def", "STAX_LOOP_STMT")


def thread_statements():
    return statements_of("src/thread/thread_ir.h", "src/thread/nodes.def", "STAX_THREAD_STMT")


def schedule_steps():
    header = read("src/loop/transform.h")
    body = header[header.index("// Grammar") if "// Grammar" in header else header.index("Grammar, one step a line"):].split("\n", 1)[1]
    entries = []
    for line in body.splitlines():
        if match := re.match(r"^//   (\S.*?)\s{3,}(\S.*)$", line):
            entries.append((match.group(1), [match.group(2)]))
        elif entries and re.match(r"^//\s{10,}\S", line):
            entries[-1][1].append(line[2:])
        elif not line.startswith("//") :
            break
    return table(["step", "meaning"], [(code(step), cell(sentence(lines))) for step, lines in entries])


# ---- docs/pipeline.md

def layers():
    rows = []
    for line in read("cmake/layers.txt").splitlines():
        if line.strip() and not line.startswith("#"):
            folder, lower = line.split(":")
            rows.append((code(folder), ", ".join(code(x) for x in lower.split()) or "—"))
    return table(["folder", "may include (and what those may)"], rows)


def pipeline_steps():
    rows, pending, step = [], [], 0
    text = read("src/compile/pipeline.cpp")
    for line in text[text.index("void optimize("):].splitlines():
        line = line.strip()
        if line.startswith("//"):
            pending.append(line[2:].strip())
            continue
        if match := re.search(r'run_(?:pass|step)\("(\w+)"', line):
            why, fact = [], []
            into = why
            for part in pending:
                if part.startswith("From here on:"):
                    into, part = fact, part[len("From here on:"):].strip()
                into.append(part)
            step += 1
            rows.append((str(step), code(match.group(1)), cell(sentence(why)), cell(sentence(fact))))
        pending = []
    return table(["", "step", "why here", "true from here on"], rows)


def contracts(path):
    """`// name: text` blocks of a passes.h, up to the declaration."""
    blocks, block = [], []
    for line in read(path).splitlines():
        if line.startswith("//"):
            block.append(line[2:])
            continue
        if block and (match := re.match(r"\s(\w+): (.*)", block[0])):
            blocks.append((match.group(1), [match.group(2), *block[1:]]))
        block = []
    if not blocks:
        raise Fault(f"{path} has no contracts")
    lines = []
    for name, parts in blocks:
        items, text = [], []
        for part in parts:
            bullet = re.match(r"\s+- (.*)", part)
            (items.append([bullet.group(1)]) if bullet else (items[-1] if items else text).append(part))
        lines.append(f"- **{cell(name)}** ({source_of(path, name)}): {cell(sentence(text))}")
        lines += [f"  - {cell(sentence(item))}" for item in items]
    return "\n".join(lines)


def source_of(path, name):
    file = Path(path).parent / f"{name}.cpp"
    if not (ROOT / file).exists():
        raise Fault(f"{path}: there is no {file}")
    return f"[`{file}`](../{file})"


def tensor_passes():
    return contracts("src/tensor/passes.h")


def loop_passes():
    return contracts("src/loop/passes.h")


def thread_passes():
    return contracts("src/thread/passes.h")


# ---- docs/math.md

def functions():
    """ScalarOp -> largest errors, from the calls that fill the table."""
    text = read("src/ir/math_table.cpp")
    begin = text.index("class Table {")
    body = text[begin:text.index(" private:", begin)]
    errors, slow = {}, set()
    for op, error in re.findall(r"add_f32\(ScalarOp::k(\w+), ([\d.]+)", body):
        errors.setdefault(op, {})["f32"] = float(error)
    for op, narrow, wide in re.findall(r"add_both\(ScalarOp::k(\w+), ([\d.]+), ([\d.]+)", body):
        if float(narrow):
            errors.setdefault(op, {})["f32"] = float(narrow)
        errors.setdefault(op, {})["f64"] = float(wide)
    for op, error in re.findall(r"\badd\(ScalarOp::k(\w+), f64, ([\d.]+)", body):
        errors.setdefault(op, {})["f64"] = float(error)
    slow.update(re.findall(r"add_slow\(ScalarOp::k(\w+)", body))
    for loop in re.findall(r"\? ScalarOp::k(\w+) : ScalarOp::k(\w+);(.*?)\n    }", body, re.S):
        *ops, inside = loop
        for op in ops:
            errors.setdefault(op, {})["f32"] = float(re.search(r"add_f32\(op, ([\d.]+)", inside).group(1))
            errors[op]["f64"] = float(re.search(r"add\(op, f64, ([\d.]+)", inside).group(1))
            if "add_slow(op" in inside:
                slow.add(op)
    names = {name: word for name, word, *_ in scalar_rows()}
    rows = []
    for op in names:
        if op in errors:
            if set(errors[op]) != {"f32", "f64"}:
                raise Fault(f"src/ir/math_table.cpp: {op} has errors {errors[op]}")
            rows.append((code(names[op]), f"{errors[op]['f32']:g}", f"{errors[op]['f64']:g}", "yes" if op in slow else ""))
    return table(["function", "f32: largest error (ulp)", "f64: largest error (ulp)", "second program for large arguments"], rows)


def polynomials():
    text = read("src/ir/math_coefficients.h")
    rows = re.findall(r"^// ([^\n]*); (2\^-[\d.]+)\ninline constexpr (float|double) k(\w+)\[\] = \{([^}]*)\};", text, re.M)
    return table(["coefficients", "type", "form", "count", "largest relative error"],
                 [(code("k" + name), {"float": "f32", "double": "f64"}[kind], cell(form), str(len(values.split(","))), cell(error)) for form, error, kind, name, values in rows])


def rules():
    rows = []
    for file in ("simplify.cpp", "simplify_division.cpp", "simplify_logic.cpp"):
        for line in read(f"src/symbolic/{file}").splitlines():
            match = re.match(r"^\s*// ([SDMLEC]\d+)  (.*)$", line)
            if not match:
                continue
            # Several forms are parted by `;`, a form and its guard by three blanks.
            forms = [part.strip().partition("   ") for part in match.group(2).split(";  ")]
            guards = dict.fromkeys(guard.strip() for _, _, guard in forms if guard)
            rows.append((match.group(1), code("; ".join(form for form, _, _ in forms)), cell("; ".join(guards))))
    numbers = [r[0] for r in rows]
    if len(set(numbers)) != len(numbers):
        raise Fault(f"a rule's number appears twice: {numbers}")
    order = "SDMLEC"
    return table(["rule", "form", "if"], sorted(rows, key=lambda r: (order.index(r[0][0]), int(r[0][1:]))))


SECTIONS = {
    "docs/ir.md": [tensor_ops, scalar_ops, statements, schedule_steps, thread_statements],
    "docs/pipeline.md": [layers, pipeline_steps, tensor_passes, loop_passes, thread_passes],
    "docs/math.md": [functions, polynomials, rules],
}


def with_section(path, text, name, body):
    pattern = re.compile(rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)", re.S)
    if len(pattern.findall(text)) != 1:
        raise Fault(f"{path} has no section `<!-- generated: {name} -->` .. `<!-- end -->`, or several")
    return pattern.sub(lambda m: m.group(1) + body + "\n" + m.group(2), text)


def update(sections, check):
    """Names of the sections that are (or were) stale."""
    stale = []
    for path, makers in sections.items():
        before = text = read(path)
        for make in makers:
            after = with_section(path, text, make.__name__, make())
            if after != text:
                stale.append(f"{path}: {make.__name__}")
            text = after
        if not check and text != before:
            (ROOT / path).write_text(text)
    return stale


def main(sections, program):
    parser = argparse.ArgumentParser(description="Writes generated tables of docs/.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit status 1 if something is stale")
    check = parser.parse_args().check
    try:
        stale = update(sections, check)
    except (Fault, ValueError, OSError, AttributeError) as fault:
        print(f"{program}: {fault}", file=sys.stderr)
        return 1
    for section in stale:
        print(f"{section} is stale; run scripts/{program}" if check else f"{section}: written")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(SECTIONS, Path(__file__).name))
