# SPDX-License-Identifier: Apache-2.0
"""stax run --check and --record: a wrong version is found while it serves; what ran is counted, and bench runs it again."""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

WORD = (1 << 64) - 1


def model():
    rng = np.random.default_rng(3)
    return h.model([h.node("MatMul", "x w", "t", name="product"), h.node("Relu", "t", "y")], {"x": (h.FLOAT, ["rows", 8])}, {"y": (h.FLOAT, ["rows", 40])},
                   {"w": h.normal(rng, 8, 40)})


def feeds(*rows):
    return [{"x": h.normal(np.random.default_rng(n), n, 8)} for n in rows]


def files(folder, given):
    paths = [folder / f"{k}.npz" for k in range(len(given))]
    for path, feed in zip(paths, given):
        np.savez(path, **feed)
    return paths


def file_sum(data):
    """The checksum of compiled programs."""
    def mix(w):
        w ^= w >> 32
        w = w * 0xD6E8FEB86659FD93 & WORD
        w ^= w >> 29
        w = w * 0xA0761D6478BD642F & WORD
        return w ^ w >> 32
    rotate = lambda w, by: (w << by | w >> 64 - by) & WORD
    lanes = [mix(k + 1) for k in range(4)]
    for k in range(0, len(data), 8):
        word = int.from_bytes(data[k:k + 8], "little")
        lane = k // 8 % 4
        lanes[lane] = rotate(lanes[lane] ^ (word * 0xC2B2AE3D27D4EB4F & WORD), 29) * 0x9FB21C651E98DF25 & WORD
    seed = mix(len(data))
    for lane in lanes:
        seed = mix((rotate(seed, 23) * 0x9E3779B97F4A7C15 + lane + 0x2545F4914F6CDD1D) & WORD)
    return seed


def test_versions_that_agree(folder):
    for device in ("cpu", "loop", "sim"):
        session = h.run(folder, model(), feeds(1, 0, 3, 40), "--check", "2", "--repeat", "2", "--device", device)
        assert session.stats["check"]["calls"] == 4 and session.stats["check"]["launches"] >= 3, session.stats["check"]
        assert session.stats["check"]["mismatches"] == 0
        plain = h.run(folder, model(), feeds(1, 0, 3, 40), "--device", device)
        assert "check" not in plain.stats
        for a, b in zip(session.outputs, plain.outputs):
            h.equal_bits(a, b, device)
    [a] = files(folder, feeds(3))
    out = h.stax("run", h.save(model(), folder / "m.onnx"), "--inputs", a, "--check", "1").expect(0).out
    assert "checked: 1 calls" in out, out


def test_a_wrong_version_is_named_and_replaced(folder):
    """The first version's sum begins with 1 instead of 0, in a compiled program."""
    m, program = h.save(model(), folder / "m.onnx"), folder / "m.stax"
    h.stax("compile", m, "-o", program, "--target", "cpu:native").expect(0)
    data = bytearray(program.read_bytes())
    at = data.find(b"kernel @contraction_0_v0 ")
    zero = data.find(b"= 0.0:f32", at)
    assert 0 < at < zero < data.find(b"kernel @contraction_0_v1 "), "the text of the loops has another form"
    assert int.from_bytes(data[16:24], "little") == file_sum(data[24:]), "the checksum is made otherwise"
    data[zero:zero + 9] = b"= 1.0:f32"
    data[16:24] = file_sum(data[24:]).to_bytes(8, "little")
    program.write_bytes(data)
    given = feeds(1, 1, 7)
    want = h.run(folder, m, given).outputs
    wrong = h.run(folder, program, given, "--device", "loop").outputs
    assert h.differs(wrong[0]["y"], want[0]["y"]) and not h.differs(wrong[2]["y"], want[2]["y"])
    session = h.run(folder, program, given, "--device", "loop", "--check", "1", status=70, env={"STAX_REPRO_DIR": str(folder)})
    session.done.expect(70, "version 0 of kernel contraction_0", "Relu node", "in0000.npz", "bisect")
    assert session.stats["check"] == {"calls": 3, "launches": 3, "mismatches": 1}, session.stats["check"]
    assert session.stats["inputs"][1]["versions_used"]["contraction_0"] > 0
    for got, right in zip(session.outputs, want):
        h.same(got, right, "the calls of a checked run are right")
    [kept] = folder.glob("stax-repro-*-check.npz")
    h.equal_bits(h.load(kept), given[0], "the inputs of the call that went wrong")
    # Only the second call is checked.
    late = h.run(folder, program, feeds(7, 1, 1, 1), "--device", "loop", "--check", "3", status=70, env={"STAX_REPRO_DIR": str(folder)})
    late.done.expect(70, "in0003.npz")


