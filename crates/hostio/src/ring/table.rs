//! Operations in flight, by ticket.

use super::Operation;

/// Names an operation in flight: its place, and how often the place was used before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket(pub(super) u64);

impl Ticket {
    /// Of an operation that has ended before it began.
    pub(super) const NONE: Self = Self(u64::MAX - 1);

    const fn new(index: u32, generation: u32) -> Self {
        Self((generation as u64) << 32 | index as u64)
    }

    const fn index(self) -> usize {
        self.0 as u32 as usize
    }

    const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

struct Place {
    /// Wraps below the values that are no tickets; only a cancellation that comes 2^31 operations
    /// too late could be fooled by that.
    generation: u32,
    is_used: bool,
    is_behind: bool,
    /// Absent while its completion runs.
    operation: Option<Box<dyn Operation>>,
}

#[derive(Default)]
pub(super) struct Table {
    places: Vec<Place>,
    vacant: Vec<u32>,
    /// Operations in flight that keep a reactor from having stalled.
    awaited: usize,
}

impl Table {
    pub(super) fn insert(&mut self, operation: Box<dyn Operation>, is_behind: bool) -> Ticket {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.places.push(Place {
                generation: 0,
                is_used: false,
                is_behind: false,
                operation: None,
            });
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[index as usize];
        place.is_used = true;
        place.is_behind = is_behind;
        place.operation = Some(operation);
        self.awaited += usize::from(!is_behind);
        Ticket::new(index, place.generation)
    }

    pub(super) fn has(&self, ticket: Ticket) -> bool {
        let place = self.places.get(ticket.index());
        place.is_some_and(|place| place.is_used && place.generation == ticket.generation())
    }

    /// # Panics
    /// If there is no such operation: the kernel ends each once.
    pub(super) fn take(&mut self, ticket: Ticket) -> Box<dyn Operation> {
        assert!(self.has(ticket), "an operation ends once");
        let operation = self.places[ticket.index()].operation.take();
        operation.expect("an operation ends once")
    }

    pub(super) fn put_back(&mut self, ticket: Ticket, operation: Box<dyn Operation>) {
        self.places[ticket.index()].operation = Some(operation);
    }

    pub(super) fn vacate(&mut self, ticket: Ticket) {
        let place = &mut self.places[ticket.index()];
        place.is_used = false;
        place.generation = (place.generation + 1) & (u32::MAX >> 1);
        self.awaited -= usize::from(!place.is_behind);
        self.vacant.push(ticket.index() as u32);
    }

    pub(super) const fn awaited(&self) -> usize {
        self.awaited
    }

    pub(super) const fn count(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    /// All operations in flight.
    pub(super) fn tickets(&self) -> Vec<Ticket> {
        let places = self.places.iter().enumerate();
        places
            .filter(|(_, place)| place.is_used)
            .map(|(index, place)| Ticket::new(index as u32, place.generation))
            .collect()
    }
}
