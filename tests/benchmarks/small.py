"""Small folders of every benchmark in its official layout, without images."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image
from pyarrow import parquet

from unbag.benchmarks import flickr8k, sugarcrepe_pp, valse, vl_checklist
from unbag.benchmarks import sugarcrepe as sc
from unbag.benchmarks.crepe import SOURCES as CREPE_SOURCES
from unbag.benchmarks.whatsup import A, B, Subset
from unbag.edits.shuffles import SHUFFLES
from unbag.registry import find
from unbag.types import Benchmark

from .class_layouts import LAYOUTS

Files = dict[str, Any]
"""Rows (a list, or an object for JSON) by file."""
Columns = dict[str, list[object]]


def benchmark_of(name: str) -> Benchmark:
    benchmark = find("benchmark", name)
    assert isinstance(benchmark, Benchmark)
    return benchmark


def write_rows(path: Path, rows: Any) -> None:
    """Write rows in the format of the file's extension; a CSV row may lack its last cells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    elif path.suffix == ".txt":
        path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    else:
        columns = list(dict.fromkeys(column for row in rows for column in row))
        with path.open("w", newline="") as file:
            cells = [[row[column] for column in columns if column in row] for row in rows]
            csv.writer(file).writerows([columns, *cells])


def write(root: Path, files: Files) -> Path:
    for name, rows in files.items():
        write_rows(root / name, rows)
    return root


def sugarcrepe(n: int) -> Files:
    row = {"filename": "1.jpg", "caption": "a cat", "negative_caption": "a dog"}
    return {f"{kind}.json": {str(2 * i): row for i in range(n)} for kind in sc.KINDS}


def sugarcrepe_plus(n: int) -> Files:
    row = {"filename": "1.jpg", "caption": "a", "caption2": "b", "negative_caption": "c"}
    return {f"{kind}.json": [{"id": i, **row} for i in range(n)] for kind in sugarcrepe_pp.KINDS}


def valse_row(votes: object = 2, image: str = "1.jpg") -> dict[str, object]:
    return {"image_file": image, "caption": "a", "foil": "b", "mturk": {"caption": votes}}


def valse_files(n: int) -> Files:
    rows = {f"id{i}": valse_row() for i in range(n)}
    return {f"{instrument}.json": rows for instrument in valse.INSTRUMENTS}


def vl_checklist_files(n: int) -> Files:
    rows = [["1.jpg", {"POS": ["a"], "NEG": ["b"]}]] * n
    return {source.file: rows for source in vl_checklist.SOURCES}


def hard_positive(image: str, *names: str) -> Callable[[int], Files]:
    def files(n: int) -> Files:
        row = {"image_id": "1", "image_path": image, "false_caption": "c"}
        return {
            f"{folder}/{name}": [{**row, "true_caption": true}] * n
            for name in names
            for folder, true in (("data", "a"), ("swapped_data", "b"))
        }

    return files


def aro(name: str, **tag: object) -> Callable[[int], Files]:
    box = {"bbox_x": 2, "bbox_y": 3.0, "bbox_w": 20, "bbox_h": 10}
    row = {"image_path": "1.jpg", "true_caption": "a", "false_caption": "b", **box, **tag}
    return lambda n: {name: [row] * n}


def order(name: str, image: str) -> Callable[[int], Files]:
    captions = ["a b c d", "e f g h"]
    shuffles = [{kind: f"{kind} {caption}" for kind in SHUFFLES} for caption in captions]
    row = {"image": image, "caption": captions, "shuffles": shuffles}
    return lambda n: {name: [row] * n}


def crepe(n: int) -> Files:
    row = {"image_id": "1", "caption": "a", "x": "1", "y": "2", "width": "20", "height": "30.0"}
    negatives = repr(["b", "c", "d", "e", "f"])
    return {s.file: [row | dict.fromkeys(s.columns, negatives)] * n for s in CREPE_SOURCES}


WORDS = {"left_of": "to the left of", "right_of": "to the right of", "in-front_of": "in front of"}


def whatsup(subset: Subset, first: str = "mug") -> Callable[[int], Files]:
    """Sets of four; options in the official order: the correct one first, whatever it is."""

    def files(n: int) -> Files:
        rows = []
        for i in range(n):
            thing = f"{first}{i}" if i else first
            captions = {r: f"A {thing} {WORDS.get(r, r)} a plate" for r in subset.relations}
            for relation in subset.relations:
                others = [captions[r] for r in subset.relations if r != relation]
                path = f"data/{subset.images}/{thing}_{relation}_plate.jpeg"
                rows.append({"image_path": path, "caption_options": [captions[relation], *others]})
        return {subset.file: rows}

    return files