def test_mistakes_with_check(folder):
    m = h.save(model(), folder / "m.onnx")
    [a] = files(folder, feeds(3))
    h.stax("run", m, "--inputs", a, "--check", "-1").expect(1, "--check")
    h.stax("run", m, "--inputs", a, "--check", "1", "--device", "reference").expect(1, "reference", "--check")
    h.stax("run", m, "--inputs", a, "--chek", "1").expect(2, "--check")


def test_a_record_is_what_ran(folder):
    m = h.save(h.model([h.node("Add", "x z", "y")], {"x": (h.FLOAT, ["rows", 8]), "z": (h.FLOAT, ["rows", None])}, ["y"]), folder / "m.onnx")
    given = [{"x": np.ones((n, 8), np.float32), "z": np.ones((n, k), np.float32)} for n, k in [(3, 8), (2, 1), (3, 8), (0, 8), (3, 8)]]
    given.insert(2, {"x": np.ones((3, 8), np.float32), "z": np.ones((4, 8), np.float32)})      # does not run
    paths = files(folder, given)
    for device in ("cpu", "reference"):
        h.stax("run", m, "--inputs", *paths, "--record", folder / "h.json", "--warmup", "1", "--device", device).expect(1, "rows")
        record = json.loads((folder / "h.json").read_text())
        assert record["dims"] == ["rows", "z[1]"] and record["stax_shapes"] == 1, record
        assert record["shapes"] == [{"dims": {"rows": 3, "z[1]": 8}, "calls": 6}, {"dims": {"rows": 0, "z[1]": 8}, "calls": 2}, {"dims": {"rows": 2, "z[1]": 1}, "calls": 2}], record
    points = json.loads(bench(folder, m, folder / "h.json").read_text())["points"]
    assert [(p["calls"], p["shapes"]["z"]) for p in points] == [(6, [3, 8]), (2, [0, 8]), (2, [2, 1])], points


def bench(folder, m, shapes):
    h.stax("bench", m, "--shapes", shapes, "--repeat", "2", "--threads", "1", "--json", folder / "b.json").expect(0)
    return folder / "b.json"


def test_a_record_of_a_compiled_program(folder):
    m = h.save(model(), folder / "m.onnx")
    h.stax("compile", m, "-o", folder / "m.stax", "--target", "cpu:native").expect(0)
    records = []
    for path in (m, folder / "m.stax"):
        h.stax("run", path, "--inputs", *files(folder, feeds(4, 2, 4)), "--record", folder / "h.json").expect(0)
        records.append(json.loads((folder / "h.json").read_text()))
    assert records[0] == records[1] and records[0]["shapes"][0] == {"dims": {"rows": 4}, "calls": 2}, records


def test_mistakes_with_shapes(folder):
    m = h.save(model(), folder / "m.onnx")
    [a] = files(folder, feeds(3))
    h.stax("run", m, "--inputs", a, "--record", "/proc/none/h.json").expect(1, "/proc/none")
    path = folder / "h.json"
    for text, words in [("", ["no histogram"]), ("{}", ["no histogram"]), ('{"stax_shapes": 2, "shapes": []}', ["version"]), ('{"stax_shapes": 1, "shapes": []}', ["no shapes"]),
                        ('{"stax_shapes": 1, "shapes": [{"dims": {"row": 4}, "calls": 1}]}', ["'row'", "rows"]),
                        ('{"stax_shapes": 1, "shapes": [{"dims": {"rows": -4}, "calls": 1}]}', ["rows", "negative"]),
                        ('{"stax_shapes": 1, "shapes": [{"dims": {"rows": 4}, "calls": 0}]}', ["calls"]),
                        ('{"stax_shapes": 1, "shapes": [{"dims": {"rows": 4000000000}, "calls": 1}]}', ["rows", "range"])]:
        path.write_text(text)
        h.stax("bench", m, "--shapes", path).expect(1, "h.json", *words)
    h.stax("bench", m, "--shapes", folder / "none.json").expect(1, "none.json")
    h.stax("bench", m, "--shapes", path, "--sweep", "rows=3").expect(1, "--shapes", "--sweep")


if __name__ == "__main__":
    h.main()
