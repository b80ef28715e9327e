#!/usr/bin/env python3
"""Black-box contract check for an HTTP server of agent-sandbox's Python runtime contract.

    pip install 'k8s-agent-sandbox[async]'
    python sdk_contract.py http://127.0.0.1:8888 [--extras] [--no-tools] [--only TEXT]

No Kubernetes is needed: the SDK is driven in Direct and In-Cluster mode with a stub K8sHelper, and the
whole SandboxClient life cycle (claim, watch, tunnel, terminate) against a small fake API server and a fake
`kubectl`.
Works with k8s-agent-sandbox 0.5.x and 1.0.x.

  PASS / FAIL   behaviour of the reference server (examples/python-runtime-sandbox), or of the SDK with it
  GOOD / LACK   behaviour beyond the reference server; LACK counts as a failure only with --extras
  SKIP          the installed SDK has no such call, or --no-tools

--no-tools skips every case that needs an executable (echo, sh, cat, ...) in the image.
Exit status: 0 if nothing failed. The last line is "N passed, N failed, N skipped".
"""

import argparse
import asyncio
import http.client
import http.server
import importlib.metadata
import inspect
import io
import json
import logging
import os
import random
import shlex
import string
import sys
import tempfile
import threading
import time
import urllib.parse

ap = argparse.ArgumentParser()
ap.add_argument("base_url")
ap.add_argument("--extras", action="store_true", help="count LACK as failure")
ap.add_argument("--no-tools", action="store_true", help="the image has no executables")
ap.add_argument("--only", default="", help="run only cases whose name contains TEXT")
A = ap.parse_args()
BASE = A.base_url.rstrip("/")
U = urllib.parse.urlsplit(BASE)
HOST, PORT = U.hostname, U.port or 80
for v in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
    os.environ.pop(v, None)

TAG = "ct-" + "".join(random.choices(string.ascii_lowercase + string.digits, k=6))
TMP = tempfile.mkdtemp(prefix="sdk-contract-")
res = {"PASS": 0, "FAIL": 0, "GOOD": 0, "LACK": 0, "SKIP": 0}


class Skip(Exception):
    pass


def case(name, fn, extra=False, tools=False):
    if A.only and A.only not in name:
        return
    if tools and A.no_tools:
        k, why = "SKIP", "needs an executable in the image"
    else:
        try:
            r = fn()
            if inspect.isawaitable(r):
                asyncio.run(asyncio.wait_for(r, 120))
            k, why = ("GOOD" if extra else "PASS"), ""
        except Skip as e:
            k, why = "SKIP", str(e)
        except BaseException as e:  # noqa: BLE001
            if isinstance(e, KeyboardInterrupt):
                raise
            k, why = ("LACK" if extra else "FAIL"), f"{type(e).__name__}: {e}"[:220]
    res[k] += 1
    print(f"{k}  {name}" + (f"   [{why}]" if why else ""), flush=True)


def eq(a, b, what=""):
    assert a == b, f"{what} got {a!r}, want {b!r}"


def raises(exc, fn, **attrs):
    try:
        fn()
    except exc as e:
        for k, v in attrs.items():
            eq(getattr(e, k), v, k)
        return e
    raise AssertionError(f"no {exc} raised")


# ------------------------------------------------------------------ raw HTTP
def http_raw(method, target, body=None, headers=None, timeout=30):
    """target goes on the wire untouched (no dot-segment removal, no re-encoding)."""
    c = http.client.HTTPConnection(HOST, PORT, timeout=timeout)
    c.putrequest(method, target, skip_accept_encoding=True)
    h = dict(headers or {})
    if body is not None and "Transfer-Encoding" not in h:
        h["Content-Length"] = str(len(body))
    for k, v in h.items():
        c.putheader(k, v)
    c.endheaders()
    if body is not None:
        c.send(body)
    r = c.getresponse()
    data = r.read()
    c.close()
    return r.status, {k.lower(): v for k, v in r.getheaders()}, data


def get(target):
    s, h, b = http_raw("GET", target)
    return s, (json.loads(b) if "json" in h.get("content-type", "") else b)


def post_json(target, obj, timeout=30):
    s, h, b = http_raw(
        "POST", target, json.dumps(obj).encode(), {"Content-Type": "application/json"}, timeout
    )
    return s, json.loads(b)


