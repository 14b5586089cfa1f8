//! Which objects of a program a name stands for.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use lockswap_locks::nearest::nearest;
use lockswap_records::whatif::{Objects, Process};

use crate::image::DataSymbol;
use crate::names::Names;
use crate::process::Processes;

/// The name of a lock as tables have it, `hot`, `queue+0x40`, or that of the function that initialises it,
/// `make_queue`; with the name of a file before it, `libqueue.so:hot`, only what lies in that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    file: Option<String>,
    symbol: String,
    /// The place in the variable; nothing: all that is in it.
    offset: Option<u64>,
}

impl Name {
    /// Reads a name; nothing where it is empty.
    pub fn read(text: &str) -> Option<Self> {
        // `queue::lock` is a name in a namespace.
        let parts = text.split_once(':').filter(|(file, rest)| !file.is_empty() && !rest.starts_with(':'));
        let (file, rest) = parts.map_or((None, text), |(file, rest)| (Some(file.to_owned()), rest));
        let offset = |text: &str| u64::from_str_radix(text, 16).ok();
        let parts = rest.rsplit_once("+0x").and_then(|(symbol, text)| Some((symbol, offset(text)?)));
        let (symbol, offset) = parts.map_or((rest, None), |(symbol, offset)| (symbol, Some(offset)));
        (!symbol.is_empty()).then(|| Self { file, symbol: symbol.to_owned(), offset })
    }

    fn is_in(&self, file: &str) -> bool {
        self.file.as_ref().is_none_or(|own| own == file)
    }

    /// Whether a function, with or without its parameters, has this name.
    fn is_function(&self, function: &str) -> bool {
        let rest = function.strip_prefix(self.symbol.as_str());
        self.offset.is_none() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('('))
    }
}

/// What is known of the programs' names.
#[derive(Default)]
pub struct Places {
    processes: Processes,
    variables: HashMap<u32, Arc<[DataSymbol]>>,
    /// The functions in which a process initialises objects, with their files, by the return addresses of these calls.
    births: HashMap<(u32, u64), Vec<(String, String)>>,
}

impl Places {
    /// Reads anew what is mapped into a process, and where it has initialised objects.
    pub fn look_at(&mut self, process: &Process) {
        // Relaxed, both: numbers that never change once they are there.
        let number = process.number.load(Ordering::Relaxed);
        if number == 0 {
            return;
        }
        self.processes.look_at(number);
        let births = process.births.iter().map(|birth| birth.load(Ordering::Relaxed));
        let new: Vec<u64> =
            births.filter(|birth| *birth != 0 && !self.births.contains_key(&(number, *birth))).collect();
        if new.is_empty() {
            return;
        }
        // The call lies before the address that it returns to.
        let places: Vec<_> = new.iter().map(|birth| self.processes.place(number, birth - 1)).collect();
        let names = Names::new(&self.processes.images);
        for (birth, place) in new.iter().zip(places) {
            let file = self.processes.images.get(place.image).map(|image| image.name()).unwrap_or_default();
            // As in tables, where the innermost one names the lock.
            let function = names.stack(&[place]).first().map(|frame| (frame.function.clone(), file));
            self.births.insert((number, *birth), function.into_iter().collect());
        }
    }

    /// Adds what a name stands for in a process to `objects`; whether all of it had room.
    pub fn add(&mut self, process: &Process, name: &Name, objects: &Objects) -> bool {
        let number = process.number.load(Ordering::Relaxed);
        let mut had_room = true;
        for (image, bias) in self.processes.loaded(number) {
            let Some(file) = self.processes.images.get(image).filter(|file| name.is_in(&file.name())) else { continue };
            let variables = Arc::clone(self.variables.entry(image).or_insert_with(|| file.data_symbols().into()));
            for variable in variables.iter().filter(|variable| variable.name == name.symbol) {
                let begin = variable.address.wrapping_add(bias).wrapping_add(name.offset.unwrap_or_default());
                let length = if name.offset.is_some() { 1 } else { variable.size.max(1) };
                had_room &= objects.add_range(begin, begin + length);
            }
        }
        let births = self.births.iter().filter(|((process, _), _)| *process == number);
        for ((_, birth), functions) in births {
            if functions.iter().any(|(function, file)| name.is_in(file) && name.is_function(function)) {
                had_room &= objects.add_birth(*birth);
            }
        }
        had_room
    }

    /// Names like this one, as a question; empty where there are none.
    pub fn like(&self, name: &Name) -> String {
        let variables = self.variables.values().flat_map(|variables| variables.iter().map(|found| found.name.as_str()));
        let functions = self.births.values().flatten().map(|(function, _)| function.as_str());
        nearest(&name.symbol, functions.chain(variables)).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        let name = |file: Option<&str>, symbol: &str, offset| {
            Some(Name { file: file.map(str::to_owned), symbol: symbol.to_owned(), offset })
        };
        for (text, expected) in [
            ("hot", name(None, "hot", None)),
            ("queue+0x40", name(None, "queue", Some(0x40))),
            ("queue+0xyz", name(None, "queue+0xyz", None)),
            ("pool::lock", name(None, "pool::lock", None)),
            ("libpool.so.1:pool::lock+0x8", name(Some("libpool.so.1"), "pool::lock", Some(8))),
            ("f(int)::lock", name(None, "f(int)::lock", None)),
            ("", None),
            ("lib.so:", None),
            ("+0x8", None),
        ] {
            assert_eq!(Name::read(text), expected, "{text}");
        }
        let make = Name::read("make").unwrap();
        assert!(make.is_function("make") && make.is_function("make(int)") && !make.is_function("make_queue"));
    }
}
