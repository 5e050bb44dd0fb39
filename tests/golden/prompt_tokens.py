"""Tokenizes prompts with the vocabulary of a GGUF file. The golden files keep the ids, so nothing
but the choice of the prompts depends on this."""

import gguf
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_pair_encoder(field):
    vocabulary = {token: id for id, token in enumerate(field("tokenizer.ggml.tokens"))}
    merges = [tuple(merge.split(" ")) for merge in field("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    pre = field("tokenizer.ggml.pre")
    if pre == "qwen2":
        split = pre_tokenizers.Split(Regex(QWEN2_PATTERN), "isolated")
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    elif pre == "smollm":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True),
             pre_tokenizers.ByteLevel(add_prefix_space=False)])
    else:
        raise ValueError(f"no pre-tokenizer '{pre}' here")
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def sentencepiece_encoder(field):
    tokens = field("tokenizer.ggml.tokens")
    scores = field("tokenizer.ggml.scores")
    vocabulary = {token: id for id, token in enumerate(tokens)}
    merges = []
    for token, score in zip(tokens, scores):
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in vocabulary and right in vocabulary:
                merges.append((score, cut, left, right))
    merges.sort(key=lambda merge: (-merge[0], -merge[1]))
    tokenizer = Tokenizer(models.BPE(vocabulary, [(left, right) for _, _, left, right in merges],
                                     byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    first = field("tokenizer.ggml.bos_token_id")
    return lambda text: [first] + tokenizer.encode(text, add_special_tokens=False).ids


def encoder(path):
    """A function from text to a list of token ids, the beginning-of-text token included where the
    model wants it."""
    reader = gguf.GGUFReader(path)
    field = lambda key: reader.fields[key].contents()
    kind = field("tokenizer.ggml.model")
    return byte_pair_encoder(field) if kind == "gpt2" else sentencepiece_encoder(field)
