use std::sync::Arc;
use std::time::Duration;

use lockswap_trace::live::{Line, Live, Order, Over, RowId, Share, Waiting};
use lockswap_trace::names::Frame;
use lockswap_trace::report::{Estimate, ObjectReport, StackReport, Times};
use lockswap_trace::{Session, Settings, SharedFile};
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Modifier;
use ratatui::Terminal;

use super::columns::{fitting, shortened, COLUMNS};
use super::draw::{draw, Layout, Picture};
use super::pane;
use super::state::{Asked, Pane, State};

/// A mutex for which threads waited 0.66 s, most of it because of `slow`.
fn line(name: &str) -> Line {
    let frame = |function: &str, line| Frame {
        function: function.into(),
        file: Some("/src/queue.c".into()),
        line: Some(line),
        ..Frame::default()
    };
    let stack = |function: &str, line, waited_ns| StackReport {
        frames: vec![frame(function, line), frame("worker", 40), frame("start_thread", 1)],
        waited_ns,
        ..StackReport::default()
    };
    let share = |function: &str, share| Some(Share { function: Arc::from(function), share });
    let times =
        |total_ns| Times { noted: 7, total_ns, p50_ns: 1e4, p99_ns: 2e6, max_ns: 3_000_000, ..Times::default() };
    let object = ObjectReport {
        name: name.into(),
        used: "mutex",
        module: None,
        identity: Default::default(),
        objects: 1,
        users: 2,
        think_ns: 1e3,
        acquisitions: Estimate { value: 24_100.0, error: 0.0 },
        contended: Some(0.042),
        wait: times(6.6e8),
        slept: 0.5,
        failed: 0.0,
        hold: times(8e8),
        holder_slept: 0.0,
        holder_preempted: 0.0,
        longest_queue: 3,
        handed: times(1e5),
        changed_owner: 0.3,
        changed_cpu: 0.2,
        changed_node: 0.0,
        charged_ns: 5e8,
        waiters: vec![stack("fast", 12, 6.6e8)],
        holders: vec![stack("slow", 22, 4.9e8), StackReport { waited_ns: 1e7, ..StackReport::default() }],
        stacks: Vec::new(),
        threads: Vec::new(),
    };
    let waiting = Waiting { threads: 2, longest: Duration::from_secs(3) };
    Line { object, waiting, holder: share("slow", 0.98), waiter: share("fast", 1.0) }
}

fn drawn(columns: u16, rows: u16, lines: &[Line], pane: Option<&[String]>) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    let above = ["process 1".to_owned(), "2 locks".to_owned(), "the last 1.0 s".to_owned()];
    let picture = Picture { above, lines, chosen: 1, length: Duration::from_secs(1), pane };
    terminal
        .draw(|frame| {
            let layout = Layout::new(frame.area(), pane.is_some());
            draw(frame.buffer_mut(), &layout, &picture);
        })
        .unwrap();
    terminal
}

fn text(terminal: &Terminal<TestBackend>) -> Vec<String> {
    terminal.backend().to_string().lines().map(|line| line.trim_matches('"').trim_end().to_owned()).collect()
}

#[test]
fn the_picture_has_a_row_for_each_lock() {
    let terminal = drawn(120, 10, &[line("hot_lock"), line("other")], None);
    let shown = text(&terminal);
    assert_eq!(shown[..3], ["process 1", "2 locks", "the last 1.0 s"]);
    let titles: Vec<&str> = shown[3].split_whitespace().collect();
    assert_eq!(titles[..4], ["lock", "use", "waited", "s/s"], "{shown:#?}");
    let words: Vec<&str> = shown[4].split_whitespace().collect();
    assert_eq!(words[..8], ["hot_lock", "mutex", "0.660", "4.2", "%", "24.1", "k", "2.00"], "{shown:#?}");
    assert!(shown[4].contains("98 % slow") && shown[4].ends_with("100 % fast"), "{shown:#?}");
    assert!(shown[9].starts_with("q quit") && shown[6..9].iter().all(String::is_empty), "{shown:#?}");
    let buffer = terminal.backend().buffer();
    let is_reversed = |row| buffer[(50, row)].modifier.contains(Modifier::REVERSED);
    assert_eq!([4, 5, 6].map(is_reversed), [false, true, false]);
}

