//! Finding a number in a program's output.

use regex_lite::{Regex, RegexBuilder};

/// What finds a number in the output: a regular expression that captures it, or its place in JSON.
#[derive(Clone, Debug)]
pub struct Metric {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Regex(Regex),
    /// A JSON pointer (RFC 6901).
    Json(String),
}

/// The longest expression, in bytes, and the most groups that it may have: a search takes time in proportion to the
/// first, and memory in proportion to their product, for each byte of the output.
const LONGEST: usize = 4096;
const MOST_GROUPS: usize = 64;

/// What a compiled expression may take, in bytes: `(a{1000}){1000}` is short, too.
const LARGEST: usize = 1 << 20;

impl Metric {
    /// Compiles the expression. The number is what its first capture group that took part holds, or the whole match
    /// where there is none. An expression that is not well formed or too large is an error, which says so.
    pub fn new(expression: &str) -> Result<Self, String> {
        if expression.len() > LONGEST {
            return Err(format!("it has {} bytes, at most {LONGEST} are allowed", expression.len()));
        }
        // `^` and `$` mean lines: a program's output is one number on some line.
        let mut builder = RegexBuilder::new(expression);
        let regex = builder.multi_line(true).size_limit(LARGEST).build().map_err(|e| e.to_string())?;
        let groups = regex.captures_len() - 1;
        if groups > MOST_GROUPS {
            return Err(format!(
                "it has {groups} groups, at most {MOST_GROUPS} are allowed: (?:...) groups without one"
            ));
        }
        Ok(Self { kind: Kind::Regex(regex) })
    }

    /// The number at a place such as `jobs.0.write.iops` in the output, which is JSON, or in its last line that is.
    pub fn json(path: &str) -> Self {
        let escaped = path.replace('~', "~0").replace('/', "~1");
        Self { kind: Kind::Json(format!("/{}", escaped.replace('.', "/"))) }
    }

    /// The name of its first named group: `p99` of `(?<p99>[0-9.]+)`.
    pub fn name(&self) -> Option<&str> {
        match &self.kind {
            Kind::Regex(regex) => regex.capture_names().flatten().next(),
            Kind::Json(_) => None,
        }
    }

    /// What the last match captured, where that is not a number.
    pub fn not_a_number(&self, text: &str) -> Option<String> {
        let found = self.text(text)?;
        number(&found).is_none().then(|| found.chars().take(40).collect())
    }

    /// The number of the last match in `text`, or `None` where nothing matches or what matches is not a number.
    /// The last one, because programs print intermediate figures first.
    pub fn find(&self, text: &str) -> Option<f64> {
        number(&self.text(text)?)
    }

    /// What stands where the number is wanted.
    fn text(&self, text: &str) -> Option<String> {
        match &self.kind {
            Kind::Regex(regex) => {
                let last = regex.captures_iter(text).last()?;
                let group = (1..last.len()).find_map(|i| last.get(i));
                Some(group.or_else(|| last.get(0))?.as_str().to_owned())
            }
            Kind::Json(pointer) => {
                let place = |text: &str| -> Option<String> {
                    let value: serde_json::Value = serde_json::from_str(text).ok()?;
                    let found = value.pointer(pointer)?;
                    Some(found.as_str().map_or_else(|| found.to_string(), str::to_owned))
                };
                place(text).or_else(|| text.lines().rev().find_map(place))
            }
        }
    }
}

/// Reads a number, also one with thousands separators as in `1,234,567.8`.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = if text.contains(',') { without_separators(text)? } else { text.to_owned() };
    plain.parse().ok().filter(|v: &f64| v.is_finite())
}

fn without_separators(text: &str) -> Option<String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut groups = whole.split(',');
    let first = groups.next()?.trim_start_matches(['-', '+']);
    let digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let well_formed = (1..=3).contains(&first.len()) && digits(first) && groups.all(|g| g.len() == 3 && digits(g));
    well_formed.then(|| format!("{}.{fraction}", whole.replace(',', "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(expression: &str, text: &str) -> Option<f64> {
        Metric::new(expression).unwrap().find(text)
    }

    #[test]
    fn the_first_group_of_the_last_match_counts() {
        let text = "ops/s: 10.5\nops/s: 99.25 (final)\nlatency 3 ms\n";
        assert_eq!(find(r"ops/s: ([\d.]+)", text), Some(99.25));
        assert_eq!(find(r"\d+ ms", text), None, "'3 ms' is not a number");
        assert_eq!(find(r"\d+", text), Some(3.0), "no group: the whole match");
        assert_eq!(find("no such (.*)", text), None);
    }

    #[test]
    fn names_and_what_is_no_number() {
        let metric = Metric::new("p99=(?<p99>[^ ]+)").unwrap();
        assert_eq!(metric.name(), Some("p99"));
        assert_eq!(metric.not_a_number("p99=low p99=high x").as_deref(), Some("high"));
        assert_eq!((metric.not_a_number("p99=5"), metric.not_a_number("none")), (None, None));
    }

    #[test]
    fn lines_and_number_forms() {
        assert_eq!(find(r"^total\s+(\S+)$", "x\ntotal 1,234,567.5\ny"), Some(1_234_567.5));
        assert_eq!(find(r"v=(\S+)", "v=1e3"), Some(1000.0));
        assert_eq!(find(r"v=(\S+)", "v=-0.5"), Some(-0.5));
        assert_eq!(find(r"v=(\S+)", "v=1,2"), None, "a decimal comma is not guessed at");
        assert_eq!(find(r"v=(\S+)", "v=nan"), None);
        assert_eq!(find(r"v=(\S+)", "v=1,e12"), None, "letters are no group of thousands");
        assert_eq!(find(r"v=(\S+)", "v=1e,123"), None);
        assert_eq!(find("a=(1)|b=(2)", "b=2"), Some(2.0), "the first group took no part");
    }

    #[test]
    fn numbers_in_json() {
        let metric = Metric::json("jobs.0.write.iops");
        let json = r#"{"jobs": [{"write": {"iops": 12.5}}], "a/b": "7"}"#;
        assert_eq!(metric.find(json), Some(12.5));
        assert_eq!(metric.find(&format!("fio-3\n{{\"x\": 1}}\n{json}\nend")), Some(12.5), "the last line that has it");
        assert_eq!(Metric::json("a/b").find(json), Some(7.0));
        assert_eq!((Metric::json("jobs.1").find(json), metric.find("no json")), (None, None));
        assert_eq!(Metric::json("jobs.0.write").not_a_number(json).as_deref(), Some("{\"iops\":12.5}"));
    }

    #[test]
    fn a_broken_expression_is_an_error() {
        assert!(Metric::new("(").is_err());
        assert!(Metric::new("a)|(b").is_err(), "no group is open where one is closed");
        assert!(Metric::new(&"a".repeat(5000)).unwrap_err().starts_with("it has 5000 bytes"));
        assert!(Metric::new(&"(a)".repeat(65)).unwrap_err().starts_with("it has 65 groups"));
        assert!(Metric::new(&"(a)".repeat(64)).is_ok() && Metric::new(&"(?:a)".repeat(65)).is_ok());
        assert!(Metric::new("(a{1000}){1000}").is_err());
        assert_eq!(find("(?x) v = (\\d+) # a remark", "v=5"), Some(5.0), "a remark ends with the expression");
    }
}
