//! Reading a profile's text.

use crate::problem::KEYS;
use crate::{places, Kind, Lock, Problem, Rule, What, MOST_RULES, VERSION};
use core::mem::MaybeUninit;
use lockswap_locks::named;
use lockswap_locks::registry::{self, Role};
use toml_parser::decoder::{Encoding, ScalarKind};
pub use toml_parser::lexer::Token;
use toml_parser::parser::{parse_document, EventReceiver};
use toml_parser::{ErrorSink, ParseError, Source, Span};

/// Cuts a text into the tokens that [`read`] wants; nothing if there is too little room: a text has at most one for
/// each byte, and one more.
pub fn tokens<'a>(text: &str, room: &'a mut [MaybeUninit<Token>]) -> Option<&'a [Token]> {
    let mut count = 0;
    for token in Source::new(text).lex() {
        room.get_mut(count)?.write(token);
        count += 1;
    }
    // SAFETY: so many have been written.
    Some(unsafe { core::slice::from_raw_parts(room.as_ptr().cast(), count) })
}

/// Reads a profile into `rules`, which has room for [`MOST_RULES`], and returns those that were read.
///
/// # Errors
/// What is wrong with the text.
pub fn read<'a, 'r>(
    text: &'a str,
    tokens: &[Token],
    rules: &'r mut [MaybeUninit<Rule<'a>>],
) -> Result<&'r [Rule<'a>], Problem<'a>> {
    let mut reader = Reader::new(text, rules);
    let mut error = None;
    parse_document(tokens, &mut reader, &mut error);
    if let Some(error) = error {
        return Err(reader.not_toml(error));
    }
    reader.end_rule();
    let Reader { rules, count, problem, version, .. } = reader;
    match problem {
        Some(problem) => Err(problem),
        None if !version => Err(Problem { line: 1, what: What::NoVersion }),
        // SAFETY: so many have been written.
        None => Ok(unsafe { core::slice::from_raw_parts(rules.as_ptr().cast(), count) }),
    }
}

/// What a rule says, as far as it has been read: the values of [`KEYS`].
type Values<'a> = [Option<&'a str>; KEYS.len()];

struct Reader<'a, 'r> {
    source: Source<'a>,
    rules: &'r mut [MaybeUninit<Rule<'a>>],
    count: usize,
    /// The first problem.
    problem: Option<Problem<'a>>,
    version: bool,
    /// The line of a table's header, while its name is read.
    header: Option<usize>,
    /// The key whose value comes next.
    key: &'a str,
    /// The line and the values of the rule that is being read.
    rule: Option<(usize, Values<'a>)>,
    /// The line of the rule that takes every mutex.
    for_all: Option<usize>,
}

impl<'a, 'r> Reader<'a, 'r> {
    fn new(text: &'a str, rules: &'r mut [MaybeUninit<Rule<'a>>]) -> Self {
        Reader {
            source: Source::new(text),
            rules,
            count: 0,
            problem: None,
            version: false,
            header: None,
            key: "",
            rule: None,
            for_all: None,
        }
    }

    /// The line of the byte with this number.
    fn line(&self, byte: usize) -> usize {
        let before = self.source.input().bytes().take(byte);
        1 + before.filter(|byte| *byte == b'\n').count()
    }

    fn not_toml(&self, error: ParseError) -> Problem<'a> {
        let span = error.unexpected().or(error.context());
        Problem { line: self.line(span.map_or(0, |span| span.start())), what: What::Toml(error) }
    }

    fn complain(&mut self, line: usize, what: What<'a>) {
        self.problem.get_or_insert(Problem { line, what });
    }

    fn complain_at(&mut self, span: Span, what: What<'a>) {
        self.complain(self.line(span.start()), what);
    }

