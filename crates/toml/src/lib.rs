//! Reading TOML that somebody else wrote, and saying what is wrong with it.
//!
//! The parser bounds how deep brackets nest and how many parts a key has, each by 80. But `{a.b.c = {a.b.c = 1}}`
//! nests as deep as both together say, and whatever makes, walks or drops such a value calls itself once for each
//! level: a text of some kilobytes overflows the stack. So [`from_str`] bounds the depth of the whole value, before
//! there is one.

#![forbid(unsafe_code)]

use serde::de::{DeserializeOwned, Error as _};
use toml::de::Error;
use toml_parser::parser::{parse_document, EventReceiver};
use toml_parser::{ErrorSink, Source, Span};

/// So many tables and arrays may lie around a value, the document among them: what lockswap reads has five.
const DEEPEST: usize = 32;

/// Lines of a message; those of the parser have four or five.
const MOST_LINES: usize = 8;

/// Characters of one line of it, besides the name of the file.
const LONGEST_LINE: usize = 300;

/// The text without control characters, with which a file could steer the terminal.
pub fn visible(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().filter(|character| !character.is_control())
}

/// As much of a message about the file `name` as there is room for: the parts of the file that it quotes may be of any
/// length, and hold anything.
pub fn shortened(message: &str, name: &str) -> String {
    let cut = |line: &str| visible(line).take(name.chars().count() + LONGEST_LINE).collect::<String>();
    message.trim_end().lines().take(MOST_LINES).map(cut).collect::<Vec<_>>().join("\n")
}

/// Reads a text as a `T`.
///
/// # Errors
/// What is wrong with the text, with the line where there is one; and values within more than 32 tables and arrays.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let tokens = Source::new(text).lex().into_vec();
    let mut depth = Depth { brackets: vec![0], ..Depth::default() };
    // Errors are left to the parser below, whose messages show the line.
    parse_document(&tokens, &mut depth, &mut ());
    if depth.deepest > DEEPEST {
        let line = text[..depth.at].matches('\n').count() + 1;
        let what = format!("line {line}: this lies within more than {DEEPEST} tables and arrays");
        return Err(Error::custom(what));
    }
    toml::from_str(text)
}

/// How deep a text nests, as its parser comes to know.
#[derive(Default)]
struct Depth {
    /// The tables of the header.
    header: usize,
    /// For the document, and for each bracket that is open, the dots of the key that is being read there.
    brackets: Vec<usize>,
    /// Whether a dot came last: what follows is no new key.
    dotted: bool,
    deepest: usize,
    /// The byte where it is deepest.
    at: usize,
}

impl Depth {
    fn begin_header(&mut self) {
        self.header = 0;
        self.brackets = vec![0];
    }

    /// `own` is 1 for the table, and 2 if that lies in an array.
    fn end_header(&mut self, span: Span, own: usize) {
        self.header = self.brackets[0] + own;
        self.brackets = vec![0];
        self.look(span);
    }

    fn look(&mut self, span: Span) {
        let depth = self.header + self.brackets.iter().sum::<usize>() + self.brackets.len();
        if depth > self.deepest {
            (self.deepest, self.at) = (depth, span.start());
        }
    }

    /// Goes into a bracket if that is not too deep.
    fn open(&mut self, span: Span) -> bool {
        self.brackets.push(0);
        self.look(span);
        self.deepest <= DEEPEST
    }

    fn close(&mut self) {
        // The document's own stays.
        if self.brackets.len() > 1 {
            self.brackets.pop();
        }
    }
}

impl EventReceiver for Depth {
    fn std_table_open(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.begin_header();
    }

    fn std_table_close(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.end_header(span, 1);
    }

    fn array_table_open(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.begin_header();
    }

    fn array_table_close(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.end_header(span, 2);
    }

    fn inline_table_open(&mut self, span: Span, _: &mut dyn ErrorSink) -> bool {
        self.open(span)
    }

    fn inline_table_close(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.close();
    }

    fn array_open(&mut self, span: Span, _: &mut dyn ErrorSink) -> bool {
        self.open(span)
    }

    fn array_close(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.close();
    }