def multipart(filename, content, field="file", part_type=None, boundary="XbX"):
    f = filename if isinstance(filename, bytes) else filename.encode()
    b = (
        b"--"
        + boundary.encode()
        + b'\r\nContent-Disposition: form-data; name="'
        + field.encode()
        + b'"; filename="'
        + f
        + b'"\r\n'
    )
    if part_type:
        b += b"Content-Type: " + part_type.encode() + b"\r\n"
    return b + b"\r\n" + content + b"\r\n--" + boundary.encode() + b"--\r\n"


def post_upload(filename, content, **k):
    s, h, b = http_raw(
        "POST",
        "/upload",
        multipart(filename, content, **k),
        {"Content-Type": "multipart/form-data; boundary=XbX"},
    )
    return s, json.loads(b)


# ------------------------------------------ the cases of the reference: tester.py, tester.go, test_main.py
def t_health():
    s, j = get("/")
    eq(s, 200)
    eq(j, {"status": "ok", "message": "Sandbox Runtime is active."})


def t_exec_echo():
    s, j = post_json("/execute", {"command": "echo 'hello world'"})
    eq(s, 200)
    eq(j["stdout"], "hello world\n")
    eq(j["stderr"], "")
    eq(j["exit_code"], 0)
    assert {"stdout", "stderr", "exit_code"} <= set(j)


def t_exec_bad_quote():
    s, j = post_json("/execute", {"command": "echo 'unterminated"})
    eq(s, 200)
    eq(j["exit_code"], 1)
    eq(j["stdout"], "")
    assert "Failed to execute command" in j["stderr"]


def t_list_dot():
    s, j = get("/list/.")
    eq(s, 200)
    assert isinstance(j, list)
    s, j = get("/list/")
    eq(s, 200)
    assert isinstance(j, list)


def t_exists_dot():
    eq(get("/exists/."), (200, {"path": ".", "exists": True}), "tester.go")
    eq(get("/exists/"), (200, {"path": "", "exists": True}), "tester.py")
    eq(get("/exists/does_not_exist"), (200, {"path": "does_not_exist", "exists": False}))


def t_traversal():
    for t in (
        "/exists/..%2F..%2Fetc%2Fpasswd",
        "/exists/%2F..%2Fetc%2Fpasswd",
        "/exists/../../etc/passwd",
        "/download/..%2F..%2Fetc%2Fpasswd",
        "/list/..%2F..",
        "/list/..",
        "/download/foo%2F..%2F..%2Fbar",
    ):
        eq(get(t), (403, {"message": "Access denied"}), t)


def t_nul():
    for t in ("/exists/a%00b", "/download/a%00b", "/list/a%00b"):
        eq(get(t), (403, {"message": "Access denied"}), t)


def t_upload_roundtrip():
    fn = f"{TAG}-up.txt"
    data = b"Hello world from upload test"
    s, j = post_upload(fn, data)
    eq(s, 200)
    assert "uploaded successfully" in j["message"]
    eq(j, {"message": f"File '{fn}' uploaded successfully."})
    eq(get(f"/exists/{fn}"), (200, {"path": fn, "exists": True}))
    s, h, b = http_raw("GET", f"/download/{fn}")
    eq(s, 200)
    eq(b, data)
    eq(h.get("content-type"), "application/octet-stream")
    eq(h.get("content-length"), str(len(data)))


def t_upload_traversal():
    s, j = post_upload("../../unsafe_upload.txt", b"x")
    eq(s, 403)
    assert "Access denied" in j["message"]
    eq(post_upload("../evil.txt", b"x"), (403, {"message": "Access denied"}))


def t_upload_abs():
    s, _ = post_upload(f"/{TAG}-abs.txt", b"abs")
    eq(s, 200)
    eq(http_raw("GET", f"/download/{TAG}-abs.txt")[2], b"abs", "leading slashes are stripped")
    eq(get(f"/exists/%2F%2F{TAG}-abs.txt")[1]["exists"], True)


def t_upload_nested():
    s, _ = post_upload(f"{TAG}-n/d/u.txt", b"n")
    eq(s, 200)
    eq(http_raw("GET", f"/download/{TAG}-n/d/u.txt")[2], b"n")
    eq(http_raw("GET", f"/download/{TAG}-n%2Fd%2Fu.txt")[2], b"n")