ONE = [[397133, "A photo of a bench on the left", "A photo of a bench on the right"]]
TWO = [
    ["37777", "A photo of a dog above a cat", "A photo of a dog below a cat"],
    [37777, "A photo of a cup to the right of a fork", "A photo of a cup to the left of a fork"],
    [5, "A photo of a cat in front of a dog", "A photo of a cat behind a dog"],
]


def spatial(prefix: str) -> Callable[[int], Files]:
    return lambda n: {f"{prefix}_one_obj.json": ONE * n, f"{prefix}_two_obj.json": TWO * n}


def mmvp(n: int) -> Files:
    question, options = "Is the door open, or closed?", "(a) Open (b) Closed"
    return {
        "Questions.csv": [
            {
                "Index": i,
                "Question": question,
                "Options": options,
                "Correct Answer": "(a)" if i % 2 else "(b)",
            }
            for i in range(1, n + 1)
        ]
    }


def mmvp_vlm(n: int) -> Files:
    """Statements of n pairs for each of nine patterns."""
    rows = [
        {
            "Question ID": i + 1,
            "Type": f"Pattern {i // (2 * n)}",
            "Statement": f"a door, {'open' if i % 2 else 'closed'}",
        }
        for i in range(18 * n)
    ]
    return {"Questions.csv": rows}


def winoground(n: int) -> Files:
    row = {
        "caption_0": "an old person kisses a young person",
        "caption_1": "a young person kisses an old person",
        "tag": "Adjective-Age",
        "collapsed_tag": "Relation",
    }
    images = [{"id": i, **{f"image_{k}": f"ex_{i}_img_{k}" for k in (0, 1)}} for i in range(n)]
    return {"examples.jsonl": [image | row for image in images]}


def colorswap(n: int) -> Files:
    row = {
        "caption_1": "a yellow umbrella and a white dress",
        "caption_2": "a white umbrella and a yellow dress",
        "image_source": "midjourney",
        "caption_source": "human",
    }
    images = [{"id": i, **{f"image_{k}": f"images/{i}_{k}.png" for k in (1, 2)}} for i in range(n)]
    return {"test.json": [image | row for image in images]}


def cola(n: int) -> Files:
    url = "https://example.org/vg_gqa_images"
    rows = [
        [f"{url}/{i}1.jpg", f"white shirt {i}", f"{url}/{i}2.jpg", f"blue shirt {i}"]
        for i in range(n)
    ]
    return {"COLA_multiobjects_matching_benchmark.json": rows}


def eqben(n: int) -> Files:
    rows = [
        {
            "image0": f"eqbenkubric_cnt/{i}_0.png",
            "caption0": f"there is {i} thing",
            "image1": f"eqbenkubric_cnt/{i}_1.png",
            "caption1": f"there are {i} things",
        }
        for i in range(n)
    ]
    return {"eqben_subset_10percent_final.json": rows}


def naturalbench_retrieval(n: int) -> Files:
    rows = [
        {
            "index": i,
            "image_0": f"{i}_0.jpg",
            "image_1": f"{i}_1.jpg",
            "caption_0": f"a hat {i}",
            "caption_1": f"no hat {i}",
        }
        for i in range(n)
    ]
    return {"metadata.json": rows}


def group(n: int, kind: str = "yes_no") -> list[list[object]]:
    """Four rows of NaturalBench."""
    first, second = ("Yes", "No") if kind == "yes_no" else ("A", "B")
    return [
        [f"Does it climb {way}? ({n})", f"{n}_{i}.jpg", answer, kind]
        for way, answers in (("up", (first, second)), ("down", (second, first)))
        for i, answer in enumerate(answers)
    ]


def naturalbench(n: int) -> Files:
    return {"test_set.json": [row for i in range(n) for row in group(i)]}


def vsr_row(n: int, label: object = 1, part: str = "train2017") -> dict[str, object]:
    name = f"{n:012d}.jpg"
    return {
        "image": name,
        "image_link": f"http://images.cocodataset.org/{part}/{name}",
        "caption": f"The car is behind the suitcase {n}.",
        "label": label,
        "relation": "behind",
    }


def vsr(n: int) -> Files:
    splits = enumerate(("dev", "test"))
    return {
        f"zeroshot/{split}.jsonl": [vsr_row(i, i % 2) for i in range(at * n, at * n + n)]
        for at, split in splits
    }


