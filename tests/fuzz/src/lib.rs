//! Random input for readers: for functions that turn input which lockswap did not make into values. `docs/fuzzing.md`
//! lists them all.
//!
//! [`tests!`] makes three tests of a check: on every file of the reader's corpus, on mutations of those files, and on
//! arbitrary bytes. A check fails by panicking; [`reading`] lets it fail when a reader takes too much memory. Input
//! that fails is made as small as can be and printed; its seed is added to a file beside the test, so that it is tried
//! first the next time. Put the input into the corpus, too: the seed means another input once the corpus changes.

#![forbid(unsafe_code)]

use std::fs;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, Index};
use proptest::test_runner::{Config, FileFailurePersistence, TestError, TestRunner};

/// Makes the tests of `$check`, a function of `&[u8]`, for the reader whose corpus is the folder `$reader`. On each of
/// the two sorts of random input it runs `$weight` times as many cases as the variable `PROPTEST_CASES` says, or 256.
#[macro_export]
macro_rules! tests {
    ($reader:ident, $weight:expr, $check:path) => {
        mod $reader {
            #[test]
            fn the_corpus_is_read() {
                $crate::replay(stringify!($reader), $check);
            }
            #[test]
            fn mutations_are_read_or_refused() {
                $crate::mutations(stringify!($reader), $weight, file!(), $check);
            }
            #[test]
            fn arbitrary_bytes_are_read_or_refused() {
                $crate::bytes($weight, file!(), $check);
            }
        }
    };
}

/// Input grows to at most this many bytes.
const LONGEST: usize = 1 << 18;

/// Bytes that a reader may allocate for each byte of input.
const PER_BYTE: u64 = 256;

/// A mebibyte.
pub const MIB: u64 = 1 << 20;

/// Reads `input` with `read`, which must not take much more memory than the input does: no more than `free` bytes
/// whatever the input is, and in proportion to its length.
pub fn reading<T>(input: &[u8], free: u64, read: impl FnOnce() -> T) -> T {
    let mut result = None;
    // The counter must see its end also where the reader panics.
    let memory = allocation_counter::measure(|| result = Some(catch_unwind(AssertUnwindSafe(read))));
    let most = free + PER_BYTE * input.len() as u64;
    assert!(memory.bytes_max <= most, "{} bytes of input take {} bytes", input.len(), memory.bytes_max);
    result.expect("measure calls it").unwrap_or_else(|panic| resume_unwind(panic))
}

/// The input as text: readers of text get no other.
pub fn text(input: &[u8]) -> String {
    String::from_utf8_lossy(input).into_owned()
}

/// Checks every file of a corpus.
pub fn replay(reader: &str, check: impl Fn(&[u8])) {
    for (path, input) in files(reader) {
        println!("{}", path.display());
        check(&input);
    }
}

/// Checks mutations of the files of a corpus.
pub fn mutations(reader: &str, weight: u32, source: &'static str, check: impl Fn(&[u8])) {
    run(mutated(reader), weight, source, |input| check(input));
}

/// Checks arbitrary bytes, some of which are text.
pub fn bytes(weight: u32, source: &'static str, check: impl Fn(&[u8])) {
    let of_text = vec(select(b"0123456789-.,;:=[]{}\"'# \t\n\0aeinx/\xff".to_vec()), 0..200);
    run(prop_oneof![vec(any::<u8>(), 0..300), of_text], weight, source, |input| check(input));
}

/// Checks values of another sort.
pub fn run<S: Strategy>(inputs: S, weight: u32, source: &'static str, check: impl Fn(&S::Value))
where
    S::Value: std::fmt::Debug,
{
    let mut config = Config::default();
    config.cases *= weight;
    config.source_file = Some(source);
    config.failure_persistence = Some(Box::new(FileFailurePersistence::WithSource("regressions")));
    let checked = TestRunner::new(config).run(&inputs, |input| {
        check(&input);
        Ok(())
    });
    match checked {
        Ok(()) => {}
        Err(TestError::Fail(why, input)) => panic!("{why}\non {}", shown(&input)),
        Err(abort) => panic!("{abort}"),
    }
}

/// The input for people, cut off where it is long.
fn shown(input: &impl std::fmt::Debug) -> String {
    let shown = format!("{input:?}");
    shown.chars().take(4000).collect()
}

/// The files of a corpus, in the order of their names.
fn files(reader: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(reader);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let input = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, input)
    };
    let files: Vec<_> = paths.into_iter().map(read).collect();
    assert!(!files.is_empty(), "no corpus in {}", folder.display());
    files
}

/// Files of a corpus with one to eight changes each.
pub fn mutated(reader: &str) -> impl Strategy<Value = Vec<u8>> {
    let corpus: Vec<Arc<[u8]>> = files(reader).into_iter().map(|(_, input)| input.into()).collect();
    let change = prop_oneof![
        6 => (any::<Index>(), 0..8u32).prop_map(|(at, bit)| Change::Flip(at, bit)),
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        3 => (any::<Index>(), 1..40usize).prop_map(|(at, length)| Change::Delete(at, length)),
        3 => (any::<Index>(), any::<Index>(), 1..200usize).prop_map(|(at, to, length)| Change::Copy(at, to, length)),
        1 => any::<Index>().prop_map(Change::Truncate),
        2 => (any::<Index>(), any::<Index>()).prop_map(|(one, other)| Change::SwapLines(one, other)),
        2 => any::<Index>().prop_map(Change::DropLine),
        8 => (any::<Index>(), select(NUMBERS)).prop_map(|(at, number)| Change::Number(at, number)),
        4 => (any::<Index>(), select(PIECES)).prop_map(|(at, piece)| Change::Insert(at, piece)),
        1 => (any::<Index>(), 1..20usize, 1..6000usize)
            .prop_map(|(at, length, times)| Change::Repeat(at, length, times)),
        2 => (any::<Index>(), any::<Index>(), select(corpus.clone()))
            .prop_map(|(at, from, other)| Change::Splice(at, from, other)),
        3 => (any::<Index>(), select(WORDS)).prop_map(|(at, word)| Change::Word(at, word)),
    ];
    (select(corpus), vec(change, 1..9)).prop_map(|(input, changes)| {
        let mut input = input.to_vec();
        changes.iter().for_each(|change| change.apply(&mut input));
        input
    })
}