def t_download_404():
    eq(get(f"/download/{TAG}-missing"), (404, {"message": "File not found"}))
    post_upload(f"{TAG}-dd/x", b"")
    eq(get(f"/download/{TAG}-dd"), (404, {"message": "File not found"}))


def t_list_404():
    post_upload(f"{TAG}-f", b"")
    eq(get(f"/list/{TAG}-f"), (404, {"message": "Path is not a directory"}))
    eq(get(f"/list/{TAG}-missing"), (404, {"message": "Path is not a directory"}))


def t_list_entries():
    post_upload(f"{TAG}-l/a.txt", b"abc")
    post_upload(f"{TAG}-l/sub/b", b"")
    s, j = get(f"/list/{TAG}-l")
    eq(s, 200)
    eq({e["name"] for e in j}, {"a.txt", "sub"})
    f = next(e for e in j if e["name"] == "a.txt")
    eq(set(f), {"name", "size", "type", "mod_time"})
    eq((f["size"], f["type"]), (3, "file"))
    assert isinstance(f["mod_time"], float) and abs(f["mod_time"] - time.time()) < 3600
    eq(next(e for e in j if e["name"] == "sub")["type"], "directory")


def t_422():
    for b in (b"{}", b'{"command":null}', b'{"command":5}', b"[]", b"{bad"):
        s, h, d = http_raw("POST", "/execute", b, {"Content-Type": "application/json"})
        eq(s, 422, b)
        json.loads(d)["detail"]
    s, h, d = http_raw(
        "POST",
        "/upload",
        multipart("x", b"", field="wrong"),
        {"Content-Type": "multipart/form-data; boundary=XbX"},
    )
    eq(s, 422)


def t_405_404():
    eq(get("/execute")[0], 405)
    eq(http_raw("PUT", "/upload", b"")[0], 405)
    eq(get("/nope")[0], 404)


def t_unknown_fields():
    eq(post_json("/execute", {"command": "echo a", "unknown": 1})[1]["stdout"], "a\n")


def t_chunked_json():
    body = b'{"command":"echo hi"}'
    s, _, d = http_raw(
        "POST",
        "/execute",
        b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body),
        {"Content-Type": "application/json", "Transfer-Encoding": "chunked"},
    )
    eq(s, 200)
    eq(json.loads(d)["exit_code"] in (0, 1), True)


for n, f, tl in [
    ("raw GET / health body", t_health, 0),
    ("raw execute echo", t_exec_echo, 1),
    ("raw execute unterminated quote", t_exec_bad_quote, 0),
    ("raw list . and empty", t_list_dot, 0),
    ("raw exists . / '' / missing (tester.go + tester.py)", t_exists_dot, 0),
    ("raw traversal is 403 on exists/download/list", t_traversal, 0),
    ("raw NUL in path is 403", t_nul, 0),
    ("raw upload, exists, download", t_upload_roundtrip, 0),
    ("raw upload traversal 403", t_upload_traversal, 0),
    ("raw upload absolute name re-rooted", t_upload_abs, 0),
    ("raw upload creates parents", t_upload_nested, 0),
    ("raw download missing/dir 404", t_download_404, 0),
    ("raw list missing/file 404", t_list_404, 0),
    ("raw list entry fields", t_list_entries, 0),
    ("raw invalid bodies 422 + detail", t_422, 0),
    ("raw 405 and 404", t_405_404, 0),
    ("raw execute ignores unknown JSON fields", t_unknown_fields, 1),
    ("raw execute accepts chunked body", t_chunked_json, 0),
]:
    case(n, f, tools=bool(tl))

# ------------------------------------------------------------------ the SDK, without Kubernetes
kubeconfig = os.path.join(TMP, "kubeconfig")
os.environ["KUBECONFIG"] = kubeconfig  # must be set before `import kubernetes`
os.environ["PATH"] = TMP + os.pathsep + os.environ.get("PATH", "")


