#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# hosts_test.sh MPIRUN PROGRAM ARGUMENTS...: runs PROGRAM under Open MPI on two hosts with two ranks each, MPI over TCP
# between them. The hosts are network namespaces with a virtual cable and names of their own; that needs root and
# iproute2. Where it cannot be done it says SKIPPED, and why.
set -u
mpirun=$1
shift

skip() {
  echo "SKIPPED: no hosts can be made here: $*"
  exit 0
}

[ "$(id -u)" -eq 0 ] || skip "not root"
command -v ip > /dev/null || skip "no ip (iproute2)"
command -v unshare > /dev/null || skip "no unshare (util-linux)"

id=p$$
hosts=("${id}a" "${id}b")
net=10.$((RANDOM % 200 + 20)).$((RANDOM % 250 + 1))
work=$(mktemp -d)
cleanup() {
  for host in "${hosts[@]}"; do ip netns delete "$host" 2> /dev/null; done
  rm -rf "$work"
}
trap cleanup EXIT

for host in "${hosts[@]}"; do ip netns add "$host" 2> "$work/why" || skip "$(cat "$work/why")"; done
ip link add "${id}x" netns "${hosts[0]}" type veth peer name "${id}x" netns "${hosts[1]}" 2> "$work/why" ||
  skip "$(cat "$work/why")"
for n in 0 1; do
  ip -n "${hosts[n]}" addr add "$net.$((n + 1))/24" dev "${id}x" && ip -n "${hosts[n]}" link set "${id}x" up &&
    ip -n "${hosts[n]}" link set lo up || skip "no address"
done

# In place of ssh: AGENT ADDRESS COMMAND...
cat > "$work/agent" << AGENT
#!/bin/sh
case \$1 in $net.1) host=${hosts[0]} ;; *) host=${hosts[1]} ;; esac
shift
exec ip netns exec \$host unshare --uts sh -c "hostname \$host; \$*"
AGENT
chmod +x "$work/agent"

export PARTITA_TEST_HOSTS=1 PARTITA_MPI_CASES=${PARTITA_MPI_CASES:-60}
ip netns exec "${hosts[0]}" unshare --uts sh -c 'hostname "$0"; exec "$@"' "${hosts[0]}" \
  "$mpirun" --allow-run-as-root --oversubscribe --bind-to none -x PARTITA_TEST_HOSTS -x PARTITA_MPI_CASES \
  --mca plm_rsh_agent "$work/agent" --mca btl tcp,self,vader --mca btl_tcp_if_include "$net.0/24" \
  --mca oob_tcp_if_include "$net.0/24" --host "$net.1:2,$net.2:2" -n 4 "$@"
