//! The deduplicating pipeline: one thread cuts a stream of bytes into chunks where its content says, others look each
//! chunk up in a table and compress those that are new, and one puts the results in order and writes them, as in
//! PARSEC's `dedup`. Between the stages are bounded queues of a mutex and two condition variables; each bucket of the
//! table has a lock of its own. At the end what was written is unpacked and compared with the stream.

use super::guarded::Guarded;
use super::Config;
use crate::pthread::{Cond, Kind, Mutex as PthreadMutex};
use crate::random::Random;
use crate::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, Range};
use std::pin::Pin;

/// Bytes of a stream of scale 1.
const BYTES: usize = 6 << 20;
/// Different pieces that the stream is made of.
const PIECES: u32 = 400;
/// A chunk ends where as many of the lowest bits of the rolling hash are 0: after 512 bytes in the mean.
const BITS: u32 = 9;
const LONGEST: usize = 4096;
/// Chunks that a queue holds at most.
const CAPACITY: usize = 64;
const BUCKETS: usize = 64;

/// A bounded queue; what is taken from it when nobody puts anything any more is nothing.
struct Queue<T> {
    items: Guarded<Pin<Box<PthreadMutex>>, Items<T>>,
    has_room: Pin<Box<Cond>>,
    has_items: Pin<Box<Cond>>,
}

struct Items<T> {
    waiting: VecDeque<T>,
    /// Threads that may still put some.
    sources: usize,
}

impl<T> Queue<T> {
    fn new(sources: usize) -> Self {
        let items = Items { waiting: VecDeque::new(), sources };
        Self {
            items: Guarded::new(PthreadMutex::new(Kind::Normal), items),
            has_room: Cond::new(),
            has_items: Cond::new(),
        }
    }

    fn put(&self, item: T) {
        let mut item = Some(item);
        self.items.wait_for(&self.has_room, |items| {
            if items.waiting.len() == CAPACITY {
                return None;
            }
            items.waiting.extend(item.take());
            self.has_items.signal();
            Some(())
        });
    }

    /// One of the sources puts nothing any more.
    fn close(&self) {
        self.items.with(&mut (), |items| items.sources -= 1);
        self.has_items.broadcast();
    }

    fn take(&self) -> Option<T> {
        self.items.wait_for(&self.has_items, |items| {
            let item = items.waiting.pop_front();
            self.has_room.signal();
            (item.is_some() || items.sources == 0).then_some(item)
        })
    }
}

/// What becomes of a chunk.
enum Chunk {
    /// It is new.
    New(Vec<u8>),
    /// It is the same as this one, by its number.
    As(usize),
}

/// A stream in which pieces come again and again, with runs of equal bytes in them.
fn stream(bytes: usize) -> Vec<u8> {
    let mut random = Random::seeded(4, 0);
    let mut stream = Vec::with_capacity(bytes + LONGEST);
    while stream.len() < bytes {
        let mut piece = Random::seeded(5, u64::from(random.below(PIECES)));
        for _ in 0..200 + piece.below(800) {
            let (byte, count) = (piece.below(64) as u8, 1 + piece.below(6) as usize);
            stream.extend(std::iter::repeat_n(byte, count));
        }
    }
    stream.truncate(bytes);
    stream
}

