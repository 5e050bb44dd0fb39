#!/usr/bin/env python3
"""Compares our tokenizer of a model with the reference on real text.

usage: compare_text.py TOKENIZE_LINES MODEL.gguf FILE…

TOKENIZE_LINES is the tool of that name that the build makes. Files are cut into stretches of 1 to
8 lines. Exit code 1 if any stretch differs. Needs the packages of ../requirements.txt.
"""

import json
import pathlib
import subprocess
import sys

import reference


def stretches(paths):
    for path in paths:
        lines = pathlib.Path(path).read_text(errors="replace").splitlines(keepends=True)
        begin = 0
        while begin < len(lines):
            count = 1 + begin % 8
            yield "".join(lines[begin:begin + count])
            begin += count


def main():
    tool, model, *paths = sys.argv[1:]
    tokenizer = reference.open_reference(model)
    texts = list(stretches(paths))
    requests = "".join(json.dumps(text) + "\n" for text in texts)
    answer = subprocess.run([tool, model], input=requests, stdout=subprocess.PIPE, text=True,
                            encoding="utf-8", check=True)
    differ = 0
    for text, line in zip(texts, answer.stdout.splitlines(), strict=True):
        expected = tokenizer.encode(text, False)
        if json.loads(line) != expected:
            differ += 1
            if differ <= 5:
                print(json.dumps(text), "\n  ours:  ", line, "\n  theirs:", expected)
    print(f"{differ} of {len(texts)} stretches differ")
    return int(differ != 0)


if __name__ == "__main__":
    sys.exit(main())
