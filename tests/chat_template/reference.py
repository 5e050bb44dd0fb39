"""jinja2, set up the way Hugging Face's apply_chat_template sets it up."""

import datetime
import functools
import json

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

# 29 February 2024, 13:05:09 UTC: every time in these tests.
NOW = 1709211909


class Generation(Extension):
    """Blocks that mark what the assistant wrote; their content is rendered as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


def write_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def tell_time(form):
    moment = datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)
    return moment.replace(tzinfo=None).strftime(form)


def environment():
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    made.filters["tojson"] = write_json
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = tell_time
    return made


@functools.lru_cache
def parse(source):
    """The template, or None where jinja2 finds a mistake in it."""
    try:
        return environment().from_string(source)
    except Exception:  # some mistakes surface only in Python's own compiler
        return None


def render(source, case):
    """The text, or None where jinja2 refuses."""
    template = parse(source)
    if template is None:
        return None
    try:
        return template.render(
            **{
                "documents": None,
                **case["extra"],
                "messages": case["messages"],
                "tools": case["tools"],
                "add_generation_prompt": case["add_generation_prompt"],
            }
        )
    except Exception:  # whatever Python raises inside a template is its refusal
        return None
