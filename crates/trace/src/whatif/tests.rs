use super::*;

fn facts(change: Change) -> Facts {
    Facts {
        command: vec!["program".into()],
        locks: Vec::new(),
        lock: "hot".into(),
        progress: "hot".into(),
        change,
        sections: 1_000,
        problems: Vec::new(),
    }
}

fn phase(progress: u64, shortened_ns: u64) -> Phase {
    Phase { duration_ns: 200_000_000, shortened_ns, sections: progress, sections_ns: progress * 1_000, progress }
}

#[test]
fn a_phase_counts_as_what_it_would_have_lasted() {
    let pair = Pair { as_it_is: phase(1_000, 0), changed: phase(900, 100_000_000) };
    let found = WhatIf::new(facts(Change::ShortenPercent(50.0)), &[pair; 8]);
    assert!((found.ratio.unwrap() - 1.8).abs() < 1e-9, "{found:?}");
    assert_eq!((found.rate, found.changed_rate, found.mean_section_ns), (Some(5_000.0), Some(9_000.0), Some(1_000.0)));
    let said = &found.page().conclusion[0];
    let expected =
        "With sections of hot 50 % shorter, the program would get through them 1.80 times as often (1.80 to 1.80 ";
    assert!(said.starts_with(expected), "{said}");
    // Sections that fill a phase and take no time at all leave nothing to divide by.
    let endless = Pair { changed: phase(900, 300_000_000), ..pair };
    assert!(WhatIf::new(facts(Change::ShortenPercent(100.0)), &[endless; 8]).ratio.unwrap().is_finite());
}

#[test]
fn too_few_phases_say_nothing() {
    let pair = Pair { as_it_is: phase(1_000, 0), changed: phase(500, 0) };
    let idle = Pair { changed: phase(0, 0), ..pair };
    let found = WhatIf::new(facts(Change::DelayNs(100)), &[pair, pair, pair, pair, pair, idle]);
    assert_eq!((found.pairs.len(), found.idle_pairs, found.interval), (5, 1, None));
    let said = &found.page().conclusion[0];
    assert!(said.contains("6 pairs") && said.contains("3 s") && said.contains("were 5"), "{said}");
    let enough = WhatIf::new(facts(Change::DelayNs(100)), &[pair; 6]);
    assert!(enough.page().conclusion[0].contains("100 ns longer, the program gets through them 0.50 times"));
}

#[test]
fn phases_come_in_pairs_and_leave_nothing_behind() {
    let file = SharedFile::create().unwrap();
    let name = Name::read("hot").unwrap();
    let plan = Plan { target: ("hot".into(), name), progress: None, change: Change::ShortenPercent(25.0) };
    let mut experiment = Experiment::new(&file, plan);
    let mut seen = Vec::new();
    for _ in 0..8 {
        experiment.next_phase();
        seen.push(experiment.is_changed);
        let word = whatif::Phase::of(file.get().phase.load(Ordering::Relaxed));
        assert_eq!(word.share, if experiment.is_changed { WHOLE / 4 } else { 0 });
        experiment.end_phase(phase(if experiment.is_changed { 2 } else { 1 }, 0));
    }
    assert!(seen.chunks(2).all(|pair| pair[0] != pair[1]), "{seen:?}");
    assert!(experiment.pairs.iter().all(|pair| pair.changed.progress == 2) && experiment.pairs.len() == 4);
    experiment.stop();
    assert_eq!(file.get().phase.load(Ordering::Relaxed), 0);
    let result = experiment.result(Vec::new(), Vec::new());
    assert!(
        result.facts.problems.iter().any(|problem| problem.starts_with("hot was not found")),
        "{:?}",
        result.facts.problems
    );
}

#[test]
fn what_runs_is_owed_as_it_goes_on() {
    use lockswap_records::whatif::Owed;
    // Two threads run sections from 100 and from 110 on; the first one ends at 130. All as shares.
    let word = AtomicU64::new(0);
    let sum = |time: u64| Owed::of(word.load(Ordering::Relaxed)).sum(time);
    let add = |change: u64| {
        word.fetch_add(change, Ordering::Relaxed);
    };
    add(Owed::begin(100));
    assert_eq!(Owed::difference(sum(107), 0), 7);
    add(Owed::begin(110));
    assert_eq!(Owed::difference(sum(120), 0), 30);
    add(Owed::end(130));
    assert_eq!((Owed::difference(sum(130), 0), Owed::difference(sum(140), sum(130))), (50, 10));
    add(Owed::end(140));
    assert!(Owed::of(word.load(Ordering::Relaxed)).is_still());
    assert_eq!(Owed::difference(sum(0), 0), 60);
}

#[test]
fn the_schema_is_published_and_describes_the_json() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/whatif.schema.json");
    let schema = schemars::generate::SchemaSettings::draft2020_12().for_serialize().into_generator();
    let text = serde_json::to_string_pretty(&schema.into_root_schema_for::<WhatIf>()).unwrap() + "\n";
    if std::env::var_os("LOCKSWAP_WRITE_DOCS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let published = std::fs::read_to_string(path).unwrap_or_default();
    assert!(published == text, "docs/whatif.schema.json is out of date: LOCKSWAP_WRITE_DOCS=1 writes it");
}
