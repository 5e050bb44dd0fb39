"""The .golden file: log-probabilities of one model on fixed prompts. README.md has the layout."""

import dataclasses
import hashlib
import struct

import numpy as np

MAGIC = b"KVGOLDEN"
VERSION = 1
HEADER = struct.Struct("<8sIIII32s")  # magic, version, vocabulary, top_k, prompts, model sha256
PROMPT = struct.Struct("<II")         # tokens, positions


def position_type(top_k):
    return np.dtype([
        ("position", "<u4"),
        ("next_id", "<i4"),
        ("next_log_prob", "<f4"),
        ("log_sum_exp", "<f4"),
        ("rest_log_prob", "<f4"),
        ("top_id", "<u4", (top_k,)),
        ("top_log_prob", "<f4", (top_k,)),
    ])


@dataclasses.dataclass
class Prompt:
    tokens: np.ndarray     # int32 [tokens]
    positions: np.ndarray  # records of position_type(top_k), ascending positions


@dataclasses.dataclass
class Golden:
    vocabulary: int
    top_k: int
    model_sha256: bytes
    prompts: list


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.digest()


def log_softmax(logits):
    """float64 log-probabilities and log-sum-exp of logits [positions, vocabulary]."""
    logits = logits.astype(np.float64)
    largest = logits.max(axis=1, keepdims=True)
    log_sum_exp = largest + np.log(np.exp(logits - largest).sum(axis=1, keepdims=True))
    return logits - log_sum_exp, log_sum_exp[:, 0]


def record_positions(tokens, positions, logits, top_k):
    """Records of the positions, from their logits [len(positions), vocabulary]."""
    log_probs, log_sum_exp = log_softmax(logits)
    records = np.zeros(len(positions), dtype=position_type(top_k))
    for row, position in enumerate(positions):
        # Ties go to the smaller id.
        order = np.argsort(-log_probs[row], kind="stable")
        rest = log_probs[row][order[top_k:]]
        record = records[row]
        record["position"] = position
        record["next_id"] = -1
        if position + 1 < len(tokens):
            record["next_id"] = tokens[position + 1]
            record["next_log_prob"] = log_probs[row, tokens[position + 1]]
        record["log_sum_exp"] = log_sum_exp[row]
        record["rest_log_prob"] = -np.inf
        if rest.size:
            record["rest_log_prob"] = rest[0] + np.log(np.exp(rest - rest[0]).sum())
        record["top_id"] = order[:top_k]
        record["top_log_prob"] = log_probs[row][order[:top_k]]
    return records


def write(path, golden):
    with open(path, "wb") as file:
        file.write(HEADER.pack(MAGIC, VERSION, golden.vocabulary, golden.top_k,
                               len(golden.prompts), golden.model_sha256))
        for prompt in golden.prompts:
            file.write(PROMPT.pack(len(prompt.tokens), len(prompt.positions)))
            file.write(np.asarray(prompt.tokens, dtype="<i4").tobytes())
            file.write(prompt.positions.tobytes())


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    magic, version, vocabulary, top_k, num_prompts, sha256 = HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise ValueError(f"{path} is not a golden file of version {VERSION}")
    record = position_type(top_k)
    offset = HEADER.size
    prompts = []
    for _ in range(num_prompts):
        num_tokens, num_positions = PROMPT.unpack_from(data, offset)
        offset += PROMPT.size
        tokens = np.frombuffer(data, "<i4", num_tokens, offset)
        offset += tokens.nbytes
        positions = np.frombuffer(data, record, num_positions, offset)
        offset += positions.nbytes
        prompts.append(Prompt(tokens, positions))
    if offset != len(data):
        raise ValueError(f"{path} has {len(data) - offset} bytes too many")
    return Golden(vocabulary, top_k, sha256, prompts)


def divergence(records, logits):
    """KL divergence of each position from `logits` [positions, vocabulary] to the stored
    distribution, in nats, over the stored top tokens and one bucket for all others."""
    log_probs, _ = log_softmax(logits)
    result = np.zeros(len(records))
    for row, record in enumerate(records):
        ids = record["top_id"]
        golden = record["top_log_prob"].astype(np.float64)
        result[row] = np.sum(np.exp(golden) * (golden - log_probs[row, ids]))
        if np.isfinite(record["rest_log_prob"]):
            rest = np.delete(log_probs[row], ids)
            rest_log_prob = rest.max() + np.log(np.exp(rest - rest.max()).sum())
            golden_rest = np.float64(record["rest_log_prob"])
            result[row] += np.exp(golden_rest) * (golden_rest - rest_log_prob)
    return result
