# A Linux host against `varve serve`; the test sets nqn, host, port and discovery.
load nvme-tcp xfs ext4
to="-t tcp -a $host -s $port $host_id"
drive=/dev/nvme0n1

# connected OPTION...: an association with these options, used and ended.
connected() {
    nvme connect $to -n $nqn "$@"
    await 60 test -b $drive
    [ "$(cat /sys/class/nvme/nvme0/queue_count)" = 3 ]
    [ "$(cat /sys/class/nvme/nvme0/state)" = live ]
    dd if=/dev/urandom of=/tmp/wanted bs=64k count=16
    dd if=/tmp/wanted of=$drive bs=256k seek=3 oflag=direct conv=fsync
    dd if=$drive of=/tmp/found bs=256k skip=3 count=4 iflag=direct
    cmp /tmp/wanted /tmp/found
    nvme disconnect -n $nqn
}

found_by_discovery() {
    nvme discover -t tcp -a $host -s $discovery $host_id >/tmp/discovered
    grep -q "subnqn: *$nqn" /tmp/discovered
    grep -q "traddr: *$host" /tmp/discovered
    grep -q "trsvcid: *$port" /tmp/discovered
    nvme connect-all -t tcp -a $host -s $discovery $host_id
    # The discovery controller took the first number.
    await 60 test -b /dev/nvme1n1
    nvme disconnect -n $nqn
}

# What an administrator asks a controller; each must be answered.
asked() {
    nvme list
    nvme list-subsys
    nvme id-ctrl /dev/nvme0
    nvme id-ns $drive
    nvme ns-descs $drive
    nvme list-ns /dev/nvme0
    nvme show-regs /dev/nvme0
    nvme smart-log /dev/nvme0
    nvme error-log /dev/nvme0 --log-entries=1
    nvme fw-log /dev/nvme0
    nvme changed-ns-list-log /dev/nvme0
    nvme effects-log /dev/nvme0 --csi=0
    nvme supported-log-pages /dev/nvme0
    nvme fid-support-effects-log /dev/nvme0
    nvme nvm-id-ctrl /dev/nvme0
    for feature in 1 2 4 5 0xa; do nvme get-feature /dev/nvme0 --feature-id=$feature; done
    nvme get-feature /dev/nvme0 --feature-id=7
    nvme get-feature /dev/nvme0 --feature-id=0xb
    nvme get-feature /dev/nvme0 --feature-id=0xf
    # The kernel says that it waits as long as a status tells (ACRE), since the controller has CRDT1.
    nvme get-feature /dev/nvme0 --feature-id=0x16 --raw-binary | od -An -tu1 -N1 | grep -qw 1
    nvme set-feature /dev/nvme0 --feature-id=4 --value=0x157
}

# Each I/O command that the target says it has.
commanded() {
    dd if=/dev/urandom of=/tmp/block bs=4k count=1
    nvme write $drive --start-block=7 --block-count=0 --data-size=4096 --data=/tmp/block
    nvme compare $drive --start-block=7 --block-count=0 --data-size=4096 --data=/tmp/block
    if nvme compare $drive --start-block=8 --block-count=0 --data-size=4096 --data=/tmp/block; then
        return 1
    fi
    nvme flush $drive
    nvme write-zeroes $drive --start-block=7 --block-count=0
    rm -f /tmp/found
    nvme read $drive --start-block=7 --block-count=0 --data-size=4096 --data=/tmp/found
    head -c 4096 /dev/zero | cmp - /tmp/found
    nvme dsm $drive --ad --slbs=8 --blocks=8
    blkdiscard --force $drive
    blkdiscard --zeroout --length 1M --force $drive
}

with_xfs() {
    mkfs.xfs -q $drive
    mount -t xfs $drive /mnt
    verified_io /mnt/data 3M
    fstrim -v /mnt || true
    umount /mnt
    xfs_repair -n $drive
}

with_ext4() {
    mkfs.ext4 -q -F -b 4096 $drive
    mount -t ext4 $drive /mnt
    verified_io /mnt/data 3M
    umount /mnt
    e2fsck -fn $drive
}

step discovery found_by_discovery
step plain connected --nr-io-queues=2
step header-digest connected --nr-io-queues=2 --hdr-digest
step data-digest connected --nr-io-queues=2 --data-digest
step both-digests connected --nr-io-queues=2 --hdr-digest --data-digest
quiet 'nvme|I/O error'
step connect nvme connect $to -n $nqn --nr-io-queues=2 --keep-alive-tmo=6
await 60 test -b $drive
step asked asked
step commanded commanded
step reset nvme reset /dev/nvme0
await 60 grep -q live /sys/class/nvme/nvme0/state
step xfs with_xfs
step ext4 with_ext4
# Idle, so that nothing but keep alives keeps the association.
step idle sleep 15
[ "$(cat /sys/class/nvme/nvme0/state)" = live ] || fail "lost while idle"
step disconnect nvme disconnect -n $nqn
quiet 'nvme|I/O error' 'nvme0: resetting controller'