class FakeAPI(http.server.BaseHTTPRequestHandler):
    """Enough of kube-apiserver for SandboxClient.create_sandbox()/terminate()."""

    protocol_version = "HTTP/1.1"
    claims = {}
    log = []

    def log_message(self, *a):
        pass

    def _send(self, code, obj):
        b = json.dumps(obj).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(b)))
        self.end_headers()
        self.wfile.write(b)

    def _nf(self):
        self._send(404, {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})

    def do_POST(self):
        o = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        m = o["metadata"]
        m.update(uid="u-" + m["name"], resourceVersion="1", namespace=self.path.split("/")[5])
        o["status"] = {
            "sandbox": {"name": "sb-" + m["name"], "podIPs": ["127.0.0.1"]},
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "DependenciesReady", "message": "Pod is Ready"}
            ],
        }
        self.claims[m["name"]] = o
        self.log.append(("POST", o))
        self._send(201, o)

    def do_GET(self):
        u = urllib.parse.urlsplit(self.path)
        q = urllib.parse.parse_qs(u.query)
        p = u.path.strip("/").split("/")
        if "watch" in q:
            name = q["fieldSelector"][0].split("=")[1]
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Connection", "close")
            self.end_headers()
            if name in self.claims:
                self.wfile.write(
                    json.dumps({"type": "MODIFIED", "object": self.claims[name]}).encode() + b"\n"
                )
            self.close_connection = True
            return
        kind, name = p[5], (p[6] if len(p) > 6 else None)
        if kind == "sandboxclaims":
            if name is None:
                return self._send(200, {"items": list(self.claims.values()), "metadata": {}})
            return self._send(200, self.claims[name]) if name in self.claims else self._nf()
        if kind == "sandboxes" and name and name[3:] in self.claims:
            return self._send(
                200,
                {
                    "apiVersion": "agents.x-k8s.io/v1beta1",
                    "kind": "Sandbox",
                    "metadata": {"name": name},
                    "status": {
                        "podIPs": ["127.0.0.1"],
                        "conditions": self.claims[name[3:]]["status"]["conditions"],
                    },
                },
            )
        self._nf()

    def do_DELETE(self):
        n = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(n)
        self.claims.pop(self.path.split("?")[0].rsplit("/", 1)[1], None)
        self._send(200, {"kind": "Status", "status": "Success"})


api = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeAPI)
api.daemon_threads = True
threading.Thread(target=api.serve_forever, daemon=True).start()
with open(kubeconfig, "w") as f:
    json.dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{api.server_port}"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        },
        f,
    )
with open(os.path.join(TMP, "kubectl"), "w") as f:  # fake `kubectl get` and `kubectl port-forward X L:R`
    f.write(f"""#!{sys.executable}
import socket,sys,threading
if sys.argv[1]!='port-forward': sys.exit(0)
lp=int(next(a for a in sys.argv[2:] if ':' in a and a.split(':')[0].isdigit()).split(':')[0])
def pump(a,b):
    try:
        while True:
            d=a.recv(65536)
            if not d: break
            b.sendall(d)
    except OSError: pass
    try: b.shutdown(socket.SHUT_WR)
    except OSError: pass
s=socket.create_server(('127.0.0.1',lp)); print('Forwarding',flush=True)
while True:
    c,_=s.accept(); t=socket.create_connection(({HOST!r},{PORT}))
    threading.Thread(target=pump,args=(c,t),daemon=True).start()
    threading.Thread(target=pump,args=(t,c),daemon=True).start()
""")
os.chmod(os.path.join(TMP, "kubectl"), 0o755)

from k8s_agent_sandbox import SandboxClient
from k8s_agent_sandbox.exceptions import SandboxRequestError
from k8s_agent_sandbox.models import (
    ExecutionResult,
    SandboxDirectConnectionConfig,
    SandboxInClusterConnectionConfig,
    SandboxLocalTunnelConnectionConfig,
)
from k8s_agent_sandbox.sandbox import Sandbox

logging.getLogger().setLevel(logging.CRITICAL)
logging.disable(logging.CRITICAL)
SDK = importlib.metadata.version("k8s-agent-sandbox")
print(f"---- k8s-agent-sandbox {SDK} against {BASE}", flush=True)


class StubHelper:  # stands in for K8sHelper: no pod IP, never touches a cluster
    injected_api_client = None

    def __init__(self, ip=None):
        self.ip = ip

    def get_sandbox(self, name, ns):
        return {"status": {"podIPs": [self.ip] if self.ip else []}}

    def delete_sandbox_claim(self, *a, **k):
        pass


