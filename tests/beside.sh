#!/usr/bin/env bash
# Run two commands at once, the second one on what the first leaves of the machine; the first failure ends both.
set -uo pipefail
mkdir -p build
start() { setsid env --default-signal=INT bash -c "$1" & }
# Idle processes yield only to those of their own session (sched(7), autogroup): so the session yields as a whole.
start "echo 19 2>/dev/null >/proc/self/autogroup; exec chrt --idle 0 bash -c '$2' >build/beside.log 2>&1"
beside=$!
start "$1"
main=$!
end() { kill -INT -- "-$main" "-$beside" 2>/dev/null; }
trap end INT TERM
wait -n || end
wait $main || { status=$?; end; }
wait $beside || status=${status:-$?}
wait
cat build/beside.log
exit ${status:-0}
