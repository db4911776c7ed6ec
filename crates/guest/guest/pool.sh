# A Linux host on volumes of a pool, whose server dies under load; the test sets nqn, host, port.
load nvme-tcp xfs ext4
to="-t tcp -a $host -s $port $host_id"

# sized MIB: the namespace of this size.
sized() {
    for namespace in /dev/nvme0n?; do
        [ $(blockdev --getsz $namespace) -ne $(($1 * 2048)) ] || echo $namespace
    done
}

there() { [ -n "$(sized $1)" ]; }

# again COMMAND...: again and again, until the server has died; ends at the first that fails.
again() {
    until [ -e /tmp/dead ]; do "$@"; done
}

# under_load NUMBER COMMAND...: the server dies while the command runs, which must not notice.
under_load() {
    number=$1
    shift
    rm -f /tmp/dead
    again "$@" >/tmp/load.out 2>&1 &
    load=$!
    sleep 2
    mark kill-$number
    touch /tmp/dead
    await 60 reconnected $number
    wait $load || {
        cat /tmp/load.out
        return 1
    }
    reconnected $number
}
reconnected() { [ "$(dmesg | grep -c 'Successfully reconnected')" = $1 ]; }

# promise FOLDER NAME: files that are synced, and remembered outside of the drive.
promise() {
    mkdir -p /tmp/promised/$2
    for file in 1 2 3 4 5 6; do
        dd if=/dev/urandom of=/tmp/promised/$2/$file bs=50001 count=$file
        cp /tmp/promised/$2/$file $1/$2-$file
        sync $1/$2-$file
    done
}

# kept FOLDER NAME: what was promised is there.
kept() {
    for file in 1 2 3 4 5 6; do cmp /tmp/promised/$2/$file $1/$2-$file; done
}

# churn FOLDER: many small files, synced now and then: changes of the file system itself.
churn() {
    rm -rf $1/churn
    mkdir $1/churn
    for round in $(seq 12); do
        mkdir $1/churn/$round
        for file in $(seq 20); do echo $round $file >$1/churn/$round/$file; done
        sync $1/churn/$round
        mv $1/churn/$round $1/churn/done-$round
    done
    for round in $(seq 12); do
        [ "$(cat $1/churn/done-$round/20)" = "$round 20" ]
    done
}

# Nothing of the host's memory may stand in for the drives.
forget() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}

# What an administrator changes is seen by the host without its asking.
has_size() { [ $(blockdev --getsz $1) -eq $(($2 * 2048)) ]; }
resized() {
    mark volume-resize
    await 60 has_size $e 384
    resize2fs $e
    [ $(df -m /mnt/e | awk 'END { print $2 }') -gt 330 ]
}
appears() {
    mark volume-create
    await 60 test -b /dev/nvme0n3
    has_size /dev/nvme0n3 64
    mark volume-delete
    await 60 test ! -e /dev/nvme0n3
}

mkdir /mnt/x /mnt/e
# A death is seen by the connection that it closes; a host that has to wait for its turn is none.
step connect nvme connect $to -n $nqn --nr-io-queues=2 --keep-alive-tmo=15 \
    --reconnect-delay=1 --ctrl-loss-tmo=120
# Whichever comes first: the kernel looks at both at once.
await 60 there 512
await 60 there 256
x=$(sized 512)
e=$(sized 256)
# What the volume held stays: it is what goes to the dense tier.
step mkfs.xfs mkfs.xfs -q -K $x
step mkfs.ext4 mkfs.ext4 -q -b 4096 $e
step mount.xfs mount -t xfs $x /mnt/x
step mount.ext4 mount -t ext4 $e /mnt/e
step promise promise /mnt/x first
step kill-fio-xfs under_load 1 verified_io /mnt/x/data 6M
step promise promise /mnt/e second
step kill-fio-ext4 under_load 2 verified_io /mnt/e/data 6M
step resize resized
step create-delete appears
step kill-churn under_load 3 churn /mnt/x
step forget forget
step kept.xfs kept /mnt/x first
step kept.ext4 kept /mnt/e second
step unmount umount /mnt/x /mnt/e
step check.xfs xfs_repair -n $x
step check.ext4 e2fsck -fn $e
step disconnect nvme disconnect -n $nqn
quiet 'I/O error|XFS|EXT4-fs|Bogus|[Ii]nvalid'
