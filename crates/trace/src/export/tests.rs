//! Each form is read back.

use std::io::Read;

use lockswap_records::trace::{Event, Kind};
use prost::Message;

use super::*;
use crate::names::Frame;
use crate::report::{Facts, ObjectReport, StackPair, ThreadPair, Times};

fn frame(function: &str, line: u32) -> Frame {
    let (file, module) = (Some("/src/queue.c".into()), Some("libqueue.so".into()));
    Frame { function: function.into(), file, line: Some(line), module, ..Frame::default() }
}

/// A mutex for which `push` waited 3 ms, 2 ms of it because of `slow;section`.
pub(crate) fn report() -> Report {
    let stack = |functions: &[(&str, u32)], waited_ns| StackReport {
        frames: functions.iter().map(|(name, line)| frame(name, *line)).collect(),
        count: 4.0,
        waited_ns,
        held_ns: 5_000_000.0,
    };
    let wait =
        Times { count: 4.0, noted: 2, total_ns: 3e6, total_error_ns: 3e5, max_ns: 2_000_000, ..Times::default() };
    let gathered = Gathered::new(false);
    let facts = Facts { command: vec!["./server".into(), "<x>".into()], ..Facts::default() };
    let mut report = Report::new(&gathered, facts);
    let mut object: ObjectReport = ObjectReport {
        name: "queue_lock".into(),
        used: "mutex",
        module: Some("server".into()),
        identity: Default::default(),
        objects: 1,
        users: 2,
        think_ns: 1e3,
        acquisitions: Default::default(),
        contended: Some(0.25),
        wait,
        slept: 0.5,
        failed: 0.0,
        hold: Times { count: 16.0, noted: 4, total_ns: 8e6, p50_ns: 1e6, p99_ns: 1e6, max_ns: 9, ..Times::default() },
        holder_slept: 0.5,
        holder_preempted: 0.0,
        longest_queue: 1,
        handed: Times::default(),
        changed_owner: 0.0,
        changed_cpu: 0.0,
        changed_node: 0.0,
        charged_ns: 2.5e6,
        waiters: vec![stack(&[("push", 7), ("main", 30)], 3e6)],
        holders: vec![stack(&[("slow;section", 12), ("worker", 20), ("start_thread", 1)], 2e6)],
        stacks: vec![StackPair { waiter: 0, holder: 0, waited_ns: 2e6 }],
        threads: vec![ThreadPair { waiter: "main".into(), holder: "worker".into(), waited_ns: 2e6 }],
    };
    object.holders.push(StackReport { waited_ns: 5e5, ..StackReport::default() });
    report.objects.push(object);
    report
}

#[test]
fn names_of_files_say_the_form() {
    let form = |name: &str| Form::of(Path::new(name));
    assert_eq!(form("a.profile.json"), Some(Form::Firefox));
    assert_eq!(
        (form("a.JSON"), form("b/a.pb.gz"), form("a.html")),
        (Some(Form::Json), Some(Form::Pprof), Some(Form::Html))
    );
    assert_eq!((form("a.gz"), form("json"), form("..")), (None, None, None));
}

#[test]
fn folded_stacks_begin_with_the_lock_and_end_with_the_time() {
    let lines = folded(&report(), Side::Holders);
    assert_eq!(
        lines,
        "queue_lock (mutex);start_thread;worker;slow:section 2000000\nqueue_lock (mutex);[no stack] 500000\n"
    );
    assert_eq!(folded(&report(), Side::Waiters), "queue_lock (mutex);main;push 3000000\n");
}

#[test]
fn flame_graphs_are_xml_with_the_functions_in_it() {
    for (side, function) in [(Side::Holders, "slow:section (2,000,000 ns"), (Side::Waiters, "push (3,000,000 ns")] {
        let svg = render(Form::Svg, side, &report(), &Gathered::new(false)).unwrap();
        let text = String::from_utf8(svg).unwrap();
        let mut reader = quick_xml::Reader::from_str(&text);
        let mut rectangles = 0;
        loop {
            match reader.read_event().unwrap() {
                quick_xml::events::Event::Eof => break,
                quick_xml::events::Event::Empty(tag) if tag.name().as_ref() == b"rect" => rectangles += 1,
                _ => {}
            }
        }
        assert!(rectangles > 3 && text.contains(function), "{text}");
    }
    let empty = Report { objects: Vec::new(), ..report() };
    let svg = render(Form::Svg, Side::Holders, &empty, &Gathered::new(false)).unwrap();
    assert!(String::from_utf8(svg).unwrap().contains("nobody was seen waiting"));
}

#[test]
fn json_has_everything() {
    let bytes = render(Form::Json, Side::Holders, &report(), &Gathered::new(false)).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let object = &json["objects"][0];
    assert_eq!((&json["schema"], &object["name"]), (&1.into(), &"queue_lock".into()));
    assert_eq!(object["holders"][0]["frames"][0]["function"], "slow;section");
    assert_eq!((&object["stacks"][0]["waited_ns"], &object["wait"]["noted"]), (&2e6.into(), &2.into()));
}

