//! What the source of a lock says about it: the text at the top of its file, in which every lock has its picture, its
//! properties, and how it deviates from what was published.

use lockswap_locks::registry::Entry;

/// The texts by the names of their files inside `crates/locks/src`, without `.rs`.
static HEADERS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/headers.rs"));

/// The text at the top of the lock's source; nothing for glibc's.
fn header(entry: &Entry) -> Option<&'static str> {
    let name = entry.source().collect::<Vec<_>>().join("/");
    HEADERS.iter().find(|(file, _)| *file == name).map(|(_, text)| *text)
}

/// What it says, as Markdown.
pub fn page(entry: &Entry) -> Option<String> {
    let mut text = String::new();
    let mut in_picture = false;
    for line in header(entry)?.lines() {
        let drawn =
            line.starts_with("  ") && !line.trim_start().starts_with("- ") && !continues_item(&text, in_picture);
        if drawn != in_picture && !(in_picture && line.is_empty()) {
            text += if in_picture { "```\n\n" } else { "```\n" };
            in_picture = drawn;
        }
        text += &if in_picture { line.to_owned() } else { without_links(line) };
        text.push('\n');
    }
    if in_picture {
        text += "```\n";
    }
    Some(text.replace("\n\n```\n\n", "\n```\n\n"))
}

/// Whether an indented line goes on with an item of a list.
fn continues_item(text: &str, in_picture: bool) -> bool {
    let last = text.lines().next_back().unwrap_or_default();
    !in_picture && (last.trim_start().starts_with("- ") || last.starts_with("  "))
}

/// The line without what only rustdoc follows.
fn without_links(line: &str) -> String {
    line.replace("[`", "`").replace("`]", "`").replace("`super::", "`")
}

/// How the lock deviates from what was published, in lines; nothing if its source names no deviation.
pub fn deviations(entry: &Entry) -> Option<String> {
    let text = header(entry)?;
    let begin = ["Deviation", "Not published"].iter().filter_map(|word| text.find(word)).min()?;
    Some(text[begin..].trim().lines().map(without_links).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockswap_locks::registry::{find, Role, ENTRIES};

    #[test]
    fn every_lock_of_ours_has_a_text_with_a_picture() {
        for entry in ENTRIES.iter().filter(|entry| !entry.path.is_empty()) {
            let text = page(entry).unwrap_or_else(|| panic!("{} has no source", entry.info.id));
            assert_eq!(text.matches("```\n").count() % 2, 0, "{}:\n{text}", entry.info.id);
            assert!(text.contains("```\n"), "{} has no picture:\n{text}", entry.info.id);
        }
    }

    #[test]
    fn deviations_are_those_of_the_source() {
        let of = |id| deviations(find(Role::Mutex, id).unwrap());
        assert!(of("clh_spin").unwrap().starts_with("Deviations. A node does not migrate"));
        assert!(of("mcs_stp-barging").is_some());
        assert_eq!(of("ttas").map(|text| text.contains("\n\n")), Some(false));
        assert_eq!((of("k42"), of("pthread")), (None, None));
    }
}