def direct(**k):
    return Sandbox(
        claim_name="",
        sandbox_id="contract",
        namespace="default",
        connection_config=SandboxDirectConnectionConfig(api_url=BASE, **k),
        k8s_helper=StubHelper(),
    )


sb = direct()
has_ct = "command_timeout" in inspect.signature(sb.commands.run).parameters
NAMES = [
    "plain.txt",
    "with space.txt",
    "ünïcode ✓.txt",
    "hash#q?x&y+z.txt",
    "semi;colon,eq=.txt",
    "a%b.txt",
    "tilde~'apos.txt",
    "deep/er/path/f.txt",
    ".hidden",
    "-dash",
    "back\\slash.txt",
]


def sync_suite(label, sb, only_basic=False):
    C, F = sb.commands, sb.files
    P = f"{TAG}-{label}"

    def n(name):
        return f"{label}: {name}"

    def run_echo():
        r = C.run("echo 'hello world'")
        assert isinstance(r, ExecutionResult)
        eq((r.stdout, r.stderr, r.exit_code), ("hello world\n", "", 0))

    case(n("run echo"), run_echo, tools=True)

    def wr():
        F.write(f"{P}.txt", "héllo")
        eq(F.read(f"{P}.txt"), "héllo".encode())
        F.write(f"{P}.txt", b"2")
        eq(F.read(f"{P}.txt"), b"2")

    case(n("write str, read bytes, overwrite"), wr)

    def ex():
        eq(F.exists(f"{P}.txt"), True)
        eq(F.exists(f"{P}.no"), False)
        eq(F.exists("."), True)

    case(n("exists true/false/."), ex)

    def ls():
        names = {e.name: e for e in F.list(".")}
        e = names[f"{P}.txt"]
        eq((e.size, e.type), (1, "file"))
        mod = e.modified.timestamp() if hasattr(e, "modified") else e.mod_time  # <= 0.5.6 exposes mod_time
        assert abs(time.time() - mod) < 3600

    case(n("list '.' gives size/type/modified"), ls)
    if only_basic:
        return

    def std():
        r = C.run("sh -c 'echo out; echo err >&2; exit 3'")
        eq((r.stdout, r.stderr, r.exit_code), ("out\n", "err\n", 3))

    case(n("run separates stdout/stderr/exit code"), std, tools=True)

    def nf():
        r = C.run("no-such-binary-xyz --flag")
        eq((r.stdout, r.exit_code), ("", 1))
        assert r.stderr.startswith("Failed to execute command: "), r.stderr

    case(n("run unknown program: exit 1, message in stderr, HTTP 200"), nf)

    def q():
        r = C.run("echo 'x")
        eq(r.exit_code, 1)
        eq(r.stderr, "Failed to execute command: No closing quotation")

    case(n("run unterminated quote"), q)

    def em():
        r = C.run("")
        eq(r.exit_code, 1)
        assert r.stderr.startswith("Failed to execute command"), r.stderr

    case(n("run empty command"), em)

    def lit():
        eq(
            C.run("echo $HOME * a; echo b | cat && x > y # z").stdout,
            "$HOME * a; echo b | cat && x > y # z\n",
        )

    case(n("run has no shell expansion"), lit, tools=True)

    def shl():
        eq(C.run(r"""printf '%s|' "a b" 'c"d' e\ f "g\"h" ''""").stdout, 'a b|c"d|e f|g"h||')

    case(n("run splits like shlex"), shl, tools=True)

    def uni():
        eq(C.run("echo 'héé ✓ 😀'").stdout, "héé ✓ 😀\n")

    case(n("run unicode in and out"), uni, tools=True)

    def cwd():
        F.write(f"{P}-cwd.txt", b"seen")
        eq(C.run(f"cat {P}-cwd.txt").stdout, "seen")

    case(n("run works in the directory files are written to"), cwd, tools=True)

    def sig():
        eq(C.run("sh -c 'kill -9 $$'").exit_code, -9)

    case(n("run killed by signal N gives exit_code -N"), sig, tools=True)

    def stdin():
        t = time.time()
        eq(C.run("cat").stdout, "")
        assert time.time() - t < 5

    case(n("run has empty stdin"), stdin, tools=True)

    def nlx():
        eq(C.run(r"printf 'a\r\nb\rc\n'").stdout, "a\r\nb\rc\n")

    case(n("run keeps CR and CRLF (the reference turns them into LF)"), nlx, tools=True)

    def big():
        r = C.run("head -c 3000000 /dev/zero")
        eq(len(r.stdout), 3000000)

    case(n("run 3 MB of stdout does not deadlock"), big, tools=True)

    def rm():
        F.write(f"{P}-rm", b"")
        eq(C.run(f"rm {P}-rm").exit_code, 0)
        eq(F.exists(f"{P}-rm"), False)

    case(n("run rm removes an uploaded file"), rm, tools=True)

    def par():
        out = []
        ts = [
            threading.Thread(target=lambda: out.append(direct().commands.run("sleep 1").exit_code))
            for _ in range(8)
        ]
        t = time.time()
        [x.start() for x in ts]
        time.sleep(0.2)
        eq(get("/")[0], 200)
        [x.join() for x in ts]
        eq(out, [0] * 8)
        assert time.time() - t < 4, time.time() - t

    case(n("run is concurrent and health responds meanwhile"), par, tools=True)
    for nm in NAMES:

        def rt(nm=nm):
            p = f"{P}/{nm}"
            F.write(p, nm.encode())
            eq(F.read(p), nm.encode())
            eq(F.exists(p), True)
            assert nm.rsplit("/", 1)[-1] in {e.name for e in F.list(p.rsplit("/", 1)[0])}

        case(n(f"write/read/exists/list name {nm!r}"), rt)

    def blob():
        d = os.urandom(8 << 20)
        F.write(f"{P}.bin", d)
        eq(F.read(f"{P}.bin"), d)
        F.write(f"{P}.0", b"")
        eq(F.read(f"{P}.0"), b"")
        tricky = b"\r\n--XbX--\r\n\r\n--\x00\xff" * 1000
        F.write(f"{P}.t", tricky)
        eq(F.read(f"{P}.t"), tricky)

    case(n("8 MiB binary, empty file, boundary-like bytes"), blob)

    def m404():
        raises(SandboxRequestError, lambda: F.read(f"{P}.missing"), status_code=404)
        raises(SandboxRequestError, lambda: F.list(f"{P}.missing"), status_code=404)
        raises(SandboxRequestError, lambda: F.list(f"{P}.txt"), status_code=404)

    case(n("read/list missing: SandboxRequestError 404"), m404)

    def m403():
        for fn in (
            lambda: F.exists("../../etc/passwd"),
            lambda: F.list("../.."),
            lambda: F.read("../x", allow_unsafe_paths=True),
            lambda: F.write("../x", b"", allow_unsafe_paths=True),
        ):
            raises(SandboxRequestError, fn, status_code=403)

    case(n("traversal: SandboxRequestError 403"), m403)

    def cl():
        for bad in ("../x", "", " ", "/", ".", "a\x00b", "a\nb"):
            raises(ValueError, lambda bad=bad: F.write(bad, b""))
        raises(ValueError, lambda: F.read("../x"))

    case(n("client-side path checks (ValueError)"), cl)

    def ab():
        F.write(f"/{P}/abs.txt", b"r")
        eq(F.read(f"{P}/abs.txt"), b"r")
        eq(F.read(f"//{P}/abs.txt"), b"r")

    case(n("absolute paths are re-rooted"), ab)

    def lroot():
        assert f"{P}.txt" in {e.name for e in F.list("/")} and f"{P}.txt" in {e.name for e in F.list("")}

    case(n("list '/' and '' are the base directory"), lroot)

    def lempty():
        if A.no_tools:
            raise Skip("needs mkdir")
        eq(C.run(f"mkdir {P}-empty").exit_code, 0)
        eq(F.list(f"{P}-empty"), [])

    case(n("list empty directory is []"), lempty)

    def dele():
        if not hasattr(F, "delete"):
            raise Skip("SDK has no delete")
        raises(NotImplementedError, lambda: F.delete("x"))

    case(n("delete is not part of this runtime"), dele)

    def to():
        raises(Exception, lambda: direct().commands.run("sleep 8", timeout=1))
        eq(get("/")[0], 200)

    case(n("client read timeout raises, server stays healthy"), to, tools=True)

    def strm():
        if not hasattr(F, "read_to"):
            raise Skip("SDK has no streaming")
        d = os.urandom(300_000)
        F.write(f"{P}.s", io.BytesIO(d))
        eq(F.read(f"{P}.s"), d)  # chunked multipart
        o = io.BytesIO()
        eq(F.read_to(f"{P}.s", o), len(d))
        eq(o.getvalue(), d)
        raises(RuntimeError, lambda: F.read_to(f"{P}.s", io.BytesIO(), max_bytes=10))

    case(n("streamed write (chunked multipart) and read_to"), strm)

    def ec():
        if not has_ct:
            raise Skip("SDK has no env/cwd")
        raises(NotImplementedError, lambda: C.run("x", env={"A": "b"}))
        raises(NotImplementedError, lambda: C.run("x", cwd="/"))

    case(n("env/cwd rejected client-side for this runtime"), ec)

    def ctok():
        if not has_ct:
            raise Skip("SDK has no command_timeout")
        r = C.run("echo hi", command_timeout=20.5)
        eq((r.stdout, r.timed_out), ("hi\n", False))

    case(n("command_timeout sends timeout_seconds, short command unaffected"), ctok, tools=True)


