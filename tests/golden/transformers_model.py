"""Loads a GGUF file into a Hugging Face transformers model in float32.

The library's own GGUF reader leaves out RoPE factors and some metadata, so the configuration and
the tensor names are mapped here; the arithmetic is the library's.
"""

import gguf
import numpy as np
import torch
import transformers

LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# Gemma normalises what each half of a layer adds as well, and names the norms accordingly.
GEMMA_TENSORS = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
TOP_TENSORS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


class GgufModel:
    """Metadata and dequantized tensors of a GGUF file."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.fields = reader.fields
        self.architecture = self.fields["general.architecture"].contents()
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}

    def get(self, key, default=None):
        field = self.fields.get(f"{self.architecture}.{key}")
        return default if field is None else field.contents()

    def array(self, name):
        """The tensor as float32, [rows, columns] or [size]."""
        tensor = self.tensors[name]
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        shape = [int(size) for size in reversed(tensor.shape)]
        return np.array(values, dtype=np.float32).reshape(shape)


def make_config(model, llama3=None):
    """The library's configuration. llama3: its rope parameters, which a GGUF file does not keep."""
    heads = model.get("attention.head_count")
    hidden = model.get("embedding_length")
    head_dim = model.get("attention.key_length", hidden // heads)
    vocabulary = int(model.tensors["token_embd.weight"].shape[1])
    common = dict(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=model.get("feed_forward_length"),
        num_hidden_layers=model.get("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=model.get("attention.head_count_kv", heads),
        head_dim=head_dim,
        max_position_embeddings=model.get("context_length"),
        rms_norm_eps=model.get("attention.layer_norm_rms_epsilon"),
        tie_word_embeddings="output.weight" not in model.tensors,
        pad_token_id=None, bos_token_id=None, eos_token_id=None,
    )
    if model.architecture == "gemma3":
        pattern = model.get("attention.sliding_window_pattern", 6)
        full = {"rope_type": "default", "rope_theta": model.get("rope.freq_base", 1e6)}
        if model.get("rope.scaling.type") == "linear":
            full.update(rope_type="linear", factor=model.get("rope.scaling.factor"))
        local = {"rope_type": "default", "rope_theta": model.get("rope.freq_base_swa", 1e4)}
        return transformers.Gemma3TextConfig(
            **common,
            query_pre_attn_scalar=head_dim,
            sliding_window=model.get("attention.sliding_window"),
            layer_types=["full_attention" if (layer + 1) % pattern == 0 else "sliding_attention"
                         for layer in range(common["num_hidden_layers"])],
            rope_parameters={"full_attention": full, "sliding_attention": local},
        )
    rope = {"rope_type": "default", "rope_theta": model.get("rope.freq_base", 1e4)}
    if llama3 is not None:
        rope.update(llama3, rope_type="llama3")
    kinds = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config,
             "qwen3": transformers.Qwen3Config}
    return kinds[model.architecture](**common, rope_parameters=rope)


def unpermute(rows, heads):
    """GGUF's llama files hold the rows of Q and K so that RoPE turns neighbours (2i, 2i + 1); the
    library turns (i, i + head_dim / 2)."""
    head_dim = rows.shape[0] // heads
    pairs = rows.reshape(heads, head_dim // 2, 2, -1)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)


def library_name(model, name):
    if name in TOP_TENSORS:
        return TOP_TENSORS[name]
    _, layer, kind, suffix = name.split(".")
    names = LAYER_TENSORS | (GEMMA_TENSORS if model.architecture == "gemma3" else {})
    return f"model.layers.{layer}.{names[kind]}.{suffix}"


def library_array(model, config, name):
    values = model.array(name)
    if model.architecture == "llama" and ".attn_q." in name:
        return unpermute(values, config.num_attention_heads)
    if model.architecture == "llama" and ".attn_k." in name:
        return unpermute(values, config.num_key_value_heads)
    if model.architecture == "gemma3" and name.endswith("norm.weight"):
        return values - np.float32(1)  # the file holds 1 + weight
    return values


def load(path, llama3=None):
    """The model, ready to run, every parameter taken from the file."""
    source = GgufModel(path)
    config = make_config(source, llama3)
    model = transformers.AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager")
    parameters = dict(model.named_parameters())
    unset = set(parameters)
    with torch.no_grad():
        for name in source.tensors:
            if name == "rope_freqs.weight":
                set_rope_factors(model, source.array(name), llama3)
                continue
            target = library_name(source, name)
            values = torch.from_numpy(library_array(source, config, name))
            if parameters[target].shape != values.shape:
                raise ValueError(f"{name}: {tuple(values.shape)} does not fit {target}")
            parameters[target].copy_(values)
            unset.remove(target)
    if unset:
        raise ValueError(f"{path} lacks {sorted(unset)}")
    return model.eval()


def set_rope_factors(model, factors, llama3):
    """Divides the frequencies by the file's factors; where the library computed its own scaled
    frequencies, checks that the two agree."""
    rotary = model.model.rotary_emb
    if llama3 is None:
        rotary.inv_freq /= torch.from_numpy(factors)
        return
    plain, _ = rotary.compute_default_rope_parameters(model.config)
    torch.testing.assert_close(plain / torch.from_numpy(factors), rotary.inv_freq,
                               rtol=1e-6, atol=0)


def logits_at(model, tokens, positions):
    """float32 logits [len(positions), vocabulary] of one pass over all tokens."""
    ids = torch.tensor([list(map(int, tokens))], dtype=torch.long)
    with torch.inference_mode():
        result = model(input_ids=ids, use_cache=False, logits_to_keep=torch.tensor(positions))
    return result.logits[0].numpy()
