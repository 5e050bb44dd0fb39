#!/usr/bin/env python3
"""Prints what golden files say; with --model, computes each again with numpy_forward.py.

  python3 check_golden.py FILE.golden...
  python3 check_golden.py --model FILE.gguf FILE.golden
"""

import argparse
import sys

import numpy as np

import golden_file


def summarize(path):
    golden = golden_file.read(path)
    print(f"{path}: vocabulary {golden.vocabulary}, top {golden.top_k}, model sha256 "
          f"{golden.model_sha256.hex()}")
    for prompt in golden.prompts:
        records = prompt.positions
        known = records[records["next_id"] >= 0]
        margin = records["top_log_prob"][:, 0] - records["top_log_prob"][:, 1]
        hits = np.mean(known["top_id"][:, 0] == known["next_id"])
        outside = np.exp(records["rest_log_prob"].astype(np.float64))
        print(f"  {len(prompt.tokens)} tokens, {len(records)} positions "
              f"{records['position'][0]}…{records['position'][-1]}; "
              f"perplexity {np.exp(-known['next_log_prob'].mean()):.3f}; "
              f"top-1 is the next token at {hits:.1%}; "
              f"margin of top-1 below 0.05 at {np.sum(margin < 0.05)}, below 0.5 at "
              f"{np.sum(margin < 0.5)}; mean probability outside the top {outside.mean():.4f}")
    return golden


def recompute(golden, model_path):
    import numpy_forward  # needs the gguf package, which the summary does not

    if golden_file.sha256_of(model_path) != golden.model_sha256:
        sys.exit(f"{model_path} is not the model of this golden file")
    for prompt in golden.prompts:
        records = prompt.positions
        logits = numpy_forward.logits_at(model_path, prompt.tokens, records["position"])
        log_probs, _ = golden_file.log_softmax(logits)
        top = np.take_along_axis(log_probs, records["top_id"].astype(np.int64), axis=1)
        difference = np.abs(top - records["top_log_prob"])
        kld = golden_file.divergence(records, logits)
        margin = records["top_log_prob"][:, 0] - records["top_log_prob"][:, 1]
        same = log_probs.argmax(axis=1) == records["top_id"][:, 0]
        print(f"  again in numpy, float64, {len(prompt.tokens)} tokens: log-probabilities differ "
              f"by at most {difference.max():.2e}, on average {difference.mean():.2e}; KLD mean "
              f"{kld.mean():.2e}, max {kld.max():.2e}; top-1 differs at {np.sum(~same)}, "
              f"where the margin exceeds 0.05 at {np.sum(~same & (margin > 0.05))}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="the GGUF file, to compute everything again")
    parser.add_argument("golden", nargs="+")
    arguments = parser.parse_args()
    if arguments.model and len(arguments.golden) != 1:
        parser.error("--model goes with one golden file")
    for path in arguments.golden:
        golden = summarize(path)
        if arguments.model:
            recompute(golden, arguments.model)


if __name__ == "__main__":
    main()
