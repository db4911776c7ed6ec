//! What a file or device demands.

use super::{DiskKind, FILE_LBA_BYTES};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `BLKSSZGET` of `linux/fs.h`: size of a logical sector.
const BLKSSZGET: libc::Ioctl = 0x1268;
/// `BLKPBSZGET` of `linux/fs.h`: size of a physical sector, what the drive rewrites as a whole.
const BLKPBSZGET: libc::Ioctl = 0x127b;
/// `BLKROGET` of `linux/fs.h`: whether it takes no writes.
const BLKROGET: libc::Ioctl = 0x125e;
/// `BLKGETSIZE64` of `linux/fs.h`, for 64 bits.
const BLKGETSIZE64: libc::Ioctl = 0x8008_1272;

/// Alignment of memory where the kernel does not tell: what every device takes.
const MEMORY_ALIGN: u32 = 512;

/// Largest unit of transfers of a pool.
const UNIT_BYTES_MAX: u32 = 4096;

/// Sizes and alignments.
pub(super) struct Facts {
    /// Size in bytes.
    pub(super) bytes: u64,
    /// Smallest unit of a transfer.
    pub(super) lba_bytes: u32,
    /// Smallest unit of a write that leaves alone what lies beside it; for files, of any they may be moved to.
    pub(super) unit_bytes: u32,
    /// Alignment of memory.
    pub(super) memory_align: usize,
}

/// What failed: the call and why.
pub(crate) type Failure = (&'static str, io::Error);

impl Facts {
    pub(super) fn of(file: &File, kind: DiskKind, is_direct: bool) -> Result<Self, Failure> {
        let aligns = if is_direct {
            direct_aligns(file).map_err(|error| ("statx", error))?
        } else {
            None
        };
        let (memory_align, offset_align) = aligns.unwrap_or((MEMORY_ALIGN, 512));
        let (bytes, lba_bytes, unit_bytes) = match kind {
            DiskKind::File => {
                let meta = file.metadata().map_err(|error| ("fstat", error))?;
                (meta.len(), offset_align.max(512), FILE_LBA_BYTES)
            }
            DiskKind::Device => {
                let bytes = device_bytes(file).map_err(|error| ("BLKGETSIZE64", error))?;
                let SectorSizes { logical, unit } = device_sectors(file)?;
                (bytes, logical.max(offset_align), unit.max(offset_align))
            }
        };
        Ok(Self {
            bytes,
            lba_bytes,
            unit_bytes,
            memory_align: if is_direct { memory_align as usize } else { 1 },
        })
    }
}

/// Alignments of memory and of offsets for direct transfers; `None` if the kernel (before 6.1) or the
/// file system does not tell.
#[expect(unsafe_code, reason = "a system call")]
fn direct_aligns(file: &File) -> io::Result<Option<(u32, u32)>> {
    // SAFETY: integers only, for which zeroes are values.
    let mut facts: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: an empty path names the descriptor itself; the structure is the call's alone.
    let failed = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            &raw mut facts,
        )
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    let is_told = facts.stx_mask & libc::STATX_DIOALIGN != 0 && facts.stx_dio_mem_align > 0;
    Ok(is_told.then_some((facts.stx_dio_mem_align, facts.stx_dio_offset_align)))
}

/// Size of a block device in bytes.
#[expect(unsafe_code, reason = "a system call")]
pub(crate) fn device_bytes(file: &File) -> io::Result<u64> {
    let mut bytes = 0_u64;
    // SAFETY: this request writes a `u64`.
    let failed = unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64, &raw mut bytes) };
    if failed == 0 {
        Ok(bytes)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sizes of a block device's sectors, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SectorSizes {
    /// Smallest unit of a transfer.
    pub(crate) logical: u32,
    /// Smallest unit of a write of a pool.
    pub(crate) unit: u32,
}

/// Sizes of a block device's sectors.
pub(crate) fn device_sectors(file: &File) -> Result<SectorSizes, Failure> {
    sector_sizes(|request| device_number(file, request))
}

/// What a device that answers so has.
fn sector_sizes(ask: impl Fn(libc::Ioctl) -> io::Result<u32>) -> Result<SectorSizes, Failure> {
    let logical = ask(BLKSSZGET).map_err(|error| ("BLKSSZGET", error))?;
    let physical = ask(BLKPBSZGET).map_err(|error| ("BLKPBSZGET", error))?;
    // LBAs of a pool are 512 or 4096 bytes; a logical sector of another size is refused elsewhere.
    let is_shared = matches!(logical, 512 | UNIT_BYTES_MAX) && physical > logical;
    let unit = if is_shared { UNIT_BYTES_MAX } else { logical };
    Ok(SectorSizes { logical, unit })
}

/// True if the kernel takes no writes for a block device. It lets one open it for writing all the same.
pub(crate) fn device_is_read_only(file: &File) -> io::Result<bool> {
    Ok(device_number(file, BLKROGET)? != 0)
}

#[expect(unsafe_code, reason = "a system call")]
fn device_number(file: &File, request: libc::Ioctl) -> io::Result<u32> {
    let mut number: libc::c_int = 0;
    // SAFETY: both requests of this kind write an `int`.
    let failed = unsafe { libc::ioctl(file.as_raw_fd(), request, &raw mut number) };
    if failed == 0 {
        Ok(number as u32)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(logical: u32, physical: u32) -> SectorSizes {
        let ask = |request| match request {
            BLKSSZGET => Ok(logical),
            BLKPBSZGET => Ok(physical),
            other => panic!("{other:#x}"),
        };
        sector_sizes(ask).expect("it answers")
    }

    /// Writes of a pool never share what a drive rewrites as a whole, as far as that is no more than 4 KiB; what transfers
    /// may be is as the drive says.
    #[test]
    fn a_write_is_a_physical_sector_at_least() {
        let units = [
            // 512n, 512e, 4Kn.
            (512, 512, 512),
            (512, 4096, 4096),
            (4096, 4096, 4096),
            // What there is in between has to be one of both; indirection units may be larger.
            (512, 1024, 4096),
            (512, 16 << 10, 4096),
            (4096, 16 << 10, 4096),
            // Drives that say nothing sensible.
            (512, 0, 512),
            (4096, 512, 4096),
        ];
        for (logical, physical, unit) in units {
            let found = sizes(logical, physical);
            assert_eq!(found, SectorSizes { logical, unit }, "{physical}");
        }
        // No drive of a pool: it is refused by its logical sectors.
        for logical in [520, 2048, 8192] {
            assert_eq!(sizes(logical, 8192).unit, logical);
        }
    }
}