def svo_row(n: int, part: int, sentence: str) -> dict[str, object]:
    flags = {f"{name}_neg": str(part == i) for i, name in enumerate(("subj", "verb", "obj"))}
    images = {"pos_image_id": 2 * n, "neg_image_id": 2 * n + 1}
    return {"sentence": sentence, "pos_url": "http://a/1", **images, **flags}


def svo_probes(n: int) -> Files:
    return {"svo_probes.csv": [svo_row(i, i % 3, f"Sentence {i}.") for i in range(n)]}


def karpathy(file: str, folder: str) -> Callable[[int], Files]:
    def files(n: int) -> Files:
        captions = [[f"caption {c} of {i} " for c in range(5 + (i == 0))] for i in range(n)]
        return {
            file: [{"image": f"{folder}/{i}.jpg", "caption": c} for i, c in enumerate(captions)]
        }

    return files


def flickr8k_tokens(n: int) -> list[list[str]]:
    return [[f"{i}_a.jpg#{k}", f"caption {k} of {i} ."] for i in range(n) for k in range(5)]


def flickr8k_files(n: int) -> Files:
    rng = np.random.default_rng(0)
    experts, crowd = [], []
    for i in range(n):
        pair = [f"{i}_a.jpg", f"{(i + 1) % n}_a.jpg#2"]
        experts.append([*pair, *rng.integers(1, 5, size=3)])
        yes = int(rng.integers(4))
        crowd.append([*pair, yes / 3, yes, 3 - yes])
    return {
        flickr8k.TOKENS: flickr8k_tokens(n),
        flickr8k.EXPERTS: experts,
        flickr8k.CROWD: crowd,
    }


def bivlc_columns(start: int, n: int) -> Columns:
    def encoded(*colour: int) -> dict[str, object]:
        buffer = BytesIO()
        Image.new("RGB", (4, 4), colour).save(buffer, "PNG")
        return {"bytes": buffer.getvalue(), "path": None}

    numbers = range(start, start + n)
    return {
        "image": [encoded(i, 0, 0) for i in numbers],
        "caption": [f"a man {i}" for i in numbers],
        "negative_caption": [f"a man and a child {i}" for i in numbers],
        "negative_image": [encoded(0, i, 0) for i in numbers],
        "type": [["add", "swap", "replace", "add"][i % 4] for i in numbers],
        "subtype": [["obj", "att", "rel", "att"][i % 4] for i in numbers],
    }


def write_bivlc(root: Path, columns: Columns, name: str = "00000-of-00002") -> Path:
    types = {str: pa.string(), int: pa.int64()}
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    path = root / f"data/test-{name}.parquet"
    path.parent.mkdir(exist_ok=True)
    arrays = {
        column: pa.array(cells, image if isinstance(cells[0], dict) else types[type(cells[0])])
        for column, cells in columns.items()
    }
    parquet.write_table(pa.table(arrays), path, row_group_size=3)
    return path


def lay_out_classes(root: Path, classes: Mapping[str, int]) -> Path:
    """Class folders with so many empty images."""
    for name, images in classes.items():
        (root / name).mkdir(parents=True)
        for n in range(images):
            (root / name / f"{n}.JPEG").touch()
    return root


@dataclass(frozen=True)
class Small:
    """How to write a small folder of a benchmark, and what known scorers get on it."""

    files: Callable[[int], Files] = lambda n: {}
    n: int = 0
    items: int = 0
    """Items of a folder of n."""
    images: str = ""
    """Paths of images, relative to the folder and separated by commas."""
    official: float | None = 0.0
    """A constant scorer's headline under the official tie rule; None: the share of items whose
    first caption is true, which is what argmax takes."""
    ours: float = 0.0
    """The same under our rule, by which a tie is wrong."""
    perfect: float = 1.0
    """The least that the truth itself scores."""
    make: Callable[[Path, int], object] | None = None
    """Writes the folder, for layouts that are not rows in files."""

    def build(self, root: Path, n: int = 0) -> Path:
        if self.make is None:
            write(root, self.files(n or self.n))
        else:
            self.make(root, n or self.n)
        return root


REPLACED = tuple(f"vl_checklist_{subset}.json" for subset in ("attributes", "relations"))
COCO, FLICKR30K = "coco_karpathy_test.json", "flickr30k_test.json"
ATTRIBUTION = "visual_genome_attribution.json"
COCO_IMAGES = karpathy(COCO, "val2014")
FLICKR_IMAGES = karpathy(FLICKR30K, "flickr30k-images")
CLASSES = Small(
    make=lambda root, n: lay_out_classes(root, {f"class {c}": n for c in range(10)}),
    n=40,
    items=400,
    official=None,
)