sync_suite("direct", sb)
sync_suite(
    "in-cluster",
    Sandbox(
        claim_name="",
        sandbox_id="contract",
        connection_config=SandboxInClusterConnectionConfig(server_port=PORT),
        k8s_helper=StubHelper(HOST if HOST[0].isdigit() else "127.0.0.1"),
    ),
    only_basic=True,
)


def lifecycle():
    c = SandboxClient(connection_config=SandboxLocalTunnelConnectionConfig())
    s = c.create_sandbox(warmpool="pool", namespace="default", labels={"t": "x"})
    eq(s.sandbox_id, "sb-" + s.claim_name)
    eq(s.status()[0], "SandboxReady")
    try:
        s.files.write(f"{TAG}-lc", b"1")
        eq(s.files.read(f"{TAG}-lc"), b"1")
        if not A.no_tools:
            eq(s.commands.run("echo tunnel").stdout, "tunnel\n")
    finally:
        name = s.claim_name
        s.terminate()
    assert name not in FakeAPI.claims
    eq(FakeAPI.log[-1][1]["spec"]["warmPoolRef"], {"name": "pool"})


case("SandboxClient life cycle over the local tunnel (fake API server + fake kubectl)", lifecycle)

# ------------------------------------------------------------------ async SDK
try:
    from k8s_agent_sandbox.async_sandbox import AsyncSandbox
