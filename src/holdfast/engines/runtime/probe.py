"""Owns what a sandbox is asked before it is relied on: a program that tries what must not work."""

# What bwrap's own success does not say: that the filter is on, and that there is no network and no way to a new one.
PROBE = """
if [ "$(id -u)" = 0 ]; then echo "it runs as root"; exit; fi
if ! grep -q '^Seccomp:[[:space:]]*2' /proc/self/status; then echo "no filter of system calls is on"; exit; fi
if ! grep -q '^CapEff:[[:space:]]*0*$' /proc/self/status; then echo "it keeps capabilities"; exit; fi
if unshare -U true 2>/dev/null; then echo "it can make user namespaces"; exit; fi
if [ "$(grep -c : /proc/net/dev)" -gt 1 ]; then echo "it sees the machine's network"; exit; fi
for place in / /usr /etc /dev; do
  if touch "$place/probe" 2>/dev/null; then echo "$place is writable"; exit; fi
done
if ! touch /work/probe; then echo "its own directory is not writable"; exit; fi
echo confined
"""
