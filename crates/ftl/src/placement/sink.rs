//! Where a stream's stripes go: its open group, and whose stripe is next.
//!
//! Each stream has one of its own, but those of a reactor that share groups ([`crate::joint`]) have one
//! together.

use super::{Stream, StreamId, Writer};
use crate::shared::{FIRST, Shared};
use crate::turn::{Turn, Turns};
use alloc::rc::Rc;
use core::cell::Cell;
use varve_io::{Handle, Sectors, Supply};

/// The group a stream appends to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenGroup {
    pub(crate) group: u32,
    pub(crate) next_stripe: u32,
    /// What all of its stripes are written under.
    pub(crate) handle: Handle,
}

/// An open group, and who writes there.
#[derive(Default)]
pub(super) struct Sink {
    open: Cell<Option<OpenGroup>>,
    turns: Turns,
    /// Who wrote the last stripe of the open group.
    writer: Cell<Option<Writer>>,
    /// A stripe is on its way.
    is_writing: Cell<bool>,
    /// The P2L area of the last stripe: its memory is used again once no drive has it.
    area: Cell<Option<Sectors>>,
}

impl Sink {
    /// The P2L area of a stripe: so many sectors, which `write` fills whatever they hold.
    pub(super) fn area(
        &self,
        sectors: usize,
        supply: Supply,
        write: impl FnOnce(&mut [u8]),
    ) -> Sectors {
        let area = match self.area.take() {
            Some(mut area) if !area.is_shared() => {
                write(area.bytes_mut());
                area
            }
            _ => supply.filled(sectors, write),
        };
        self.area.set(Some(area.clone()));
        area
    }

    pub(super) fn open(&self) -> Option<OpenGroup> {
        self.open.get()
    }

    pub(super) fn writer(&self) -> Option<Writer> {
        self.writer.get()
    }

    /// Waits until the next stripe is the caller's.
    pub(super) async fn turn(&self) -> Turn {
        self.turns.take().await
    }

    /// The same for what passes the log; `None` if it should go there.
    pub(super) async fn turn_to_pass(&self, is_vain: impl Fn() -> bool) -> Option<Turn> {
        self.turns.take_unless(is_vain).await
    }

    /// Who waits to pass asks whether that is still wanted.
    pub(super) fn look_again(&self) {
        self.turns.look_again();
    }

    /// A stripe of compaction is on its way.
    pub(super) fn is_lent(&self) -> bool {
        self.is_writing.get() && self.writer.get() == Some(Writer::Compaction)
    }

    /// A stripe is on its way. True if another writer's is before it in its group.
    pub(super) fn begin(&self, writer: Writer) -> bool {
        self.is_writing.set(true);
        let last = self.writer.replace(Some(writer));
        last.is_some_and(|last| last != writer)
    }

    /// A stripe was written, or its group given up: the next one goes here.
    pub(super) fn end(&self, open: Option<OpenGroup>) {
        self.is_writing.set(false);
        self.open.set(open);
        if open.is_none() {
            self.writer.set(None);
        }
    }
}

impl Shared {
    /// The stream's open group, or a free one, and its turn to write there. `None` if the engine stopped.
    pub(super) async fn open_group(&self, stream: &Stream) -> Option<(Turn, OpenGroup)> {
        let (to, id) = (self.reactor, stream.id);
        loop {
            if self.is_joint {
                self.make_way(id.writer).await;
            }
            let turn = stream.sink.turn().await;
            if let Some(open) = self.open_group_at_once(stream).await {
                return Some((turn, open));
            }
            // They do not wait for garbage collection.
            stream.bypass.refuse();
            if self.is_joint {
                drop(turn);
                self.joint_room(id.writer).await?;
                continue;
            }
            let obtain = move |first: Rc<Self>| async move {
                let control = first.control();
                control.obtain_group(&first, to, id).await
            };
            let open = self.call(FIRST, obtain).await.ok()??;
            stream.sink.open.set(Some(open));
            return Some((turn, open));
        }
    }

    /// The stream's open group, or one that is to be had without waiting. Asked by whoever has the turn.
    pub(super) async fn open_group_at_once(&self, stream: &Stream) -> Option<OpenGroup> {
        let is_joint = self.is_joint;
        if is_joint && !self.has_joint_room(stream.id.writer) {
            return None;
        }
        if let Some(open) = stream.open() {
            return Some(open);
        }
        let owner = match is_joint {
            true => StreamId::LAST_RESORT,
            false => stream.id,
        };
        let to = self.reactor;
        let obtain =
            move |first: Rc<Self>| async move { first.control().group_at_once(&first, to, owner) };
        let open = self.call(FIRST, obtain).await.ok()??;
        stream.sink.open.set(Some(open));
        Some(open)
    }

    /// Streams of garbage collection that have nothing to write hand their groups back.
    pub(crate) fn hand_back_groups(&self) {
        self.streams.each(|stream| {
            let is_idle = !stream.is_writing() && stream.queued() == 0;
            if is_idle && stream.id.writer == Writer::GarbageCollection {
                self.hand_back(stream);
            }
        });
    }

    /// A stream has nothing to write and others want groups. Who shares one goes on in it.
    pub(super) fn hand_back(&self, stream: &Stream) {
        if self.is_joint {
            return;
        }
        if let Some(open) = stream.sink.open.take() {
            self.control().hand_back(open.group);
        }
    }
}
