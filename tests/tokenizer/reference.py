"""Tokenizers that are not ours, built from the vocabulary of a GGUF file: Hugging Face `tokenizers`
for byte-level BPE, Google's `sentencepiece` for the rest."""

import re
import struct

import gguf
import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def split_by(digits):
    pattern = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits + TAIL
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def pre_tokenizer(name):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return {
        "default": byte_level,
        "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level]),
        "qwen2": split_by(r"\p{N}"),
        "llama-bpe": split_by(r"\p{N}{1,3}"),
    }[name]


class BytePair:
    def __init__(self, field, pre):
        tokens = field("tokenizer.ggml.tokens")
        merges = [tuple(merge.split(" ")) for merge in field("tokenizer.ggml.merges")]
        model = models.BPE({token: i for i, token in enumerate(tokens)}, merges,
                           ignore_merges=pre == "llama-bpe")
        self.plain = self._tokenizer(model, pre)
        self.special = self._tokenizer(model, pre)
        self.special.add_tokens([
            AddedToken(token, normalized=False)
            for token, kind in zip(tokens, field("tokenizer.ggml.token_type"))
            if kind in (CONTROL, USER_DEFINED)])

    @staticmethod
    def _tokenizer(model, pre):
        tokenizer = Tokenizer(model)
        if pre == "qwen2":
            tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizer(pre)
        return tokenizer

    def encode(self, text, parse_special):
        tokenizer = self.special if parse_special else self.plain
        return tokenizer.encode(text, add_special_tokens=False).ids


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(number, value):
    return varint(number << 3) + varint(value)


def message(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def model_proto(tokens, scores, types, unknown, add_space_prefix):
    """sentencepiece's ModelProto (sentencepiece_model.proto), by hand."""
    proto = bytearray()
    for i, (token, score, kind) in enumerate(zip(tokens, scores, types)):
        if kind == USER_DEFINED:
            token = token.replace(" ", "\u2581")
        kind = UNKNOWN if i == unknown else CONTROL if kind == UNKNOWN else kind
        proto += message(1, message(1, token.encode()) + varint(2 << 3 | 5) + struct.pack("<f", score)
                         + integer(3, kind))
    bpe = 2
    has_bytes = 6 in types
    proto += message(2, integer(3, bpe) + integer(35, int(has_bytes)) + integer(40, unknown))
    proto += message(3, integer(3, int(add_space_prefix)) + integer(4, 0) + integer(5, 1))
    return bytes(proto)


class SentencePiece:
    def __init__(self, tokens, scores, types, unknown, add_space_prefix):
        self.model = sentencepiece.SentencePieceProcessor()
        self.model.LoadFromSerializedProto(model_proto(tokens, scores, types, unknown, add_space_prefix))
        controls = {token: i for i, (token, kind) in enumerate(zip(tokens, types)) if kind == CONTROL}
        longest_first = sorted(controls, key=len, reverse=True)
        self.controls = controls
        self.pattern = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")

    def encode(self, text, parse_special):
        if not parse_special:
            return self.model.encode(text)
        ids = []
        for part in self.pattern.split(text):
            ids += [self.controls[part]] if part in self.controls else self.model.encode(part)
        return ids


def open_reference(path, pre=None):
    """The tokenizer of a GGUF file, with another pre-tokenizer if `pre` says so."""
    reader = gguf.GGUFReader(path)

    def field(key):
        return reader.fields[key].contents()

    if field("tokenizer.ggml.model") == "gpt2":
        return BytePair(field, pre or field("tokenizer.ggml.pre"))
    return SentencePiece(field("tokenizer.ggml.tokens"), field("tokenizer.ggml.scores"),
                         field("tokenizer.ggml.token_type"), field("tokenizer.ggml.unknown_token_id"),
                         field("tokenizer.ggml.add_space_prefix"))
