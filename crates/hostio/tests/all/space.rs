//! A file system that fills up under a sparse file.

use crate::common::Scratch;
use crate::common::system::{LoopDevice, Mount};
use std::rc::Rc;
use varve_hostio::{Disk, DiskOptions, Executor, FileDrive, Io};
use varve_io::{Blocks, Command, Drive, Gather, IoError};

fn blocks(fill: u8) -> Gather {
    let mut blocks = Blocks::zeroed(16);
    blocks.bytes_mut().fill(fill);
    let mut gather = Gather::new();
    gather.push_data(blocks);
    gather
}

/// Writes fail with the right reason, what was written stays, and a discard makes room again.
#[test]
fn a_full_file_system_is_told_and_nothing_is_lost() {
    const RUN: u64 = 16 * 4096;
    let scratch = Scratch::new();
    let Some(_mount) = Mount::tmpfs(&scratch.path("small"), 1 << 20) else {
        return;
    };
    let path = scratch.path("small/sparse");
    let disk = Disk::create(&path, 8 << 20, &DiskOptions::default()).unwrap();
    let executor = Executor::new();
    let drive: Rc<dyn Drive> = Rc::new(FileDrive::new(Io::of(&*executor.world()).unwrap(), disk));
    let run = async move {
        let mut written = 0;
        let error = loop {
            match drive.write(written * RUN, blocks(written as u8 + 1)).await {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error, IoError::NoSpace);
        assert!((8..=16).contains(&written), "{written}");
        for index in 0..written {
            let found = drive
                .read_data(index * RUN, Blocks::zeroed(16), 0)
                .await
                .unwrap();
            assert!(found.bytes().iter().all(|&byte| byte == index as u8 + 1));
        }
        let (offset, length) = (0, 2 * RUN);
        let discarded = drive.submit(Command::Discard { offset, length }).await;
        assert!(discarded.is_ok());
        drive.write(written * RUN, blocks(99)).await.unwrap();
        drive.flush().await.unwrap();
    };
    executor.run(run).unwrap();
}

/// A device whose backing has no room fails writes, keeps what it has, and aborts nothing.
#[test]
fn a_device_without_room_beneath_fails_writes() {
    const RUN: u64 = 16 * 4096;
    let scratch = Scratch::new();
    let Some(_mount) = Mount::tmpfs(&scratch.path("small"), 1 << 20) else {
        return;
    };
    let path = scratch.path("small/sparse");
    drop(Disk::create(&path, 8 << 20, &DiskOptions::default()).unwrap());
    let Some(device) = LoopDevice::over(&path, 4096) else {
        return;
    };
    let disk = Disk::open(device.path(), &DiskOptions::default()).unwrap();
    let executor = Executor::new();
    let drive: Rc<dyn Drive> = Rc::new(FileDrive::new(Io::of(&*executor.world()).unwrap(), disk));
    let run = async move {
        let mut written = 0;
        let error = loop {
            match drive.write(written * RUN, blocks(written as u8 + 1)).await {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        assert!(
            matches!(error, IoError::NoSpace | IoError::Media),
            "{error}"
        );
        assert!(written >= 8, "{written}");
        for index in 0..written {
            let into = Blocks::zeroed(16);
            let found = drive.read_data(index * RUN, into, 0).await.unwrap();
            assert!(found.bytes().iter().all(|&byte| byte == index as u8 + 1));
        }
        let found = drive
            .read_data(7 << 20, Blocks::zeroed(1), 0)
            .await
            .unwrap();
        assert!(found.bytes().iter().all(|&byte| byte == 0));
    };
    executor.run(run).unwrap();
}
