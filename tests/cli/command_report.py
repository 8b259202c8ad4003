# SPDX-License-Identifier: Apache-2.0
"""stax report: a page that stands alone, with what it measured, and with names that are no HTML."""
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

VOID = {"meta", "br", "hr", "img", "link"}


class Page(HTMLParser):
    """Elements, texts and attributes; every element has to be closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts, self.attributes = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        self.texts.append(data)


def model(dim="rows", name="product", output="y"):
    rng = np.random.default_rng(3)
    return h.model([h.node("MatMul", "x w", "t", name=name), h.node("Relu", "t", "u"), h.node("Softmax", ["u"], [output], axis=-1)], {"x": (h.FLOAT, [dim, 8])}, [output],
                   {"w": h.normal(rng, 8, 40)})


def report(folder, m, *flags, status=0):
    page = folder / "r.html"
    h.stax("report", m, "-o", page, "--repeat", "2", "--threads", "1", *flags).expect(status)
    text = page.read_text()
    return Page(text), text


def stands_alone(page):
    assert not {"script", "link", "img", "iframe", "object", "embed"} & set(page.elements), page.elements
    for name, value in page.attributes:
        assert not name.startswith("on") and name != "src", (name, value)
        assert name != "href" or value.startswith("#"), value


def test_a_page_of_a_sweep(folder):
    m = h.save(model(), folder / "m.onnx")
    page, text = report(folder, m, "--sweep", "rows=1..16:log")
    stands_alone(page)
    assert "http" not in text and "@import" not in text and "url(" not in text
    whole = " ".join(page.texts)
    for words in ("rows=1", "rows=16", "contraction_0", "Version 0", "Relu node", "Memory over time", "%"):
        assert words in whole, words
    targets, links = {v for n, v in page.attributes if n == "id"}, {v[1:] for n, v in page.attributes if n == "href"}
    assert links and links <= targets, links - targets
    assert text.count("<g><title>") == 5, "a bar for each shape"
    # What lives at 16 rows: no more than the three values of the model, and no less than its largest.
    peak = re.search(r"at rows=16: at most ([\d.]+) (B|KB)", whole)
    bytes = float(peak[1]) * {"B": 1, "KB": 1000}[peak[2]]
    assert 16 * 40 * 4 * 0.99 <= bytes <= 3 * 16 * 40 * 4 * 1.01, peak[0]


def test_names_are_text(folder):
    evil = "<script>alert('1')</script>&\"x\" onload=\"y"
    page, text = report(folder, h.save(model(dim=evil, name=evil, output=evil), folder / "a<b>&.onnx"), "--sweep", f"{evil}=3")
    stands_alone(page)
    assert "<script" not in text and any(evil in t for t in page.texts)
    assert any("a<b>&.onnx" in t for t in page.texts)


def test_a_page_of_what_ran(folder):
    m = h.save(model(), folder / "m.onnx")
    for name, rows in (("a", 5), ("b", 3), ("c", 0), ("d", 5)):
        np.savez(folder / f"{name}.npz", x=np.ones((rows, 8), np.float32))
    inputs = [folder / f"{n}.npz" for n in "abcd"]
    h.stax("run", m, "--inputs", *inputs, "--record", folder / "h.json").expect(0)
    page, text = report(folder, m, "--shapes", folder / "h.json")
    assert "calls recorded" in text and any("rows=0" in t for t in page.texts)
    page, text = report(folder, m, "--inputs", *inputs)
    assert "calls recorded" not in text and any("a.npz" in t for t in page.texts)


def test_a_page_without_a_sweep_and_of_control_flow(folder):
    branch = lambda op: h.body([h.node(op, "x x", "z")], {}, {"z": (h.FLOAT, ["n"])})
    m = h.model([h.node("If", "c", "y", then_branch=branch("Add"), else_branch=branch("Mul")), h.node("NonZero", "y", "w")],
                {"c": (h.BOOL, []), "x": (h.FLOAT, ["n"])}, ["y", "w"])
    page, text = report(folder, h.save(m, folder / "m.onnx"))
    stands_alone(page)
    assert any("if" in t for t in page.texts)


def test_mistakes(folder):
    m = h.save(model(), folder / "m.onnx")
    h.stax("report", m).expect(2, "output")
    h.stax("report", m, "-o", folder / "r.html", "--swep", "rows=1").expect(2, "--sweep")
    h.stax("report", m, "-o", folder / "r.html", "--sweep", "row=1").expect(1, "rows")
    h.stax("report", m, "-o", "/proc/none/r.html").expect(1, "/proc/none")
    h.stax("report", m, "-o", folder / "r.html", "--sweep", "rows=1", "--shapes", "h.json").expect(1, "--sweep", "--shapes")
    h.stax("report", folder / "no.onnx", "-o", folder / "r.html").expect(1, "no.onnx")
    assert not (folder / "r.html").exists()


if __name__ == "__main__":
    h.main()