    fn text(&self, span: Span) -> &'a str {
        self.source.get(span).map_or("", |raw| raw.as_str())
    }

    fn begin_table(&mut self, span: Span) {
        self.end_rule();
        self.header = Some(self.line(span.start()));
    }

    fn end_rule(&mut self) {
        if let Some((line, values)) = self.rule.take() {
            self.add(line, values, false);
        }
    }

    fn add(&mut self, line: usize, values: Values<'a>, is_chosen: bool) {
        match self.rule_of(line, values, is_chosen) {
            Ok(rule) if self.count < MOST_RULES.min(self.rules.len()) => {
                self.rules[self.count].write(rule);
                self.count += 1;
            }
            Ok(_) => self.complain(line, What::Rules),
            Err(what) => self.complain(line, what),
        }
    }

    fn rule_of(&mut self, line: usize, values: Values<'a>, is_chosen: bool) -> Result<Rule<'a>, What<'a>> {
        if let Some((key, _)) = KEYS.iter().zip(values).find(|(_, value)| *value == Some("")) {
            return Err(What::Empty(key));
        }
        let [symbol, function, module, at, source, kind, lock] = values;
        if let Some(text) =
            at.filter(|text| !places(text).all(|place| place.is_some()) || places(text).next().is_none())
        {
            return Err(What::Place(text));
        }
        let source = match source {
            None => None,
            Some(text) => {
                let line = text.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse::<u32>().ok()?)));
                Some(line.filter(|(file, line)| !file.is_empty() && *line > 0).ok_or(What::Line(text))?)
            }
        };
        let kind = match kind {
            None => None,
            Some(text) => {
                let known = Kind::ALL.iter().find(|(name, _)| *name == text);
                Some(known.map(|(_, kind)| *kind).ok_or(What::Kind(text))?)
            }
        };
        let lock_text = lock.ok_or(What::NoLock)?;
        let named = named::read(Role::Mutex, lock_text).map_err(|wrong| What::Lock(lock_text, wrong))?;
        let id = named.entry.info.id;
        let lock = if registry::is_glibcs(id) {
            Lock::Glibcs { adaptive: id == registry::PTHREAD_ADAPTIVE }
        } else {
            Lock::Ours(named)
        };
        let rule = Rule { line, symbol, function, module, at, source, kind, lock, lock_text, is_chosen };
        if let Some(other) = self.for_all {
            return Err(What::Behind(other));
        }
        if rule.is_for_all() {
            self.for_all = Some(line);
        }
        Ok(rule)
    }

    /// A value before the first rule: `value`, if it is a text.
    fn set(&mut self, span: Span, kind: ScalarKind, value: &'a str) {
        let text = self.text(span);
        if self.key == "locks" {
            if kind != ScalarKind::String {
                return self.complain_at(span, What::NoText("locks"));
            }
            for lock in value.split_ascii_whitespace() {
                let mut values = [None; KEYS.len()];
                values[KEYS.len() - 1] = Some(lock);
                self.add(self.line(span.start()), values, true);
            }
        } else if self.key != "version" {
            self.complain_at(span, What::Key(self.key));
        } else if !matches!(kind, ScalarKind::Integer(_)) || text.parse() != Ok(VERSION) {
            self.complain_at(span, What::Version(text));
        } else {
            self.version = true;
        }
    }
}

impl EventReceiver for Reader<'_, '_> {
    fn std_table_open(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.begin_table(span);
    }

    fn std_table_close(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.header = None;
        self.complain_at(span, What::Table(self.key));
    }

    fn array_table_open(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.begin_table(span);
    }

    fn array_table_close(&mut self, span: Span, _: &mut dyn ErrorSink) {
        let line = self.header.take().unwrap_or_default();
        if self.key == "mutex" {
            self.rule = Some((line, [None; KEYS.len()]));
        } else {
            self.complain_at(span, What::Table(self.key));
        }
    }

    fn inline_table_open(&mut self, span: Span, _: &mut dyn ErrorSink) -> bool {
        self.complain_at(span, What::NoText(self.key));
        false
    }

    fn array_open(&mut self, span: Span, _: &mut dyn ErrorSink) -> bool {
        self.complain_at(span, What::NoText(self.key));
        false
    }

    fn simple_key(&mut self, span: Span, encoding: Option<Encoding>, _: &mut dyn ErrorSink) {
        self.key = self.text(span);
        if encoding.is_some() {
            self.key = self.key.trim_matches(['"', '\'']);
        }
    }

