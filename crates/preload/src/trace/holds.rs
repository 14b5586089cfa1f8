//! The acquisitions of a thread that are picked, until their release.

use core::cell::Cell;
use lockswap_platform::Ns;
use lockswap_records::trace::{Event, Use};

/// An object that this thread holds, and what the event of its release will say.
#[derive(Clone, Copy)]
pub struct Hold {
    /// Its address; 0: no hold.
    pub object: usize,
    pub birth: u64,
    pub begin: Ns,
    pub weight: u32,
    pub used: u8,
    /// How often the thread had given up its CPU, and lost it.
    pub switches: [u32; 2],
}

impl Hold {
    /// What is known of it before its end.
    pub fn event(&self) -> Event {
        Event {
            object: self.object as u64,
            birth: self.birth,
            begin: self.begin,
            weight: self.weight,
            used: self.used,
            ..Event::default()
        }
    }
}

const NONE: Hold = Hold { object: 0, birth: 0, begin: 0, weight: 0, used: Use::Mutex as u8, switches: [0; 2] };

/// The few holds of one thread; all zero at its start.
pub struct Holds([Cell<Hold>; 4]);

impl Holds {
    /// Adds a hold; returns the one that had to make room for it.
    pub fn put(&self, hold: Hold) -> Option<Hold> {
        let place = self.0.iter().find(|place| place.get().object == 0).unwrap_or(&self.0[0]);
        Some(place.replace(hold)).filter(|old| old.object != 0)
    }

    /// Removes the hold of this object.
    pub fn take(&self, object: usize) -> Option<Hold> {
        let place = self.0.iter().find(|place| place.get().object == object)?;
        Some(place.replace(NONE))
    }

    /// The holds.
    pub fn iter(&self) -> impl Iterator<Item = Hold> + use<'_> {
        self.0.iter().map(Cell::get).filter(|hold| hold.object != 0)
    }

    /// Removes a hold, as long as there is one.
    pub fn take_any(&self) -> Option<Hold> {
        let place = self.0.iter().find(|place| place.get().object != 0)?;
        Some(place.replace(NONE))
    }
}
