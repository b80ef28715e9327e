#!/usr/bin/env bash
# Every endpoint with curl. The server is at $SANDBOX_URL, or http://127.0.0.1:8888.
# Exit status: 0 if every result is as expected.
set -euo pipefail

url=${SANDBOX_URL:-http://127.0.0.1:8888}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

request() { # CURL-ARGUMENT...
    local token=()
    [ -z "${SANDBOX_TOKEN:-}" ] || token=(--header "Authorization: Bearer $SANDBOX_TOKEN")
    curl --silent --show-error --max-time 330 ${token[@]+"${token[@]}"} "$@"
}
execute() { request "$url/execute" --header 'Content-Type: application/json' --data "$1"; }
expect() { # WHAT RECEIVED EXPECTED
    [ "$2" = "$3" ] || {
        printf '%s: expected %s\nreceived %s\n' "$1" "$3" "$2" >&2
        exit 1
    }
    printf '%s: %s\n' "$1" "$2"
}

expect 'the health check' "$(request "$url/")" '{"status":"ok","message":"Sandbox Runtime is active."}'

expect 'a command' "$(execute '{"command": "echo hello"}')" '{"stdout":"hello\n","stderr":"","exit_code":0}'
expect 'its exit code' "$(execute '{"command": "sh -c \"exit 3\""}')" \
    '{"stdout":"","stderr":"","exit_code":3}'
late=$(execute '{"command": "sh -c \"echo first; sleep 60\"", "timeout_seconds": 0.5}')
expect 'output before a timeout' "${late:0:18}" '{"stdout":"first\n'

echo hello >"$work/notes.txt"
expect 'an upload' "$(request "$url/upload" --form "file=@$work/notes.txt;filename=curl-example/notes.txt")" \
    "{\"message\":\"File 'curl-example/notes.txt' uploaded successfully.\"}"
expect 'a download' "$(request "$url/download/curl-example/notes.txt")" hello
expect 'a range of it' "$(request --range 1-3 "$url/download/curl-example/notes.txt")" ell
listing=$(request "$url/list/curl-example")
expect 'a listing' "${listing%%,\"mod_time\"*}" '[{"name":"notes.txt","size":6,"type":"file"'
expect 'existence' "$(request "$url/exists/curl-example/notes.txt")" \
    '{"path":"curl-example/notes.txt","exists":true}'
expect 'a path outside' "$(request "$url/download/..%2Fetc/passwd")" '{"message":"Access denied"}'

expect 'cleaning up' "$(execute '{"command": "rm -r curl-example"}')" \
    '{"stdout":"","stderr":"","exit_code":0}'
