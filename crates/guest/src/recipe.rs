//! What the guest is made of. Its text is the key of the cache: a change here prepares it anew.

/// Packages besides the kernel; what they depend on comes by itself.
pub const PACKAGES: [&str; 14] = [
    "qemu-system-x86",
    "seabios",
    "busybox-static",
    "dash",
    "kmod",
    "xz-utils",
    "zstd",
    "util-linux",
    "mount",
    "nvme-cli",
    "dmsetup",
    "xfsprogs",
    "e2fsprogs",
    "fio",
];

/// Programs of the guest. `dash` is its shell: that of busybox prefers its own applets to programs
/// of the same names. Found in the folders for programs of the packages.
pub const PROGRAMS: [&str; 23] = [
    "busybox",
    "dash",
    "modprobe",
    "dmesg",
    "losetup",
    "mount",
    "umount",
    "blockdev",
    "blkdiscard",
    "nvme",
    "dmsetup",
    "mkfs.xfs",
    "xfs_repair",
    "xfs_growfs",
    "xfs_io",
    "mke2fs",
    "e2fsck",
    "resize2fs",
    "fsck.ext4",
    "mkfs.ext4",
    "fio",
    "findmnt",
    "lsblk",
];

/// Programs that busybox is, under their usual names. None of [`PROGRAMS`]: its own would be
/// other programs than the tests mean.
pub const APPLETS: [&str; 54] = [
    "awk", "basename", "cat", "chmod", "cksum", "cmp", "cp", "cut", "date", "dd", "df", "diff",
    "dirname", "echo", "env", "expr", "false", "find", "grep", "head", "hexdump", "ip", "kill",
    "mkfifo", "ln", "ls", "md5sum", "mkdir", "mknod", "mv", "od", "poweroff", "printf", "ps",
    "pwd", "rm", "rmdir", "sed", "seq", "sleep", "sort", "stat", "sync", "tail", "tee", "test",
    "touch", "tr", "true", "timeout", "truncate", "uname", "wc", "yes",
];

/// Modules of the kernel; what they need comes by itself. Those of a kernel that has one built in
/// are passed over.
pub const MODULES: [&str; 33] = [
    "configfs",
    "virtio_pci",
    "virtio_net",
    "virtio_blk",
    "virtio_rng",
    "qemu_fw_cfg",
    "9p",
    "9pnet_virtio",
    "nvme",
    "nvme-tcp",
    "nvme-fabrics",
    "nvme-auth",
    "nvme-keyring",
    "nvmet",
    "nvmet-tcp",
    "loop",
    "brd",
    "null_blk",
    "xfs",
    "ext4",
    "dm-mod",
    "dm-log-writes",
    "dm-flakey",
    "dm-snapshot",
    "raid0",
    "raid1",
    "raid456",
    "sch_netem",
    "crc32c_generic",
    "crc32c-intel",
    "libcrc32c",
    "nls_ascii",
    "tls",
];

/// The first program of the guest.
pub const INIT: &str = include_str!("../guest/init");

/// Raised when the way an image is made of the above changes.
const GENERATION: u32 = 1;

/// Everything an image depends on, but for the versions of packages.
pub fn text(kernel: &str, sources: Option<&str>) -> String {
    let lists = [
        PACKAGES.join(" "),
        PROGRAMS.join(" "),
        APPLETS.join(" "),
        MODULES.join(" "),
    ];
    let sources = sources.unwrap_or("");
    let lists = lists.join("\n");
    format!("{GENERATION}\n{kernel}\n{sources}\n{lists}\n{INIT}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_applet_shadows_a_program() {
        for applet in APPLETS {
            assert!(!PROGRAMS.contains(&applet), "{applet}");
        }
    }
}
