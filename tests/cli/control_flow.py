# SPDX-License-Identifier: Apache-2.0
"""If, Loop, Scan, sequences and extents that depend on data, inside of one another."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

n = h.node
F, I, B = h.FLOAT, h.INT64, h.BOOL


def check(folder, model, feeds, want=None, **tolerance):
    """All devices agree with `want` (a function of the feed), or with ONNX Runtime."""
    path = h.save(model, folder / "m.onnx")
    expected = [want(f) if want else h.oracle(model, f) for f in feeds]
    for device in ("cpu", "loop", "reference"):
        session = h.run(folder, path, feeds, "--device", device)
        for k, got in enumerate(session.outputs):
            h.same(got, expected[k], f"{device}, call {k}", **tolerance)


def x(*shape, start=0):
    size = int(np.prod(shape))
    return (np.arange(start, start + size, dtype=np.float32) - 3).reshape(shape) / 4


def loop_model(trips=True):
    step = h.body([n("Mul", "v half", "next"), n("ReduceSum", "next", "total", keepdims=0), n("Less", "i last", "on")],
                  {"i": (I, []), "go": (B, []), "v": (F, ["n", 3])}, {"on": (B, []), "next": (F, ["n", 3]), "total": (F, [])}, {"half": np.float32(0.5), "last": np.array(6)})
    nodes = [n("Relu", "x", "r"), n("Loop", f"{'trips' if trips else '-'} go r", "last totals", body=step), n("Exp", "x", "e"), n("Neg", "e", "f"), n("Mul", "f f", "g"), n("Add", "last g", "y")]
    return h.model(nodes, {"x": (F, ["n", 3])} | ({"trips": (I, [])} if trips else {}) | {"go": (B, [])}, ["y", "totals", "last"])


def test_trip_counts_and_conditions(folder):
    feeds = [{"x": x(size, 3), "trips": np.array(t), "go": np.array(g)} for size, t, g in
             [(2, 3, True), (2, 0, True), (2, 5, False), (0, 2, True), (0, 0, True), (1, 100, True), (5, -4, True), (2, 1, True)]]

    def want(f):
        v, totals, i = np.maximum(f["x"], 0), [], 0
        go = bool(f["go"])
        while go and i < f["trips"]:
            v = v * np.float32(0.5)
            totals.append(v.sum(dtype=np.float32))
            go, i = i < 6, i + 1
        e = np.exp(f["x"])
        return {"y": v + e * e, "totals": np.array(totals, np.float32), "last": v}
    check(folder, loop_model(), feeds, want)


def test_a_loop_with_a_condition_only(folder):
    def want(f):
        v, totals = np.maximum(f["x"], 0), []
        for _ in range(7 if f["go"] else 0):
            v = v * np.float32(0.5)
            totals.append(v.sum(dtype=np.float32))
        e = np.exp(f["x"])
        return {"y": v + e * e, "totals": np.array(totals, np.float32), "last": v}
    check(folder, loop_model(trips=False), [{"x": x(4, 3), "go": np.array(g)} for g in (True, False, True)], want)


def test_values_that_only_pass_through_a_loop(folder):
    """What goes in comes out, also after its memory could have been given to others: nothing is computed in the loop, or it runs no time."""
    step = h.body([n("Identity", "go", "on"), n("Identity", "b", "b2"), n("Identity", "a", "a2")],
                  {"i": (I, []), "go": (B, []), "a": (F, ["n"]), "b": (F, ["n"])}, {"on": (B, []), "b2": (F, ["n"]), "a2": (F, ["n"])})
    nodes = [n("Exp", "x", "p"), n("Sin", "x", "q"), n("Loop", "trips - p q", "r s", body=step)]
    chain = [n(op, f"c{k}", f"c{k + 1}") for k, op in enumerate(["Cos", "Tanh", "Cos", "Sigmoid", "Cos", "Tanh"])]
    nodes += [n("ReduceSum", "c0 axis", "t0", keepdims=1), n("CumSum", "x axis", "c0")][::-1] + chain + [n("CumSum", f"c{len(chain)} axis", "d"), n("Add", "d r", "u"), n("Sub", "u s", "v"), n("Add", "v t0", "y")]
    model = h.model(nodes, {"x": (F, ["n"]), "trips": (I, [])}, ["y"], {"axis": np.array(0)})

    def want(f):
        v = f["x"].astype(np.float64)
        p, q = np.exp(v), np.sin(v)
        if f["trips"] % 2:
            p, q = q, p
        c = np.cumsum(v)
        t = c.sum(keepdims=True)
        c = np.tanh(np.cos(1 / (1 + np.exp(-np.cos(np.tanh(np.cos(c)))))))
        return {"y": (np.cumsum(c) + p - q + t).astype(np.float32)}
    model.graph.node[[k for k, m in enumerate(model.graph.node) if m.op_type == "ReduceSum"][0]].input[1] = "axes"
    model.graph.initializer.append(h.numpy_helper.from_array(np.array([0]), "axes"))
    check(folder, model, [{"x": x(size), "trips": np.array(t)} for size, t in [(64, 0), (64, 1), (64, 2), (17, 0), (64, 3), (1, 0)]], want, rtol=1e-4, atol=1e-4)


def test_the_iteration_number_as_a_value(folder):
    """Carried to the next iteration and out of the loop, alone and by way of a branch."""
    then = h.body([n("Identity", "i", "t")], {}, {"t": (I, [])})
    other = h.body([n("Neg", "i", "t")], {}, {"t": (I, [])})
    step = h.body([n("Add", "sum last", "sum2"), n("Identity", "i", "last2"), n("Equal", "i two", "is"), n("If", "is", "b2", then_branch=then, else_branch=other), n("Add", "b i", "b3"), n("Identity", "go", "on")],
                  {"i": (I, []), "go": (B, []), "sum": (I, []), "last": (I, []), "b": (I, [])}, {"on": (B, []), "sum2": (I, []), "last2": (I, []), "b2": (I, []), "b3": (I, [])}, {"two": np.array(2)})
    model = h.model([n("Loop", "trips - start start start", "sum last b bs", body=step)], {"trips": (I, []), "start": (I, [])}, ["sum", "last", "b", "bs"])

    def want(f):
        total, last, b, bs = int(f["start"]), int(f["start"]), int(f["start"]), []
        for i in range(int(f["trips"])):
            total += last
            bs.append(b + i)
            last, b = i, i if i == 2 else -i
        return {"sum": np.array(total), "last": np.array(last), "b": np.array(b), "bs": np.array(bs, np.int64)}
    check(folder, model, [{"trips": np.array(t), "start": np.array(10)} for t in (5, 3, 1, 0)], want)


def test_branches(folder):
    """Each branch gives the other's, an outer or a constant value; extents differ; what was made before stays."""
    then = h.body([n("Concat", "r x", "t0", axis=0), n("Identity", "e", "t1")], {}, {"t0": (F, None), "t1": (F, None)})
    other = h.body([n("Identity", "r", "t0"), n("Neg", "e", "t1")], {}, {"t0": (F, None), "t1": (F, None)})
    nodes = [n("Relu", "x", "r"), n("Exp", "x", "e"), n("If", "c", "p q", then_branch=then, else_branch=other), n("Sin", "x", "s"), n("Cos", "s", "s1"), n("Tanh", "s1", "s2"), n("CumSum", "s2 zero", "s3"),
             n("ReduceSum", "p axis", "p1", keepdims=0), n("Add", "q s3", "y"), n("Add", "y p1", "z")]
    model = h.model(nodes, {"x": (F, ["n", 3]), "c": (B, [])}, ["y", "z", "p"], {"axis": np.array([0]), "zero": np.array(0)})
    check(folder, model, [{"x": x(size, 3), "c": np.array(c)} for size, c in [(2, True), (2, False), (0, True), (33, False), (33, True), (1, True)]], atol=1e-4)