#[test]
fn pprof_reads_what_was_written() {
    let bytes = render(Form::Pprof, Side::Holders, &report(), &Gathered::new(false)).unwrap();
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&*bytes).read_to_end(&mut plain).unwrap();
    let profile = pprof::Profile::decode(&*plain).unwrap();
    let string = |index: i64| profile.string_table[index as usize].as_str();
    assert_eq!(string(0), "");
    let types: Vec<(&str, &str)> = profile.sample_type.iter().map(|t| (string(t.r#type), string(t.unit))).collect();
    assert_eq!(types, [("contentions", "count"), ("delay", "nanoseconds")]);
    let sample = &profile.sample[0];
    assert_eq!(sample.value, [4, 2_000_000]);
    let functions: Vec<(&str, &str, i64)> = sample
        .location_id
        .iter()
        .map(|id| {
            let line = &profile.location.iter().find(|location| location.id == *id).unwrap().line[0];
            let function = profile.function.iter().find(|function| function.id == line.function_id).unwrap();
            (string(function.name), string(function.filename), line.line)
        })
        .collect();
    let file = "/src/queue.c";
    assert_eq!(functions, [("slow;section", file, 12), ("worker", file, 20), ("start_thread", file, 1)]);
    let files: Vec<&str> = profile.mapping.iter().map(|mapping| string(mapping.filename)).collect();
    let of_first = profile.location.iter().find(|location| location.id == sample.location_id[0]).unwrap().mapping_id;
    assert_eq!((files, of_first), (vec!["server", "libqueue.so"], 2));
    let labels: Vec<(&str, &str)> = sample.label.iter().map(|label| (string(label.key), string(label.str))).collect();
    assert_eq!(labels, [("lock", "queue_lock"), ("use", "mutex")]);
}

#[test]
fn the_time_line_has_a_marker_for_each_event() {
    let mut gathered = Gathered::new(true);
    let own = Event { process: std::process::id(), object: 8, weight: 1, ..Event::default() };
    let event = |thread, begin| Event { thread, begin, length: 500, ..own };
    gathered.take(Kind::Wait, &event(7, 1_000), &[]);
    gathered.take(Kind::Hold, &event(8, 1_200), &[]);
    gathered.take(Kind::Wait, &event(7, 2_000), &[]);
    let report = Report::new(&gathered, Facts::default());
    let bytes = render(Form::Firefox, Side::Holders, &report, &gathered).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert!(json["meta"]["version"].is_number() && json["meta"]["symbolicated"] == true, "{}", json["meta"]);
    let threads = json["threads"].as_array().unwrap();
    let markers: Vec<u64> = threads.iter().map(|thread| thread["markers"]["length"].as_u64().unwrap()).collect();
    assert_eq!((threads.len(), markers), (2, vec![2, 1]));
    assert_eq!(threads[0]["markers"]["endTime"][0], 0.0005);
}

#[test]
fn the_page_names_the_lock_and_its_worst_holder() {
    let whole = page(&report(), Extent::Whole);
    let html = whole.html();
    for part in
        ["queue_lock in server", "slow;section (queue.c:12)", "<img alt=\"Flame graph", "./server &lt;x&gt;", "+-10 %"]
    {
        assert!(html.contains(part), "{part}: {html}");
    }
    let worst = page(&report(), Extent::Worst(1));
    assert!(worst.conclusion[1].contains("its holder in slow;section (queue.c:12)"), "{:?}", worst.conclusion);
    assert!(worst.conclusion[1].contains("80 %"), "{:?}", worst.conclusion);
    let table = &worst.tables[0];
    assert_eq!(table.rows[0].cells.len(), table.columns.len());
    assert!(table.columns.len() < whole.tables[0].columns.len() && worst.pictures.is_empty());
    let nothing = page(&Report { objects: Vec::new(), ..report() }, Extent::Worst(1));
    assert!(nothing.tables.is_empty() && nothing.conclusion[0].contains("No lock"), "{:?}", nothing.conclusion);
}

#[test]
fn the_schema_is_published_and_describes_the_json() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/trace.schema.json");
    let schema = schemars::generate::SchemaSettings::draft2020_12().for_serialize().into_generator();
    let schema = schema.into_root_schema_for::<Report>();
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    if std::env::var_os("LOCKSWAP_WRITE_DOCS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let published = std::fs::read_to_string(path).unwrap_or_default();
    assert!(published == text, "docs/trace.schema.json is out of date: LOCKSWAP_WRITE_DOCS=1 writes it");
    for name in ["objects", "still_waiting", "acquisitions", "waited_ns"] {
        assert!(text.contains(&format!("\"{name}\"")), "{name}");
    }
}
