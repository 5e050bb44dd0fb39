"""A second forward pass, in plain numpy and float64, written from the GGUF file's point of view.

It shares nothing with transformers and its loader here except the gguf package's dequantization: it
shows that the golden files hold what the models say and not what one program makes of them.
"""

import gguf
import numpy as np


class Source:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.fields = reader.fields
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.architecture = self.fields["general.architecture"].contents()

    def get(self, key, default=None):
        field = self.fields.get(f"{self.architecture}.{key}")
        return default if field is None else field.contents()

    def find(self, name):
        tensor = self.tensors.get(name)
        if tensor is None:
            return None
        return gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)

    def rows(self, name, ids):
        tensor = self.tensors[name]
        packed = np.ascontiguousarray(tensor.data[ids])
        return gguf.quants.dequantize(packed, tensor.tensor_type).astype(np.float64)


def rms_norm(x, weight, epsilon):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * weight


def rotate(x, base, divisor, interleaved):
    """x: [positions, heads, head_dim]."""
    half = x.shape[-1] // 2
    frequencies = base ** (-np.arange(half) / half) / divisor
    angles = np.arange(x.shape[0])[:, None, None] * frequencies
    cos, sin = np.cos(angles), np.sin(angles)
    out = np.empty_like(x)
    first, second = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (
        slice(0, half), slice(half, None))
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out


def attend(query, key, value, scale, window):
    """query: [positions, heads, head_dim]; key, value: [positions, kv_heads, head_dim].
    window: how many positions a token sees, itself included; 0: all before it."""
    positions, heads, head_dim = query.shape
    group = heads // key.shape[1]
    out = np.empty_like(query)
    tile = 256
    for head in range(heads):
        k, v = key[:, head // group], value[:, head // group]
        for begin in range(0, positions, tile):
            end = min(positions, begin + tile)
            scores = query[begin:end, head] @ k[:end].T * scale
            distance = np.arange(begin, end)[:, None] - np.arange(end)[None, :]
            hidden = distance < 0
            if window:
                hidden |= distance >= window
            scores[hidden] = -np.inf
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            out[begin:end, head] = weights / weights.sum(axis=1, keepdims=True) @ v[:end]
    return out.reshape(positions, heads * head_dim)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


class Layer:
    def __init__(self, source, index):
        self.source = source
        self.index = index
        self.gemma = source.architecture == "gemma3"
        self.epsilon = source.get("attention.layer_norm_rms_epsilon")
        self.heads = source.get("attention.head_count")
        self.kv_heads = source.get("attention.head_count_kv", self.heads)
        self.head_dim = source.get("attention.key_length",
                                   source.get("embedding_length") // self.heads)

    def tensor(self, name):
        return self.source.find(f"blk.{self.index}.{name}")

    def norm(self, x, name):
        return rms_norm(x, self.tensor(name), self.epsilon)

    def project(self, x, name, heads):
        out = x @ self.tensor(f"{name}.weight").T
        bias = self.tensor(f"{name}.bias")
        if bias is not None:
            out += bias
        out = out.reshape(x.shape[0], heads, self.head_dim)
        weight = self.tensor(f"{name}_norm.weight")
        return out if weight is None else rms_norm(out, weight, self.epsilon)

    def window(self):
        pattern = self.source.get("attention.sliding_window_pattern", 6)
        if not self.gemma or (self.index + 1) % pattern == 0:
            return 0
        return self.source.get("attention.sliding_window")

    def rope(self, x):
        source = self.source
        if self.window():
            return rotate(x, source.get("rope.freq_base_swa", 1e4), 1, False)
        factors = source.find("rope_freqs.weight")
        divisor = source.get("rope.scaling.factor", 1) if factors is None else factors
        return rotate(x, source.get("rope.freq_base", 1e4), divisor,
                      source.architecture == "llama")

    def attention(self, x):
        normed = self.norm(x, "attn_norm.weight")
        query = self.rope(self.project(normed, "attn_q", self.heads))
        key = self.rope(self.project(normed, "attn_k", self.kv_heads))
        value = self.project(normed, "attn_v", self.kv_heads)
        out = attend(query, key, value, self.head_dim**-0.5, self.window())
        return out @ self.tensor("attn_output.weight").T

    def feed_forward(self, x):
        normed = self.norm(x, "ffn_norm.weight")
        activation = gelu_tanh if self.gemma else silu
        gate = activation(normed @ self.tensor("ffn_gate.weight").T)
        return gate * (normed @ self.tensor("ffn_up.weight").T) @ self.tensor("ffn_down.weight").T

    def run(self, x):
        added = self.attention(x)
        x = x + (self.norm(added, "post_attention_norm.weight") if self.gemma else added)
        added = self.feed_forward(x)
        return x + (self.norm(added, "post_ffw_norm.weight") if self.gemma else added)


def logits_at(path, tokens, positions):
    """float64 logits [len(positions), vocabulary]."""
    source = Source(path)
    x = source.rows("token_embd.weight", np.asarray(tokens, dtype=np.int64))
    if source.architecture == "gemma3":
        x = x * np.sqrt(source.get("embedding_length"))
    for index in range(source.get("block_count")):
        x = Layer(source, index).run(x)
    x = rms_norm(x[np.asarray(positions, dtype=np.int64)], source.find("output_norm.weight"),
                 source.get("attention.layer_norm_rms_epsilon"))
    output = "output.weight" if "output.weight" in source.tensors else "token_embd.weight"
    rows = source.tensors[output].data.shape[0]
    step = 16384
    return np.concatenate([x @ source.rows(output, slice(begin, begin + step)).T
                           for begin in range(0, rows, step)], axis=1)
