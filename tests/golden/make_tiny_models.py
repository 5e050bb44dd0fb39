#!/usr/bin/env python3
"""Makes tiny/*.gguf, models of random weights, and their golden files.

  python3 make_tiny_models.py [NAME...]

They cover what the real models lack: qwen3, Llama 3's RoPE, every weight type, windows shorter than
a cache block. The golden log-probabilities are those of Hugging Face transformers in float32.
Packages: tests/requirements.txt.
"""

import dataclasses
import pathlib
import sys

import gguf
import numpy as np
import torch

import golden_file
import transformers_model

FOLDER = pathlib.Path(__file__).resolve().parent / "tiny"
SEED = 20240612
TOP_K = 32
PROMPT_TOKENS = 96
PROMPT_STEP = 2
PROMPT_TAIL = 8
VOCABULARY = 288
EPSILON = 0.02  # large, so that a forward pass that takes another one shows it
# Frequencies of every kind (kept, blended, divided) among the 16 of head_dim 32.
LLAMA3_ROPE = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64}
# Byte offsets of a block's fp16 fields, and of them the one that is subtracted with how often it
# goes into the scale so that weights are zero on average.
K_QUANTS = {"Q4_K": (0, 2, 7.5), "Q5_K": (0, 2, 15.5), "Q6_K": (208, None, 0)}


@dataclasses.dataclass
class Shape:
    architecture: str
    weight_type: str = "Q8_0"
    layers: int = 2
    hidden: int = 64
    feed_forward: int = 96
    heads: int = 2
    kv_heads: int = 1
    head_dim: int = 32
    rope_base: float = 10000.0
    tied: bool = False
    window: int = 0
    rope_linear: float = 0
    llama3: bool = False
    biases: bool = False


def llama_of_type(weight_type):
    if weight_type in K_QUANTS:
        # Their blocks are 256 weights long; one layer keeps the files small.
        return Shape("llama", weight_type, layers=1, hidden=256, feed_forward=256, heads=4,
                     head_dim=64, tied=True)
    if weight_type in ("F32", "F16", "BF16"):  # rows that fill no vector register evenly
        return Shape("llama", weight_type, hidden=48, feed_forward=72, heads=3, tied=True)
    return Shape("llama", weight_type)