def test_nested_loops_in_branches(folder):
    """A loop in a loop in a branch, with values of every level."""
    inner = h.body([n("Add", "w x", "w2"), n("Mul", "w2 v", "w3"), n("Identity", "go", "on")], {"j": (I, []), "go": (B, []), "w": (F, ["n"])}, {"on": (B, []), "w3": (F, ["n"])}, {})
    outer = h.body([n("Loop", "i - v", "v2", body=inner), n("Tanh", "v2", "v3"), n("Identity", "go2", "on2"), n("ReduceMax", "v3", "m", keepdims=0)],
                   {"i": (I, []), "go2": (B, []), "v": (F, ["n"])}, {"on2": (B, []), "v3": (F, ["n"]), "m": (F, [])})
    then = h.body([n("Loop", "trips - r", "t0 t1", body=outer)], {}, {"t0": (F, None), "t1": (F, None)})
    other = h.body([n("Neg", "r", "t0"), n("ReduceMin", "r", "m", keepdims=0), n("Unsqueeze", "m zero", "t1")], {}, {"t0": (F, None), "t1": (F, None)}, {"zero": np.array([0])})
    model = h.model([n("Sigmoid", "x", "r"), n("If", "c", "y z", then_branch=then, else_branch=other), n("Add", "y r", "u")], {"x": (F, ["n"]), "c": (B, []), "trips": (I, [])}, ["u", "z"])

    def want(f):
        v = f["x"].astype(np.float64)
        r = 1 / (1 + np.exp(-v))
        if not f["c"]:
            return {"u": (-r + r).astype(np.float32), "z": r.min(keepdims=True).astype(np.float32)}
        state, tops = r, []
        for i in range(int(f["trips"])):
            w = state
            for _ in range(i):
                w = (w + v) * state
            state = np.tanh(w)
            tops.append(state.max())
        return {"u": (state + r).astype(np.float32), "z": np.array(tops, np.float32)}
    check(folder, model, [{"x": x(size), "c": np.array(c), "trips": np.array(t)} for size, c, t in [(3, True, 4), (3, False, 4), (5, True, 1), (4, True, 0), (2, True, 5), (3, True, 4)]], want)


