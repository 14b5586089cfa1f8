//! The live view on a terminal.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{io, thread};

use lockswap_trace::live::{Line, Order, Over, RowId};
use ratatui::crossterm::event::{self, Event};
use ratatui::layout::Rect;
use ratatui::{DefaultTerminal, Frame};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::iterator::Signals;

use super::draw::{draw, Layout, Picture};
use super::pane;
use super::state::{Asked, Pane, State};
use super::watched::{View, Watched};
use crate::error::UserError;

/// How long a signal, or the end of the terminal, waits at most.
const PATIENCE: Duration = Duration::from_millis(50);

/// The first picture does not wait longer than this.
const FIRST: Duration = Duration::from_millis(300);

/// Shows it until the user wants no more.
pub fn run(watched: &Watched<'_>, interval: Duration, signals: &mut Signals) -> anyhow::Result<()> {
    // A panic restores the terminal first, too.
    let mut terminal = ratatui::try_init().map_err(|error| {
        UserError::new(format!("the terminal cannot be used: {error}"), "lockswap top --batch prints tables")
    })?;
    let result = follow(&mut terminal, watched, interval, signals);
    let restored = ratatui::try_restore();
    Ok(result.and(restored)?)
}

fn follow(
    terminal: &mut DefaultTerminal,
    watched: &Watched<'_>,
    interval: Duration,
    signals: &mut Signals,
) -> io::Result<()> {
    let events = events();
    let (mut view, mut state) = (View::default(), State::default());
    view.refresh(watched);
    let mut next = Instant::now() + interval.min(FIRST);
    loop {
        let rows = view.live.ranked(state.over, state.order);
        let area = terminal.draw(|frame| show(frame, &view, &mut state, watched, &rows))?.area;
        let page = Layout::new(area, state.pane != Pane::None).rows.height.into();
        // Until there is something new to be shown.
        loop {
            if signals.pending().next().is_some() {
                return Ok(());
            }
            let is_due = !state.is_paused && view.ending.is_none() && next <= Instant::now();
            if is_due {
                view.refresh(watched);
                next = Instant::now() + interval;
                break;
            }
            if !has_terminal()? {
                return Ok(());
            }
            let event = match events.recv_timeout(PATIENCE) {
                Ok(event) => event?,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            match event {
                Event::Key(key) if key.is_press() => match state.press(key, &rows, page) {
                    Asked::Nothing => break,
                    Asked::Quit => return Ok(()),
                    Asked::Reset => {
                        view.refresh(watched);
                        view.live.reset();
                        break;
                    }
                },
                Event::Resize(..) => break,
                _ => {}
            }
        }
    }
}

/// What is typed, from a thread of its own: crossterm reads for ever from a terminal that goes away, and then nobody
/// waits for the thread. It ends with the first error, which is the last event.
fn events() -> Receiver<io::Result<Event>> {
    let (sender, events) = mpsc::channel();
    thread::spawn(move || loop {
        let event = event::read();
        let is_last = event.is_err();
        if sender.send(event).is_err() || is_last {
            return;
        }
    });
    events
}

/// Whether there is a terminal still.
fn has_terminal() -> io::Result<bool> {
    let stdin = io::stdin();
    let mut awaited = [PollFd::new(&stdin, PollFlags::empty())];
    match poll(&mut awaited, Some(&Timespec::default())) {
        // A signal: whoever calls asks for them.
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(!awaited[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL))
}

/// Draws the picture of this moment.
fn show(frame: &mut Frame<'_>, view: &View, state: &mut State, watched: &Watched<'_>, rows: &[RowId]) {
    let layout = Layout::new(frame.area(), state.pane != Pane::None);
    let window = state.window(rows, layout.rows.height.into());
    let chosen = state.place(rows);
    let lines: Vec<Line> = rows[window.clone()].iter().map(|row| view.live.line(*row, state.over)).collect();
    let text = match (state.pane, rows.get(chosen)) {
        (Pane::Help, _) => Some(pane::help()),
        (Pane::Lock, Some(row)) => Some(pane::lock(&view.live.line_with_stacks(*row, state.over))),
        (Pane::Lock, None) => Some(vec!["no lock is chosen".into()]),
        (Pane::None, _) => None,
    };
    let pane = text.as_ref().map(|text| scrolled(text, &mut state.scrolled, layout.pane));
    let picture = Picture {
        above: [format!("lockswap top: {}", view.title(watched)), view.summary(state.over), time(view, state)],
        lines: &lines,
        chosen: chosen - window.start,
        length: view.live.length(state.over),
        pane,
    };
    draw(frame.buffer_mut(), &layout, &picture);
}

/// What can be seen of the text; it is scrolled no further than to its end.
fn scrolled<'t>(text: &'t [String], by: &mut u16, area: Rect) -> &'t [String] {
    let room = area.height.saturating_sub(1);
    *by = (*by).min((text.len() as u16).saturating_sub(room));
    &text[usize::from(*by)..]
}

/// Which time is shown, in which order, and whether it goes on.
fn time(view: &View, state: &State) -> String {
    let seconds = view.live.length(state.over).as_secs_f64();
    let order = match state.order {
        Order::Waited => "time waited",
        Order::Acquired => "acquisitions",
        Order::Held => "time held",
        Order::Queue => "queue",
    };
    let time = match state.over {
        Over::Last => format!("the last {seconds:.1} s"),
        Over::All => format!("all {seconds:.0} s"),
    };
    let ending = view.ending.map(|ending| format!("; {}: q quits", ending.words()));
    let paused = state.is_paused.then(|| "; paused: space goes on".to_owned());
    format!("{time}, by {order}{}", ending.or(paused).unwrap_or_default())
}