def listed(lay_out: Callable[[Path], None], items: int) -> Small:
    return Small(make=lambda root, n: lay_out(root), items=items, official=None)


SMALL: Mapping[str, Small] = {
    "sugarcrepe": Small(sugarcrepe, 30, 210, "val2017/1.jpg"),
    "sugarcrepe_pp": Small(sugarcrepe_plus, 60, 300, "../coco/val2017/1.jpg"),
    "valse": Small(valse_files, 30, 330, "images/1.jpg"),
    "vl_checklist": Small(vl_checklist_files, 12, 672, "vg/1.jpg, swig/1.jpg, hake/1.jpg"),
    "hard_positive_replace": Small(
        hard_positive("data/VG_100K/1.jpg", *REPLACED), 150, 300, "data/VG_100K/1.jpg"
    ),
    "hard_positive_swap": Small(
        hard_positive("data/1.jpg", ATTRIBUTION), 150, 150, "data/images/1.jpg"
    ),
    "aro_relation": Small(
        aro("visual_genome_relation.json", relation_name="on"), 300, 300, "images/1.jpg"
    ),
    "aro_attribution": Small(
        aro(ATTRIBUTION, attributes=["red", "wet"]), 300, 300, "../aro/images/1.jpg"
    ),
    "aro_order_coco": Small(
        order(COCO, "val2014/1.jpg"), 200, 400, "../coco/val2014/1.jpg", official=1
    ),
    "aro_order_flickr30k": Small(
        order(FLICKR30K, "flickr30k-images/1.jpg"), 200, 400, "flickr30k-images/1.jpg", official=1
    ),
    "crepe": Small(crepe, 12, 27 * 12 + 6 * 24, "VG_100K/1.jpg"),
    "whatsup_a": Small(
        whatsup(A), 100, 100, "controlled_images/mug_left_of_plate.jpeg", official=1
    ),
    "whatsup_b": Small(
        whatsup(B), 100, 100, "../whatsup/controlled_clevr/mug_behind_plate.jpeg", official=1
    ),
    "coco_spatial": Small(
        spatial("coco_qa"), 200, 800, "../coco/val2017/000000397133.jpg", official=1
    ),
    "gqa_spatial": Small(spatial("vg_qa"), 200, 800, "vg_images/397133.jpg", official=1),
    "mmvp": Small(mmvp, 600, 600, "MMVP Images/2.jpg"),
    "mmvp_vlm": Small(mmvp_vlm, 40, 360, "MLLM_VLM Images/Pattern 1/84.jpg"),
    "winoground": Small(winoground, 400, 400, "images/ex_0_img_1.png"),
    "colorswap": Small(colorswap, 400, 400, "images/0_2.png"),
    "eqben": Small(eqben, 400, 400, "image_subset/eqbenkubric_cnt/0_1.png"),
    "cola": Small(cola, 400, 400, "../visual_genome/02.jpg"),
    "naturalbench_retrieval": Small(naturalbench_retrieval, 400, 400, "images/0_0.jpg"),
    "bivlc": Small(
        make=lambda root, n: write_bivlc(root.resolve(), bivlc_columns(0, n)), n=250, items=250
    ),
    "naturalbench": Small(naturalbench, 300, 1200, "images/0_0.jpg"),
    # One answer for all statements, of which half are true: no tie is involved.
    "vsr": Small(vsr, 400, 800, "../coco/train2017/000000000001.jpg", 0.5, 0.5),
    "svo_probes": Small(svo_probes, 400, 400, "images/1.jpg"),
    "coco_retrieval": Small(COCO_IMAGES, 60, 1, "../coco/val2014/1.jpg"),
    "flickr30k_retrieval": Small(FLICKR_IMAGES, 60, 1, "flickr30k-images/1.jpg"),
    "coco_order_free": Small(COCO_IMAGES, 12, 19, "../coco/val2014/1.jpg"),
    "flickr30k_order_free": Small(FLICKR_IMAGES, 12, 19, "flickr30k-images/1.jpg"),
    "flickr8k": Small(flickr8k_files, 300, 900, "Flicker8k_Dataset/0_a.jpg", perfect=0.9),
    "flickr8k_crowd": Small(flickr8k_files, 300, 300, "Flicker8k_Dataset/0_a.jpg", perfect=0.9),
    **dict.fromkeys(("imagenet1k", "cifar10", "cifar100"), CLASSES),
    **{name: listed(lay_out, len(expected)) for name, (lay_out, expected) in LAYOUTS.items()},
}