except ImportError:
    AsyncSandbox = None


class AStub(StubHelper):
    async def get_sandbox(self, name, ns):
        return {"status": {"podIPs": []}}

    async def delete_sandbox_claim(self, *a, **k):
        pass


def acase(name, coro, **k):
    async def go():
        if AsyncSandbox is None:
            raise Skip("pip install 'k8s-agent-sandbox[async]'")
        s = AsyncSandbox(
            claim_name="",
            sandbox_id="contract",
            connection_config=SandboxDirectConnectionConfig(api_url=BASE),
            k8s_helper=AStub(),
        )
        try:
            await coro(s)
        finally:
            await s.close_connection()

    case("async: " + name, go, **k)


async def a_run(s):
    r = await s.commands.run("echo async")
    eq((r.stdout, r.exit_code), ("async\n", 0))


async def a_files(s):
    for nm in NAMES:
        p = f"{TAG}-a/{nm}"
        await s.files.write(p, nm)
        eq(await s.files.read(p), nm.encode(), nm)
        eq(await s.files.exists(p), True, nm)
    assert "plain.txt" in {e.name for e in await s.files.list(f"{TAG}-a")}


async def a_list_slash(s):
    assert f"{TAG}-a" in {e.name for e in await s.files.list("/")}


async def a_err(s):
    for co, code in (
        (s.files.read("nope-" + TAG), 404),
        (s.files.exists("../x"), 403),
        (s.files.list("nope-" + TAG), 404),
    ):
        try:
            await co
        except SandboxRequestError as e:
            eq(e.status_code, code)
        else:
            raise AssertionError("no error")


async def a_stream(s):
    if not hasattr(s.files, "read_to"):
        raise Skip("SDK has no streaming")
    await s.files.write(f"{TAG}-as", io.BytesIO(b"z" * 200_000))
    eq(await s.files.read(f"{TAG}-as"), b"z" * 200_000)


