//! Names of symbols as compilers write them, compared with names as people write them, without an allocation.
//!
//! A rule names a symbol as it stands in the symbol table (its linkage name), or as it stands in the source with its
//! namespaces and classes, and the function in which it lies: `kyotocabinet::CacheDB::open`, `tokio::runtime::park`,
//! `main::mutex`. Template arguments and parameters count in neither. What comes from a C++ compiler follows the
//! Itanium ABI (<https://itanium-cxx-abi.github.io/cxx-abi/abi.html>, section 5.1), of which the names of functions
//! and variables are read that have no operators or lambdas in them; those, and Rust's generic functions, are named by
//! their linkage names.

use core::fmt::{self, Write};

/// Whether the symbol called `symbol` is what a rule calls `wanted`.
pub fn is_called(symbol: &str, wanted: &str) -> bool {
    if symbol == wanted {
        return true;
    }
    // What compilers and linkers put behind a name: `.constprop.0`, `.cold`, `@@VERSION`.
    let symbol = symbol.split(['.', '@']).next().unwrap_or_default();
    if symbol == wanted {
        return true;
    }
    let mut rest = Rest(Plain::of(wanted));
    // Variables of C++ may look like Rust's names.
    if rustc_demangle::try_demangle(symbol).is_ok_and(|rust| write!(rest, "{rust:#}").is_ok()) && rest.is_at_end() {
        return true;
    }
    let mut rest = Rest(Plain::of(wanted));
    let is_same = symbol.strip_prefix("_Z").and_then(|name| match name.strip_prefix('Z') {
        Some(local) => Mangled(local.as_bytes()).local(&mut rest),
        None => Mangled(name.as_bytes()).name(&mut rest),
    });
    is_same.is_some() && rest.is_at_end()
}

/// What a person wrote, without template arguments and parameters.
#[derive(Clone)]
struct Plain<'a>(&'a str);

const ANONYMOUS: &str = "(anonymous namespace)";

impl<'a> Plain<'a> {
    fn of(wanted: &'a str) -> Self {
        Plain(wanted.trim())
    }
}

impl Iterator for Plain<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        if self.0.starts_with('<') {
            let mut depth = 0;
            let end = self.0.char_indices().find(|(_, char)| {
                depth += i32::from(*char == '<') - i32::from(*char == '>');
                depth == 0
            });
            self.0 = end.map_or("", |(at, _)| &self.0[at + 1..]);
            return self.next();
        }
        if self.0.starts_with('(') && !self.0.starts_with(ANONYMOUS) {
            self.0 = "";
        }
        let next = self.0.chars().next()?;
        // The anonymous namespace is passed on whole: what follows its first character is no parameter list.
        self.0 = &self.0[next.len_utf8()..];
        Some(next)
    }
}

/// What is left to be found of a wanted name.
struct Rest<'a>(Plain<'a>);

impl Rest<'_> {
    fn is_at_end(&self) -> bool {
        self.0.clone().next().is_none()
    }
}

impl Write for Rest<'_> {
    /// An error if something else is wanted. Template arguments of Rust's names count no more than those wanted.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|char| if self.0.next() == Some(char) { Ok(()) } else { Err(fmt::Error) })
    }
}

/// What follows in a mangled name.
#[derive(Clone, Copy)]
struct Mangled<'a>(&'a [u8]);

/// Types inside of types inside of types that are skipped at most.
const DEPTH: u32 = 24;

