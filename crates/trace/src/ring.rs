//! Reads the records in the order in which room was taken for them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockswap_records::trace::{
    record_bytes, Event, Header, Kind, Use, BEFORE_WAIT, ENDLESS, FAILED, MOST_STACK, SLEPT, UNIT,
};

/// How long a record may take to be written before its writer counts as dead.
const PATIENCE: Duration = Duration::from_secs(1);

const WORD: usize = size_of::<u64>();
/// Words of a unit.
const STEP: usize = UNIT / WORD;

/// A record, but for the stack that may belong to it.
pub type Record = (Kind, Event);

/// The one reader of a ring.
pub struct Reader<'a> {
    header: &'a Header,
    ring: &'a [AtomicU64],
    /// Bytes since the beginning that were read.
    read: u64,
    /// What stands in the way: how far the ring was written when it was first seen, and when that was.
    gap: Option<(u64, Instant)>,
    patience: Duration,
    /// How often something that no writer finished was left out.
    pub skipped: u64,
}

impl<'a> Reader<'a> {
    /// Goes on where the reader before it stopped.
    pub fn new(header: &'a Header, ring: &'a [AtomicU64]) -> Self {
        // Relaxed: only readers write it, and there is one at a time.
        let read = header.read.0.load(Ordering::Relaxed);
        Self { header, ring, read, gap: None, patience: PATIENCE, skipped: 0 }
    }

    /// The next record, if there is one by now; the copied part of a stack goes to `stack`. `all_ended`: nobody
    /// writes any more, so what is not finished never will be.
    pub fn next(&mut self, all_ended: bool, stack: &mut Vec<u64>) -> Option<Record> {
        loop {
            // Relaxed: it only says where to look; the first word of a record tells that the rest of it is there.
            let written = self.header.written.0.load(Ordering::Relaxed);
            let unread = written.wrapping_sub(self.read);
            if unread == 0 || unread > self.bytes() {
                return None;
            }
            let Some((kind, words)) = self.head(self.read, written) else {
                if !self.pass_gap(written, all_ended) {
                    return None;
                }
                continue;
            };
            self.gap = None;
            let place = self.place(self.read);
            let record = &self.ring[place..place + words];
            let event = event(record);
            stack.clear();
            if kind == Kind::Stack {
                let copied = (event.length as usize / WORD).min(words - 2 * STEP);
                stack.extend(record[2 * STEP..][..copied].iter().map(|word| word.load(Ordering::Relaxed)));
            }
            self.leave(words);
            if kind != Kind::Padding {
                return Some((kind, event));
            }
        }
    }

    fn bytes(&self) -> u64 {
        size_of_val(self.ring) as u64
    }

    /// The word of the ring for a byte since the beginning.
    fn place(&self, at: u64) -> usize {
        (at % self.bytes()) as usize / WORD
    }

    /// What the record at `at` is and how many words it has; `None` if it is not finished, or is no record.
    fn head(&self, at: u64, written: u64) -> Option<(Kind, usize)> {
        let place = self.place(at);
        // Acquire: the writer's release store of this word, its last one, makes the rest of the record visible.
        let head = self.ring[place].load(Ordering::Acquire);
        let units = (head >> 32) as usize;
        let kinds = [Kind::Padding, Kind::Stack, Kind::Wait, Kind::Hold, Kind::Order, Kind::Birth];
        let kind = kinds.into_iter().find(|kind| *kind as u32 == head as u32)?;
        let words = units.checked_mul(STEP)?;
        let to_end = self.ring.len() - place;
        let fits = match kind {
            Kind::Padding => words > 0,
            Kind::Stack => (2 * STEP..=record_bytes(MOST_STACK) / WORD).contains(&words),
            Kind::Wait | Kind::Hold | Kind::Order | Kind::Birth => words == 2 * STEP,
        };
        let within = words <= to_end && (words * WORD) as u64 <= written.wrapping_sub(at);
        (fits && within).then_some((kind, words))
    }

