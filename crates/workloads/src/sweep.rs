//! Lists of values: a workload with each of them.

use crate::invalid::Invalid;
use crate::workload::Workload;

/// What sets each workload apart, `KEY=VALUE`, and the workload.
pub type Variants = Vec<(String, Workload)>;

/// `workload` with each combination of the `settings`, of which some are lists; the keys of those.
///
/// # Errors
/// There is no such key, or it cannot have that value.
pub fn sweep(workload: &Workload, settings: &[(String, String)]) -> Result<(Vec<String>, Variants), Invalid> {
    let mut swept = Vec::new();
    let mut found = vec![(String::new(), workload.clone())];
    for (key, value) in settings {
        let values: Vec<&str> = if workload.is_list(key) { vec![value] } else { value.split(',').collect() };
        if values.len() > 1 && !swept.contains(key) {
            swept.push(key.clone());
        }
        let mut next = Vec::new();
        for (name, workload) in &found {
            for value in &values {
                let (mut name, mut workload) = (name.clone(), workload.clone());
                workload.set(key, value)?;
                if values.len() > 1 {
                    name += &format!("{}{key}={value}", if name.is_empty() { "" } else { ", " });
                }
                if next.iter().all(|(_, known)| *known != workload) {
                    next.push((name, workload));
                }
            }
        }
        found = next;
    }
    Ok((swept, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_values_are_combined_and_each_combination_comes_once() {
        let workload = Workload::named("epochs").expect("epochs");
        let settings = [("between", "0,10,0"), ("sections", "2,3"), ("slo", "5us,6us")];
        let (swept, found) =
            sweep(&workload, &settings.map(|(key, value)| (key.to_owned(), value.to_owned()))).unwrap();
        assert_eq!(swept, ["between", "slo"]);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        let expected = ["between=0, slo=5us", "between=0, slo=6us", "between=10, slo=5us", "between=10, slo=6us"];
        assert_eq!(names, expected);
        assert_eq!((found[3].1.number("between"), found[3].1.number("slo")), (Some(10.0), Some(6000.0)));
        let one = sweep(&workload, &[("sections".to_owned(), "2,3".to_owned())]).unwrap();
        assert_eq!((one.0.len(), one.1.len(), one.1[0].0.as_str()), (0, 1, ""));
        assert!(sweep(&workload, &[("between".to_owned(), "1,x".to_owned())]).is_err());
    }
}