impl<'a> Mangled<'a> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn eat(&mut self, text: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    fn skip_while(&mut self, of: impl Fn(u8) -> bool) {
        let count = self.0.iter().take_while(|byte| of(**byte)).count();
        self.0 = &self.0[count..];
    }

    /// A name with its length before it.
    fn source_name(&mut self) -> Option<&'a str> {
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (length, rest) = self.0.split_at(digits);
        let length: usize = core::str::from_utf8(length).ok()?.parse().ok()?;
        let (name, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        core::str::from_utf8(name).ok()
    }

    /// The name of what lies in a function, behind that of the function, written to `rest`.
    fn local(&mut self, rest: &mut Rest<'_>) -> Option<()> {
        self.name(rest)?;
        self.skip_arguments(DEPTH)?;
        self.skip_to_end(DEPTH, Self::skip_type)?;
        rest.write_str("::").ok()?;
        rest.write_str(self.source_name()?).ok()
    }

    /// A name inside its namespaces and classes, written to `rest`.
    fn name(&mut self, rest: &mut Rest<'_>) -> Option<()> {
        let is_nested = self.eat(b"N").is_some();
        if is_nested {
            self.skip_while(|byte| b"rVKRO".contains(&byte));
        }
        let mut last = "";
        loop {
            let begin = |rest: &mut Rest<'_>| if last.is_empty() { Ok(()) } else { rest.write_str("::") };
            match self.peek()? {
                b'E' if is_nested && !last.is_empty() => return self.eat(b"E"),
                b'L' => self.eat(b"L")?,
                b'0'..=b'9' => {
                    begin(rest).ok()?;
                    last = match self.source_name()? {
                        name if name.starts_with("_GLOBAL__N") => ANONYMOUS,
                        name => name,
                    };
                    rest.write_str(last).ok()?;
                    if !is_nested {
                        return Some(());
                    }
                }
                b'S' if last.is_empty() => {
                    last = self.standard()?;
                    rest.write_str(last).ok()?;
                    if !is_nested {
                        rest.write_str("::").ok()?;
                        return rest.write_str(self.source_name()?).ok();
                    }
                }
                b'I' => self.skip_arguments(DEPTH)?,
                b'B' => {
                    self.eat(b"B")?;
                    self.source_name()?;
                }
                // A constructor, or a destructor.
                sort @ (b'C' | b'D') => {
                    self.0 = self.0.get(2..)?;
                    begin(rest).ok()?;
                    rest.write_str(if sort == b'D' { "~" } else { "" }).ok()?;
                    rest.write_str(last).ok()?;
                }
                _ => return None,
            }
        }
    }

    /// What an abbreviation stands for.
    fn standard(&mut self) -> Option<&'static str> {
        let known: [(&[u8], &str); 7] = [
            (b"St", "std"),
            (b"Sa", "std::allocator"),
            (b"Sb", "std::basic_string"),
            (b"Ss", "std::string"),
            (b"Si", "std::istream"),
            (b"So", "std::ostream"),
            (b"Sd", "std::iostream"),
        ];
        known.iter().find_map(|(short, long)| self.eat(short).map(|()| *long))
    }

    /// Skips template arguments, if some follow.
    fn skip_arguments(&mut self, depth: u32) -> Option<()> {
        if self.eat(b"I").is_none() {
            return Some(());
        }
        self.skip_to_end(depth, Self::skip_argument)
    }

    fn skip_to_end(&mut self, depth: u32, skip: fn(&mut Self, u32) -> Option<()>) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        while self.eat(b"E").is_none() {
            skip(self, depth)?;
        }
        Some(())
    }

    fn skip_argument(&mut self, depth: u32) -> Option<()> {
        match self.peek()? {
            b'L' => {
                self.eat(b"L")?;
                self.skip_type(depth)?;
                self.skip_while(|byte| byte != b'E');
                self.eat(b"E")
            }
            b'J' => {
                self.eat(b"J")?;
                self.skip_to_end(depth, Self::skip_argument)
            }
            _ => self.skip_type(depth),
        }
    }

    fn skip_type(&mut self, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.skip_while(|byte| b"rVKPROCG".contains(&byte));
        let first = self.peek()?;
        if first.is_ascii_digit() {
            self.source_name()?;
            return self.skip_arguments(depth);
        }
        self.0 = &self.0[1..];
        match first {
            b'u' => self.source_name().map(|_| ()),
            b'a'..=b'z' => Some(()),
            b'D' => {
                let sort = self.peek()?;
                self.0 = &self.0[1..];
                match sort {
                    b'p' => self.skip_type(depth),
                    b'd' | b'e' | b'f' | b'h' | b'i' | b's' | b'u' | b'a' | b'c' | b'n' => Some(()),
                    _ => None,
                }
            }
            b'F' => {
                let _ = self.eat(b"Y");
                self.skip_to_end(depth, Self::skip_type)
            }
            b'A' => {
                self.skip_while(|byte| byte.is_ascii_digit());
                self.eat(b"_")?;
                self.skip_type(depth)
            }
            b'M' => {
                self.skip_type(depth)?;
                self.skip_type(depth)
            }
            b'T' => {
                self.skip_while(|byte| byte.is_ascii_digit());
                self.eat(b"_")?;
                self.skip_arguments(depth)
            }
            b'S' => {
                if self.eat(b"t").is_some() {
                    self.source_name()?;
                } else if self.peek()?.is_ascii_lowercase() {
                    self.0 = &self.0[1..];
                } else {
                    self.skip_while(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
                    self.eat(b"_")?;
                }
                self.skip_arguments(depth)
            }
            b'N' => self.skip_to_end(depth, Self::skip_part),
            _ => None,
        }
    }

    /// Skips a part of a nested name.
    fn skip_part(&mut self, depth: u32) -> Option<()> {
        match self.peek()? {
            b'I' => self.skip_arguments(depth),
            b'S' if self.0.starts_with(b"St") => self.eat(b"St"),
            b'L' => self.eat(b"L"),
            _ => self.skip_type(depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_called;

    #[test]
    fn linkage_names_are_names() {
        assert!(
            is_called("hot_lock", "hot_lock")
                && !is_called("hot_lock", "hot_lock2")
                && !is_called("hot_lock2", "hot_lock")
        );
        assert!(is_called("handle.constprop.0", "handle") && is_called("handle.constprop.0", "handle.constprop.0"));
        assert!(is_called("pthread_atfork@@GLIBC_2.2.5", "pthread_atfork"));
        assert!(!is_called("", "hot_lock") && !is_called("_Z", "hot_lock") && !is_called("_ZN", "x"));
    }

    #[test]
    fn names_of_cpp() {
        let open = "_ZN12kyotocabinet7CacheDB4openERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEj";
        assert!(is_called(open, "kyotocabinet::CacheDB::open") && is_called(open, open));
        assert!(is_called(open, "kyotocabinet::CacheDB::open(std::string const&, unsigned int)"));
        for other in ["CacheDB::open", "kyotocabinet::CacheDB", "kyotocabinet::CacheDB::open::more", "open"] {
            assert!(!is_called(open, other), "{other}");
        }
        for (symbol, name) in [
            ("_Z6handlei", "handle"),
            ("_ZL8counters", "counters"),
            ("_ZN12_GLOBAL__N_15mutexE", "(anonymous namespace)::mutex"),
            ("_ZN3app12_GLOBAL__N_15mutexE", "app::(anonymous namespace)::mutex"),
            ("_ZN7rocksdb4port5MutexC1Eb", "rocksdb::port::Mutex::Mutex"),
            ("_ZN7rocksdb4port5MutexD2Ev", "rocksdb::port::Mutex::~Mutex"),
            ("_ZNK7rocksdb6DBImpl4NameB5cxx11Ev", "rocksdb::DBImpl::Name"),
            ("_ZNSt5mutex4lockEv", "std::mutex::lock"),
            ("_ZSt4swapIiEvRT_S1_", "std::swap"),
            ("_ZN12kyotocabinet7PlantDBINS_7CacheDBELh33EE4openERKi", "kyotocabinet::PlantDB::open"),
            (
                "_ZN12kyotocabinet7PlantDBINS_7CacheDBELh33EE4openERKi",
                "kyotocabinet::PlantDB<kyotocabinet::CacheDB, (unsigned char)33>::open",
            ),
            ("_ZN1aI1bIPKcJiSt4pairIiNS_1cEEFvvEEEE1dE", "a::d"),
            ("_ZN3foo3barILi10EEEvv.part.0", "foo::bar"),
            ("_ZZ4mainE5mutex", "main::mutex"),
            ("_ZZ3fooPKcSt4pairIiiEE1m_0", "foo::m"),
            ("_ZZN3app5Cache4openILi3EEEvvE1m", "app::Cache::open::m"),
            ("_ZZ3barIiEvT_E1m", "bar::m"),
        ] {
            assert!(is_called(symbol, name), "{symbol} {name}");
        }
        assert!(!is_called("_ZZ3foovE1m", "foo") && !is_called("_ZZ3foovE1m", "m") && !is_called("_ZZ3foov", "foo"));
        // An operator, and what lies in a lambda: by their linkage names only.
        assert!(!is_called("_ZN3fooclEv", "foo::operator()") && !is_called("_ZZ4mainENKUlvE_clEv", "main"));
    }

    #[test]
    fn names_of_rust() {
        assert!(is_called("_ZN4core5slice4sort4heap17h0123456789abcdefE", "core::slice::sort::heap"));
        assert!(is_called("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"));
        assert!(!is_called("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo"));
    }
}
