#!/usr/bin/env python3
"""Writes golden.bin: random packed weights and what the gguf package decodes them to.

Usage: python3 make_golden.py golden.bin     (packages: requirements.txt)

The file is, for each type in turn, without padding: the ggml type number and the number of bytes
and of weights (three little-endian uint32), the bytes, the weights as float32. Scales are drawn
small so that every weight is a finite number; codes are any bytes.
"""

import struct
import sys

import gguf
import numpy as np

SEED = 20240607
# Where each block keeps fp16 fields, which random bytes would turn into infinities.
SCALE_OFFSETS = {
    "F32": [], "F16": [], "BF16": [],
    "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}
WEIGHTS_PER_TYPE = 512


def packed(name, elements, size, random):
    count = WEIGHTS_PER_TYPE // elements
    if name in ("F32", "F16", "BF16"):
        values = random.normal(size=count).astype(np.float32)
        if name == "F16":
            return values.astype(np.float16).view(np.uint8).reshape(1, -1)
        if name == "BF16":
            upper = (values.view(np.uint32) >> 16).astype(np.uint16)
            return upper.view(np.uint8).reshape(1, -1)
        return values.view(np.uint8).reshape(1, -1)
    blocks = random.integers(0, 256, size=(count, size), dtype=np.uint8)
    for offset in SCALE_OFFSETS[name]:
        scales = (random.normal(size=count) * 0.02).astype(np.float16)
        blocks[:, offset:offset + 2] = scales.view(np.uint8).reshape(count, 2)
    return blocks.reshape(1, -1)


def main():
    random = np.random.default_rng(SEED)
    with open(sys.argv[1], "wb") as out:
        for name in SCALE_OFFSETS:
            kind = gguf.GGMLQuantizationType[name]
            elements, size = gguf.GGML_QUANT_SIZES[kind]
            data = packed(name, elements, size, random)
            # The package wants these two as arrays of their own type.
            own_types = {"F32": np.float32, "F16": np.float16}
            typed = data.view(own_types.get(name, np.uint8))
            weights = gguf.quants.dequantize(typed, kind).astype(np.float32).reshape(-1)
            assert weights.size == WEIGHTS_PER_TYPE and np.isfinite(weights).all()
            out.write(struct.pack("<III", int(kind), data.size, weights.size))
            out.write(data.tobytes())
            out.write(weights.tobytes())


if __name__ == "__main__":
    main()
