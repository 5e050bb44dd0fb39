"""An experiment that is killed, stopped, or short of disk loses nothing and ends the same."""

import json
import os
import resource
import signal
import sqlite3
import subprocess
import time
import unittest

from program import KVANT, MODEL, ProgramTest, text_folder

SCHEMA_BYTES = 32_768
MEASURED = ("divergence", "needles", "needle_cells", "free_run", "verdicts", "groups")


class ExperimentLife(ProgramTest):
    expected = None  # what the experiment ends with where nothing disturbs it

    def setUp(self):
        super().setUp()
        if ExperimentLife.expected is None:
            ExperimentLife.expected = self.finish(self.folder / "alone")

    def command(self, out):
        return [KVANT, "experiment", "-m", str(MODEL), "--text", str(text_folder()), "--buckets",
                "192,256", "--documents", "2", "--haystacks", "1", "--tasks",
                "divergence,needles,free_run", "--group", "int8", "--out", str(out)]

    def finish(self, out):
        done = subprocess.run(self.command(out), capture_output=True, text=True, check=False,
                              timeout=200)
        self.assertIn(done.returncode, (0, 1, 5, 6), done.stderr)
        report = json.loads((out / "report.json").read_text())
        return {key: report[key] for key in MEASURED}

    def samples(self, out):
        try:
            with sqlite3.connect(f"file:{out / 'results.db'}?mode=ro", uri=True) as store:
                return store.execute("select count(*) from sample").fetchone()[0]
        except sqlite3.Error:
            return 0

    def stored_bytes(self, out):
        """Of the store, which a running experiment locks."""
        return sum(path.stat().st_size for path in out.glob("results.db*"))

    def start_and_wait(self, out, more_bytes):
        """Starts the experiment and returns once it has stored so much more."""
        enough = max(self.stored_bytes(out), SCHEMA_BYTES) + more_bytes
        process = subprocess.Popen(self.command(out), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        for _ in range(2000):
            if self.stored_bytes(out) >= enough or process.poll() is not None:
                break
            time.sleep(0.02)
        self.assertIsNone(process.poll(), "it ended before it could be interrupted")
        return process

    def test_killed_and_stopped_runs_end_like_one_that_was_let_alone(self):
        out = self.folder / "killed"
        process = self.start_and_wait(out, 10_000)
        process.kill()
        process.communicate()
        self.assertFalse((out / "report.json").exists())
        before = self.samples(out)
        self.assertGreater(before, 0)
        process = self.start_and_wait(out, 10_000)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3, stderr)
        self.assertIn("stopped", stderr)
        self.assertEqual(self.finish(out), self.expected)
        started = time.monotonic()
        self.assertEqual(self.finish(out), self.expected)
        self.assertLess(time.monotonic() - started, 20, "a finished run is not measured again")

    def test_two_runs_on_one_folder(self):
        out = self.folder / "shared"
        first = self.start_and_wait(out, 10_000)
        second = subprocess.run(self.command(out), capture_output=True, text=True, check=False,
                                timeout=200)
        first.communicate(timeout=200)
        self.assertIn(first.returncode, (0, 1, 5, 6))
        if second.returncode == 3:
            self.assertIn("another", second.stderr)
        else:
            self.assertIn(second.returncode, (0, 1, 5, 6), second.stderr)
        self.assertEqual(self.finish(out), self.expected)

    def test_a_full_disk(self):
        out = self.folder / "full"

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

        done = subprocess.run(self.command(out), capture_output=True, text=True, check=False,
                              timeout=200, preexec_fn=limit)
        self.expect_refusal(done, 3, "results.db")
        self.assertFalse((out / "report.json").exists())
        self.assertEqual([name for name in os.listdir(out) if "tmp" in name], [])
        self.assertEqual(self.finish(out), self.expected)


if __name__ == "__main__":
    unittest.main()