def test_extents_that_grow_in_a_loop(folder):
    step = h.body([n("Concat", "v x", "v2", axis=0), n("Identity", "go", "on"), n("Shape", "v2", "s")], {"i": (I, []), "go": (B, []), "v": (F, [None, 2])}, {"on": (B, []), "v2": (F, [None, 2]), "s": (I, [2])})
    model = h.model([n("Loop", "trips - x", "y sizes", body=step), n("ReduceSum", "y axis", "z", keepdims=0)], {"x": (F, ["n", 2]), "trips": (I, [])}, ["y", "sizes", "z"], {"axis": np.array([0])})

    def want(f):
        sizes = np.array([[len(f["x"]) * (k + 2), 2] for k in range(int(f["trips"]))], np.int64).reshape(-1, 2)
        y = np.concatenate([f["x"]] * (int(f["trips"]) + 1))
        return {"y": y, "sizes": sizes, "z": y.sum(0, dtype=np.float32)}
    check(folder, model, [{"x": x(size, 2), "trips": np.array(t)} for size, t in [(2, 3), (1, 0), (0, 2), (5, 1), (2, 8)]], want, atol=1e-4)


def test_data_decides_extents_in_a_loop(folder):
    """NonZero in each iteration, of another count each time."""
    step = h.body([n("Cast", "i", "f", to=F), n("Greater", "x f", "c"), n("NonZero", "c", "at"), n("Squeeze", "at zero", "at1"), n("Gather", "x at1", "kept"), n("ReduceSum", "kept", "s", keepdims=0), n("Add", "acc s", "acc2"),
                   n("Size", "kept", "size"), n("Identity", "go", "on")],
                  {"i": (I, []), "go": (B, []), "acc": (F, [])}, {"on": (B, []), "acc2": (F, []), "size": (I, [])}, {"zero": np.array([0])})
    model = h.model([n("Loop", "trips - start", "y sizes", body=step)], {"x": (F, ["n"]), "trips": (I, []), "start": (F, [])}, ["y", "sizes"])

    def want(f):
        kept = [f["x"][f["x"] > k] for k in range(int(f["trips"]))]
        return {"y": np.float32(f["start"] + sum(k.sum(dtype=np.float32) for k in kept)), "sizes": np.array([len(k) for k in kept], np.int64)}
    rng = np.random.default_rng(3)
    check(folder, model, [{"x": 3 * h.normal(rng, size), "trips": np.array(t), "start": np.float32(1)} for size, t in [(9, 4), (0, 2), (100, 7), (1, 1), (9, 0)]], want, atol=1e-4)


def test_scan(folder):
    step = h.body([n("Add", "s e", "s2"), n("Mul", "s2 s2", "o")], {"s": (F, [2]), "e": (F, [2])}, {"s2": (F, [2]), "o": (F, [2])})
    model = h.model([n("Scan", "start x", "last y", body=step, num_scan_inputs=1), n("Scan", "start x", "last2 y2", body=step, num_scan_inputs=1, scan_input_directions=[1], scan_output_directions=[1])],
                    {"start": (F, [2]), "x": (F, ["n", 2])}, ["last", "y", "last2", "y2"])

    def want(f):
        states = np.cumsum(np.concatenate([f["start"][None], f["x"]]), 0, dtype=np.float32)
        back = np.cumsum(np.concatenate([f["start"][None], f["x"][::-1]]), 0, dtype=np.float32)
        return {"last": states[-1], "y": states[1:] ** 2, "last2": back[-1], "y2": (back[1:] ** 2)[::-1]}
    check(folder, model, [{"start": x(2), "x": x(size, 2)} for size in (3, 1, 0, 17)], want)


