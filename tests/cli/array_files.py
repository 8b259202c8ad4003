# SPDX-License-Identifier: Apache-2.0
"""The .npz files that numpy and others write, all element types, and what no .npz may make Stax do."""
import io
import struct
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np


def doubled(onnx_type=h.FLOAT, dims=("n", "m")):
    """y = x twice: no bit changes on the way"""
    return h.model([h.node("Concat", "x x", "y", axis=0)], {"x": (onnx_type, list(dims))}, ["y"])


def session(folder, path, model=None, status=0):
    m = h.save(model or doubled(), folder / "m.onnx")
    done = h.stax("run", m, "--inputs", path, "--outputs", folder / "out", "--quiet")
    if status is not None:
        done.expect(status)
    return h.load(folder / "out" / path.name) if status == 0 else done


def npy(array, version=None):
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asanyarray(array), version=version)
    return file.getvalue()


def archive(path, entries, compression=zipfile.ZIP_STORED, zip64=False):
    with zipfile.ZipFile(path, "w", compression) as z:
        for name, data in entries.items():
            with z.open(zipfile.ZipInfo(name) if compression == zipfile.ZIP_STORED else name, "w", force_zip64=zip64) as entry:
                entry.write(data)
    return path


X = np.arange(12, dtype=np.float32).reshape(3, 4)
TWICE = {"y": np.concatenate([X, X])}


def test_column_major_arrays(folder):
    np.savez(folder / "a.npz", x=np.asfortranarray(X))
    assert b"'fortran_order': True" in (folder / "a.npz").read_bytes()
    h.same(session(folder, folder / "a.npz"), TWICE)
    cube = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    for k, view in enumerate((np.asfortranarray(cube), cube.T, cube[:, ::2], cube[::-1], np.broadcast_to(cube[:1], cube.shape), cube[:0].T, np.asfortranarray(cube[:, :1]))):
        np.savez(folder / f"{k}.npz", x=view)
        model = h.model([h.node("Cast", "x", "y", to=h.INT32)], {"x": (h.TensorProto.INT16, ["a", "b", "c"])}, ["y"])
        h.same(session(folder, folder / f"{k}.npz", model), {"y": view.astype(np.int32)}, f"view {k}")


def test_zip64_headers(folder):
    h.same(session(folder, archive(folder / "a.npz", {"x.npy": npy(X)}, zip64=True)), TWICE)


def test_compressed_archives(folder):
    np.savez_compressed(folder / "a.npz", x=X)
    h.same(session(folder, folder / "a.npz"), TWICE)
    h.same(session(folder, archive(folder / "b.npz", {"x.npy": npy(X)}, zipfile.ZIP_DEFLATED, zip64=True)), TWICE)
    zeros = np.zeros((1000, 1000), np.float32)
    np.savez_compressed(folder / "zeros.npz", x=zeros)
    h.same(session(folder, folder / "zeros.npz"), {"y": np.concatenate([zeros, zeros])})


def test_header_versions(folder):
    for version in ((1, 0), (2, 0), (3, 0)):
        h.same(session(folder, archive(folder / "a.npz", {"x.npy": npy(X, version)})), TWICE, str(version))


def test_names_with_and_without_the_ending(folder):
    h.same(session(folder, archive(folder / "a.npz", {"x": npy(X)})), TWICE)


def test_every_element_type(folder):
    rng = np.random.default_rng(1)
    for name, onnx_type in [("bool", h.BOOL), ("int8", h.INT8), ("int16", h.TensorProto.INT16), ("int32", h.INT32), ("int64", h.INT64), ("uint8", h.UINT8), ("uint16", h.TensorProto.UINT16),
                            ("uint32", h.TensorProto.UINT32), ("uint64", h.TensorProto.UINT64), ("float16", h.HALF), ("float32", h.FLOAT), ("float64", h.DOUBLE)]:
        size = np.dtype(name).itemsize
        x = (rng.random((3, 5)) < 0.5) if name == "bool" else np.frombuffer(rng.bytes(15 * size), name).reshape(3, 5)
        np.savez(folder / "a.npz", x=x)
        h.equal_bits(session(folder, folder / "a.npz", doubled(onnx_type)), {"y": np.concatenate([x, x])}, name)