#[test]
fn columns_fit_and_the_most_important_stay_longest() {
    for room in 0..300 {
        for longest in [0, 20, 1000] {
            let columns = fitting(room, longest);
            let used: u16 = columns.iter().map(|(_, width)| width + 1).sum();
            assert!(used <= room + 1, "{room}: {used}");
            assert!(columns.iter().all(|(column, width)| *width >= column.least), "{room}");
        }
    }
    assert_eq!((fitting(120, 16)[0].1, fitting(200, 16)[0].1), (16, 16));
    let titles = |room| fitting(room, 16).iter().map(|(column, _)| column.title).collect::<Vec<_>>();
    assert_eq!(titles(40), ["lock", "waited s/s"]);
    assert!(titles(80).contains(&"acquired/s") && !titles(80).contains(&"worst waiter"), "{:?}", titles(80));
    assert_eq!(titles(200).len(), COLUMNS.len());
}

#[test]
fn names_are_shortened_where_they_say_least() {
    assert_eq!(shortened("98 % store::Cache::push", 16), "98 % ~ache::push");
    assert_eq!(shortened("at store::push (queue.cpp:12)", 24), "at ~:push (queue.cpp:12)");
    for text in ["98 % store::Cache::push", "plain_name", "käse::grün", ""] {
        for room in 0..30 {
            let short = shortened(text, room);
            assert!(short.chars().count() == room.min(text.chars().count()), "{text} {room}: {short}");
        }
    }
    assert_eq!(shortened("plain_name", 5), "plain");
    let called = |name: &str, objects| {
        let line = line(name);
        let line = Line { object: ObjectReport { objects, ..line.object }, ..line };
        COLUMNS[0].cell(&line, Duration::from_secs(1))
    };
    assert_eq!(called("initialised in make (queue.c:12)", 3), "3 x by make (queue.c:12)");
    assert_eq!(called("first waited for in push", 1), "at push");
    assert_eq!(called("not named: nobody saw where", 1), "not named");
}

#[test]
fn a_small_terminal_is_told_so_and_none_is_too_small_to_draw_on() {
    for (columns, rows) in [(1, 1), (39, 20), (80, 7), (1, 30), (200, 1)] {
        let shown = text(&drawn(columns, rows, &[line("a"), line("b")], None));
        assert!("needs 40 columns and 8 lines".starts_with(shown[0].as_str()), "{columns}x{rows}: {shown:?}");
    }
    let help = pane::help();
    for (columns, rows) in [(40, 8), (41, 9), (300, 100)] {
        let shown = text(&drawn(columns, rows, &[line("a"), line("b")], Some(&help)));
        assert!(shown[0] == "process 1" && shown.last().unwrap().starts_with("q quit"), "{shown:#?}");
    }
}

#[test]
fn the_pane_has_the_stacks_of_both_sides() {
    let text = pane::lock(&line("hot_lock"));
    let holders = text.iter().position(|line| line == "Who let others wait").unwrap();
    assert_eq!(text[..2], ["hot_lock (mutex)", "2 threads wait now, the first for 3.00 s"]);
    assert_eq!(
        text[holders + 1..],
        [
            "   98 %    490 ms  slow (queue.c:22)",
            "                   worker (queue.c:40)",
            "  2.0 %   10.0 ms  [no stack]",
            "Who waited",
            "  100 %    660 ms  fast (queue.c:12)",
            "                   worker (queue.c:40)",
        ]
    );
    let shown = self::text(&drawn(80, 24, &[line("hot_lock")], Some(&text)));
    assert!(shown.iter().any(|line| line.contains("slow (queue.c:22)")), "{shown:#?}");
}

