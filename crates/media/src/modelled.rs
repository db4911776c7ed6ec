//! A drive that keeps account of what its commands would cost a modelled one.

use crate::counters::Meter;
use crate::ssd::Ssd;
use alloc::sync::Arc;
use core::cell::{Ref, RefCell};
use varve_io::{Command, Completion, Drive, DriveInfo};

/// Forwards every command to `D`, and to the model what it writes and deallocates.
///
/// The model sees commands as they are submitted, which is the order in which a drive would get
/// them; a write that then fails is counted.
pub struct Modelled<D> {
    inner: D,
    ssd: RefCell<Ssd>,
    meter: Arc<Meter>,
}

impl<D: Drive> Modelled<D> {
    /// `inner` with a model of its own.
    ///
    /// # Panics
    /// If the model is smaller than the drive.
    #[must_use]
    pub fn new(inner: D, ssd: Ssd) -> Self {
        let (bytes, modelled) = (inner.info().bytes, ssd.shape().bytes);
        assert!(modelled >= bytes, "a model of {modelled} of {bytes} bytes");
        let meter = Arc::new(Meter::default());
        meter.set(ssd.counters());
        Self {
            inner,
            ssd: RefCell::new(ssd),
            meter,
        }
    }

    /// What the model has counted, for readers on any thread.
    #[must_use]
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    /// The model. It must not be held across a command.
    #[must_use]
    pub fn ssd(&self) -> Ref<'_, Ssd> {
        self.ssd.borrow()
    }

    /// The drive beneath.
    #[must_use]
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    fn account(&self, command: &Command) {
        let mut ssd = self.ssd.borrow_mut();
        let no_one = &mut |_| {};
        match command {
            Command::Read { .. } => return,
            Command::Write {
                offset,
                gather,
                handle,
            } => {
                let handle = handle.0.min(ssd.shape().placement.handles - 1);
                ssd.write_to(handle, *offset, gather.bytes(), no_one);
            }
            Command::Repair { offset, gather, .. } => {
                ssd.write(*offset, gather.bytes(), no_one);
            }
            Command::Flush => {
                ssd.flush(no_one);
            }
            Command::Discard { offset, length } => {
                ssd.deallocate(*offset, *length);
            }
        }
        self.meter.set(ssd.counters());
    }
}

impl<D: Drive> Drive for Modelled<D> {
    /// The drive beneath, with the model's placement handles.
    fn info(&self) -> DriveInfo {
        DriveInfo {
            handles: self.ssd.borrow().shape().placement.handles,
            ..self.inner.info()
        }
    }

    fn submit(&self, command: Command) -> Completion {
        self.account(&command);
        self.inner.submit(command)
    }
}