async def a_list_dot(s):
    assert isinstance(await s.files.list("."), list)


async def a_exists_dot(s):
    eq(await s.files.exists("."), True)


acase("run", a_run, tools=True)
acase("write/read/exists/list, all names", a_files)
acase("list '/'", a_list_slash)
acase("error statuses", a_err)
acase("streamed write", a_stream)

# ------------------------------------------------------------------ beyond the reference server
acase("list '.' (httpx sends GET /list: must not be a redirect)", a_list_dot, extra=True)
acase("exists '.' (httpx sends GET /exists)", a_exists_dot, extra=True)


def x_head():
    eq(http_raw("HEAD", "/")[0], 200)


case("HEAD / is 200", x_head, extra=True)


def x_utf8():
    r = sb.commands.run(r"printf 'a\377b'")
    eq((r.exit_code, r.stdout), (0, "a\ufffdb"))


case("non-UTF-8 output is replaced, not an error", x_utf8, extra=True, tools=True)


def x_bg():
    t = time.time()
    r = sb.commands.run("sh -c 'sleep 6 & echo started'")
    eq(r.stdout, "started\n")
    assert time.time() - t < 4, f"{time.time() - t:.1f}s"


case("background child holding stdout does not delay the response", x_bg, extra=True, tools=True)


def x_dangling():
    sb.commands.run(f"mkdir -p {TAG}-dl")
    sb.commands.run(f"ln -s /nonexistent-xyz {TAG}-dl/dang")
    sb.files.write(f"{TAG}-dl/ok", b"")
    s, j = get(f"/list/{TAG}-dl")
    eq(s, 200)
    assert "ok" in {e["name"] for e in j}


case("a dangling symlink does not break list", x_dangling, extra=True, tools=True)


def x_pct():
    p = f"{TAG}-p%41.txt"
    sb.files.write(p, b"p")
    eq(sb.files.read(p), b"p")


case("name containing %41 round-trips (no double percent-decoding)", x_pct, extra=True)


def x_quote():
    p = f'{TAG}-"q".txt'
    sb.files.write(p, b"q")
    eq(sb.files.read(p), b"q")


case("name containing a double quote round-trips (SDK sends %22 in filename)", x_quote, extra=True)


def x_up_dir():
    post_upload(f"{TAG}-ud/x", b"")
    s, j = post_upload(f"{TAG}-ud", b"x")
    assert 400 <= s < 500, s


case("upload onto a directory is a 4xx, not a retried 500", x_up_dir, extra=True)


def x_to():
    if not has_ct:
        raise Skip("SDK has no command_timeout")
    t = time.time()
    r = direct().commands.run("sleep 6", command_timeout=1)
    assert r.timed_out and time.time() - t < 4, (r, f"{time.time() - t:.1f}s")


case("command_timeout kills the command and sets timed_out (SDK 1.x)", x_to, extra=True, tools=True)


def x_to_out():
    t = time.time()
    s, j = post_json("/execute", {"command": "sh -c 'echo part; exec sleep 6'", "timeout_seconds": 1})
    eq(j["stdout"], "part\n")
    assert time.time() - t < 4, f"{time.time() - t:.1f}s"


case("output before a timeout is returned", x_to_out, extra=True, tools=True)


def x_disc():
    p = f"{TAG}-disc"
    sb.files.write(p + "/x", b"")
    try:
        http_raw(
            "POST",
            "/execute",
            json.dumps({"command": f"sh -c 'sleep 3; touch {p}/done'"}).encode(),
            {"Content-Type": "application/json"},
            timeout=1,
        )
    except OSError:
        pass
    time.sleep(4)
    eq(sb.files.exists(p + "/done"), False, "command kept running after the client left:")


case("client disconnect stops the command", x_disc, extra=True, tools=True)

try:
    post_json("/execute", {"command": "sh -c " + shlex.quote(f"rm -rf -- {TAG}*")})
except Exception:  # noqa: BLE001
    pass
failed = res["FAIL"] + (res["LACK"] if A.extras else 0)
skipped = res["SKIP"] + (0 if A.extras else res["LACK"])
print(f"{res['PASS'] + res['GOOD']} passed, {failed} failed, {skipped} skipped")
sys.exit(bool(failed))