    fn simple_key(&mut self, _: Span, _: Option<toml_parser::decoder::Encoding>, _: &mut dyn ErrorSink) {
        if !std::mem::take(&mut self.dotted) {
            *self.brackets.last_mut().expect("the document's") = 0;
        }
    }

    fn key_sep(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.dotted = true;
        *self.brackets.last_mut().expect("the document's") += 1;
        self.look(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a text on a stack as small as threads have.
    fn read(text: String) -> Result<toml::Table, String> {
        let read = move || from_str(&text).map_err(|error: Error| error.to_string());
        std::thread::Builder::new().stack_size(2 << 20).spawn(read).unwrap().join().unwrap()
    }

    #[test]
    fn what_nests_is_read_up_to_the_bound() {
        // What is written so many times, and the tables and arrays around the value then.
        let keys = |parts: usize| (format!("{} = 1", vec!["a"; parts].join(".")), parts);
        let arrays = |count: usize| (format!("v = {}1{}", "[".repeat(count), "]".repeat(count)), 1 + count);
        let tables = |count: usize| (format!("v = {}1{}", "{a = ".repeat(count), "}".repeat(count)), 1 + count);
        let dotted = |count: usize| (format!("v = {}1{}", "{a.b = ".repeat(count), "}".repeat(count)), 1 + 2 * count);
        let headers = |parts: usize| (format!("[{}]\na = 1", vec!["a"; parts].join(".")), 1 + parts);
        let lists = |parts: usize| (format!("[[{}]]\na = [1]", vec!["a"; parts].join(".")), 3 + parts);
        for written in [&keys as &dyn Fn(usize) -> (String, usize), &arrays, &tables, &dotted, &headers, &lists] {
            for times in 1..40 {
                let (text, depth) = written(times);
                match read(text.clone()) {
                    Ok(_) => assert!(depth <= DEEPEST, "{text}"),
                    Err(message) => assert!(depth > DEEPEST && message.contains("more than 32"), "{text}: {message}"),
                }
            }
        }
    }

    #[test]
    fn what_lies_side_by_side_does_not_nest() {
        assert!(read(format!("v = [{}]", "[1], [{a.b = 2, c.d = [3]}], ".repeat(100))).is_ok());
        let lines = |line: &dyn Fn(usize) -> String| (0..100).map(line).collect::<String>();
        assert!(read(lines(&|n| format!("a.b{n}.c = [{{x.y = 1}}]\n"))).is_ok());
        assert!(read(lines(&|n| format!("[a.b{n}.c]\nx.y = 1\n[[d.e.f]]\nx.y = 2\n"))).is_ok());
    }

    #[test]
    fn texts_that_nest_without_bound_are_refused() {
        let pieces =
            ["[", "{", "{a=", ".a={{}", ",a={{}", "a.", "{a.b={", "[{a=", "[}", "a=[", "{a=[", "{{", "]{", "[[a]]\n"];
        for piece in pieces {
            for begin in ["", "v = ", "v = {", "v = [", "v = {a", "v = [{a"] {
                let _ = read(format!("{begin}{}", piece.repeat(5000)));
            }
        }
        let key = vec!["a"; 79].join(".");
        let deep = (0..79).fold("1".to_owned(), |inner, _| format!("{{{key} = {inner}}}"));
        for end in ["", "\nv", "}"] {
            let message = read(format!("a = 1\nv = {deep}{end}")).unwrap_err();
            assert!(message.contains("line 2: this lies within"), "{message}");
        }
    }

    #[test]
    fn messages_have_bounds_and_no_control_characters() {
        let message = format!("file: '\u{1b}[2J{}' is odd\n", "x\n".repeat(20) + &"y".repeat(10_000));
        let shown = shortened(&message, "file");
        assert!(shown.starts_with("file: '[2Jx\nx\n") && shown.lines().count() == MOST_LINES, "{shown}");
        assert_eq!(shortened(&"y".repeat(10_000), "file").len(), LONGEST_LINE + 4);
    }

    #[test]
    fn messages_show_the_line() {
        let message = read("a = 1\nb = oops\n".into()).unwrap_err();
        assert!(message.contains("line 2"), "{message}");
    }
}