GEMMA = Shape("gemma3", layers=7, feed_forward=64, heads=4, window=24, rope_base=1e6, tied=True)
MODELS = {f"llama-{kind.lower()}": llama_of_type(kind) for kind in [
    "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]}
MODELS |= {
    "llama3-rope": Shape("llama", llama3=True),
    "qwen2-bias": Shape("qwen2", heads=4, rope_base=1e6, biases=True),
    "qwen3": Shape("qwen3", heads=4, kv_heads=2, rope_base=1e6),
    "gemma3-window": GEMMA,
    "gemma3-linear-rope": dataclasses.replace(GEMMA, weight_type="Q4_0", layers=6, rope_linear=8.0),
}


class Writer:
    """One model file in the making."""

    def __init__(self, path, name, shape):
        self.shape = shape
        # Each model has its own stream, so that adding one changes no other.
        self.random = np.random.default_rng([SEED, *name.encode()])
        self.out = gguf.GGUFWriter(path, shape.architecture)
        self.out.add_name(f"kvant-tiny-{name}")

    def key(self, name):
        return f"{self.shape.architecture}.{name}"

    def metadata(self):
        shape, out = self.shape, self.out
        out.add_block_count(shape.layers)
        out.add_context_length(512)
        out.add_embedding_length(shape.hidden)
        out.add_feed_forward_length(shape.feed_forward)
        out.add_head_count(shape.heads)
        out.add_head_count_kv(shape.kv_heads)
        out.add_layer_norm_rms_eps(EPSILON)
        out.add_rope_freq_base(shape.rope_base)
        out.add_key_length(shape.head_dim)
        out.add_value_length(shape.head_dim)
        if shape.window:
            out.add_sliding_window(shape.window)
        if shape.rope_linear:
            out.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            out.add_rope_scaling_factor(shape.rope_linear)

    def tokenizer(self):
        tokens = byte_tokens()
        merges = [f"{left} {right}" for left, right in zip("Ġtiearonsld", "tinshedelry")]
        tokens += [merge.replace(" ", "") for merge in merges]
        special = VOCABULARY - len(tokens)
        types = [gguf.TokenType.NORMAL] * len(tokens) + [gguf.TokenType.CONTROL] * special
        tokens += ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
        tokens += [f"<|reserved_{index}|>" for index in range(VOCABULARY - len(tokens))]
        self.out.add_tokenizer_model("gpt2")
        self.out.add_tokenizer_pre("default")
        self.out.add_token_list(tokens)
        self.out.add_token_types(types)
        self.out.add_token_merges(merges)
        self.out.add_eos_token_id(tokens.index("<|endoftext|>"))
        self.out.add_bos_token_id(tokens.index("<|endoftext|>"))
        self.out.add_add_bos_token(False)

    def matrix(self, name, rows, columns, deviation=None):
        """Normal weights; the default deviation makes outputs as large as inputs."""
        deviation = columns**-0.5 if deviation is None else deviation
        kind = self.shape.weight_type
        if kind in K_QUANTS:
            data = self.random_blocks(rows, columns, deviation)
        else:
            weights = self.random.normal(size=(rows, columns)) * deviation
            data = gguf.quants.quantize(weights.astype(np.float32),
                                        gguf.GGMLQuantizationType[kind])
        self.out.add_tensor(f"{name}.weight", data, raw_dtype=gguf.GGMLQuantizationType[kind])

    def random_blocks(self, rows, columns, deviation):
        """Blocks of random codes (the package cannot quantize to these types), with scales that
        give the weights about this deviation."""
        kind = gguf.GGMLQuantizationType[self.shape.weight_type]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = self.random.integers(0, 256, size=(rows * columns // elements, size),
                                      dtype=np.uint8)
        scale_at, minimum_at, mean_code = K_QUANTS[self.shape.weight_type]

        def put(offset, value):
            blocks[:, offset:offset + 2] = np.array([value], dtype=np.float16).view(np.uint8)

        put(scale_at, 1)
        if minimum_at is not None:
            put(minimum_at, mean_code)
        unscaled = gguf.quants.dequantize(blocks, kind).std()
        put(scale_at, deviation / unscaled)
        if minimum_at is not None:
            put(minimum_at, deviation / unscaled * mean_code)
        return blocks.reshape(rows, -1)

    def vector(self, name, size, mean, deviation):
        values = mean + self.random.normal(size=size) * deviation
        self.out.add_tensor(name, values.astype(np.float32))

    def norm(self, name, size):
        self.vector(f"{name}.weight", size, 1, 0.2)

    def layer(self, index):
        shape, prefix = self.shape, f"blk.{index}."
        query, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        # Scores of about 2: attention that looks at few tokens.
        sharp = (2 / shape.hidden)**0.5
        self.norm(prefix + "attn_norm", shape.hidden)
        self.matrix(prefix + "attn_q", query, shape.hidden, sharp)
        self.matrix(prefix + "attn_k", kv, shape.hidden, sharp)
        self.matrix(prefix + "attn_v", kv, shape.hidden)
        if shape.biases:
            self.vector(prefix + "attn_q.bias", query, 0, 1)
            self.vector(prefix + "attn_k.bias", kv, 0, 3)
            self.vector(prefix + "attn_v.bias", kv, 0, 1)
        if shape.architecture in ("qwen3", "gemma3"):
            self.norm(prefix + "attn_q_norm", shape.head_dim)
            self.norm(prefix + "attn_k_norm", shape.head_dim)
        self.matrix(prefix + "attn_output", shape.hidden, query)
        self.norm(prefix + "ffn_norm", shape.hidden)
        if shape.architecture == "gemma3":
            self.norm(prefix + "post_attention_norm", shape.hidden)
            self.norm(prefix + "post_ffw_norm", shape.hidden)
        self.matrix(prefix + "ffn_gate", shape.feed_forward, shape.hidden)
        self.matrix(prefix + "ffn_up", shape.feed_forward, shape.hidden)
        self.matrix(prefix + "ffn_down", shape.hidden, shape.feed_forward)

    def tensors(self):
        shape = self.shape
        # Logits of deviation about 2.5.
        output_deviation = 2.5 * shape.hidden**-0.5
        self.matrix("token_embd", VOCABULARY, shape.hidden, output_deviation if shape.tied else 1)
        self.norm("output_norm", shape.hidden)
        if not shape.tied:
            self.matrix("output", VOCABULARY, shape.hidden, output_deviation)
        if shape.llama3:
            self.out.add_tensor("rope_freqs.weight", llama3_factors(shape))
        for index in range(shape.layers):
            self.layer(index)

    def finish(self):
        self.out.write_header_to_file()
        self.out.write_kv_data_to_file()
        self.out.write_tensors_to_file()
        self.out.close()


def byte_tokens():
    """GPT-2's printable stand-ins for the 256 bytes, in its order."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(256 + index) for index in range(len(others))]


def llama3_factors(shape):
    """What each frequency is divided by, as llama.cpp's converter stores it: 1 for wavelengths that
    fit the original context high_freq_factor times, `factor` for those that do not fit it
    low_freq_factor times, blended between."""
    rope = LLAMA3_ROPE
    frequencies = shape.rope_base ** (-np.arange(0, shape.head_dim, 2) / shape.head_dim)
    turns = rope["original_max_position_embeddings"] * frequencies / (2 * np.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / rope["factor"] + smooth)).astype(np.float32)


def make_golden(name, shape, model_path):
    llama3 = LLAMA3_ROPE if shape.llama3 else None
    model = transformers_model.load(str(model_path), llama3)
    random = np.random.default_rng([SEED, 1])
    tokens = random.integers(0, VOCABULARY, size=PROMPT_TOKENS).astype(np.int32)
    positions = sorted(set(range(0, PROMPT_TOKENS, PROMPT_STEP)) |
                       set(range(PROMPT_TOKENS - PROMPT_TAIL, PROMPT_TOKENS)))
    logits = transformers_model.logits_at(model, tokens, positions)
    records = golden_file.record_positions(tokens, positions, logits, TOP_K)
    golden_file.write(FOLDER / f"{name}.golden", golden_file.Golden(
        VOCABULARY, TOP_K, golden_file.sha256_of(model_path),
        [golden_file.Prompt(tokens, records)]))


def main():
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or MODELS:
        shape = MODELS[name]
        path = FOLDER / f"{name}.gguf"
        writer = Writer(path, name, shape)
        writer.metadata()
        writer.tokenizer()
        writer.tensors()
        writer.finish()
        make_golden(name, shape, path)
        print(f"{name}: {path.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main()
