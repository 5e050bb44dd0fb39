"""Runs kvant as a user would; shared by the tests in this folder."""

import os
import pathlib
import subprocess
import tempfile
import unittest

KVANT = os.environ["KVANT"]
ROOT = pathlib.Path(os.environ["KVANT_ROOT"])
MODEL = pathlib.Path(os.environ.get("KVANT_MODELS", ROOT / "models")) / "smollm2-135m.gguf"


def text_folder():
    """python3.11-doc's how-tos, as scripts/fetch-text unpacked or found them."""
    done = subprocess.run([ROOT / "scripts" / "fetch-text"], capture_output=True, text=True,
                          check=True)
    return pathlib.Path(done.stdout.strip().splitlines()[-1]) / "howto"


def kvant(*arguments, timeout=120, **options):
    return subprocess.run([KVANT, *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, check=False, **options)


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.assertTrue(MODEL.is_file(), f"{MODEL} is missing: scripts/fetch-model smollm2-135m")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def expect_refusal(self, done, code, words):
        """One line that says what is wrong, one more with the remedy, no output."""
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        errors = [line for line in done.stderr.splitlines() if line.startswith("kvant: ")]
        self.assertIn(words, done.stderr)
        self.assertIn(words, errors[-1])
        after = done.stderr.splitlines()[done.stderr.splitlines().index(errors[-1]):]
        self.assertEqual(len(after), 2, done.stderr)
        self.assertTrue(after[1].startswith("       "), done.stderr)
