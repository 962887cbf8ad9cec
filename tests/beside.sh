#!/usr/bin/env bash
# Run two commands at once, the second one mostly on what the first leaves of the machine; the first failure ends both.
set -uo pipefail
mkdir -p build
start() { setsid env --default-signal=INT bash -c "$1" & }
# Nice processes yield only to those of their own session (sched(7), autogroup): so the session yields as a whole. It
# keeps a tenth: an idle one stands still for so long that what waits half a second on a socket waits in vain.
start "echo 10 2>/dev/null >/proc/self/autogroup; exec bash -c '$2' >build/beside.log 2>&1"
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
