//! One operation of the ring as a future that cancels it when dropped.

use crate::io::Io;
use crate::ring::{Operation, Ticket};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use varve_io::{Receiver, Sender, slot};

/// A call in flight; its answer.
pub(crate) struct Call<T> {
    io: Io,
    ticket: Ticket,
    answer: Receiver<T>,
    is_over: bool,
}

impl<T> Call<T> {
    /// Starts the operation made of the end that its answer goes to.
    pub(crate) fn start<O: Operation + 'static>(
        io: &Io,
        make: impl FnOnce(Sender<T>) -> O,
    ) -> Self {
        let (sender, answer) = slot();
        let ticket = io.start(Box::new(make(sender)));
        Self {
            io: io.clone(),
            ticket,
            answer,
            is_over: false,
        }
    }
}

impl<T> Future for Call<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let answer = Pin::new(&mut self.answer).poll(context);
        self.is_over |= answer.is_ready();
        answer
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        if !self.is_over {
            self.io.cancel(self.ticket);
        }
    }
}