def test_sequences(folder):
    nodes = [n("SplitToSequence", "x", "parts", axis=0, keepdims=1), n("SequenceInsert", "parts x minus", "more"), n("SequenceErase", "more zero", "less"), n("SequenceAt", "less minus", "last"), n("SequenceLength", "less", "count"),
             n("ConcatFromSequence", "less", "whole", axis=0), n("ReduceSum", "whole axis", "sum", keepdims=0), n("SequenceConstruct", "x sum", "pair"), n("SequenceAt", "pair one", "again"), n("Add", "again sum", "y")]
    model = h.model(nodes, {"x": (F, ["n", 2])}, ["last", "count", "whole", "y", "pair", "less"], {"minus": np.array(-1), "zero": np.array(0), "one": np.array(1), "axis": np.array([0])})

    def want(f):
        parts = [r[None] for r in f["x"]]
        parts.insert(len(parts) - 1, f["x"])
        del parts[0]
        whole = np.concatenate(parts)
        total = whole.sum(0, dtype=np.float32)
        return {"last": parts[-1], "count": np.array(len(parts)), "whole": whole, "y": 2 * total, "pair[0]": f["x"], "pair[1]": total} | {f"less[{k}]": p for k, p in enumerate(parts)}
    check(folder, model, [{"x": x(size, 2)} for size in (3, 2, 9, 3)], want, atol=1e-4)


def test_sequences_through_loops_and_branches(folder):
    tensor = h.helper.make_tensor_type_proto(F, None)
    sequence = h.helper.make_sequence_type_proto(tensor)
    step = h.body([n("Add", "x f", "e"), n("Cast", "i", "f", to=F), n("SequenceInsert", "s e", "s2"), n("Identity", "go", "on")][1::-1] + [n("SequenceInsert", "s e", "s2"), n("Identity", "go", "on")], {"i": (I, []), "go": (B, [])}, {"on": (B, [])})
    step.input.append(h.helper.make_value_info("s", sequence))
    step.output.append(h.helper.make_value_info("s2", sequence))
    then = h.body([n("SequenceInsert", "grown x", "t")], {}, {})
    then.output.append(h.helper.make_value_info("t", sequence))
    other = h.body([n("Identity", "grown", "t")], {}, {})
    other.output.append(h.helper.make_value_info("t", sequence))
    nodes = [n("SequenceEmpty", "-", "empty", dtype=F), n("Loop", "trips - empty", "grown", body=step), n("If", "c", "all", then_branch=then, else_branch=other), n("SequenceLength", "all", "count")]
    nodes[0].ClearField("input")
    model = h.model(nodes, {"x": (F, ["n"]), "trips": (I, []), "c": (B, [])}, ["all", "count"])

    def want(f):
        parts = [f["x"] + np.float32(k) for k in range(int(f["trips"]))] + ([f["x"]] if f["c"] else [])
        return {f"all[{k}]": p for k, p in enumerate(parts)} | {"count": np.array(len(parts))} | ({} if parts else {"all[]": np.empty(0, np.float32)})
    check(folder, model, [{"x": x(size), "trips": np.array(t), "c": np.array(c)} for size, t, c in [(2, 3, True), (2, 0, False), (0, 2, False), (3, 1, True)]], want)


def test_faults_inside_name_the_node_and_leave_the_session_usable(folder):
    step = h.body([n("Gather", "x i", "row", axis=0, name="pick"), n("Add", "acc row", "acc2"), n("Identity", "go", "on")], {"i": (I, []), "go": (B, []), "acc": (F, [2])}, {"on": (B, []), "acc2": (F, [2])})
    model = h.model([n("Loop", "trips - start", "y", body=step, name="rows"), n("SplitToSequence", "x", "s", axis=0, name="split"), n("SequenceAt", "s k", "z", name="at")], {"x": (F, ["n", 2]), "trips": (I, []), "start": (F, [2]), "k": (I, [])}, ["y", "z"])
    feed = lambda size, trips, k: {"x": x(size, 2), "trips": np.array(trips), "start": x(2), "k": np.array(k)}
    session = h.run(folder, model, [feed(3, 3, 0), feed(3, 4, 0), feed(3, 3, 5), feed(3, 3, -1), feed(3, 2, -4), feed(3, 3, 0)], status=1)
    assert [o is not None for o in session.outputs] == [True, False, False, True, False, True]
    h.equal_bits(session.outputs[0], session.outputs[5])
    session.done.expect(1, "index 3", "extent of 3", "at", "position 5", "position -4")


@h.known_fault("an index is blamed on the node that its gather was fused into")
def test_a_wrong_index_names_the_node_that_has_it(folder):
    model = h.model([n("Gather", "x at", "row", axis=0, name="pick"), n("Relu", "row", "y", name="clamp")], {"x": (F, ["n", 2]), "at": (I, ["m"])}, ["y"])
    h.run(folder, model, [{"x": x(3, 2), "at": np.array([0, 77])}], status=1).done.expect(1, "pick", "77", "3")


if __name__ == "__main__":
    h.main()
