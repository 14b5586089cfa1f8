//! `lockswap study`: a survey from data or plan to report.

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

fn succeed(place: &Place, args: &[&str]) -> String {
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
fn numbers(csv: &str, first: usize) -> BTreeMap<[String; 3], f64> {
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

/// Two programs, of which one crashes and the other hangs on one lock.
const PLAN: &str = r#"
locks = ["pthread", "ticket", "mcs_stp"]
machine = "box"
nodes = [1, 2]
repetitions = 6
timeout = "20s"
[[program]]
name = "rate"
command = ["sh", "-c", "echo rate: $(( {nodes} * 100 + ${#LOCKSWAP_LOCK} ))"]
metric = { name = "rate", regex = "rate: ([0-9]+)", unit = "1/s" }
[[program]]
name = "crash"
command = ["sh", "-c", "[ \"$LOCKSWAP_LOCK\" != ticket ] || { echo first words; echo last words >&2; kill -SEGV $$; }"]
nodes = [1]
"#;

/// What a query on a database prints.
fn query(place: &Place, database: &str, sql: &str) -> String {
    let script = "import sqlite3, sys\nfor row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]): print(*row)";
    let python = need("python3", "python3").expect("python3");
    let output = Command::new(python).args(["-c", script, database, sql]).current_dir(place.path("")).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_plan_is_run_reported_and_not_run_twice() {
    let place = Place::new();
    fs::write(place.path("plan.toml"), PLAN).unwrap();
    let output = place.output(&["study", "run", "plan.toml"]);
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{said}{told}");
    assert!(told.contains("63 runs, about "), "three cells of three locks in seven rounds: {told}");
    assert!(
        said.contains("66 runs were added to plan.db, 7 of them failed; 'lockswap study report plan.db'"),
        "{said}"
    );
    let sql = "SELECT DISTINCT program, lock, problem, json_extract(sample, '$.stdout_tail'),
                   json_extract(sample, '$.stderr_tail')
               FROM run WHERE problem IS NOT NULL";
    assert_eq!(query(&place, "plan.db", sql), "crash ticket crashed: SIGSEGV first words last words\n");
    let report = succeed(&place, &["study", "report", "plan.db", "--sensitive", "0", "--draws", "40"]);
    assert!(report.contains("Runs that failed") && report.contains("crash at 1 on ticket"), "{report}");
    let csv = succeed(&place, &["study", "report", "plan.db", "--sensitive", "0", "--draws", "40", "--format", "csv"]);
    // The lengths of the locks' names are in the rates: 106, and 107 for the one with seven letters.
    let gain = numbers(&csv, 1)[&["gains-max", "rate", "ticket"].map(str::to_owned)];
    assert!((gain - (207.0 / 206.0 - 1.0)).abs() < 1e-9, "{gain}");
    let again = place.output(&["study", "run", "plan.toml"]);
    assert!(again.status.code() == Some(2) && text(&again.stderr).contains("--resume goes on with it"));
    fs::write(place.path("plan.toml"), PLAN.replace("repetitions = 6", "repetitions = 7")).unwrap();
    let other = place.output(&["study", "run", "plan.toml", "--resume"]);
    assert!(
        other.status.code() == Some(2) && text(&other.stderr).contains("is not the one that plan.db was begun with")
    );
}

#[test]
fn a_killed_study_goes_on_where_it_was() {
    let place = Place::new();
    fs::write(place.path("plan.toml"), PLAN.replace("echo rate", "sleep 0.1; echo rate")).unwrap();
    let mut child = place.lockswap(&["study", "run", "plan.toml"]).spawn().unwrap();
    let count = || {
        if place.path("plan.db").exists() {
            query(&place, "plan.db", "SELECT count(*) FROM run")
        } else {
            "0".into()
        }
    };
    crate::wait_for("runs", || count().trim().parse::<u32>().unwrap() > 12);
    child.kill().unwrap();
    child.wait().unwrap();
    let kept: u32 = count().trim().parse().unwrap();
    assert!(kept < 66, "{kept}");
    let short = place.output(&["study", "run", "plan.toml", "--resume", "--budget", "1ms"]);
    assert_eq!(short.status.code(), Some(4), "{}", text(&short.stderr));
    let told = text(&short.stderr);
    assert!(told.contains("the budget is used up after"), "{told}");
    assert!(told.contains("0 runs were added to plan.db; 'lockswap study run plan.toml --resume' goes on"), "{told}");
    let rest = place.output(&["study", "run", "plan.toml", "--resume"]);
    assert_eq!(rest.status.code(), Some(3), "{}", text(&rest.stderr));
    assert!(
        text(&rest.stdout).contains(&format!("{} runs were added to plan.db", 66 - kept)),
        "{}",
        text(&rest.stdout)
    );
    let twice = "SELECT count(*) FROM (SELECT 1 FROM run GROUP BY program, nodes, lock, round HAVING count(*) > 1)";
    assert_eq!((query(&place, "plan.db", twice).as_str(), count().trim()), ("0\n", "66"));
}

#[test]
fn shards_become_one_database() {
    let place = Place::new();
    fs::write(place.path("plan.toml"), PLAN.replace("repetitions = 6", "repetitions = 1")).unwrap();
    for shard in ["1", "2"] {
        let args = ["study", "run", "plan.toml", "--shard", &format!("{shard}/2"), "--db", &format!("{shard}.db")];
        place.output(&args);
    }
    let said = succeed(&place, &["study", "merge", "1.db", "2.db", "--db", "all.db"]);
    assert_eq!(said, "1.db: 14 runs\n2.db: 7 runs\n");
    assert_eq!(query(&place, "all.db", "SELECT count(*), count(DISTINCT source) FROM run"), "21 2\n");
    let shown = succeed(&place, &["study", "report", "all.db", "--sensitive", "0", "--draws", "40"]);
    assert!(shown.contains("box: 2 programs, 3 locks, 8 cells"), "{shown}");
    let again = place.output(&["study", "merge", "1.db", "--db", "all.db"]);
    assert!(!again.status.success() && text(&again.stderr).contains("merge each database once"));
}

#[test]
fn what_is_wrong_with_a_plan_is_said_before_a_run_is_made() {
    let place = Place::new();
    let mut tried = 0;
    let mut error = |old: &str, new: &str| {
        tried += 1;
        let plan = format!("plan{tried}.toml");
        assert!(PLAN.contains(old), "{old}");
        fs::write(place.path(&plan), PLAN.replacen(old, new, 1)).unwrap();
        let output = place.output(&["study", "run", &plan]);
        (output.status.code(), text(&output.stderr))
    };
    for (old, new, status, said) in [
        ("machine =", "machin =", 2, "unknown field `machin`"),
        ("\"ticket\"", "\"tiket\"", 2, "line 2: there is no mutex lock 'tiket'"),
        (
            "command = [\"sh\"",
            "command = [\"shell-of-nobody\"",
            2,
            "program 'rate': there is no command shell-of-nobody",
        ),
        ("nodes = [1, 2]", "nodes = [0]", 2, "it has no numbers of nodes from 1 up"),
        ("rate: ([0-9]+)\"", "speed: ([0-9]+)\"", 1, "rate at 1 nodes fails without lockswap: metric not found"),
        ("rate: ([0-9]+)\"", "rate: ([0-9]+\"", 2, "program 'rate'"),
        ("name = \"crash\"", "name = \"rate\"", 2, "there are two of this name"),
    ] {
        let (code, words) = error(old, new);
        assert!(code == Some(status) && words.contains(said), "{new}: {code:?}: {words}");
    }
    let (code, words) = error("nodes = [1, 2]", "pin = \"cpus\"\nnodes = [100000]");
    assert!(code == Some(1) && words.contains("program 'rate' at 100000 nodes: there are "), "{words}");
    // A plan that was never begun may be corrected and run under the same name.
    fs::write(place.path("p.toml"), PLAN.replace("rate: ([0-9]+)", "speed: ([0-9]+)")).unwrap();
    assert_eq!(place.output(&["study", "run", "p.toml"]).status.code(), Some(1));
    fs::write(place.path("p.toml"), PLAN.replace("repetitions = 6", "repetitions = 1")).unwrap();
    assert_eq!(place.output(&["study", "run", "p.toml"]).status.code(), Some(3));
    for args in [&["study", "run", "none.toml"][..], &["study", "run", "p.toml", "--shard", "3/2"]] {
        assert!(!place.output(args).status.success());
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

/// What makes the plans of `studies/` small.
const SMALLER: [(&str, &str); 19] = [
    ("repetitions = 10", "repetitions = 1"),
    ("warmup = 1", "warmup = 0"),
    ("--seconds 2", "--seconds 0.3"),
    ("--scale 4", "--scale 1"),
    ("20000", "2000"),
    (".kct 5000", ".kct 500"),
    ("--time=2", "--time=1"),
    ("=100000", "=1000"),
    ("--duration=2", "--duration=1"),
    ("--timeout 2s", "--timeout 1s"),
    ("-time 2", "-time 1"),
    ("--frames 90", "--frames 9"),
    ("0 .. 89", "0 .. 8"),
    ("2000 2000", "300 300"),
    ("3000000", "30000"),
    ("after = \"1s\"", "after = \"0.3s\""),
    ("after = \"3s\"", "after = \"0.3s\""),
    ("length = \"5s\"", "length = \"0.5s\""),
    ("length = \"10s\"", "length = \"0.5s\""),
];

/// Runs a plan of `studies/` that needs these programs and files of Debian packages: small, on two locks, at one
/// level. What it says, where it could run.
fn run_small(plan: &str, programs: &[(&str, &str)], files: &[(&str, &str)]) -> Option<(Place, String)> {
    let place = Place::new();
    let is_there = programs.iter().all(|(program, package)| need(program, package).is_some())
        && files.iter().all(|(path, package)| file(Path::new(path), package).is_some());
    if !is_there {
        return None;
    }
    // Plans name drivers by paths from the repository's folder, which is this one here.
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let copy = ["-r".into(), repository.join("studies"), repository.join("include"), place.path("")];
    assert!(Command::new("cp").args(copy).status().unwrap().success());
    let mut text = fs::read_to_string(repository.join("studies").join(plan).with_extension("toml")).unwrap();
    for (large, small) in SMALLER {
        text = text.replace(large, small);
    }
    let short = |line: &str| match line {
        line if line.starts_with("nodes = ") => "nodes = [2]".to_owned(),
        line if line.starts_with("locks = ") => "locks = [\"futex\", \"ticket\"]".to_owned(),
        line => line.to_owned(),
    };
    let text: Vec<String> = text.lines().map(short).collect();
    fs::write(place.path(&format!("{plan}.toml")), text.join("\n")).unwrap();
    let own = Path::new(env!("CARGO_BIN_EXE_lockswap")).parent().unwrap();
    let path = format!("{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", own.display());
    let output = place.lockswap(&["study", "run", &format!("{plan}.toml")]).env("PATH", path).output().unwrap();
    let said = text_of(&output);
    assert!(output.status.success(), "{plan}: {said}");
    Some((place, said))
}

fn text_of(output: &std::process::Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

/// Runs a small plan and counts its runs: those without lockswap, and those on two locks.
fn check_plan(plan: &str, runs: usize, programs: &[(&str, &str)]) {
    let Some((_, said)) = run_small(plan, programs, &[]) else { return };
    assert!(said.contains(&format!("{runs} runs were added to {plan}.db;")), "{plan}: {said}");
}

#[test]
fn ready_plans_run_on_debians_programs() {
    check_plan("kyotocabinet", 6, &[("kccachetest", "kyotocabinet-utils")]);
    check_plan("sysbench", 6, &[("sysbench", "sysbench")]);
    check_plan("example", 9, &[("kccachetest", "kyotocabinet-utils"), ("sysbench", "sysbench")]);
    check_plan("rocksdb", 12, &[("db_bench", "rocksdb-tools")]);
    check_plan("tools", 9, &[("x264", "x264"), ("vips", "libvips-tools"), ("pbzip2", "pbzip2"), ("perl", "perl")]);
    check_plan("stress-ng", 6, &[("stress-ng", "stress-ng")]);
}

#[test]
fn ready_plans_load_debians_servers() {
    let memcached = ("memcached", "memcached");
    check_plan("memcached", 3, &[memcached, ("memcslap", "libmemcached-tools")]);
    check_plan("ssl", 3, &[memcached, ("stunnel4", "stunnel4"), ("openssl", "openssl")]);
    let mariadb = [
        ("mariadbd", "mariadb-server-core"),
        ("mariadb-install-db", "mariadb-server-core"),
        ("mariadb", "mariadb-client-core"),
        ("sysbench", "sysbench"),
    ];
    check_plan("mariadb", 3, &mariadb);
}

#[test]
fn ready_plans_run_our_own_kernels() {
    check_plan("kernels", 12, &[]);
    check_plan("manual", 18, &[]);
}

/// Headers of the databases that have drivers, with their Debian packages.
const HEADERS: [(&str, &str); 4] = [
    ("/usr/include/leveldb/c.h", "libleveldb-dev"),
    ("/usr/include/lmdb.h", "liblmdb-dev"),
    ("/usr/include/sqlite3.h", "libsqlite3-dev"),
    ("/usr/include/kccachedb.h", "libkyotocabinet-dev"),
];

#[test]
fn ready_plans_drive_databases() {
    let compilers = [("cc", "gcc"), ("c++", "g++")];
    for (plan, programs) in [("databases", 9), ("libasl", 4)] {
        let Some((place, said)) = run_small(plan, &compilers, &HEADERS) else { return };
        let has_upscaledb = Path::new("/usr/include/ups/upscaledb.h").exists();
        let why = "upscaledb is left out: the command of setup failed: exit status 1\n    \
                   upscaledb is not here: there is no ups/upscaledb.h; install upscaledb from";
        assert_eq!(said.contains(why), !has_upscaledb, "{said}");
        let runs = 3 * (programs + usize::from(has_upscaledb));
        assert!(said.contains(&format!("{runs} runs were added to {plan}.db;")), "{plan}: {said}");
        if plan == "libasl" {
            // Each run has the three numbers, and a little CPU is slower than a big one.
            let sql = "SELECT count(*), sum(l.value > b.value) FROM value l JOIN value b ON l.run = b.run
                       WHERE l.position = 1 AND b.position = 2";
            let found = query(&place, &format!("{plan}.db"), sql);
            let (all, slower) = found.trim().split_once(' ').unwrap();
            assert_eq!(all, runs.to_string());
            assert!(2 * slower.parse::<usize>().unwrap() > runs, "{found}");
        }
    }
}
