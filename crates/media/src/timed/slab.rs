//! Things with small numbers that are used again.

use alloc::vec::Vec;

pub(crate) struct Slab<T> {
    things: Vec<Option<T>>,
    vacant: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self {
            things: Vec::new(),
            vacant: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, thing: T) -> u32 {
        if let Some(number) = self.vacant.pop() {
            self.things[number as usize] = Some(thing);
            return number;
        }
        self.things.push(Some(thing));
        u32::try_from(self.things.len() - 1).expect("as many as fit memory")
    }

    pub(crate) fn get(&mut self, number: u32) -> &mut T {
        self.things[number as usize].as_mut().expect("it is known")
    }

    pub(crate) fn take(&mut self, number: u32) -> T {
        self.vacant.push(number);
        self.things[number as usize].take().expect("it is known")
    }
}
