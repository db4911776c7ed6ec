# What scripts of tests build upon. A script ends at the first command that fails (set -eu).

# step NAME COMMAND...: runs a command; shows what it said only if it fails. A function is left at
# its first command that fails: it runs in a shell of its own, outside of any condition.
step() {
    name=$1
    shift
    echo "STEP $name"
    set +e
    (
        set -eu
        "$@"
    ) >/tmp/step.out 2>&1
    status=$?
    set -e
    if [ $status -ne 0 ]; then
        tail -n 40 /tmp/step.out
        fail "$name: $* ended with $status"
    fi
}

# fail TEXT...: ends the test, with what the kernel said last.
fail() {
    dmesg | tail -n 30
    echo "FAIL $*"
    exit 1
}

# mark NAME: tells the host, and goes on when the host has done what belongs to the mark.
mark() {
    echo "MARK $1" >/dev/console
    until [ -e "/share/marks/$1" ]; do sleep 0.05; done
}

# await SECONDS COMMAND...: until the command succeeds.
await() {
    tries=$(($1 * 10))
    shift
    while [ $tries -gt 0 ]; do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
        tries=$((tries - 1))
    done
    fail "waited in vain for: $*"
}

# load MODULE...: loads modules of the kernel.
load() {
    modprobe -a "$@" || fail "modules: $*"
}

# quiet PATTERN [EXPECTED]: fails if the kernel warned of anything that matches the pattern, but
# for lines that match what is expected.
quiet() {
    # How long work takes says something of the emulated processor only.
    dmesg --level emerg,alert,crit,err,warn | grep -E "$1" | grep -v 'hogged CPU' | sent \
        >/tmp/warnings || true
    if grep -vE "${2:-^$}" /tmp/warnings; then fail "the kernel warned"; fi
}

# sent: leaves out keep alives that were never sent. While Linux (since 6.11, commit a54a93d0e359)
# removes a controller, its timer may still make one, which fails at once. What shows that: the round
# trip is counted from a start that never was, so it is the clock itself, which begins at -300 s.
sent() {
    awk '/long keepalive RTT \(429[0-9][0-9][0-9][0-9][0-9][0-9][0-9] ms\)/ { skip = NR + 1; next }
        NR == skip && /failed nvme_keep_alive_end_io error=4/ { next }
        { print }'
}

# loop FILE SIZE: makes a sparse file and a block device of it; prints the device.
loop() {
    truncate -s "$2" "$1"
    losetup --find --show --sector-size 4096 "$1"
}

# host PROGRAM ARGUMENT...: calls a program that the test has brought along.
host() {
    program=$1
    shift
    [ -e /tmp/host ] || cp -r /share/host /tmp/host
    /tmp/host/loader --library-path /tmp/host/lib "/tmp/host/$program" "$@"
}

# Who the guest is to a target.
host_id="--hostnqn=nqn.2014-08.org.nvmexpress:uuid:6f1f3c0a-7a55-4d15-9d4c-3f1c6e2b9a01
 --hostid=6f1f3c0a-7a55-4d15-9d4c-3f1c6e2b9a01"
host_id=$(echo $host_id)

# verified_io FILE SIZE: random writes, then each block read back and compared.
verified_io() {
    fio --name=verify --filename="$1" --size="$2" --rw=randwrite --bs=4k --iodepth=16 \
        --ioengine=libaio --direct=1 --verify=crc32c --verify_fatal=1 --do_verify=1
}
