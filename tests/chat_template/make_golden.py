#!/usr/bin/env python3
"""Writes golden.json: what jinja2 makes of templates and conversations.

usage: make_golden.py MODELS_FOLDER

The templates are those in templates/, the snippets, and the ones inside the model files, which
are read from the files again when the test runs and are not stored here.
"""

import json
import pathlib
import struct
import sys

import conversations
import reference
import snippets

HERE = pathlib.Path(__file__).parent
MODELS = ("smollm2-135m", "qwen2.5-coder-0.5b")
KEY = b"tokenizer.chat_template"
SKIPPED_TOOLS = ("weather", "none")
# The conversations that are also rendered with tools.
WITH_TOOLS = (
    "user", "system_user", "system_two_turns", "only_system", "parts", "tool_turn",
    "tool_turn_answered", "two_calls", "call_without_arguments", "arguments_as_text",
    "python_call",
)


def model_template(path):
    """The chat template of a GGUF file: its key, the type 8 (string), the length, the text."""
    with open(path, "rb") as file:
        head = file.read(64 << 20)
    at = head.index(struct.pack("<Q", len(KEY)) + KEY) + 8 + len(KEY)
    kind, length = struct.unpack_from("<IQ", head, at)
    if kind != 8:
        raise ValueError(f"{path}: the chat template is not a string")
    return head[at + 12 : at + 12 + length].decode()


def cases(source):
    """Rendered conversations, those of `dated` only where it changes the text."""
    plain = {}
    for case in conversations.cases():
        conversation, tools, prompt, extra = case["name"].split("/")
        if tools in SKIPPED_TOOLS or (tools != "no_tools" and conversation not in WITH_TOOLS):
            continue
        text = reference.render(source, case)
        key = (conversation, tools, prompt)
        if extra == "plain":
            plain[key] = text
        elif text == plain[key] or conversation not in ("tool_turn", "thinking"):
            continue
        yield {
            "conversation": conversation,
            "tools": tools,
            "add_generation_prompt": prompt == "prompt",
            "extra": extra,
            "text": text,
        }


def main():
    models = pathlib.Path(sys.argv[1])
    golden = {
        "now": reference.NOW,
        "context": snippets.CONTEXT,
        "conversations": conversations.MESSAGES,
        "tools": {k: v for k, v in conversations.TOOLS.items() if k not in SKIPPED_TOOLS},
        "extras": conversations.EXTRAS,
        "snippets": [
            {"template": source, "text": reference.render(
                source,
                {"messages": [], "tools": None, "add_generation_prompt": False,
                 "extra": snippets.CONTEXT})}
            for source in snippets.templates()
        ],
        "templates": {
            path.name: list(cases(path.read_text()))
            for path in sorted((HERE / "templates").glob("*.jinja"))
        },
        "models": {
            name: list(cases(model_template(models / f"{name}.gguf"))) for name in MODELS
        },
    }
    text = json.dumps(golden, ensure_ascii=False, indent=0) + "\n"
    (HERE / "golden.json").write_text(text)


if __name__ == "__main__":
    main()
