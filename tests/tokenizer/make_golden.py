#!/usr/bin/env python3
"""Writes lines.jsonl and golden/*.txt: what the reference tokenizers make of the lines.

usage: make_golden.py MODELS_FOLDER
       make_golden.py MODELS_FOLDER --show CASE TEXT   (the ids of one text, TEXT as JSON)

golden/CASE.txt has a line per line of lines.jsonl: the digests of its ids without and with special
tokens recognised. A digest is the first 8 hexadecimal digits of SHA-256 of the ids as little-endian
int32. Needs the packages of ../requirements.txt.
"""

import hashlib
import json
import pathlib
import struct
import sys

import lines
import reference

HERE = pathlib.Path(__file__).parent
# case: model file and pre-tokenizer, if not the file's own.
CASES = {
    "smollm": ("smollm2-135m", None),
    "default": ("smollm2-135m", "default"),
    "llama-bpe": ("smollm2-135m", "llama-bpe"),
    "qwen2": ("qwen2.5-coder-0.5b", None),
    "gemma3": ("gemma3-270m", None),
}


def digest(ids):
    return hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()[:8]


def main():
    folder = pathlib.Path(sys.argv[1])
    if len(sys.argv) == 5 and sys.argv[2] == "--show":
        model, pre = CASES[sys.argv[3]]
        tokenizer = reference.open_reference(folder / f"{model}.gguf", pre)
        for parse_special in (False, True):
            print(tokenizer.encode(json.loads(sys.argv[4]), parse_special))
        return
    texts = lines.lines()
    with open(HERE / "lines.jsonl", "w", encoding="utf-8", newline="\n") as out:
        out.writelines(json.dumps(text, ensure_ascii=False) + "\n" for text in texts)
    (HERE / "golden").mkdir(exist_ok=True)
    for case, (model, pre) in CASES.items():
        tokenizer = reference.open_reference(folder / f"{model}.gguf", pre)
        with open(HERE / "golden" / f"{case}.txt", "w", newline="\n") as out:
            for text in texts:
                out.write(f"{digest(tokenizer.encode(text, False))} {digest(tokenizer.encode(text, True))}\n")
        print(case, len(texts))


if __name__ == "__main__":
    main()