    /// Moves over what no writer finished, if it is time to; whether the reader stands elsewhere now.
    fn pass_gap(&mut self, written: u64, all_ended: bool) -> bool {
        let (limit, since) = *self.gap.get_or_insert_with(|| (written, Instant::now()));
        if !all_ended && since.elapsed() < self.patience {
            return false;
        }
        let limit = if all_ended { written } else { limit };
        let step = UNIT as u64;
        // What was there before counts as given up only as far as it was when the gap was found.
        let next = (self.read + step..written).step_by(UNIT).find(|at| self.is_record(*at, written)).unwrap_or(limit);
        self.skipped += 1;
        self.gap = None;
        while self.read < next {
            let to_end = self.ring.len() - self.place(self.read);
            self.leave(((next - self.read) as usize / WORD).min(to_end));
        }
        true
    }

    /// Whether a record begins at `at`, where part of a stack might lie as well.
    fn is_record(&self, at: u64, written: u64) -> bool {
        let Some((kind, words)) = self.head(at, written) else { return false };
        let place = self.place(at);
        let record = &self.ring[place..place + words];
        if kind == Kind::Padding {
            return record[1..].iter().take(2 * STEP).all(|word| word.load(Ordering::Relaxed) == 0);
        }
        let event = event(record);
        let is_event = event.process != 0
            && event.thread != 0
            && event.rest == 0
            && event.flags & !(FAILED | SLEPT | ENDLESS | BEFORE_WAIT) == 0
            && usize::from(event.used.max(event.held_used)) < Use::ALL.len();
        is_event && (kind != Kind::Stack || (event.stack != 0 && event.length as usize <= words * WORD))
    }

    /// Gives so many words back to the writers, as zeros.
    fn leave(&mut self, words: usize) {
        let place = self.place(self.read);
        // Relaxed: the store of `read` below orders it.
        self.ring[place..place + words].iter().for_each(|word| word.store(0, Ordering::Relaxed));
        self.read += (words * WORD) as u64;
        // Release: pairs with the writers' acquire load of `read`, by which they find room; they write after our
        // zeros.
        self.header.read.0.store(self.read, Ordering::Release);
    }
}

