"""Runs the code blocks of README.md, docs/*.md and the other pages at the root as they stand.

    docs.py [PAGE...]      these pages only
    docs.py --list         print the blocks, run nothing
    docs.py --self-test    show that each kind of failure is noticed

Blocks of a page run in order, in a fresh copy of the working tree. `sh` blocks run with `bash -euo pipefail`,
`python` blocks with this Python; `json` and `yaml` blocks are parsed, and Kubernetes objects validated;
`text` and `console` blocks are not run. A block in any other language fails, unless it is skipped.
Directives are HTML comments before a block:

    <!-- docs-test: skip REASON -->          cannot run here; the reason is printed
    <!-- docs-test: output -->               compared with the output of the block before; … matches any text
    <!-- docs-test: background port=N -->    started; must respond to HTTP; ended with the page
    <!-- docs-test: python=FILE -->          the Python that runs it
    <!-- docs-test: stop -->                 ends the background blocks so far
    <!-- docs-test: image NAME SCRIPT -->    `SCRIPT NAME` makes this image if the engine does not have it
    <!-- docs-test: cleanup COMMAND -->      run at the end of the page, even after a failure

Links to files and headings of the repository must resolve.
The copy keeps its target/ between runs, since the pages name files there and the Docker build reads one.
Nothing is left running. Exit status 1: a block failed.
"""

import argparse
import contextlib
import ctypes
import dataclasses
import fcntl
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
COPY = CACHE / "sandbox-runtime-ci" / "docs"
BLOCK_SECONDS = 1800  # the first one builds
STOP_SECONDS = 20
KEPT = {"target"}
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
OTHERS = ("CONTRIBUTING.md", "RELEASING.md", "SECURITY.md", "CHANGELOG.md")
NOT_RUN = {"text", "console"}
PR_SET_CHILD_SUBREAPER = 36
ARE_OBJECTS = """
import sys, yaml
documents = list(yaml.safe_load_all(open(sys.argv[1])))
print(all("kind" in document for document in documents if document))
"""


class Failed(Exception):
    """A block did not do what its page says."""


@dataclasses.dataclass
class Step:
    """One block or one directive without a block."""

    page: str
    line: int
    kind: str  # the language, or the directive
    text: str
    options: dict

    def __str__(self):
        return f"{self.page}:{self.line} {' '.join([self.kind, *sorted(self.options)])}"


# Reading a page


def steps_of(page, text):
    """The steps of a page, in order. Raises Failed where the page itself is wrong."""
    steps, options, lines = [], {}, iter(enumerate(text.split("\n"), 1))
    for number, line in lines:
        if comment := re.fullmatch(r"<!-- docs-test: (.*?) *-->", line.strip()):
            directive, value = directive_of(comment[1], f"{page}:{number}")
            if directive in ("stop", "image", "cleanup"):
                steps.append(Step(page, number, directive, value, {}))
            else:
                options[directive] = value
        elif "docs-test:" in line:
            raise Failed(f"{page}:{number}: not a directive: {line}")
        elif fence := re.fullmatch(r"( *)(```+|~~~+)(.*)", line):
            steps.append(Step(page, number, fence[3].strip(), block_text(lines, fence), options))
            options = {}
        elif line.strip() and options and not re.fullmatch(r"<!--.*-->", line.strip()):
            raise Failed(f"{page}:{number}: the directive before this line belongs to no block")
    if options:
        raise Failed(f"{page}: the last directive belongs to no block")
    return steps


def directive_of(text, place):
    name, _, value = re.sub(r"^python=", "python ", text).partition(" ")
    value = value.strip()
    wanted = {"output": r"", "stop": r"", "background": r"port=\d+", "skip": r".+", "python": r"\S+"}
    wanted |= {"image": r"\S+ \S+", "cleanup": r".+"}
    if name not in wanted or not re.fullmatch(wanted[name], value):
        raise Failed(f"{place}: not a directive: {text}")
    return name, value.removeprefix("port=")


def block_text(lines, fence):
    indent, ticks = fence[1], fence[2]
    text = []
    for _, line in lines:
        if line.strip() == ticks:
            return "".join(line.removeprefix(indent) + "\n" for line in text)
        text.append(line)
    raise Failed("a block without an end")


def without_blocks(text):
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)


