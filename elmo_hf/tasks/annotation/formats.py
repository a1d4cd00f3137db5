"""Formats of annotated corpora: CoNLL, JSON lines, HTML and Parquet, as shards and as one file made of them.

A shard of text begins with a line that says which shard of which run it is, with a checksum. The finished file does
not have these lines.
"""

import hashlib
import html
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo_hf.embedding.shards import REMEDY, BrokenShard, notes_text
from elmo_hf.tasks.annotation.annotator import Annotation

NOTES = "elmo_hf_annotations"
HTML_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Annotations</title><style>
body { font: 16px/2.2 sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em; }
p { margin: 0 0 1em; }
mark { border-radius: .3em; padding: .25em .4em; margin: 0 .1em; line-height: 1; background: hsl(var(--hue) 75% 85%); }
mark small { font-weight: bold; font-size: .65em; margin-left: .5em; vertical-align: middle; color: #333; }
ruby rt { font-size: .6em; color: #555; }
.label { font-size: .75em; font-weight: bold; background: #eee; border-radius: .3em; padding: .2em .4em; }
</style></head><body>
"""
HTML_END = "</body></html>\n"


class AnnotationShard:
    """An open shard; `notes` say which it is."""

    def __init__(self, notes: dict[str, Any]):
        self.notes = notes


@dataclass(frozen=True)
class AnnotationFormat:
    """How annotations are written as shards and joined into one file.

    Args:
        name, ending: of the format and of its files.
        write: writes a shard: path, notes, annotations.
        read: opens a shard.
        join: writes one file from the paths of all shards.
    """

    name: str
    ending: str
    write: Callable[[Path, dict[str, Any], list[Annotation]], None]
    read: Callable[[Path], AnnotationShard]
    join: Callable[[Iterable[Path], Path], None]


# -- formats of text


def _text_format(
    name: str, lines: Callable[[Annotation, int], str], head: str = "", end: str = ""
) -> AnnotationFormat:
    def write(path: Path, notes: dict[str, Any], annotations: list[Annotation]):
        first = notes["first"]
        body = "".join(lines(annotation, first + number) for number, annotation in enumerate(annotations))
        encoded = body.encode("utf-8", "replace")
        checksum = hashlib.blake2b(encoded, digest_size=16).hexdigest()
        path.write_bytes(notes_text({**notes, "checksum": checksum}).encode() + b"\n" + encoded)

    def join(shards: Iterable[Path], path: Path):
        with open(path, "wb") as file:
            file.write(head.encode())
            for shard in shards:
                file.write(_body(shard)[1])
            file.write(end.encode())

    return AnnotationFormat(name, f".{name}", write, lambda path: AnnotationShard(_body(path)[0]), join)


def _body(path: Path) -> tuple[dict[str, Any], bytes]:
    """The notes and the content of a shard of text."""
    first, _, body = path.read_bytes().partition(b"\n")
    try:
        notes = json.loads(first)
        checksum = notes["checksum"]
    except (ValueError, KeyError, TypeError):
        raise BrokenShard(f"{path} was not written as a part of annotations. {REMEDY}") from None
    if hashlib.blake2b(body, digest_size=16).hexdigest() != checksum:
        raise BrokenShard(f"{path} is damaged: its checksum is wrong. {REMEDY}")
    return notes, body


def conll_lines(annotation: Annotation, number: int) -> str:
    """A word a line with the labels of each tagger beside it, between tabs; labels of the sentence in comments.

    Example:

    ```python
    >>> from elmo_hf.tasks import Annotation
    >>> from elmo_hf.tasks.annotation.formats import conll_lines
    >>> conll_lines(Annotation(["It", "rains"], tags={"pos": ["PRON", "VERB"]}, labels={"mood": "bad"}), 0)
    '# mood = bad\\nIt\\tPRON\\nrains\\tVERB\\n\\n'

    ```
    """
    comments = [f"# {name} = {label}\n" for name, label in annotation.labels.items()]
    rows = zip(annotation.words, *annotation.tags.values(), strict=True)
    return "".join([*comments, *("\t".join(row) + "\n" for row in rows), "\n"])


def record_of(annotation: Annotation, number: int) -> dict[str, Any]:
    """An annotation as a row of JSON lines or Parquet: sentence, text, words, and the columns of each model."""
    record: dict[str, Any] = {"sentence": number, "text": annotation.text, "words": annotation.words}
    if annotation.text is None:
        record["text"] = " ".join(annotation.words)
    for name, tags in annotation.tags.items():
        record[name], record[f"{name}_scores"] = tags, annotation.tag_scores.get(name)
        record[f"{name}_spans"] = [span._asdict() for span in annotation.spans(name)]
    for name, label in annotation.labels.items():
        is_missing = isinstance(label, float) and math.isnan(label)
        record[name] = None if is_missing else label
        if annotation.label_scores.get(name) is not None:
            record[f"{name}_score"] = annotation.label_scores[name]
    return record


def _json_line(annotation: Annotation, number: int) -> str:
    return json.dumps(record_of(annotation, number), ensure_ascii=False) + "\n"


def html_paragraph(annotation: Annotation, number: int) -> str:
    """A sentence with its spans in colours, other tags above their words, and the labels of the sentence behind it."""
    opened: dict[int, str] = {}
    closed: dict[int, str] = {}
    above = {name: tags for name, tags in annotation.tags.items() if not annotation.spans(name)}
    for name in annotation.tags:
        for span in annotation.spans(name):
            hue = int(hashlib.blake2b(span.label.encode(), digest_size=2).hexdigest(), 16) % 360
            opened[span.first] = opened.get(span.first, "") + f'<mark style="--hue: {hue}">'
            closed[span.last] = f"<small>{html.escape(span.label)}</small></mark>" + closed.get(span.last, "")
    words = []
    for place, word in enumerate(annotation.words):
        shown = html.escape(word)
        over = " ".join(html.escape(tags[place]) for tags in above.values() if tags[place] != "O")
        shown = f"<ruby>{shown}<rt>{over}</rt></ruby>" if over else shown
        words.append(opened.get(place, "") + shown + closed.get(place, ""))
    labels = "".join(
        f' <span class="label">{html.escape(name)}: {html.escape(str(label))}</span>'
        for name, label in annotation.labels.items()
    )
    return f"<p>{' '.join(words)}{labels}</p>\n"


def marked_text(annotation: Annotation, colors: bool = False) -> str:
    """A sentence for a terminal: spans as `[Ann Lee PER]`, other tags as `word/TAG`, labels in front.

    Example:

    ```python
    >>> from elmo_hf.tasks import Annotation
    >>> from elmo_hf.tasks.annotation.formats import marked_text
    >>> marked_text(Annotation(["Ann", "Lee", "came"], tags={"ner": ["B-PER", "I-PER", "O"]}, labels={"mood": "good"}))
    'good: [Ann Lee PER] came'

    ```
    """
    bold, end = ("\033[1;36m", "\033[0m") if colors else ("", "")
    words = list(annotation.words)
    for tags in annotation.tags.values():
        if not label_is_span(tags):
            words = [f"{word}/{tag}" for word, tag in zip(words, tags, strict=True)]
    for name in annotation.tags:
        for span in annotation.spans(name):
            words[span.first] = f"{bold}[{words[span.first]}"
            words[span.last] = f"{words[span.last]} {span.label}]{end}"
    labels = ", ".join(map(str, annotation.labels.values()))
    return f"{labels}: {' '.join(words)}" if labels else " ".join(words)


def label_is_span(tags: list[str]) -> bool:
    """Whether all tags are in BIO."""
    return all(tag == "O" or tag[:2] in ("B-", "I-", "E-", "S-") for tag in tags)


# -- Parquet


def _write_parquet(path: Path, notes: dict[str, Any], annotations: list[Annotation]):
    import pyarrow as pa
    import pyarrow.parquet as pq

    records = [record_of(annotation, notes["first"] + number) for number, annotation in enumerate(annotations)]
    columns = {
        name: pa.array([_clean(record.get(name)) for record in records], kind) for name, kind in _types(annotations)
    }
    table = pa.table(columns).replace_schema_metadata({NOTES: notes_text(notes)})
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)


def _types(annotations: list[Annotation]) -> list[tuple[str, Any]]:
    """Name and type of each column; they do not depend on what the sentences of one shard happen to hold."""
    import pyarrow as pa

    strings = pa.list_(pa.string())
    span = pa.struct([("label", pa.string()), ("first", pa.int32()), ("last", pa.int32()), ("text", pa.string())])
    types = [("sentence", pa.int64()), ("text", pa.string()), ("words", strings)]
    first = annotations[0]
    for name in first.tags:
        types += [(name, strings), (f"{name}_scores", pa.list_(pa.float32())), (f"{name}_spans", pa.list_(span))]
    for name in first.labels:
        is_number = any(isinstance(annotation.labels[name], float) for annotation in annotations)
        types += [(name, pa.float64() if is_number else pa.string())]
        types += [] if is_number else [(f"{name}_score", pa.float64())]
    return types


def _clean(value: Any) -> Any:
    """Lone surrogates are no Unicode to Arrow."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_clean(each) for each in value]
    return {name: _clean(each) for name, each in value.items()} if isinstance(value, dict) else value


def _read_parquet(path: Path) -> AnnotationShard:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError) as error:
        raise BrokenShard.because(f"{path} is damaged, or no Parquet file", error) from None
    if NOTES.encode() not in metadata:
        raise BrokenShard(f"{path} was not written as a part of annotations. {REMEDY}")
    return AnnotationShard(json.loads(metadata[NOTES.encode()]))


def _join_parquet(shards: Iterable[Path], path: Path):
    import pyarrow.parquet as pq

    writer = None
    for shard in shards:
        table = pq.read_table(shard, page_checksum_verification=True).replace_schema_metadata(None)
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table)
    if writer is not None:
        writer.close()


FORMATS = {
    each.name: each
    for each in (
        _text_format("conll", conll_lines),
        _text_format("jsonl", _json_line),
        _text_format("html", html_paragraph, HTML_HEAD, HTML_END),
        AnnotationFormat("parquet", ".parquet", _write_parquet, _read_parquet, _join_parquet),
    )
}


__all__ = [
    "FORMATS",
    "AnnotationFormat",
    "AnnotationShard",
    "conll_lines",
    "html_paragraph",
    "marked_text",
    "record_of",
]