/// The event of a record, which stands behind its first word.
fn event(record: &[AtomicU64]) -> Event {
    if record.len() < 2 * STEP {
        return Event::default();
    }
    // Relaxed: the first word was read before, with acquire.
    let word = |index: usize| record[1 + index].load(Ordering::Relaxed);
    let half = |index: usize, upper: u32| (word(index) >> (32 * upper)) as u32;
    let quarter = |index: usize, number: u32| (word(index) >> (16 * number)) as u16;
    let [used, flags] = quarter(10, 2).to_le_bytes();
    let [held_used, rest] = quarter(10, 3).to_le_bytes();
    Event {
        process: half(0, 0),
        thread: half(0, 1),
        object: word(1),
        birth: word(2),
        begin: word(3),
        length: word(4),
        stack: word(5),
        charged: word(6),
        handed: word(7),
        weight: half(8, 0),
        other: half(8, 1),
        cpu: quarter(9, 0),
        other_cpu: quarter(9, 1),
        waiters: half(9, 1),
        slept: quarter(10, 0),
        preempted: quarter(10, 1),
        used,
        flags,
        held_used,
        rest,
        pc: word(11),
        sp: word(12),
        fp: word(13),
        lr: word(14),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use lockswap_records::trace::{room, Room, FILE_BYTES, RING_BYTES};

    use super::*;
    use crate::shared::{Settings, SharedFile};

    /// A writer as the preload library is one, for tests.
    pub(crate) struct Writer<'a> {
        header: &'a Header,
        ring: &'a [AtomicU64],
    }

    impl<'a> Writer<'a> {
        pub(crate) fn new(shared: &'a SharedFile) -> Self {
            Self { header: shared.header(), ring: shared.ring() }
        }

        /// Takes room for a record; where it begins.
        fn reserve(&self, bytes: usize) -> Option<usize> {
            let written = self.header.written.0.load(Ordering::Relaxed);
            let Room::After(padding) = room(written, self.header.read.0.load(Ordering::Acquire), bytes) else {
                self.header.lost.fetch_add(1, Ordering::Relaxed);
                return None;
            };
            let place = written as usize % RING_BYTES;
            self.header.written.0.store(written + (padding + bytes) as u64, Ordering::Relaxed);
            if padding > 0 {
                let head = Kind::Padding as u64 | ((padding / UNIT) as u64) << 32;
                self.ring[place / WORD].store(head, Ordering::Release);
            }
            Some((place + padding) % RING_BYTES / WORD)
        }

        pub(crate) fn write(&self, kind: Kind, event: &Event, stack: &[u64]) -> bool {
            let bytes = record_bytes(size_of_val(stack));
            let Some(place) = self.reserve(bytes) else { return false };
            for (index, word) in words(event).into_iter().chain(stack.iter().copied()).enumerate() {
                assert_eq!(self.ring[place + 1 + index].swap(word, Ordering::Relaxed), 0, "room that was not cleared");
            }
            self.ring[place].store(kind as u64 | ((bytes / UNIT) as u64) << 32, Ordering::Release);
            true
        }

        /// Takes room and writes all but the first word, as a writer that dies on the way.
        fn die(&self, event: &Event, stack: &[u64]) {
            let place = self.reserve(record_bytes(size_of_val(stack))).unwrap();
            for (index, word) in words(event).into_iter().chain(stack.iter().copied()).enumerate() {
                self.ring[place + 1 + index].store(word, Ordering::Relaxed);
            }
        }
    }

    fn words(event: &Event) -> [u64; 15] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let four = |quarters: [u16; 4]| quarters.iter().rev().fold(0, |word, part| word << 16 | u64::from(*part));
        let e = event;
        [
            pair(e.process, e.thread),
            e.object,
            e.birth,
            e.begin,
            e.length,
            e.stack,
            e.charged,
            e.handed,
            pair(e.weight, e.other),
            pair(u32::from(e.cpu) | u32::from(e.other_cpu) << 16, e.waiters),
            four([
                e.slept,
                e.preempted,
                u16::from_le_bytes([e.used, e.flags]),
                u16::from_le_bytes([e.held_used, e.rest]),
            ]),
            e.pc,
            e.sp,
            e.fp,
            e.lr,
        ]
    }

    pub(crate) fn file() -> SharedFile {
        SharedFile::create(Settings::default()).unwrap()
    }

    fn sample(begin: u64) -> Event {
        Event { process: 7, thread: 8, object: 0x1000, begin, length: 5, weight: 3, ..Event::default() }
    }

    fn all(reader: &mut Reader<'_>, ended: bool) -> Vec<(Kind, u64, usize)> {
        let mut stack = Vec::new();
        let mut found = Vec::new();
        while let Some((kind, event)) = reader.next(ended, &mut stack) {
            found.push((kind, event.begin, stack.len()));
        }
        found
    }

    #[test]
    fn every_field_arrives() {
        let event = Event {
            process: 1,
            thread: 2,
            object: 3 << 40,
            birth: 4,
            begin: 5,
            length: 6,
            stack: 7,
            charged: 8,
            handed: 9,
            weight: 10,
            other: 11,
            cpu: 12,
            other_cpu: 13,
            waiters: 14,
            slept: 15,
            preempted: 16,
            used: 4,
            flags: SLEPT | ENDLESS,
            held_used: 3,
            rest: 0,
            pc: 17,
            sp: 18,
            fp: 19,
            lr: 20,
        };
        let shared = file();
        assert!(Writer::new(&shared).write(Kind::Hold, &event, &[]));
        // As the library writes it: the fields lie where the compiler put them.
        let raw: Vec<u64> = shared.ring()[1..16].iter().map(|word| word.load(Ordering::Relaxed)).collect();
        assert_eq!(
            (raw[0], raw[9], raw[10]),
            (2 << 32 | 1, 14 << 32 | 13 << 16 | 12, 3 << 48 | 6 << 40 | 4 << 32 | 16 << 16 | 15)
        );
        let read = Reader::new(shared.header(), shared.ring()).next(false, &mut Vec::new()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", (Kind::Hold, event)));
        assert_eq!(FILE_BYTES, 4096 + RING_BYTES);
        assert!(shared.ring().iter().take(64).all(|word| word.load(Ordering::Relaxed) == 0), "it leaves zeros");
    }

    #[test]
    fn records_come_in_order_round_the_ring_and_what_finds_no_room_is_lost() {
        let shared = file();
        let writer = Writer::new(&shared);
        let mut reader = Reader::new(shared.header(), shared.ring());
        // A length that does not divide the ring's, so that its end is padded somewhere else each time.
        let stack = vec![9; 1000];
        let mut expected = Vec::new();
        let mut begin = 0;
        for _ in 0..3 {
            while writer.write(Kind::Stack, &Event { stack: 1, length: 8000, ..sample(begin) }, &stack) {
                expected.push((Kind::Stack, begin, 1000));
                begin += 1;
            }
            assert!(writer.write(Kind::Wait, &sample(begin), &[]) || expected.len() > 1);
            let found = all(&mut reader, false);
            expected.extend(found.iter().filter(|(kind, ..)| *kind == Kind::Wait));
            assert!(found == expected, "{} records of {}", found.len(), expected.len());
            expected.clear();
        }
        assert!(begin > 3 * 4000 && shared.header().lost.load(Ordering::Relaxed) >= 3, "{begin}");
        assert_eq!(reader.skipped, 0);
    }

    #[test]
    fn a_record_that_did_not_come_about_is_left_out() {
        let shared = file();
        let writer = Writer::new(&shared);
        let mut reader = Reader::new(shared.header(), shared.ring());
        assert!(writer.write(Kind::Wait, &sample(1), &[]));
        assert!(writer.write(Kind::Padding, &Event::default(), &[7; 100]));
        assert!(writer.write(Kind::Hold, &sample(2), &[]));
        assert_eq!(all(&mut reader, false), [(Kind::Wait, 1, 0), (Kind::Hold, 2, 0)]);
        assert_eq!(reader.skipped, 0);
    }

    #[test]
    fn what_a_dead_writer_left_is_skipped_after_a_while_or_when_all_have_ended() {
        let shared = file();
        let writer = Writer::new(&shared);
        let mut reader = Reader::new(shared.header(), shared.ring());
        // What looks like the beginning of a record inside the copied stack is none.
        let lookalike = [Kind::Wait as u64 | 2 << 32, 0, 0, 0, 0, 0, 0, 0].repeat(4);
        for all_ended in [false, true] {
            assert!(writer.write(Kind::Wait, &sample(1), &[]));
            writer.die(&sample(2), &lookalike);
            assert!(writer.write(Kind::Hold, &sample(3), &[]));
            assert_eq!(all(&mut reader, false), [(Kind::Wait, 1, 0)]);
            reader.patience = if all_ended { PATIENCE } else { Duration::ZERO };
            assert_eq!(all(&mut reader, all_ended), [(Kind::Hold, 3, 0)]);
            reader.patience = PATIENCE;
        }
        assert_eq!(reader.skipped, 2);
        // A gap at the very end.
        writer.die(&sample(4), &[]);
        assert_eq!(all(&mut reader, true), []);
        assert!(writer.write(Kind::Wait, &sample(5), &[]));
        assert_eq!(all(&mut reader, false), [(Kind::Wait, 5, 0)]);
    }
}