def headings_of(text):
    """The headings as links name them."""
    headings = re.findall(r"^#+ (.*)$", without_blocks(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(source, page):
    """The links of a page that lead nowhere in the repository."""
    prose = re.sub(r"`[^`\n]*`", "", without_blocks((source / page).read_text()))
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        name, _, heading = link.partition("#")
        file = (source / page).parent / name if name else source / page
        if "://" in link:
            continue
        if not file.exists() or heading and heading not in headings_of(file.read_text()):
            yield link


# The copy of the working tree


def make_copy(source, copy):
    """Files that git knows or would add, with their times, so that cargo builds only what changed."""
    command = ["git", "-C", str(source), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    copy.mkdir(parents=True, exist_ok=True)
    for entry in copy.iterdir():
        if entry.name not in KEPT:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    for name in filter(None, names):
        if (source / name).is_symlink() or (source / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, copy / name, follow_symlinks=False)


# Processes


def descendants():
    """Every process below this one: with the subreaper set, also those that have left their group."""
    parents = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(") ")[2].split()[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def reap():
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def end_all():
    """Ends every process that is left below this one."""
    deadline = time.monotonic() + STOP_SECONDS
    while left := descendants():
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        reap()
        if time.monotonic() > deadline:
            raise Failed(f"these processes do not end: {sorted(left)}")
        time.sleep(0.02)


def end_group(process):
    """Asks a process group to end, and makes it end."""
    deadline = time.monotonic() + STOP_SECONDS
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        while True:
            process.poll()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-process.pid, os.WNOHANG)
            late = time.monotonic() > deadline
            os.killpg(process.pid, signal.SIGKILL if late else 0)
            time.sleep(0.02)
    process.poll()


def responds(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def is_in_use(port):
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


# Running a page


class Session:
    """The blocks of one page, with the processes and images that they leave to each other."""

    def __init__(self, copy, work):
        self.copy, self.work = copy, work
        self.background, self.cleanups, self.printed = [], [], None
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("SANDBOX_") and name not in ("CARGO_TARGET_DIR", "RUSTFLAGS")
        }
        self.environment["TMPDIR"] = str(work)
        self.environment["PYTHONDONTWRITEBYTECODE"] = "1"
        # The same `python3` in shell blocks and in Python blocks.
        self.environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"

    def run(self, step):
        if "output" in step.options:
            self.compare(step)
        elif step.kind in ("stop", "image", "cleanup"):
            getattr(self, step.kind)(step.text)
        elif step.kind in ("sh", "python"):
            command = self.command(step)
            if port := step.options.get("background"):
                self.start(command, int(port))
            else:
                self.printed = self.foreground(command)
        elif step.kind == "json":
            parsed_json(step.text)
        elif step.kind == "yaml":
            self.check_yaml(step)
        else:
            raise Failed(f"no way to run {step.kind or 'a block without a language'}")

    def command(self, step):
        file = self.work / f"block-{step.line}"
        file.write_text(step.text)
        if step.kind == "sh":
            return ["bash", "-euo", "pipefail", str(file)]
        # From standard input, so that modules are found in the working directory.
        python = step.options.get("python", sys.executable)
        return ["bash", "-c", 'exec "$0" - <"$1"', python, str(file)]

    def spawn(self, command, stdout, stderr):
        return subprocess.Popen(
            command,
            cwd=self.copy,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )

    def foreground(self, command):
        """What the command prints on standard output."""
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            process = self.spawn(command, stdout, stderr)
            try:
                status = process.wait(BLOCK_SECONDS)
            except subprocess.TimeoutExpired:
                status = "none in time"
            finally:
                end_group(process)
            stdout.seek(0), stderr.seek(0)
            printed = stdout.read().decode(errors="replace")
            if status != 0:
                raise Failed(f"exit status {status}\n{printed}{stderr.read().decode(errors='replace')}")
            return printed

    def start(self, command, port):
        if is_in_use(port):
            raise Failed(f"port {port} is in use already")
        log = self.work / f"background-{len(self.background)}"
        with log.open("wb") as file:
            process = self.spawn(command, file, file)
        self.background.append((process, port))
        deadline = time.monotonic() + BLOCK_SECONDS
        while not responds(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"nothing responds on port {port}\n{log.read_text(errors='replace')}")
            time.sleep(0.1)

    def stop(self, _=""):
        while self.background:
            process, port = self.background.pop()
            end_group(process)
            deadline = time.monotonic() + STOP_SECONDS
            while is_in_use(port):
                if time.monotonic() > deadline:
                    raise Failed(f"port {port} is still in use")
                time.sleep(0.1)

    def image(self, text):
        name, script = text.split()
        inspect = ["docker", "image", "inspect", name]
        if subprocess.run(inspect, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
            self.cleanup(f"docker rmi --force {name}")
            self.foreground([script, name])

    def cleanup(self, text):
        self.cleanups.append(text)

    def compare(self, step):
        if self.printed is None:
            raise Failed("nothing was run before this output")
        if not matches(step.kind, step.text, self.printed):
            raise Failed(f"expected\n{step.text}received\n{self.printed}")

    def check_yaml(self, step):
        file = self.work / f"block-{step.line}.yaml"
        file.write_text(step.text)
        venv = [str(ROOT / ".ci" / "venv.sh"), "kubernetes-validate", "kubernetes-validate==1.37.0"]
        python = self.foreground(venv).strip()
        are_objects = self.foreground([python, "-c", ARE_OBJECTS, str(file)]).strip()
        if are_objects == "True":
            self.foreground([python, str(ROOT / ".ci" / "kind" / "manifests.py"), str(file)])

    def end(self):
        try:
            self.stop()
        finally:
            for command in reversed(self.cleanups):
                with contextlib.suppress(Failed):
                    self.foreground(["bash", "-c", command])
            end_all()


def parsed_json(text):
    try:
        return json.loads(text, object_pairs_hook=list)
    except ValueError as error:
        raise Failed(f"not JSON: {error}") from error


def matches(language, expected, received):
    if language == "json":
        return parsed_json(expected) == parsed_json(received)
    pieces = [re.escape(piece) for piece in lines_of(expected).split("…")]
    return re.fullmatch(".+".join(pieces), lines_of(received)) is not None


def lines_of(text):
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))


class Report:
    """Counts, and prints one line per block."""

    def __init__(self):
        self.passed, self.failed, self.skipped = 0, 0, []

    def ok(self, step, seconds):
        self.passed += 1
        print(f"ok       {step} ({seconds:.1f} s)", flush=True)

    def fail(self, place, why):
        self.failed += 1
        print(f"FAILED   {place}: {why}", flush=True)

    def skip(self, step, why):
        self.skipped.append(f"{step}: {why}")
        print(f"skipped  {step}: {why}", flush=True)

    def close(self):
        for line in self.skipped:
            print(f"SKIPPED: {line}")
        print(f"{self.passed} passed, {self.failed} failed, {len(self.skipped)} skipped")


def run_page(source, page, copy, report):
    try:
        steps = steps_of(page, (source / page).read_text())
    except Failed as error:
        report.fail(page, error)
        return
    for link in broken_links(source, page):
        report.fail(page, f"there is no {link}")
    make_copy(source, copy)
    with tempfile.TemporaryDirectory() as work:
        session = Session(copy, pathlib.Path(work))
        try:
            run_steps(session, steps, report)
        finally:
            try:
                session.end()
            except Failed as error:
                report.fail(page, error)


def run_steps(session, steps, report):
    skipped = ""  # why the last block did not run, and has no output
    failed = False
    for step in steps:
        if step.kind in NOT_RUN and "output" not in step.options:
            continue
        if "output" not in step.options:
            skipped = step.options.get("skip", "")
        if failed or skipped:
            report.skip(step, skipped or "a block before it failed")
            continue
        began = time.monotonic()
        try:
            session.run(step)
        except Failed as error:
            failed = True
            report.fail(step, error)
        else:
            if step.kind not in ("stop", "image", "cleanup"):
                report.ok(step, time.monotonic() - began)


def run(source, pages, copy):
    """The report of these pages."""
    report = Report()
    copy.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{copy}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one run at a time has the copy and the ports
        for page in pages:
            run_page(source, page, copy, report)
    report.close()
    return report


def pages_of(source):
    names = ["README.md", *sorted(f"docs/{file.name}" for file in source.glob("docs/*.md"))]
    return [name for name in [*names, *OTHERS] if (source / name).exists()]


# The self-test

SLEEP = "sleep 98765"
# A page, and how many of its blocks pass, fail and are skipped.
CASES = [
    ("```sh\ntrue\n```\n```json\n{}\n```\n```text\nx\n```", (2, 0, 0)),
    ("```sh\nfalse | true\n```", (0, 1, 0)),
    ('```sh\necho "$UNSET"\n```', (0, 1, 0)),
    ("```sh\nfalse\n```\n\n```sh\ntrue\n```", (0, 1, 1)),
    ("```python\nprint(1)\n```\n<!-- docs-test: output -->\n```text\n1\n```", (2, 0, 0)),
    ("```python\nraise SystemExit(3)\n```", (0, 1, 0)),
    ("<!-- docs-test: python=no-such-python -->\n```python\n1\n```", (0, 1, 0)),
    ("```sh\necho 1 b 2\n```\n<!-- docs-test: output -->\n```text\n1 … 2\n```", (2, 0, 0)),
    ("```sh\necho 1\n```\n<!-- docs-test: output -->\n```text\n2\n```", (1, 1, 0)),
    ('```sh\necho \'{"a":1}\'\n```\n<!-- docs-test: output -->\n```json\n{"a":\n 1}\n```', (2, 0, 0)),
    ('```sh\necho \'{"a":1}\'\n```\n<!-- docs-test: output -->\n```json\n{"a": 2}\n```', (1, 1, 0)),
    ("<!-- docs-test: output -->\n```text\n2\n```", (0, 1, 0)),
    ("```json\n{]\n```", (0, 1, 0)),
    ("```yaml\na: [1]\n```", (1, 0, 0)),
    ("```yaml\na: [\n```", (0, 1, 0)),
    ("```yaml\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: 1}\n```", (0, 1, 0)),
    ("```\ntrue\n```", (0, 1, 0)),
    ("```perl\n1\n```", (0, 1, 0)),
    ("<!-- docs-test: skip needs perl -->\n```perl\n1\n```", (0, 0, 1)),
    ("<!-- docs-test: skip no -->\n```sh\n1\n```\n<!-- docs-test: output -->\n```text\n1\n```", (0, 0, 2)),
    ("<!-- docs-test: skip -->\n```sh\ntrue\n```", (0, 1, 0)),
    ("<!-- docs-test: skpi needs perl -->\n```sh\ntrue\n```", (0, 1, 0)),
    ("<!-- docs-test: output -->\nText.\n", (0, 1, 0)),
    ("```sh\ntrue", (0, 1, 0)),
    ("# A `b`, c\n[x](#a-b-c) [x](README.md#a-b-c) [x](https://example.org)", (0, 0, 0)),
    ("`[x](y)`\n```text\n[x](y)\n```", (0, 0, 0)),
    ("# A\n[x](#b)\n[x](no-such.md)\n[x](README.md#b)\n", (0, 3, 0)),
    ("<!-- docs-test: background port=PORT -->\n```sh\nexit 0\n```", (0, 1, 0)),
    (
        "<!-- docs-test: background port=PORT -->\n```sh\npython3 -m http.server PORT\n```\n"
        "```sh\ncurl -sf http://127.0.0.1:PORT/ >file\n```\n<!-- docs-test: stop -->\n"
        "```sh\n! curl -s http://127.0.0.1:PORT/\n```\n<!-- docs-test: cleanup test -e file -->",
        (3, 0, 0),
    ),
    # The second one must not be served by the first.
    (2 * "<!-- docs-test: background port=PORT -->\n```sh\npython3 -m http.server PORT\n```\n", (1, 1, 0)),
    (f"```sh\nsetsid -f {SLEEP} & {SLEEP} &\n```", (1, 0, 0)),
    (f"<!-- docs-test: background port=PORT -->\n```sh\nsetsid -f {SLEEP}; exit 1\n```", (0, 1, 0)),
]


def self_test():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    wrong = 0
    with tempfile.TemporaryDirectory() as directory:
        source = pathlib.Path(directory) / "source"
        source.mkdir()
        subprocess.run(["git", "init", "--quiet", str(source)], check=True)
        for page, expected in CASES:
            (source / "README.md").write_text(page.replace("PORT", str(port)))
            report = run(source, ["README.md"], pathlib.Path(directory) / "copy")
            received = (report.passed, report.failed, len(report.skipped))
            if received != expected or descendants():
                wrong += 1
                print(f"WRONG: {page!r}: expected {expected}, received {received}; left: {descendants()}")
    print(f"self-test: {len(CASES) - wrong} of {len(CASES)} as expected")
    return wrong


def interrupted(number, _):
    """Cleans up once, and is not interrupted in that."""
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("pages", nargs="*", metavar="PAGE")
    arguments = parser.parse_args()
    for number in SIGNALS:
        signal.signal(number, interrupted)
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("docs.py: prctl(PR_SET_CHILD_SUBREAPER) failed")
    pages = arguments.pages or pages_of(ROOT)
    if arguments.self_test:
        sys.exit(self_test() != 0)
    if arguments.list:
        print(*(step for page in pages for step in steps_of(page, (ROOT / page).read_text())), sep="\n")
        return
    sys.exit(run(ROOT, pages, COPY).failed != 0)


if __name__ == "__main__":
    main()
