//! Loss of an association: its connections are closed, its requests begin at what is left, and nothing is tried
//! before what it left behind cannot do harm.

use super::{Action, Event, Host, State};
use crate::association::{ConnectionId, Link, Phase};
use crate::error::Loss;
use crate::payload::Segment;
use crate::{QUIET_MARGIN, QUIET_WITHOUT_KEEP_ALIVE};
use alloc::vec::Vec;
use varve_units::Nanos;

/// A connection that is being closed.
pub(super) struct Dying {
    pub until: Nanos,
    pub segments: Vec<Segment>,
    /// Commands of it may still change the namespace if the peer does not know it is closed.
    has_changes: bool,
}

impl Host {
    /// A connection ended: the peer ended it (`by_peer`), or it is not known whether the peer knows.
    pub fn closed(&mut self, now: Nanos, id: ConnectionId, by_peer: bool) {
        if let Some(dying) = self.dying.remove(&id) {
            self.bury(&dying, by_peer);
        } else if let Some(link) = self.link(id) {
            let loss = match link.stream_until {
                Some(_) => Loss::NotConnected,
                None => Loss::Closed,
            };
            // This one needs no closing any more.
            self.lose_all(now, loss, Some((id, by_peer)));
        }
        self.tick(now);
    }

    /// A connection is gone; if the peer may not know, its commands are given time.
    pub(super) fn bury(&mut self, dying: &Dying, by_peer: bool) {
        if !by_peer && dying.has_changes && !self.is_restless {
            self.quiet_until = self.quiet_until.max(self.last_sent + self.quiet());
        }
    }

    /// How long the controller may take to notice that a connection is dead, and then to end what it
    /// carried: it runs the timeout that was asked for rounded up (spec: base 2.0 §3.9, §5.17.2.1 KAS).
    fn quiet(&self) -> Nanos {
        let (timeout, step) = (self.config.times.keep_alive.0, self.keep_alive_step.0);
        if step == 0 || timeout == 0 {
            // There is no telling when it notices.
            return QUIET_WITHOUT_KEEP_ALIVE.max(Nanos(2 * timeout) + QUIET_MARGIN);
        }
        let timeout = timeout.div_ceil(step).saturating_mul(step);
        Nanos(timeout.saturating_mul(2)) + QUIET_MARGIN
    }

    pub(super) fn lose(&mut self, now: Nanos, loss: Loss) {
        self.lose_all(now, loss, None);
    }

    /// The association ends; `gone` is a connection that has ended already.
    fn lose_all(&mut self, now: Nanos, loss: Loss, gone: Option<(ConnectionId, bool)>) {
        let retry_at = now + self.backoff();
        let before = core::mem::replace(&mut self.state, State::Down { retry_at });
        let State::Up(up) = before else {
            self.state = before;
            return;
        };
        let is_taken = self.config.ends_with_namespace
            && matches!(up.phase, Phase::Queues | Phase::Ready)
            && loss.is_no_namespace();
        self.attempts = self.attempts.saturating_add(1);
        let since = *self.down_since.get_or_insert(now);
        for (id, link) in up.into_links() {
            self.put_down(now, id, link, gone);
        }
        if let Some(limits) = &self.limits {
            self.requests.start_again(limits);
        }
        let is_late = now.since(since) >= self.config.times.loss;
        // A target that starts again may lack for a while what it had before.
        let is_final = match self.namespace {
            None => loss.is_final(),
            Some(_) => matches!(loss, Loss::OtherNamespace | Loss::Format),
        };
        let is_final = is_final || is_taken || is_late || self.is_closing;
        if is_final {
            self.state = State::Over;
            self.requests.fail_all();
        }
        self.events.push_back(Event::Lost { loss, is_final });
        self.note_closed();
    }

    /// Tells the end that was asked for.
    pub(super) fn note_closed(&mut self) {
        if matches!(self.state, State::Over) && self.is_closing && self.dying.is_empty() {
            self.is_closing = false;
            self.events.push_back(Event::Closed);
        }
    }

    /// Closes a connection of a lost association.
    pub(super) fn put_down(
        &mut self,
        now: Nanos,
        id: ConnectionId,
        mut link: Link,
        gone: Option<(ConnectionId, bool)>,
    ) {
        self.woken.remove(&id);
        let requests = &self.requests;
        let has_changes = link
            .queue
            .drain()
            .fold(false, |any, flight| any | requests.is_change(flight.owner));
        let dying = Dying {
            until: now + self.config.times.close,
            segments: link.queue.transmit_last(),
            has_changes,
        };
        match gone {
            Some((ended, by_peer)) if ended == id => self.bury(&dying, by_peer),
            _ if link.stream_until.is_some() => self.actions.push_back(Action::Drop(id)),
            _ => {
                self.dying.insert(id, dying);
                self.actions.push_back(Action::Close(id));
            }
        }
    }

    fn backoff(&self) -> Nanos {
        let times = &self.config.times;
        let factor = 1u64 << self.attempts.min(20);
        Nanos(times.backoff_first.0.saturating_mul(factor)).min(times.backoff_max)
    }
}
