# ext4 on dm-log-writes. Each file is synced, then a mark with its number goes into the log; in
# every state the drive may be left in afterwards, the files of all marks before are there.
load loop ext4 dm-mod dm-log-writes dm-snapshot
files=24

content() { yes "file $1 of this test" | head -c $((4096 * (1 + $1 % 5) + $1)); }

write_files() {
    mount -t ext4 /dev/mapper/logged /mnt
    for number in $(seq $files); do
        content "$number" >/mnt/"$number.new"
        sync /mnt/"$number.new"
        mv /mnt/"$number.new" /mnt/"$number"
        sync /mnt
        dmsetup message logged 0 mark "$number"
    done
    umount /mnt
}

drive=$(loop /tmp/drive 48M)
log=$(loop /tmp/log 256M)
sectors=$(blockdev --getsz "$drive")
step create dmsetup create logged --table "0 $sectors log-writes $drive $log"
step mkfs mkfs.ext4 -q -b 4096 -J size=4 /dev/mapper/logged
step mark dmsetup message logged 0 mark 0
step write write_files
step remove dmsetup remove logged

# The check of one state: `check LAST-MARK`. The state itself stays as it is.
cat >/tmp/check <<'CHECK'
. /etc/prelude.sh
content() { yes "file $1 of this test" | head -c $((4096 * (1 + $1 % 5) + $1)); }
dmsetup create state --table "0 $2 snapshot $3 $4 N 8"
mount -t ext4 /dev/mapper/state /mnt
for number in $(seq "$1"); do content "$number" | cmp - /mnt/"$number"; done
umount /mnt
e2fsck -fn /dev/mapper/state
dmsetup remove state
CHECK

state=$(loop /tmp/state 48M)
changes=$(loop /tmp/changes 48M)
step replay host varve-guest-replay "$log" "$state" --from 0 --parts 1 \
    dash -eu /tmp/check MARK "$sectors" "$state" "$changes"
cat /tmp/step.out
quiet 'EXT4-fs error|I/O error|nvme'
