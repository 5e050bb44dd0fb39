#!/usr/bin/env python3
"""Makes <model>.golden: log-probabilities of Hugging Face transformers, float32, on the CPU.

  python3 make_golden.py --models DIR [NAME...]             keeps the prompts of the golden files
  python3 make_golden.py --models DIR --text DIR [NAME...]  cuts new prompts out of the text

DIR of --models holds NAME.gguf; DIR of --text the reStructuredText sources of Python's
documentation (scripts/fetch-text prints where they are).
Packages: tests/requirements.txt.
"""

import argparse
import pathlib
import time

import numpy as np
import torch

import golden_file
import prompt_tokens
import transformers_model

FOLDER = pathlib.Path(__file__).resolve().parent
NAMES = ["smollm2-135m", "gemma3-270m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"]
DEFAULT_NAMES = NAMES[:3]
TOP_K = 20
TAIL = 32
# Tokens of the prompt; every how many positions one is kept, besides the last TAIL; its text.
PROMPTS = [
    (16, 1, "tutorial/appetite.rst.txt"),
    (600, 8, "howto/regex.rst.txt"),
    (2500, 16, "howto/functional.rst.txt"),
]


def kept_positions(num_tokens, step):
    tail = range(max(0, num_tokens - TAIL), num_tokens)
    return sorted(set(range(0, num_tokens, step)) | set(tail))


def cut_prompts(model_path, text_folder):
    texts = [(pathlib.Path(text_folder) / file).read_text(encoding="utf-8")
             for _, _, file in PROMPTS]
    encode = prompt_tokens.encoder(model_path)
    return [np.array(encode(text)[:count], dtype=np.int32)
            for text, (count, _, _) in zip(texts, PROMPTS)]


def make(name, models, text_folder):
    model_path = pathlib.Path(models) / f"{name}.gguf"
    golden_path = FOLDER / f"{name}.golden"
    if text_folder is None:
        token_lists = [prompt.tokens for prompt in golden_file.read(golden_path).prompts]
    else:
        token_lists = cut_prompts(model_path, text_folder)
    model = transformers_model.load(str(model_path))
    prompts = []
    for tokens, (count, step, _) in zip(token_lists, PROMPTS, strict=True):
        if len(tokens) != count:
            raise ValueError(f"{name}: a prompt has {len(tokens)} tokens, not {count}")
        start = time.monotonic()
        positions = kept_positions(count, step)
        logits = transformers_model.logits_at(model, tokens, positions)
        records = golden_file.record_positions(tokens, positions, logits, TOP_K)
        prompts.append(golden_file.Prompt(tokens, records))
        print(f"{name}: {count} tokens in {time.monotonic() - start:.1f} s", flush=True)
    golden_file.write(golden_path, golden_file.Golden(
        model.config.vocab_size, TOP_K, golden_file.sha256_of(model_path), prompts))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", required=True, help="folder of the GGUF files")
    parser.add_argument("--text", help="folder of the documentation's sources")
    parser.add_argument("names", nargs="*", default=DEFAULT_NAMES, metavar="NAME",
                        help=f"of {', '.join(NAMES)}")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.names:
        make(name, arguments.models, arguments.text)


if __name__ == "__main__":
    main()