def test_bfloat16_is_its_bits(folder):
    bits = np.array([[0x3F80, 0xC000], [0x7F80, 0x0001]], np.uint16)     # 1, -2, inf, the least denormal
    np.savez(folder / "a.npz", x=bits)
    h.equal_bits(session(folder, folder / "a.npz", doubled(h.BFLOAT16)), {"y": np.concatenate([bits, bits])})
    model = h.model([h.node("Cast", "x", "y", to=h.FLOAT)], {"x": (h.BFLOAT16, ["n", "m"])}, ["y"])
    h.same(session(folder, folder / "a.npz", model), {"y": (bits.astype(np.uint32) << 16).view(np.float32)})


def test_bools_that_are_no_0_or_1(folder):
    data = bytearray(npy(np.array([True, False, True])))
    data[-3:] = bytes([2, 0, 255])
    model = h.model([h.node("Not", "x", "y"), h.node("Cast", "x", "z", to=h.INT32)], {"x": (h.BOOL, ["n"])}, ["y", "z"])
    h.same(session(folder, archive(folder / "a.npz", {"x.npy": bytes(data)}), model), {"y": np.array([False, True, False]), "z": np.array([1, 0, 1], np.int32)})


def test_scalars_and_empty_arrays(folder):
    model = h.model([h.node("Neg", "x", "y"), h.node("Neg", "e", "z")], {"x": (h.FLOAT, []), "e": (h.FLOAT, ["a", "b", "c"])}, ["y", "z"])
    for shape in ((0, 3, 2), (3, 0, 2), (0, 0, 0), (1 << 20, 0, 1 << 20)):
        np.savez(folder / "a.npz", x=np.float32(3), e=np.empty(shape, np.float32))
        h.same(session(folder, folder / "a.npz", model), {"y": np.float32(-3), "z": np.empty(shape, np.float32)})


def test_results_are_read_by_numpy_and_by_stax(folder):
    np.savez(folder / "a.npz", x=X)
    first = session(folder, folder / "a.npz", h.model([h.node("Neg", "x", "x2")], {"x": (h.FLOAT, ["n", "m"])}, ["x2"]))
    model = h.model([h.node("Neg", "x2", "y")], {"x2": (h.FLOAT, ["n", "m"])}, ["y"])
    (folder / "out" / "a.npz").rename(folder / "b.npz")
    h.same(session(folder, folder / "b.npz", model), {"y": X})
    h.same(first, {"x2": -X})


def test_sequences(folder):
    ty = h.helper.make_sequence_type_proto(h.helper.make_tensor_type_proto(h.FLOAT, [None]))
    model = h.model([h.node("SequenceLength", "s", "n"), h.node("Identity", "s", "t")], {}, ["n", "t"])
    model.graph.input.append(h.helper.make_value_info("s", ty))
    for count in (0, 1, 3, 12):
        parts = {f"s[{k}]": np.arange(k, dtype=np.float32) for k in range(count)} or {"s[]": np.empty(0, np.float32)}
        np.savez(folder / "a.npz", **parts)
        want = {k.replace("s[", "t["): v for k, v in parts.items()} | {"n": np.array(count)}
        h.same(session(folder, folder / "a.npz", model), want, f"{count} elements")
    np.savez(folder / "a.npz", s=X)
    session(folder, folder / "a.npz", model, 1).expect(1, "'s'", "s[0]")
    np.savez(folder / "a.npz", **{"s[0]": X[0], "s[2]": X[0]})
    session(folder, folder / "a.npz", model, 1).expect(1, "s[2]")


