//! Files that describe machines for the simulator, and changes of them.

use lockswap_fuzz::{mutated, reading, run, text, MIB};
use lockswap_sim::{Failure, Invalid, Job, Machine, Stuck, Workload};

fn is_refused_well(error: &Invalid) {
    assert!(!error.what.is_empty() && !error.remedy.is_empty());
    assert!(error.what.chars().count() < 3000, "{}", error.what.len());
    assert!(!error.what.chars().any(|character| character.is_control() && character != '\n'), "{:?}", error.what);
}

fn machine_file(input: &[u8]) {
    let text = text(input);
    match reading(input, 2 * MIB, || Machine::parse("file", &text, &[])) {
        Ok(machine) => {
            let mut order = machine.placement().to_vec();
            order.sort_unstable();
            assert!(order.iter().copied().eq(0..machine.cpu_count() as u32));
            assert!(machine.step_ns() > 0.0 && !machine.title.chars().any(char::is_control));
            comes_to_an_end(&machine);
        }
        Err(error) => {
            assert!(error.what.starts_with("file: "), "{error}");
            is_refused_well(&error);
        }
    }
}

/// A short run comes to an end, however long or short what the machine does takes: it may be late.
fn comes_to_an_end(machine: &Machine) {
    let workload = Workload::named("counter").expect("a name").with(4, 2_000);
    match (Job { machine, workload, lock: "mcs_stp", seed: 1 }).run() {
        Ok(_) | Err(Failure::Stuck(Stuck::Late(_))) => {}
        Err(other) => panic!("{other:?}"),
    }
}

fn machine_change(input: &[u8]) {
    let text = text(input);
    let (key, value) = text.split_once('=').unwrap_or((&text, ""));
    let change = [(key.to_owned(), value.to_owned())];
    for id in ["apple-m1", "xeon-8s192c"] {
        if let Err(error) = reading(input, 2 * MIB, || Machine::built_in(id, &change)) {
            is_refused_well(&error);
        }
    }
}

lockswap_fuzz::tests!(machine_file, 16, super::machine_file);
lockswap_fuzz::tests!(machine_change, 8, super::machine_change);

#[test]
fn changes_of_files() {
    run((mutated("machine_file"), mutated("machine_change")), 8, file!(), |(file, change)| {
        let change = text(change);
        let (key, value) = change.split_once('=').unwrap_or((&change, ""));
        let _ = Machine::parse("file", &text(file), &[(key.to_owned(), value.to_owned())]);
    });
}