/// Where the chunk that begins at `start` ends. The hash rolls: a byte leaves it after 64 others.
fn end_of_chunk(stream: &[u8], start: usize) -> usize {
    let mut hash = 0_u64;
    for (index, byte) in stream.iter().enumerate().skip(start).take(LONGEST) {
        hash = (hash << 1).wrapping_add(u64::from(*byte).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        if index - start >= 64 && hash >> (64 - BITS) == 0 {
            return index + 1;
        }
    }
    stream.len().min(start + LONGEST)
}

/// FNV-1a.
fn hash(chunk: &[u8]) -> u64 {
    chunk.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

/// Runs of equal bytes: the byte, and how often.
fn compress(chunk: &[u8]) -> Vec<u8> {
    let runs = chunk.chunk_by(|a, b| a == b).flat_map(|run| run.chunks(255));
    runs.flat_map(|run| [run[0], run.len() as u8]).collect()
}

fn unpack(runs: &[u8], into: &mut Vec<u8>) {
    runs.chunks_exact(2).for_each(|run| into.extend(std::iter::repeat_n(run[0], usize::from(run[1]))));
}

/// The chunks of a bucket: of each its bytes' place in the stream, and its number.
type Bucket = Vec<(Range<usize>, usize)>;

/// Runs the pipeline.
pub fn run<H: Deref<Target: Mutex> + Send + Sync>(config: Config, make: impl Fn() -> H) -> String {
    let stream = stream(BYTES * config.scale as usize);
    let table: Vec<Guarded<H, Bucket>> = (0..BUCKETS).map(|_| Guarded::new(make(), Bucket::new())).collect();
    let written = pipeline(&stream, config.threads, &|chunks, results| {
        let mut own = table[0].own();
        while let Some((number, place)) = chunks.take() {
            results.put((number, look_up(&stream, &table, &mut own, number, place)));
        }
    });
    check(&stream, &written)
}

/// Chunks and their numbers: what has been cut, and what has been looked up.
type Cut = Queue<(usize, Range<usize>)>;
type LookedUp = Queue<(usize, Chunk)>;

/// What is written when one thread cuts the stream, so many do what `looks_up` does, and another one writes; compiled
/// once, not for each lock.
fn pipeline(stream: &[u8], threads: usize, looks_up: &(dyn Fn(&Cut, &LookedUp) + Sync)) -> Vec<Chunk> {
    let (chunks, results) = (&Queue::new(1), &Queue::new(threads));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut start, mut number) = (0, 0_usize);
            while start < stream.len() {
                let end = end_of_chunk(stream, start);
                chunks.put((number, start..end));
                (start, number) = (end, number + 1);
            }
            chunks.close();
        });
        for _ in 0..threads {
            scope.spawn(move || {
                looks_up(chunks, results);
                results.close();
            });
        }
        scope.spawn(move || in_order(results)).join().expect("the writer has not panicked")
    })
}

/// Whether a chunk is new: the first thread that finds it in no bucket puts it there.
fn look_up<H: Deref<Target: Mutex>>(
    stream: &[u8],
    table: &[Guarded<H, Bucket>],
    own: &mut super::guarded::Own<H>,
    number: usize,
    place: Range<usize>,
) -> Chunk {
    let chunk = &stream[place.clone()];
    let bucket = &table[hash(chunk) as usize % BUCKETS];
    let known = bucket.with(own, |bucket| {
        let known = bucket.iter().find(|(other, _)| stream[other.clone()] == *chunk).map(|(_, number)| *number);
        if known.is_none() {
            bucket.push((place, number));
        }
        known
    });
    known.map_or_else(|| Chunk::New(compress(chunk)), Chunk::As)
}

/// The results in the order of their numbers.
fn in_order(results: &LookedUp) -> Vec<Chunk> {
    let (mut written, mut early) = (Vec::new(), BTreeMap::new());
    while let Some((number, result)) = results.take() {
        early.insert(number, result);
        while let Some(next) = early.remove(&written.len()) {
            written.push(next);
        }
    }
    assert!(early.is_empty(), "chunk {} is missing", written.len());
    written
}

/// Unpacks what was written and compares it with the stream.
fn check(stream: &[u8], written: &[Chunk]) -> String {
    let mut unpacked = Vec::with_capacity(stream.len());
    let mut place = 0;
    let (mut new, mut bytes) = (0, 0);
    for result in written {
        unpacked.clear();
        // Which of two equal chunks is the new one hangs on the threads, so it may come later in the stream.
        let runs = match result {
            Chunk::New(runs) => {
                (new, bytes) = (new + 1, bytes + runs.len());
                runs
            }
            Chunk::As(number) => match &written[*number] {
                Chunk::New(runs) => runs,
                Chunk::As(_) => panic!("chunk {number} should be new"),
            },
        };
        unpack(runs, &mut unpacked);
        assert!(stream[place..].starts_with(&unpacked), "a chunk at byte {place} is wrong");
        place += unpacked.len();
    }
    assert!(place == stream.len(), "{place} of {} bytes were written", stream.len());
    format!("{} chunks, {new} of them new, {bytes} bytes", written.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_end_where_the_content_says_and_runs_unpack() {
        let stream = stream(200_000);
        let cut = |from: usize| {
            let mut ends = vec![from];
            while ends[ends.len() - 1] < stream.len() {
                ends.push(end_of_chunk(&stream, ends[ends.len() - 1]));
            }
            ends
        };
        let (whole, later) = (cut(0), cut(1000));
        let shared = later.iter().filter(|end| whole.contains(end)).count();
        assert!(shared * 10 > later.len() * 8, "{shared} of {} ends are the same", later.len());
        let mut unpacked = Vec::new();
        unpack(&compress(&stream), &mut unpacked);
        assert!(unpacked == stream);
    }

    #[test]
    #[should_panic(expected = "is wrong")]
    fn a_wrong_chunk_is_found() {
        check(b"aabb", &[Chunk::New(vec![b'a', 2]), Chunk::As(0)]);
    }
}
