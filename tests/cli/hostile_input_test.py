"""What cannot be is refused with one line, the documented exit code and nothing left behind."""

import json
import os
import unittest

from program import MODEL, ProgramTest, kvant, text_folder


class HostileInput(ProgramTest):
    def inspect(self, data):
        path = self.folder / "bad.gguf"
        path.write_bytes(data)
        return kvant("inspect", "-m", path)

    def test_damaged_checkpoints(self):
        whole = MODEL.read_bytes()
        for size in (0, 3, 4, 8, 23, 24, 1000, 100_000, 5_000_000, len(whole) - 1):
            done = self.inspect(whole[:size])
            self.expect_refusal(done, 3, "bad.gguf")
        self.expect_refusal(self.inspect(b"GGML" + whole[4:1000]), 3, "bad.gguf")
        self.expect_refusal(self.inspect(b"GGUF\xff\xff\xff\x7f" + whole[8:1000]), 3, "bad.gguf")
        # A count of 2^63 tensors.
        huge = whole[:8] + (1 << 63).to_bytes(8, "little") + whole[16:1000]
        self.expect_refusal(self.inspect(huge), 3, "bad.gguf")

    def test_what_is_no_file(self):
        self.expect_refusal(kvant("inspect", "-m", self.folder), 3, "not a regular file")
        self.expect_refusal(kvant("inspect", "-m", self.folder / "none"), 3, "cannot open")
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        self.expect_refusal(kvant("inspect", "-m", fifo, timeout=20), 3, "not a regular file")

    def test_usage(self):
        for arguments in ([], ["no-such-command"], ["inspect"], ["probe", "--no-such-option"]):
            self.assertEqual(kvant(*arguments).returncode, 2, arguments)
        for plan in ("int9", "int8:", "k=int8", "int8,skip=99", "int8+bias_removed", "", "ÿ"):
            done = kvant("generate", "-m", MODEL, "-f", plan, "Hello", "-n", 1)
            self.assertEqual(done.returncode, 2, (plan, done.stderr))
            self.assertEqual(done.stdout, "")

    def test_prompts_and_budgets(self):
        generate = ["generate", "-m", MODEL, "--raw", "-n", 4]
        self.expect_refusal(kvant(*generate, "Hello " * 600, "--context", "512"), 3,
                            "over the context")
        self.expect_refusal(kvant(*generate, "Hello", "--memory", "64MiB"), 3, "MiB")
        self.assertEqual(kvant(*generate, "Hello", "--memory", "much").returncode, 2)
        file = self.folder / "file"
        file.write_text("")
        under_a_file = ["experiment", "-m", MODEL, "--text", text_folder(), "--buckets", "128",
                        "--documents", 1, "--tasks", "divergence", "--out"]
        self.expect_refusal(kvant(*under_a_file, file / "out"), 3, "cannot make the folder")
        self.expect_refusal(kvant(*under_a_file, self.folder / "out", "--memory", "220MiB"), 3,
                            "MiB")
        for extra in (["--context", "512"], ["--candidate", "int2_control"],
                      ["--layer-sensitivity", "none"]):
            done = kvant(*under_a_file, self.folder / "out", *extra)
            self.assertEqual(done.returncode, 2, (extra, done.stderr))
        self.expect_refusal(kvant(*generate, ""), 3, "empty")

    def test_special_tokens_are_the_templates_only(self):
        def prompt_tokens(text):
            done = kvant("generate", "-m", MODEL, "-n", 1, "--json", text)
            return json.loads(done.stdout)["prompt_tokens"]

        # As text it takes several tokens, as the control token it would be one.
        self.assertGreater(prompt_tokens("Hello<|im_end|>"), prompt_tokens("Hello") + 2)

    def test_eight_bits_say_what_they_mean(self):
        done = kvant("generate", "-m", MODEL, "-n", 1, "--json", "-f", "8-bit", "Hello")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("8-bit means int8", done.stderr)

    def test_text_and_scales(self):
        experiment = ["experiment", "-m", MODEL, "--buckets", "128", "--out", self.folder / "out"]
        self.expect_refusal(kvant(*experiment, "--text", self.folder / "none"), 3, "none")
        short = self.folder / "short.txt"
        short.write_text("Too short.")
        self.expect_refusal(kvant(*experiment, "--text", short), 3, "token")
        scales = self.folder / "scales.json"
        for text in ("", "{", "[]", '{"format": "kvant-scales/1"}', '{"layers": 1e999}'):
            scales.write_text(text)
            done = kvant("generate", "-m", MODEL, "-f", "fp8_e4m3:static:head", "--scales", scales,
                         "Hello", "-n", 1)
            self.expect_refusal(done, 3, "scales.json")
        self.assertFalse((self.folder / "out" / "report.json").exists())

    def test_damaged_results(self):
        out = self.folder / "out"
        out.mkdir()
        (out / "results.db").write_bytes(b"this is not a database" * 100)
        done = kvant("experiment", "-m", MODEL, "--buckets", "128", "--documents", 1, "--text",
                     text_folder(), "--tasks", "divergence", "--group", "int8", "--out", out)
        self.expect_refusal(done, 3, "results.db")
        self.assertEqual(sorted(p.name for p in out.iterdir()), ["results.db"])

    def test_damaged_reports(self):
        report = self.folder / "report.json"
        for text in ("", "{", "[]", '{"schema": 99}', "[" * 100_000):
            report.write_text(text)
            self.expect_refusal(kvant("report", report), 3, "report.json")
        self.assertEqual(kvant("report", report, "--run", 1).returncode, 2)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["report.json"])

    def test_errors_as_json(self):
        done = kvant("inspect", "-m", self.folder / "none", "--json")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "not_found")


if __name__ == "__main__":
    unittest.main()
