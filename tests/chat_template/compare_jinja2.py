#!/usr/bin/env python3
"""Compares our chat templates with jinja2 on every template of a package, a folder or a file.

usage: compare_jinja2.py RENDER_CASES [--package NAME==VERSION | PATH…]

RENDER_CASES is the tool of that name that the build makes. Without a path the templates come from
the source package of llama-cpp-python, which is downloaded, not installed. A case agrees if both
give the same text or both refuse. Exit code 1 if any case differs, 77 if there is no package.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import conversations
import reference

PACKAGE = "llama-cpp-python==0.3.36"


def package_templates(package):
    """(name, source) of each *.jinja file of a source package."""
    with tempfile.TemporaryDirectory() as folder:
        # Only llama-cpp-python as source: what reads its metadata may come as wheels.
        fetched = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary",
             package.split("==")[0], "--dest", folder, package],
            check=False,
        )
        if fetched.returncode != 0:
            sys.exit(77)
        archive = next(pathlib.Path(folder).glob("*.tar.gz"))
        with tarfile.open(archive) as files:
            for member in files:
                if member.isfile() and member.name.endswith(".jinja"):
                    name = pathlib.PurePosixPath(member.name).name
                    yield name, files.extractfile(member).read().decode()


def path_templates(paths):
    for path in map(pathlib.Path, paths):
        for file in sorted(path.rglob("*.jinja")) if path.is_dir() else [path]:
            yield file.name, file.read_text()


class Tool:
    """The render_cases process."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            [command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def answer(self, source, case):
        request = {"template": source, "now": reference.NOW, **case}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--package", default=PACKAGE)
    options = parser.parse_args()
    tool = Tool(options.tool)
    templates = path_templates(options.paths) if options.paths else package_templates(
        options.package)
    agreeing = total = 0
    for name, source in templates:
        rendered = refused = 0
        differences = []
        for case in conversations.cases():
            expected = reference.render(source, case)
            answer = tool.answer(source, case)
            rendered += expected is not None
            refused += expected is None
            if answer.get("text") != expected:
                differences.append((case["name"], expected, answer))
        total += 1
        agreeing += not differences
        print(f"{name}: {rendered} rendered, {refused} refused, {len(differences)} differ")
        for case_name, expected, answer in differences[:2]:
            print(f"  {case_name}\n    jinja2: {expected!r:.2000}\n    kvant:  {answer!r:.2000}")
    print(f"{agreeing} of {total} templates agree on every case")
    sys.exit(agreeing != total)


if __name__ == "__main__":
    main()
