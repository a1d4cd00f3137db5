"""Running the code blocks of the README and of the pages under docs/.

The blocks of a page run from top to bottom, in one folder and with one set of variables, as a reader would type them:

* ```python blocks are executed. Where a line that ends with "prints" and a ```text block follow, what the code prints
  is compared with that block.
* ```console blocks hold commands after `$ ` and what each prints. `elmo-hf` is run, and its output compared. A line
  `...` stands for any number of lines.
* ```bash blocks hold commands without their output. `elmo-hf` is run; `pip install` is not.

Comments before a block or at the top of a page, which readers do not see, say what is different:

* `<!-- not run: REASON -->`: the block needs what a test cannot have. Its options are still checked.
* `<!-- slow -->`: the page takes long, so that its test has the marker `slow`.
* `<!-- local hub -->`: the page talks to the Hub, and runs against the one in tests/local_hub.py.

`make readme` writes what the blocks print now into all pages.
"""

import contextlib
import io
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import typer.main
from golden_files import TESTS

ROOT = TESTS.parent
README = ROOT / "README.md"
ORIGINAL = ROOT / "examples" / "original"
# The examples in these pages are tested elsewhere: as doctests, and by test_contributing.py.
ELSEWHERE = {"docs/reference/model.md", "docs/contributing.md", "docs/changelog.md"}
PAGES = [README, *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts)]
PAGES = [page for page in PAGES if page.relative_to(ROOT).as_posix() not in ELSEWHERE]
BLOCK = re.compile(
    r"(?P<before>^<!-- not run: (?P<reason>[^\n]+) -->\n+)?^```(?P<kind>python|console|bash)\n(?P<code>.*?)^```$"
    r"(?:\n\n[^\n]*prints:?\n\n```text\n(?P<printed>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
TRAINER_LOG = re.compile(r"\{'(loss|eval_|train_)")


@dataclass
class Block:
    """A code block of a page.

    Args:
        kind: the language of the block: python, console or bash.
        code: its text.
        printed: what it prints, as the page says (python only).
        reason: why it is not run, if it is not.
        line: the line of the page on which it begins.
        match: where it was found.
    """

    kind: str
    code: str
    printed: str | None
    reason: str | None
    line: int
    match: re.Match


def blocks_of(text: str) -> list[Block]:
    """The code blocks of a page, from top to bottom."""
    return [
        Block(
            found["kind"],
            found["code"],
            found["printed"],
            found["reason"],
            text.count("\n", 0, found.start("kind")) + 1,
            found,
        )
        for found in BLOCK.finditer(text)
    ]


def without_measurements(text: str) -> str:
    """Text in which times, memory and the last digits of differences are replaced by letters."""
    text = re.sub(r"in \d+\.\d s, peak memory [\d,]+ MB", "in T s, peak memory M MB", text)
    text = re.sub(r"in [\d.,]+ s \([\d,]+ sentences/s, [\d,]+ words/s\)", "in T s", text)
    text = re.sub(r"All of it took [\d.]+ s", "All of it took T s", text)
    return re.sub(r"\d\.\d\de-0(\d)", r"D e-0\1", text)


def agree(shown: str, printed: str) -> bool:
    """Whether a program printed what a page shows; a line `...` of the page stands for any lines."""
    shown, printed = without_measurements(shown).rstrip(), without_measurements(printed).rstrip()
    pattern = "\n".join(".*" if line.strip() == "..." else re.escape(line) for line in shown.splitlines())
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def provide(folder: Path):
    """Puts the files that readers of the pages have into a folder: original weights, a corpus, annotated sentences."""
    for file in ORIGINAL.iterdir():
        if file.suffix != ".md":
            shutil.copy(file, folder)
    tokenized = (ROOT / "elmo_hf" / "bundled" / "sentences.txt").read_text(encoding="utf-8")
    raw = re.sub(r" (?=[.,;:!?]|'\w|'$)", "", tokenized)
    sentences = [line for line in raw.splitlines() if '"' not in line]
    third = len(sentences) // 3
    for number, name in enumerate(("corpus.txt", "held-out.txt", "domain.txt")):
        (folder / name).write_text(
            "\n".join(sentences[number * third : (number + 1) * third]) + "\n", encoding="utf-8"
        )
    for name, seed, size in (("train.conll", 0, 200), ("dev.conll", 1, 50), ("test.conll", 2, 50)):
        (folder / name).write_text(annotated_sentences(seed, size), encoding="utf-8")


def annotated_sentences(seed: int, size: int) -> str:
    """Sentences with labels of entities, a word and its label on a line."""
    draw = random.Random(seed)
    people, places = ["Ann Lee", "Bob", "Eva Roth"], ["Rome", "New York", "Oslo"]
    lines = []
    for _ in range(size):
        for kind, phrase in (("PER", draw.choice(people)), ("", "moved to"), ("LOC", draw.choice(places))):
            for number, word in enumerate(phrase.split()):
                lines.append(f"{word} {'BI'[number > 0] + '-' + kind if kind else 'O'}")
        lines += [". O", ""]
    return "\n".join(lines) + "\n"


def commands_of(code: str) -> list[str]:
    """The commands of a bash block: comments removed, continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", code)
    lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line]


def sessions_of(code: str) -> list[tuple[str, str, int]]:
    """The commands of a console block, each with the output that is shown and where this begins in the block."""
    found = re.finditer(r"^\$ ((?:[^\n]*\\\n)*[^\n]*\n)((?:(?!\$ )[^\n]*\n)*)", code, flags=re.MULTILINE)
    return [(re.sub(r"\\\n\s*", "", match[1]).strip(), match[2], match.start(2)) for match in found]


def run_command(command: str) -> str:
    """Runs `elmo-hf ...` in this process; returns what it prints."""
    from elmo_hf import cli

    arguments = shlex.split(command)
    if arguments[0] != "elmo-hf":
        raise ValueError(
            f"Only elmo-hf can be run, not {command!r}. Write `<!-- not run: REASON -->` above the block."
        )
    printed = io.StringIO()
    before = sys.argv
    sys.argv = arguments
    try:
        with contextlib.redirect_stdout(printed):
            cli.main()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"{command} ended with {end.code}:\n{printed.getvalue()}") from end
    finally:
        sys.argv = before
    return printed.getvalue()


def run_code(code: str, variables: dict, name: str) -> str:
    """Runs Python code; returns what it prints, without the lines that the Trainer logs."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, name, "exec"), variables)
    lines = printed.getvalue().splitlines(keepends=True)
    return "".join(line for line in lines if not TRAINER_LOG.match(line))


def check_options(command: str):
    """Raises ValueError if a command or one of its options does not exist."""
    from elmo_hf.cli import app

    words = shlex.split(re.sub(r"^.*?elmo-hf ", "", command))
    program = typer.main.get_command(app)
    while words and hasattr(program, "commands"):
        name = words.pop(0)
        if name not in program.commands:
            raise ValueError(f"There is no command {name!r}: {command}")
        program = program.commands[name]
    known = {option for parameter in program.params for option in (*parameter.opts, *parameter.secondary_opts)}
    used = {word.split("=")[0] for word in words if re.fullmatch(r"--?[a-z][a-z-]*(=.*)?", word)}
    if unknown := used - known - {"--help", "-h"}:
        raise ValueError(f"There are no options {', '.join(sorted(unknown))}: {command}")


def run_block(block: Block, variables: dict, page: Path) -> list[tuple[str, str, int]]:
    """Runs one block; what the page shows, what was printed, and where the page shows it, for each command."""
    if block.kind == "python":
        if block.reason:
            compile(block.code, str(page), "exec")
            return []
        # The traceback of an error names the line of the page.
        printed = run_code("\n" * block.line + block.code, variables, str(page))
        return [] if block.printed is None else [(block.printed, printed, block.match.start("printed"))]
    sessions = [(command, "...\n", 0) for command in commands_of(block.code)]
    if block.kind == "console":
        sessions = sessions_of(block.code)
    results = []
    for command, shown, start in sessions:
        if block.reason:
            if re.match(r"(srun |torchrun .*)?elmo-hf ", command):
                check_options(command)
        elif not command.startswith(("pip install ", "cd ")):
            results.append((shown, run_command(command), block.match.start("code") + start))
    return results


def run_page(page: Path, folder: Path, update: bool = False) -> str:
    """Runs the blocks of a page in a folder; the page's text, updated if asked to.

    Raises AssertionError at the first block that prints something else than the page shows, unless `update` is set.
    """
    text = page.read_text(encoding="utf-8")
    variables: dict = {"__name__": "page"}
    replacements = []
    for block in blocks_of(text):
        with contextlib.chdir(folder):
            results = run_block(block, variables, page)
        for shown, printed, start in results:
            if agree(shown, printed):
                continue
            if not update:
                where = f"{page.relative_to(ROOT)}:{block.line}"
                raise AssertionError(f"{where} shows\n\n{shown}\nbut the code prints\n\n{printed}")
            replacements.append((start, start + len(shown), printed))
    for start, end, printed in reversed(replacements):
        text = text[:start] + printed + text[end:]
    return text


def forget_spacy_factory():
    """Removes the component of docs/guides/embed.md from spaCy, which refuses to register it twice in a process."""
    if "spacy" in sys.modules:
        factories = sys.modules["spacy"].registry.factories
        sys.modules["catalogue"].REGISTRY.pop((*factories.namespace, "elmo"), None)


def needs_hub(page: Path) -> bool:
    """Whether a page talks to the Hub."""
    return "<!-- local hub -->" in page.read_text(encoding="utf-8")


def run_in_process_with_hub(page: Path, folder: Path, update: bool = False):
    """Runs a page in a process of its own, whose Hub is the one in tests/local_hub.py."""
    from local_hub import LocalHub

    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    command = [sys.executable, __file__, *(["--update"] if update else []), "--here", str(folder), str(page)]
    with LocalHub() as hub:
        environment = {**clean, **hub.env, "NO_PROXY": "*", "PYTHONPATH": str(TESTS), "HF_HOME": str(folder / "home")}
        run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    if run.returncode:
        raise AssertionError(run.stderr)


def main():
    """Runs pages, all of them unless some are named; `--update` writes what they print."""
    arguments = sys.argv[1:]
    update = "--update" in arguments
    here = Path(arguments[arguments.index("--here") + 1]) if "--here" in arguments else None
    named = [Path(name).resolve() for name in arguments if name.endswith(".md")]
    for page in named or PAGES:
        with tempfile.TemporaryDirectory() as temporary:
            folder = here or Path(temporary)
            if here is None:
                provide(folder)
            if here is None and needs_hub(page):
                run_in_process_with_hub(page, folder, update)
                continue
            text = run_page(page, folder, update)
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")
            print(f"updated: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