def test_damaged_archives(folder):
    np.savez(folder / "good.npz", x=X)
    good = (folder / "good.npz").read_bytes()
    header = npy(X)
    cases = {"empty": b"", "text": b"hello\n" * 40, "half": good[: len(good) // 2], "no directory": good[:-30],
             "no array": archive(folder / "z", {"x.npy": b"hello, world"}).read_bytes(), "an empty entry": archive(folder / "z", {"x.npy": b""}).read_bytes(),
             "short data": archive(folder / "z", {"x.npy": header[:-4]}).read_bytes(), "long data": archive(folder / "z", {"x.npy": header + b"1234"}).read_bytes(),
             "header cut": archive(folder / "z", {"x.npy": header[:40]}).read_bytes(), "a huge header length": archive(folder / "z", {"x.npy": header[:8] + b"\xff\xff" + header[10:]}).read_bytes(),
             "no shape": archive(folder / "z", {"x.npy": header.replace(b"'shape'", b"'shaqe'")}).read_bytes(),
             "a negative extent": archive(folder / "z", {"x.npy": header.replace(b"(3, 4)", b"(-3,4)")}).read_bytes(),
             "exabytes": archive(folder / "z", {"x.npy": header.replace(b"(3, 4), }      ", b"(99999999999999, 9999999), }")}).read_bytes(),
             "one name twice": archive(folder / "z", {"x.npy": npy(X), "x": npy(X)}).read_bytes()}
    data = bytearray(good)
    data[good.index(b"NUMPY") + 100] ^= 0xFF        # the checksum of the entry no longer fits
    cases["wrong checksum"] = bytes(data)
    for name, data in cases.items():
        (folder / "bad.npz").write_bytes(data)
        done = session(folder, folder / "bad.npz", status=None)
        assert done.status == 1 and "bad.npz" in done.err, f"{name}: exit {done.status}: {done.err}{done.out}"
        assert not (folder / "out" / "bad.npz").exists(), name


def test_a_small_file_that_claims_to_be_large(folder):
    """A deflated entry of a few kilobytes that says it holds terabytes."""
    archive(folder / "a.npz", {"x.npy": npy(X)}, zipfile.ZIP_DEFLATED)
    data = bytearray((folder / "a.npz").read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 0xFFFFFFF0)
    (folder / "a.npz").write_bytes(data)
    session(folder, folder / "a.npz")           # numpy reads it, too, and so little memory is enough


def test_flipped_bits(folder):
    np.savez(folder / "good.npz", x=X)
    good = (folder / "good.npz").read_bytes()
    rng = np.random.default_rng(4)
    m = h.save(doubled(), folder / "m.onnx")
    paths = []
    for k in range(200):
        data = bytearray(good)
        for _ in range(int(rng.integers(1, 4))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        paths.append(folder / f"f{k}.npz")
        paths[-1].write_bytes(data)
    assert h.stax("run", m, "--inputs", *paths, "--outputs", folder / "out", "--quiet").status in (0, 1)


def test_types_that_are_no_numbers(folder):
    for array, word in ((np.array(["a", "bc"]), "U2"), (np.array([1, 2], dtype=">i4"), ">i4"), (np.array([1j, 2]), "c16"), (np.array(["2020-01-01"], dtype="M8[D]"), "M8")):
        np.savez(folder / "a.npz", x=array)
        session(folder, folder / "a.npz", status=1).expect(1, "a.npz", "'x'", word)
    np.savez(folder / "a.npz", x=np.array([{}, None], dtype=object))
    session(folder, folder / "a.npz", status=1).expect(1, "a.npz", "'x'")
    np.savez(folder / "a.npz", x=np.zeros(2, dtype=[("a", "<i4"), ("b", "<f4")]))
    session(folder, folder / "a.npz", status=1).expect(1, "a.npz", "'x'")


def test_names_of_inputs(folder):
    np.savez(folder / "a.npz", x=X, weight=X)
    session(folder, folder / "a.npz", status=1).expect(1, "a.npz", "'weight'", "'x'")
    np.savez(folder / "a.npz", X=X)
    session(folder, folder / "a.npz", status=1).expect(1, "a.npz", "'x'")
    np.savez(folder / "a.npz")
    session(folder, folder / "a.npz", status=1).expect(1, "a.npz", "'x'")


def test_a_model_without_inputs(folder):
    np.savez(folder / "a.npz")
    model = h.model([h.node("Range", "zero three one", "y")], {}, ["y"], {"zero": np.array(0), "three": np.array(3), "one": np.array(1)})
    h.same(session(folder, folder / "a.npz", model), {"y": np.arange(3)})


if __name__ == "__main__":
    h.main()
