"""Writes the seed corpus of gguf_fuzz: small files that together hold every kind of value, every
weight type and both versions. Usage: python3 fuzz/make_gguf_corpus.py (from the source folder)."""

import pathlib
import struct

FOLDER = pathlib.Path("fuzz/corpus/gguf")

# struct codes of the scalar value types, by their number in the format.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}
STRING, ARRAY = 8, 9
# ggml type number: (elements, bytes) of a block.
WEIGHTS = {0: (1, 4), 1: (1, 2), 30: (1, 2), 8: (32, 34), 2: (32, 18), 3: (32, 20), 6: (32, 22),
           7: (32, 24), 12: (256, 144), 13: (256, 176), 14: (256, 210)}


def string(text):
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def scalar(kind, value):
    return string(value) if kind == STRING else struct.pack("<" + SCALARS[kind], value)


def value(kind, content):
    return struct.pack("<I", kind) + scalar(kind, content)


def array(kind, contents):
    head = struct.pack("<IIQ", ARRAY, kind, len(contents))
    return head + b"".join(scalar(kind, content) for content in contents)


def gguf(metadata, tensors, version=3, alignment=32):
    """metadata: {key: encoded value}; tensors: [(name, ggml type, shape)]."""
    def pad(data):
        return data + bytes(-len(data) % alignment)

    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    head += b"".join(string(key) + encoded for key, encoded in metadata.items())
    data = b""
    for name, kind, shape in tensors:
        elements, block_bytes = WEIGHTS[kind]
        count = 1
        for extent in shape:
            count *= extent
        head += string(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}QIQ", *shape, kind, len(data))
        data = pad(data + bytes(i % 251 for i in range(count // elements * block_bytes)))
    return pad(head) + data


def write(name, content):
    (FOLDER / name).write_bytes(content)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    write("empty", b"")
    write("no_metadata", gguf({}, []))
    write("version_2", gguf({"general.architecture": value(STRING, "llama")},
                            [("a", 0, [4])], version=2))
    write("scalars", gguf({f"k{kind}": value(kind, 1) for kind in SCALARS}, []))
    write("arrays", gguf({f"k{kind}": array(kind, [0, 1, 1]) for kind in SCALARS}
                         | {"s": array(STRING, ["a", "", b"\xff\x00"])}, []))
    write("weights", gguf({}, [(f"w{kind}", kind, [elements])
                               for kind, (elements, _) in WEIGHTS.items()]))
    write("shapes", gguf({}, [("d1", 0, [3]), ("d2", 8, [32, 2]), ("d3", 1, [2, 1, 3]),
                              ("d4", 30, [1, 2, 1, 2])]))
    write("alignment", gguf({"general.alignment": value(4, 8)},
                            [("a", 0, [1]), ("b", 0, [2])], alignment=8))
    write("split", gguf({"split.count": value(2, 2)}, []))
    write("tokenizer", gguf({
        "general.architecture": value(STRING, "llama"),
        "llama.block_count": value(4, 1),
        "llama.rope.freq_base": value(6, 10000.0),
        "tokenizer.ggml.model": value(STRING, "gpt2"),
        "tokenizer.ggml.tokens": array(STRING, ["<s>", "a", "b", "ab"]),
        "tokenizer.ggml.scores": array(6, [0.0, -1.0, -2.0, -3.0]),
        "tokenizer.ggml.token_type": array(5, [3, 1, 1, 1]),
        "tokenizer.ggml.merges": array(STRING, ["a b"]),
        "tokenizer.ggml.add_bos_token": value(7, True),
    }, [("token_embd.weight", 0, [4, 4]), ("output_norm.weight", 0, [4])]))


if __name__ == "__main__":
    main()