/// Put in the place of numbers.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "4",
    "7",
    "63",
    "64",
    "65",
    "255",
    "256",
    "257",
    "4095",
    "4096",
    "65535",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1000000000",
    "1e9",
    "1e308",
    "1e999",
    "-1",
    "-0",
    "0.1",
    "0.001",
    "nan",
    "inf",
    "+5",
    "00",
    "0x10",
    "0-4095",
    "0-4294967295",
    "99999999999999999999999999999999999999999999",
    "340282366920938463463374607431768211456",
    "1.7976931348623157e308",
];

/// Put in anywhere.
const PIECES: &[&str] = &[
    ",",
    ";",
    "\t",
    "\n",
    "\r\n",
    " ",
    "\0",
    "\u{feff}",
    "é",
    "[",
    "]",
    "[[",
    "{",
    "}",
    "\"",
    "'",
    "=",
    ":",
    "-",
    "#",
    ".",
    "/",
    "..",
    "[0-4095]",
    "[0-4095][0-4095]",
    "(",
    ")",
    "|",
    "*",
    "{1000}",
    "(?x)",
    "\\",
    "null",
    "true",
    "0",
];

/// Put in the place of words.
const WORDS: &[&str] = &["", "null", "true", "false", "x", "nan", "inf", "-1", "1e9", "[]", "{}", "\"\"", "é"];

/// A change of an input. Places are shares of its length, whatever that is by then.
#[derive(Clone, Debug)]
enum Change {
    Flip(Index, u32),
    Set(Index, u8),
    Delete(Index, usize),
    /// Copies so many bytes from one place to another.
    Copy(Index, Index, usize),
    Truncate(Index),
    SwapLines(Index, Index),
    DropLine(Index),
    /// Puts a number in the place of the first one from here on.
    Number(Index, &'static str),
    Insert(Index, &'static str),
    /// Repeats so many bytes so many times.
    Repeat(Index, usize, usize),
    /// From here on another input, from there on.
    Splice(Index, Index, Arc<[u8]>),
    /// Puts a word in the place of the first one from here on.
    Word(Index, &'static str),
}

impl Change {
    fn apply(&self, input: &mut Vec<u8>) {
        let at = |index: &Index, input: &[u8]| index.index(input.len() + 1);
        match self {
            Change::Flip(index, bit) => at_mut(index, input).map_or((), |byte| *byte ^= 1 << bit),
            Change::Set(index, new) => at_mut(index, input).map_or((), |byte| *byte = *new),
            Change::Delete(index, length) => {
                let from = at(index, input);
                input.drain(from..(from + length).min(input.len()));
            }
            Change::Copy(index, to, length) => {
                let from = at(index, input);
                let piece = input[from..(from + length).min(input.len())].to_vec();
                let to = at(to, input);
                input.splice(to..to, piece);
            }
            Change::Truncate(index) => input.truncate(at(index, input)),
            Change::SwapLines(one, other) => {
                let mut lines: Vec<&[u8]> = input.split_inclusive(|byte| *byte == b'\n').collect();
                if !lines.is_empty() {
                    let (one, other) = (one.index(lines.len()), other.index(lines.len()));
                    lines.swap(one, other);
                    *input = lines.concat();
                }
            }
            Change::DropLine(index) => {
                let mut lines: Vec<&[u8]> = input.split_inclusive(|byte| *byte == b'\n').collect();
                if !lines.is_empty() {
                    lines.remove(index.index(lines.len()));
                    *input = lines.concat();
                }
            }
            Change::Number(index, number) => replace(input, at(index, input), u8::is_ascii_digit, number),
            Change::Word(index, word) => replace(input, at(index, input), u8::is_ascii_alphabetic, word),
            Change::Insert(index, piece) => {
                let at = at(index, input);
                input.splice(at..at, piece.bytes());
            }
            Change::Repeat(index, length, times) => {
                let from = at(index, input);
                let to = (from + length).min(input.len());
                let piece = input[from..to].repeat(*times);
                input.splice(to..to, piece);
            }
            Change::Splice(index, from, other) => {
                input.truncate(at(index, input));
                input.extend(&other[at(from, other)..]);
            }
        }
        input.truncate(LONGEST);
    }
}

fn at_mut<'a>(index: &Index, input: &'a mut [u8]) -> Option<&'a mut u8> {
    (!input.is_empty()).then(|| index.get_mut(input))
}

/// Puts `new` in the place of the first run of bytes of a sort from `at` on.
fn replace(input: &mut Vec<u8>, at: usize, of_sort: impl Fn(&u8) -> bool, new: &str) {
    let Some(from) = input[at..].iter().position(&of_sort).map(|from| at + from) else { return };
    let length = input[from..].iter().position(|byte| !of_sort(byte)).unwrap_or(input.len() - from);
    input.splice(from..from + length, new.bytes());
}