    fn key_sep(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.complain_at(span, What::Key(self.key));
    }

    fn scalar(&mut self, span: Span, encoding: Option<Encoding>, errors: &mut dyn ErrorSink) {
        let Some(raw) = self.source.get(span) else { return };
        let raw = toml_parser::Raw::new_unchecked(raw.as_str(), encoding, span);
        let mut value = "";
        let mut first: Option<ParseError> = None;
        let kind = raw.decode_scalar(&mut value, &mut first);
        let Some((line, values)) = &mut self.rule else { return self.set(span, kind, value) };
        let line = *line;
        let Some(place) = KEYS.iter().position(|key| *key == self.key) else {
            return self.complain_at(span, What::Key(self.key));
        };
        if kind != ScalarKind::String {
            return self.complain_at(span, What::NoText(KEYS[place]));
        }
        if values[place].replace(value).is_some() {
            return self.complain(line, What::Twice(KEYS[place]));
        }
        match first {
            // The decoder found no room for what an escape stands for.
            Some(_) if raw.as_str().contains('\\') => self.complain_at(span, What::Escapes(KEYS[place])),
            Some(error) => errors.report_error(error),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::{clash, Place};
    use std::format;
    use std::string::{String, ToString};
    use std::vec::Vec;

    fn with<R>(text: &str, f: impl FnOnce(Result<&[Rule<'_>], Problem<'_>>) -> R) -> R {
        let mut room = Vec::new();
        room.resize_with(text.len() + 1, MaybeUninit::uninit);
        let tokens = tokens(text, &mut room).expect("enough room");
        let mut rules = [const { MaybeUninit::uninit() }; MOST_RULES];
        f(read(text, tokens, &mut rules))
    }

    fn wrong(text: &str) -> String {
        with(text, |result| result.expect_err(text).to_string())
    }

    const HEAD: &str = "version = 1\n";

    #[test]
    fn rules_are_read_in_order() {
        let text = r#"
            version = 1 # the first
            [[mutex]]
            symbol = "hot_lock"
            kind = "recursive"
            lock = "MCS-stp:spin=5"
            [[mutex]]
            at = 'libfoo.so+0x1234 /x/b+a+16-0x20'
            lock = "pthread"

            [[mutex]]
            lock = "auto""#;
        with(text, |rules| {
            let rules = rules.unwrap();
            let [first, second, last] = rules else { panic!("{rules:?}") };
            assert_eq!((first.line, first.symbol, first.kind), (3, Some("hot_lock"), Some(Kind::Recursive)));
            assert!(matches!(first.lock, Lock::Ours(named) if named.to_string() == "mcs_stp:spin=5"));
            assert!(!first.asks_for_callers() && second.asks_for_callers() && last.is_for_all());
            assert!(matches!(second.lock, Lock::Glibcs { adaptive: false }));
            let at: Vec<_> = places(second.at.unwrap()).collect();
            assert_eq!(at[0], Some(Place { module: "libfoo.so", begin: 0x1234, end: 0x1235 }));
            assert_eq!(at[1], Some(Place { module: "/x/b+a", begin: 16, end: 32 }));
        });
        with(HEAD, |rules| assert!(rules.unwrap().is_empty()));
        let chosen = format!("{HEAD}locks = 'cna  pthread'\n[[mutex]]\nlock = 'futex'");
        with(&chosen, |rules| {
            let texts: Vec<_> = rules.unwrap().iter().map(|rule| (rule.lock_text, rule.is_chosen)).collect();
            assert_eq!(texts, [("cna", true), ("pthread", true), ("futex", false)]);
        });
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, said) in [
            ("", "line 1: the profile does not say its version: begin it with 'version = 1'"),
            (
                "\nversion = 2",
                "line 2: the profile is of version 2, and this lockswap knows version 1: use a newer lockswap",
            ),
            ("version = '1'", "line 1: ''1'' is no version: write 'version = 1'"),
            (
                "version = 1\nrules = 5",
                "line 2: 'rules' is not known here; a rule has symbol function module at line kind lock",
            ),
            ("version = 1\n[mutex]", "line 2: 'mutex' is not known here: rules begin with '[[mutex]]'"),
            ("version = 1\n[[rwlock]]", "line 2: 'rwlock' is not known here: rules begin with '[[mutex]]'"),
        ] {
            assert_eq!(wrong(text), said);
        }
        assert_eq!(
            wrong("version = 1\nlocks = 'cna x'"),
            "line 2: there is no mutex lock 'x'; 'lockswap list' shows all"
        );
        for (rule, said) in [
            ("symbl = 'x'", "line 3: 'symbl' is not known here: did you mean 'symbol'?"),
            ("symbol = 5", "line 3: the value of symbol is no text: write symbol = \"...\""),
            ("symbol = ['x']", "line 3: the value of symbol is no text: write symbol = \"...\""),
            (r#"symbol = "a\tb""#, "line 3: the value of symbol has escapes, which are not read: write symbol = '...'"),
            ("symbol = ''\nlock = 'cna'", "line 2: symbol is empty, and no mutex is that: leave it out, or name one"),
            ("symbol = 'x'\nsymbol = 'y'", "line 2: symbol has two values in this rule: write two rules"),
            ("symbol = 'x'", "line 2: this rule gives no lock: add lock = \"...\""),
            (
                "lock = 'tickt'",
                "line 2: there is no mutex lock 'tickt'; did you mean 'ticket'? 'lockswap list' shows all",
            ),
            ("lock = 'cna:batch=5'", "line 2: lock = 'cna:batch=5': cna has no parameter 'batch'; it has threshold"),
            ("at = 'libfoo.so'", "line 2: at = 'libfoo.so' is not MODULE+OFFSET, for instance libfoo.so+0x1234"),
            ("line = 'x.c'", "line 2: line = 'x.c' is not FILE:LINE, for instance cache.cc:210"),
            ("kind = 'robust'", "line 2: there is no kind 'robust'; there is normal recursive errorcheck adaptive"),
            (
                "lock = 'cna'\n[[mutex]]\nsymbol = 'x'\nlock = 'mcs_stp'",
                "line 4: no mutex comes to this rule, because the one in line 2 takes all: put that last",
            ),
        ] {
            assert_eq!(wrong(&format!("{HEAD}[[mutex]]\n{rule}\n")), said);
        }
        assert!(wrong("version = 1\n[[mutex]]\nlock = \n").starts_with("line 3: not TOML: "));
        assert!(wrong(&(HEAD.to_string() + &"[[mutex]]\nsymbol = 'x'\nlock = 'cna'\n".repeat(257)))
            .contains("more than 256"));
    }

    #[test]
    fn parameters_of_a_process_have_one_value() {
        let said = |rules: &str, otherwise| {
            with(&format!("{HEAD}{rules}"), |rules| {
                let otherwise = named::read(Role::Mutex, otherwise).unwrap();
                clash(rules.unwrap(), &otherwise).map(|clash| clash.to_string())
            })
        };
        let two = "[[mutex]]\nsymbol = 'a'\nlock = 'cna:threshold=9'\n[[mutex]]\nlock = 'cna'\n";
        assert_eq!(
            said(two, "auto").unwrap(),
            "'cna' (line 5) and 'cna:threshold=9' (line 2) disagree on threshold, which has one value in a process: \
             give both the same threshold"
        );
        let one = "[[mutex]]\nsymbol = 'a'\nlock = 'cna:threshold=9'\n";
        assert!(said(one, "cna").unwrap().contains("the lock of all other mutexes"));
        assert_eq!(said(one, "auto"), None);
        assert_eq!(said(&two.replace("'cna'", "'cna:threshold=9'"), "cna"), None);
    }

    /// No text makes the reader fail in another way than by saying so.
    #[test]
    fn any_cut_of_a_profile_is_read_or_refused() {
        let text =
            "version = 1\n[[mutex]]\nsymbol = \"a\\u0041\"\nat = 'x+0x1-0x2'\nline = 'a:1'\nlock = {a=[1,2.5]}\n";
        for end in 0..text.len() {
            for begin in 0..end {
                with(&text[begin..end], |result| drop(result.map_err(|problem| problem.to_string())));
            }
        }
    }
}
