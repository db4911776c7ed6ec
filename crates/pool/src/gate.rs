//! A drive of a pool that others may take over: nothing is written to it any more once they have.
//!
//! **Not here**: who finds out ([`crate::label::Fence`]).

use crate::label::Fence;
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_io::{Command, Completion, Drive, DriveInfo, Gather, IoError, LeftOut};

/// A drive behind a fence.
pub(crate) struct Gated {
    drive: Rc<dyn Drive>,
    fence: Rc<Fence>,
}

/// The drive behind the fence, if there is one.
pub(crate) fn gated(drive: &Rc<dyn Drive>, fence: Option<&Rc<Fence>>) -> Rc<dyn Drive> {
    let drive = Rc::clone(drive);
    match fence {
        Some(fence) => Rc::new(Gated {
            drive,
            fence: Rc::clone(fence),
        }),
        None => drive,
    }
}

impl Drive for Gated {
    fn info(&self) -> DriveInfo {
        self.drive.info()
    }

    fn submit(&self, command: Command) -> Completion {
        let is_read = matches!(command, Command::Read { .. });
        if !is_read && self.fence.taken().is_some() {
            return Completion::ready(Err(IoError::Gone));
        }
        self.drive.submit(command)
    }

    fn left_out(&self, offset: u64) -> Option<LeftOut> {
        self.drive.left_out(offset)
    }

    fn complete(&self, before: Gather) -> Gather {
        self.drive.complete(before)
    }

    fn narrow_ways(&self) -> Vec<u8> {
        self.drive.narrow_ways()
    }
}