#[test]
fn what_names_hold_does_not_reach_the_terminal() {
    let wicked = line("\u{1b}[2J\u{202e}evil\n");
    let shown = text(&drawn(200, 10, &[line("a"), wicked], None));
    assert!(shown[5].contains("\\u{1b}[2J\\u{202e}evil\\n"), "{shown:#?}");
    assert!(pane::lock(&line("\u{1b}")).iter().all(|line| !line.contains('\u{1b}')));
}

/// Rows of static locks of this program.
fn rows(count: usize) -> (Live, Vec<RowId>) {
    use lockswap_records::trace::{Event, Kind};
    static LOCKS: [u64; 100] = [7; 100];
    let shared = SharedFile::create(Settings::default()).unwrap();
    let mut session = Session::new(&shared, false);
    for (number, lock) in LOCKS.iter().take(count).enumerate() {
        let (process, object) = (std::process::id(), &raw const *lock as u64);
        let hold = Event { process, thread: 1, object, length: 1_000 - number as u64, weight: 1, ..Event::default() };
        session.gathered.take(Kind::Hold, &hold, &[]);
    }
    let mut live = Live::default();
    live.add(session.step(live.stacks()));
    let rows = live.ranked(Over::Last, Order::Held);
    assert_eq!(rows.len(), count);
    (live, rows)
}

fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

#[test]
fn keys_change_what_is_shown() {
    let (_live, rows) = rows(50);
    let mut state = State::default();
    let mut press = |code| {
        assert_eq!(state.press(key(code), &rows, 10), Asked::Nothing);
        state.clone()
    };
    let letter = KeyCode::Char;
    assert_eq!([0; 4].map(|_| press(letter('s')).order), [Order::Acquired, Order::Held, Order::Queue, Order::Waited]);
    assert_eq!([0; 2].map(|_| press(letter('t')).over), [Over::All, Over::Last]);
    assert_eq!([0; 2].map(|_| press(letter(' ')).is_paused), [true, false]);
    let panes = [KeyCode::Enter, letter('?'), letter('h'), letter('h'), KeyCode::Enter, KeyCode::Enter];
    assert_eq!(
        panes.map(|code| press(code).pane),
        [Pane::Lock, Pane::Help, Pane::None, Pane::Help, Pane::Lock, Pane::None]
    );
    let moves = [letter('k'), letter('j'), KeyCode::Down, KeyCode::Up, KeyCode::PageDown, letter('G'), KeyCode::Home];
    assert_eq!(moves.map(|code| press(code).place(&rows)), [0, 1, 2, 1, 11, 49, 0]);
    press(KeyCode::Enter);
    assert_eq!([KeyCode::PageDown, KeyCode::PageUp, KeyCode::PageUp].map(|code| press(code).scrolled), [5, 0, 0]);
    assert_eq!(press(KeyCode::F(5)), press(letter('x')));
    assert_eq!(state.press(key(letter('r')), &rows, 10), Asked::Reset);
    let control = KeyEvent::new(letter('c'), KeyModifiers::CONTROL);
    for quits in [key(letter('q')), key(KeyCode::Esc), control] {
        assert_eq!(state.press(quits, &rows, 10), Asked::Quit);
    }
    assert_eq!(state.press(key(letter('j')), &[], 10), Asked::Nothing);
    assert_eq!((state.place(&[]), state.window(&[], 10)), (0, 0..0));
}

#[test]
fn the_chosen_row_is_followed_and_can_be_seen() {
    let (_live, mut rows) = rows(50);
    let mut state = State::default();
    assert_eq!(state.window(&rows, 10), 0..10);
    (0..12).for_each(|_| assert_eq!(state.press(key(KeyCode::Down), &rows, 10), Asked::Nothing));
    assert_eq!((state.place(&rows), state.window(&rows, 10)), (12, 3..13));
    let chosen = rows[12];
    rows.reverse();
    assert_eq!(rows[state.place(&rows)], chosen);
    assert_eq!(state.window(&rows, 10), 28..38);
    // More room, all room, and none.
    assert_eq!((state.window(&rows, 30), state.window(&rows, 90)), (20..50, 0..50));
    assert!(state.window(&rows, 0).is_empty());
    // The first row is chosen as long as no other was.
    assert_eq!(State::default().place(&rows), 0);
}
