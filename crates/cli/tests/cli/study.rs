//! `lockswap study import` and `report`: a survey from data to tables and pages.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lockswap_e2e::{file, need};

use crate::{text, Place};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/litl").join(name)
}

/// LiTL's published data of these machines, unpacked; nothing where the test is skipped.
fn unpacked(place: &Place, machines: &[&str]) -> Option<Vec<String>> {
    let xz = need("xz", "xz-utils")?;
    let unpack = |machine: &&str| {
        let output = Command::new(&xz).arg("-dc").arg(data(&format!("{machine}.csv.xz"))).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        fs::write(place.path(&format!("{machine}.csv")), output.stdout).unwrap();
        format!("{machine}.csv")
    };
    Some(machines.iter().map(unpack).collect())
}

pub fn succeed(place: &Place, args: &[&str]) -> String {
    let output = place.output(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn import(place: &Place, machines: &[&str]) -> Option<String> {
    let files = unpacked(place, machines)?;
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    Some(succeed(place, &[&["study", "import", "litl"], &files[..], &["--db", "s.db"]].concat()))
}

/// Numbers from CSV, by table, row and column, of which the first is in this field.
pub fn numbers(csv: &str, first: usize) -> BTreeMap<[String; 3], f64> {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let records = reader.records().map(Result::unwrap);
    records.map(|r| ([0, 1, 2].map(|field| r[first + field].to_owned()), r[first + 3].parse().unwrap())).collect()
}

#[test]
fn pandas_computes_the_same_tables_from_published_data() {
    let place = Place::new();
    let Some(python) = need("python3", "python3") else { return };
    let pandas = Path::new("/usr/lib/python3/dist-packages/pandas/__init__.py");
    let Some(_) = file(pandas, "python3-pandas") else { return };
    let Some(said) = import(&place, &["A64", "I48"]) else { return };
    assert_eq!(said, "A64.csv: 39556 runs of machine A64\nI48.csv: 23176 runs of machine I48\n");
    let report = succeed(&place, &["study", "report", "s.db", "--draws", "40", "--format", "csv"]);
    fs::write(place.path("report.csv"), report).unwrap();
    let output = Command::new(python)
        .arg(data("tables.py"))
        .args(["report.csv", "A64=A64.csv", "I48=I48.csv"])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success() && said.contains("cells compared, 0 differ"), "{said}");
}

/// How many cells of each table have the number that the paper prints, how many are at most two percent points away,
/// and how many there are. The published data are the later ones of the authors' journal article, so that not all can
/// agree.
const AS_PRINTED: [(&str, [usize; 3]); 10] = [
    ("better-worse", [6, 30, 54]),
    ("changes-nodes", [13, 50, 96]),
    ("coverage", [31, 32, 81]),
    ("gains-max", [130, 275, 589]),
    ("gains-opt", [188, 402, 609]),
    ("harm", [23, 24, 54]),
    ("optimum", [126, 167, 407]),
    ("optimum-nodes", [2, 3, 5]),
    ("pairs-opt", [225, 241, 702]),
    ("sensitivity", [153, 192, 234]),
];

/// The programs of which all six numbers of Table 3 are as printed: their data are those of the paper.
const SAME_DATA: &str =
    "barnes blackscholes bodytrack canneal fft freqmine kmeans lu_ncb p_raytrace radix string_match swaptions \
                         water_nsquared word_count x264";

#[test]
fn the_papers_tables_come_out_where_its_data_are_published() {
    let place = Place::new();
    let Some(_) = import(&place, &["A64"]) else { return };
    let printed = numbers(&fs::read_to_string(data("paper.csv")).unwrap(), 0);
    let names = |table: &str, field: usize| {
        let all: std::collections::BTreeSet<&str> =
            printed.keys().filter(|key| key[0] == table).map(|key| key[field].as_str()).collect();
        all.into_iter().collect::<Vec<_>>().join(",")
    };
    let locks = names("coverage", 1);
    let report = |programs: &str, sensitive: &str| {
        let chosen = ["--program", programs, "--lock", &locks, "--nodes", "1,2,4,6,8", "--sensitive", sensitive];
        let args = [&["study", "report", "s.db", "--draws", "40", "--format", "csv"], &chosen[..]].concat();
        numbers(&succeed(&place, &args), 1)
    };
    let all = report(&names("sensitivity", 1), "10");
    // The paper's other tables have histogram as well, which is not lock-sensitive.
    let shown = report(&names("changes-nodes", 1), "0");
    // Table 4: 39 applications, of which 23 are lock-sensitive.
    let is_one = |key: &&[String; 3]| key[0] == "sensitivity" && key[2] == "deviation, max nodes";
    assert_eq!(all.keys().filter(is_one).count(), 39);
    assert_eq!(all.iter().filter(|(key, deviation)| is_one(key) && **deviation > 0.10).count(), 23);
    let mut found: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let mut as_printed: BTreeMap<&str, usize> = BTreeMap::new();
    for (key, percent) in &printed {
        let ours = if key[0] == "sensitivity" { &all } else { &shown };
        let own = ours.get(key).unwrap_or_else(|| panic!("{key:?}"));
        let distance = ((own * 100.0).round() - percent).abs();
        let counts = found.entry(&key[0]).or_default();
        counts[0] += usize::from(distance == 0.0);
        counts[1] += usize::from(distance <= 2.0);
        counts[2] += 1;
        if key[0] == "sensitivity" && distance == 0.0 {
            *as_printed.entry(&key[1]).or_default() += 1;
        }
    }
    assert_eq!(found.into_iter().collect::<Vec<_>>(), AS_PRINTED);
    let same: Vec<&str> = as_printed.into_iter().filter(|(_, count)| *count == 6).map(|(program, _)| program).collect();
    assert_eq!(same.join(" "), SAME_DATA);
}

#[test]
fn a_report_is_printed_and_goes_to_files_and_folders() {
    let place = Place::new();
    let mut lines = String::from("bench,node,strategy,throughput\n");
    for (run, wobble) in [0.0, 1.0, -1.0, 0.5, -0.5].into_iter().enumerate() {
        for (lock, one, four) in [("mcs", 100.0, 300.0), ("ttas", 100.0, 50.0), ("ticket", 98.0, 295.0)] {
            lines += &format!("db,1,{lock},{}\ndb,4,{lock},{}\n", one + wobble, four + wobble);
            lines += &format!("calm,1,{lock},{}\n", 10.0 + run as f64 / 100.0);
        }
    }
    fs::write(place.path("m.csv"), &lines).unwrap();
    succeed(&place, &["study", "import", "litl", "m.csv", "--machine", "box", "--db", "s.db"]);
    let args = ["study", "report", "s.db", "--draws", "100", "--export", "r.html", "--export", "out/"];
    let shown = succeed(&place, &args);
    assert!(shown.contains("box: 1 of 2 programs are lock-sensitive."), "{shown}");
    assert!(shown.contains("box at max nodes: if one lock must do, use mcs: it typically gives 100 %"), "{shown}");
    assert!(shown.contains("No other lock is shown to be better by more than 15 %."), "{shown}");
    let html = fs::read_to_string(place.path("r.html")).unwrap();
    assert!(html.contains("<h1>Locks on box</h1>") && html.contains("One lock for all programs"));
    let files: Vec<String> =
        fs::read_dir(place.path("out")).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    let wanted = ["report.html", "report.md", "report.json", "report.csv", "box-pairs-max.csv", "box-gains-opt.csv"];
    for name in wanted.into_iter().chain(["box-db.svg", "box-db.png"]) {
        assert!(files.iter().any(|file| file == name), "{name}: {files:?}");
    }
    // `calm` is not lock-sensitive, and has one number of nodes: there is nothing to draw.
    assert!(!files.iter().any(|file| file.contains("calm")), "{files:?}");
    assert!(fs::read(place.path("out/box-db.png")).unwrap().starts_with(b"\x89PNG"));
    let gains = fs::read_to_string(place.path("out/box-gains-max.csv")).unwrap();
    assert!(gains.starts_with("program,mcs,ticket,ttas\ndb,0,0.0"), "{gains}");
    let json: serde_json::Value = serde_json::from_slice(&fs::read(place.path("out/report.json")).unwrap()).unwrap();
    assert_eq!((json["schema"].as_u64(), json["title"].as_str()), (Some(1), Some("Locks on box")));
    let harmed = succeed(&place, &["study", "report", "s.db", "--harm", "600", "--sensitive", "0", "--format", "csv"]);
    assert!(harmed.contains("box,harm,ttas,max nodes,0,"), "{harmed}");
}

#[test]
fn what_cannot_be_imported_or_reported_is_said() {
    let place = Place::new();
    fs::write(place.path("good.csv"), "bench,node,strategy,throughput\np,1,a,5\np,1,b,6\n").unwrap();
    fs::write(place.path("bad.csv"), "bench,node,strategy,throughput\np,1,a,5\np,1,b,fast\n").unwrap();
    fs::copy(place.path("good.csv"), place.path("new.csv")).unwrap();
    fs::write(place.path("few.csv"), "bench,strategy\np,a\n").unwrap();
    let import = |file: &'static str| vec!["study", "import", "litl", file, "--db", "s.db"];
    succeed(&place, &import("good.csv"));
    fs::write(place.path("text.db"), "this is no database".repeat(100)).unwrap();
    for (args, status, said) in [
        (import("bad.csv"), 1, "bad.csv, line 3: throughput is 'fast', not a number from 0 up"),
        (import("few.csv"), 1, "few.csv has no column node, throughput"),
        (import("none.csv"), 1, "cannot read none.csv: No such file"),
        (import("/dev/zero"), 1, "/dev/zero is larger than 256 MiB"),
        (import("good.csv"), 1, "s.db has runs of good already"),
        (vec!["study", "import", "litl", "new.csv", "new.csv", "--db", "t.db"], 1, "or two files have its name"),
        (vec!["study", "report", "t.db"], 1, "has no run that counts"),
        (vec!["study", "import", "csv", "good.csv", "--db", "s.db"], 2, "[possible values: litl]"),
        (vec!["study", "import", "litl", "a", "b", "--machine", "m", "--db", "s.db"], 2, "--machine names one machine"),
        (vec!["study", "report", "none.db"], 1, "there is no database none.db"),
        (vec!["study", "report", "text.db"], 1, "text.db is not a SQLite database"),
        (vec!["study", "report", "s.db", "--measure", "speed"], 1, "use one of: throughput"),
        (vec!["study", "report", "s.db", "--lock", "c"], 2, "the database has no lock 'c'"),
        (vec!["study", "report", "s.db", "--program", "q"], 2, "the database has no program 'q'"),
        (vec!["study", "report", "s.db", "--nodes", "2"], 2, "the database has no number of nodes '2'"),
        (vec!["study", "report", "s.db", "--machine", "x"], 2, "the database has no machine 'x'"),
        (vec!["study", "report", "s.db", "--tie", "100"], 2, "from 0 to 99"),
        (vec!["study", "report", "s.db", "--export", "r.xml"], 2, "end it in .json, .csv, .md, .html or /"),
    ] {
        let output = place.output(&args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {error}");
        assert!(error.contains(said), "{args:?}: {error}");
    }
}

/// Sorts, filters and looks, in the page itself, and leaves what it saw in the document.
const LOOK: &str = r#"
const seen = {};
const table = [...document.querySelectorAll("table")].find((t) => t.tHead.textContent.includes("worst loss"));
const shown = () => [...table.tBodies[0].rows].filter((row) => !row.hidden);
const names = () => shown().map((row) => row.cells[0].textContent).join(" ");
const press = (column) => table.tHead.rows[0].cells[column].querySelector("button").click();
seen.before = names();
press(0); press(0); seen.falling = names();
press(2); seen.typical = names();
seen.sorted = table.tHead.rows[0].cells[2].getAttribute("aria-sort");
const filter = document.getElementById("filter");
filter.value = "MCS"; filter.dispatchEvent(new Event("input")); seen.filtered = names();
filter.value = ""; filter.dispatchEvent(new Event("input"));
const images = [...document.images];
seen.images = images.length;
Promise.all(images.map((image) => image.decode())).then(() => {
  seen.drawn = images.filter((image) => image.naturalWidth > 300).length;
  seen.wide = document.documentElement.scrollWidth > window.innerWidth;
  seen.unnamed = images.filter((image) => !image.alt).length + document.querySelectorAll("th:not([scope])").length;
  document.body.insertAdjacentHTML("beforeend", `<p id="seen">${JSON.stringify(seen)}</p>`);
});
"#;

#[test]
fn a_page_sorts_filters_and_shows_its_pictures_in_a_browser() {
    let place = Place::new();
    let Some(chromium) = need("chromium", "chromium") else { return };
    let mut lines = String::from("bench,node,strategy,throughput\n");
    for run in 0..5 {
        for (number, lock) in ["mcs", "ttas", "ticket", "mcs_stp"].into_iter().enumerate() {
            for program in ["db", "web", "tree"] {
                for nodes in [1, 2, 4] {
                    lines += &format!("{program},{nodes},{lock},{}\n", 100 * nodes / (1 + number) + run);
                }
            }
        }
    }
    fs::write(place.path("m.csv"), &lines).unwrap();
    succeed(&place, &["study", "import", "litl", "m.csv", "--db", "s.db"]);
    succeed(&place, &["study", "report", "s.db", "--draws", "40", "--export", "r.html"]);
    let page = fs::read_to_string(place.path("r.html")).unwrap();
    assert!(!page.contains("=\"http"), "a page that needs no network names no address");
    let end = page.rfind("</html>").unwrap();
    fs::write(place.path("r.html"), format!("{}<script type=\"module\">{LOOK}</script></html>\n", &page[..end]))
        .unwrap();
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=400,800"])
        .args(["--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("file://{}", place.path("r.html").display()))
        .env("HOME", place.path(""))
        .output()
        .unwrap();
    let (dom, told) = (text(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!told.contains("CONSOLE"), "{told}");
    let seen = dom.rsplit("<p id=\"seen\">").next().and_then(|rest| rest.split("</p>").next()).unwrap_or_default();
    let seen: serde_json::Value = serde_json::from_str(seen).unwrap_or_else(|_| panic!("{dom}\n{told}"));
    let expected = serde_json::json!({
        "before": "mcs mcs_stp ticket ttas",
        "falling": "ttas ticket mcs_stp mcs",
        "typical": "mcs_stp ticket ttas mcs",
        "sorted": "ascending",
        "filtered": "mcs_stp mcs",
        "images": 3,
        "drawn": 3,
        "wide": false,
        "unnamed": 0,
    });
    assert_eq!(seen, expected);
}
