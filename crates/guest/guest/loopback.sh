# The kernel's NVMe/TCP target on a drive in memory, and the kernel's host, over loopback.
modprobe brd rd_nr=1 rd_size=327680
load nvmet nvmet-tcp nvme-tcp xfs
nqn=nqn.2014-08.org.example:loopback
root=/sys/kernel/config/nvmet

serve() {
    mkdir $root/subsystems/$nqn
    echo 1 >$root/subsystems/$nqn/attr_allow_any_host
    namespace=$root/subsystems/$nqn/namespaces/1
    mkdir $namespace
    echo /dev/ram0 >$namespace/device_path
    echo 1 >$namespace/enable
    mkdir $root/ports/1
    echo tcp >$root/ports/1/addr_trtype
    echo ipv4 >$root/ports/1/addr_adrfam
    echo 127.0.0.1 >$root/ports/1/addr_traddr
    echo 4420 >$root/ports/1/addr_trsvcid
    ln -s $root/subsystems/$nqn $root/ports/1/subsystems/
}

to="-t tcp -a 127.0.0.1 -s 4420 $host_id"
step serve serve
step discover sh -c "nvme discover $to | grep $nqn"
step connect nvme connect $to -n $nqn --nr-io-queues=2 --hdr-digest --data-digest
await 5 test -b /dev/nvme0n1
step mkfs mkfs.xfs -q -K /dev/nvme0n1
step mount mount -t xfs /dev/nvme0n1 /mnt
step fio verified_io /mnt/data 8M
step unmount umount /mnt
step check xfs_repair -n /dev/nvme0n1
step disconnect nvme disconnect -n $nqn
quiet 'nvme'
